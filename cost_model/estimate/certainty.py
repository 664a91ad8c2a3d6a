# SPDX-License-Identifier: Apache-2.0
"""Basis of each metric of an estimate: exact, expected, assumed, or modelled with a margin.

The clock is exact where it is the one that was asked for; where Fmax limits it, everything per
second is as uncertain as that; and where no Fmax is known, it is an assumption that the hardware
reaches it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from cost_model.roofline.roofline import OF_MEMORY, OF_TOKENS
from hwgen.core.core import Core
from hwgen.core.cycles.basis import BASES, Basis, Cycles
from hwgen.core.operation import gemm_operands
from hwgen.core.post import PostSettings

Operands = Mapping[str, tuple[NDArray[Any], NDArray[Any]]]

PER_SECOND = (
    "power_w", "tops_per_w", "tops_per_mm2", "energy_mj", "memory_energy_mj",
    *OF_TOKENS, *OF_MEMORY,
)  # fmt: skip
"""Metrics beside those of cycles that depend on the clock, and are modelled at best."""


def timed(
    core: Core[Any],
    workloads: Mapping[str, Sequence[tuple[int, int, int]]],
    operands: Operands,
    metrics: Mapping[str, float | int | None],
    post: PostSettings | None = None,
) -> dict[str, Cycles]:
    """Return the cycles of each workload; of given matrices A and W those of their values.

    Workloads that the core cannot do are left out.
    """
    result = {}
    for name, sizes in workloads.items():
        number = metrics.get(f"cycles({name})")
        if number is None:
            continue
        if name in operands:
            a, w = operands[name]
            job = core.gemm(a.shape[0], a.shape[1], w.shape[1], post)
            result[name] = core.cycles([job], [gemm_operands(a, w)])
        else:
            result[name] = core.cycles([core.gemm(*size, post) for size in sizes])
    return result


def certainty(
    core: Core[Any],
    metrics: Mapping[str, float | int | None],
    uncertainty: Mapping[str, float | None],
    clock_mhz: float,
    cycles: Mapping[str, Cycles],
    *,
    limited: bool = False,
) -> dict[str, dict[str, Any]]:
    """Return the basis of each metric that is not null.

    Parameters
    ----------
    core : Core
    metrics : mapping
        By name, None if unknown.
    uncertainty : mapping
        By metric, the relative error that nine of ten designs stay within.
    clock_mhz : float
        The clock that was asked for.
    cycles : mapping
        Of each workload, by `timed`.
    limited : bool
        Whether a memory behind the ports limits the times.

    Returns
    -------
    dict
        By metric: ``basis``; of what is modelled, at whatever clock, ``within``, the relative
        error that nine of ten designs stay within, if it is known; of cycles their bounds
        ``least`` and ``most``.
    """
    fmax = metrics.get("fmax_mhz")
    clock: Basis = "assumed" if fmax is None else "exact" if fmax >= clock_mhz else "modelled"
    rate: Basis = "exact"
    if core.multiplies:
        rate = core.cycles([core.gemm(1, 1, 1)]).basis
    result: dict[str, dict[str, Any]] = {}
    for metric, value in metrics.items():
        if value is None:
            continue
        base, _, rest = metric.partition("(")
        basis: Basis = "modelled"
        if base == "cycles":
            result[metric] = cycles[rest[:-1]].document()
            continue
        if base == "latency_ms":
            # What a memory achieves is a model.
            served: Basis = "modelled" if limited else "exact"
            basis = _weakest(clock, cycles[rest[:-1]].basis, served)
        elif base == "bandwidth_gb_s":
            basis = clock
        elif base == "tops":
            # What a full cycle does; a model of a job's cycles says nothing about it.
            basis = _weakest(clock, "expected" if rate == "expected" else "exact")
        elif base == "ops_per_byte":
            basis = "exact"
        elif base in PER_SECOND:
            basis = _weakest(clock, "modelled")
        result[metric] = {"basis": basis}
        margin = uncertainty.get("fmax_mhz" if base in ("bandwidth_gb_s", "tops") else metric)
        # At an assumed clock, of what is a model beside.
        if margin is not None and (basis == "modelled" or base in PER_SECOND):
            result[metric]["within"] = margin
    return result


def _weakest(*bases: Basis) -> Basis:
    return max(bases, key=BASES.index)
