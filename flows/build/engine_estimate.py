# SPDX-License-Identifier: Apache-2.0
"""Estimate of an engine that consists of a core and separate units, as one design."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cost_model.configurations.metrics import RESOURCES, Workloads
from cost_model.estimate.activity import ASSUMED, Activity
from flows.build.build import Build
from flows.build.design import Design
from hwgen.core.params.target import Target
from hwgen.technologies.utilization import smallest, utilization
from hwgen.workloads.timing import PassTiming

_SUMS = ("area_mm2", "power_w", "luts_used", *RESOURCES)


def engine_estimate(
    designs: Sequence[Design],
    target: Target,
    workloads: Workloads,
    timings: Mapping[str, PassTiming],
    *,
    fpga_energies: bool = False,
    activity: Callable[[Build], Activity] = lambda build: ASSUMED,
) -> dict[str, Any]:
    """Return the estimate of designs that work together on passes of a model.

    Parameters
    ----------
    designs : sequence of Design
        The one that multiplies, and the units beside it.
    target : Target
        Of all of them.
    workloads : mapping
    timings : mapping
        By workload.
    fpga_energies : bool, optional
        See `cost_model.estimate.estimate.estimate`.
    activity : callable, optional
        Returns the switching activity of a design; default the one that is assumed.

    Returns
    -------
    dict
        As of `cost_model.estimate.estimate.estimate`. Area, power and resources are sums over the
        designs; the clock is that of the slowest, and all are clocked all the time. A sum is
        unknown where a part of it is. ``parts`` names the designs with their shares.
    """
    # Changes of operands a cycle do not depend on the clock, so once is enough for a design.
    first, *others = ((design, activity(Build(design, target))) for design in designs)

    def estimated(each: tuple[Design, Activity], at: Target, **passes: Any) -> dict[str, Any]:
        design, switching = each
        return Build(design, at).estimate(fpga_energies=fpga_energies, activity=switching, **passes)

    beside = [estimated(each, target) for each in others]
    fmaxes = [entry["metrics"]["fmax_mhz"] for entry in beside]
    clock = min([target.clock_mhz, *(fmax for fmax in fmaxes if fmax is not None)])
    slowed = target.model_copy(update={"clock_mhz": clock})
    if clock < target.clock_mhz:
        beside = [estimated(each, slowed) for each in others]
    result = estimated(first, slowed, workloads=workloads, timings=timings)
    if not beside:
        return result
    metrics = result["metrics"]
    slowest = [metrics["fmax_mhz"], *fmaxes]
    fmax = None if None in slowest else min(slowest)
    at = min(clock, metrics["fmax_mhz"] or clock)
    basis = "assumed" if fmax is None else "asked for" if fmax >= target.clock_mhz else "fmax"
    power = _sum([entry["metrics"]["power_w"] for entry in beside])
    for name, network in workloads.items():
        ms, tokens = metrics.get(f"latency_ms({name})"), getattr(network, "tokens", None) or 1
        more = None if ms is None or power is None else ms * power  # mJ
        for metric, factor in (("energy_mj", 1.0), ("j_per_token", 1e-3 / tokens)):
            if (key := f"{metric}({name})") in metrics:
                own = metrics[key]
                metrics[key] = None if own is None or more is None else own + factor * more
    parts = [
        {"name": entry["name"], **{key: entry["metrics"][key] for key in ("fmax_mhz", *_SUMS)}}
        for entry in (result, *beside)
    ]
    metrics |= {key: _sum([part[key] for part in parts]) for key in _SUMS}
    metrics["fmax_mhz"] = fmax
    used = {key: metrics.get(key) for key in RESOURCES}
    device = target.device or smallest(result["technology"], used)
    shares = None if device is None else utilization(device, used)
    return {
        **result,
        "clock_mhz": target.clock_mhz,
        "meets_clock": None if fmax is None else fmax >= target.clock_mhz,
        "figures_at_mhz": at,
        "clock_basis": basis,
        "device": shares and {**shares, "named": target.device is not None},
        "memories_w": _sum([entry["memories_w"] for entry in (result, *beside)]),
        "parts": parts,
        "notes": list(dict.fromkeys(
            note for entry in (result, *beside) for note in entry["notes"]
        )),
    }  # fmt: skip


def _sum(values: Sequence[float | None]) -> float | None:
    """Return a sum, unknown where a part of it is."""
    return None if None in values else sum(value for value in values if value is not None)
