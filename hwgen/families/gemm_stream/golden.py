# SPDX-License-Identifier: Apache-2.0
"""Golden model of an engine: a product, then post-processing.

The blocks of a reduction of integers are added up modulo the accumulator's width, which commutes
with wrapping, so the result does not depend on the plan; other reductions stay whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.core.golden.integer import accumulated_product
from hwgen.core.golden.post import apply
from hwgen.core.registry import core_of
from hwgen.core.schedule.stream import RAW_RESULTS
from hwgen.families.gemm_stream.schedule import Plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.lists.golden import Memory
    from hwgen.core.post import PostSettings
    from hwgen.core.post.records import Columns
    from hwgen.families.gemm_stream.params import GemmStreamConfig


def golden(
    config: GemmStreamConfig,
    a: NDArray[Any],
    w: NDArray[Any],
    settings: PostSettings | None = None,
    columns: Columns | None = None,
) -> NDArray[Any]:
    """Return ``C = post(A . W)`` as the engine computes it.

    Parameters
    ----------
    config : GemmStreamConfig
    a : ndarray, shape (m, k)
        Activations, within ``config.activation``.
    w : ndarray, shape (k, n)
        Weights, within ``config.weight``.
    settings : PostSettings, optional
        Post-processing; without it the accumulators.
    columns : Columns, optional
        Records of the columns, if ``settings.columns``.

    Returns
    -------
    ndarray, shape (m, n)
        In the dtype of the output's format.

    Raises
    ------
    InputError
        If shapes do not match, `k` exceeds ``config.max_k``, a value is outside its format, or
        the engine has no such post-processing.
    """
    plan = Plan(config, a.shape[0], a.shape[1], w.shape[1])
    total = _totals(plan, a, w)
    if settings is None:
        return total
    settings.check(config.post_features)
    return apply(settings, config.result, total, columns)


def _totals(plan: Plan, a: NDArray[Any], w: NDArray[Any]) -> NDArray[Any]:
    """Return the product, shape (m, n), as the accumulators have it."""
    if not plan.config.in_blocks:
        return accumulated_product(plan, a, w)
    core = core_of(plan.config.compute)
    job = core.gemm(plan.m, plan.k, plan.n)
    return core.golden(job, {"activations": a, "weights": w})["result"]


def execute(config: GemmStreamConfig, held: Mapping[str, int], memory: Memory) -> None:
    """Do the job that the registers of the job window describe.

    Parameters
    ----------
    config : GemmStreamConfig
    held : mapping of int
        Contents by register name.
    memory : Memory
        Read and written.

    Raises
    ------
    MemoryFault
        By the memory, if something is read or written that is not there.
    ValueError
        If results are post-processed: of a job's registers, only accumulators are computed here.
    InputError
        If the sizes are none of a product.
    """
    raw = RAW_RESULTS.registers(config.result)
    if any(held[name] != value for name, value in raw.items()):
        raise ValueError("results of this job are post-processed")
    plan = Plan(config.of_job(held), held["M"], held["K"], held["N"])

    def rows(name: str, count: int, size: int) -> NDArray[np.uint8]:
        address = held[f"{name}_ADDRESS_LOW"] | held[f"{name}_ADDRESS_HIGH"] << 32
        stride = held[f"{name}_STRIDE"]
        parts = [memory.read(address + row * stride, size) for row in range(count)]
        return np.frombuffer(b"".join(parts), np.uint8).reshape(count, size)

    lanes = rows("A", plan.m, plan.activation_row_bytes)
    a = plan.unpack_activations(lanes)
    w = plan.unpack_weights(rows("W", plan.weight_image_rows, plan.weight_row_bytes))
    total = _totals(plan, a, w)
    image = np.ascontiguousarray(total.astype(total.dtype.newbyteorder("<")))
    address = held["C_ADDRESS_LOW"] | held["C_ADDRESS_HIGH"] << 32
    for row, values in enumerate(image):
        memory.write(address + row * held["C_STRIDE"], values.tobytes())
