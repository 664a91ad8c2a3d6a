# SPDX-License-Identifier: Apache-2.0
"""Matrices through an engine that works on memory, with no Python in the simulation."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from flows.simulation.engine_memory import Placed
from flows.simulation.engine_program import Model, compile_model
from hwgen.emission import verilog_of
from hwgen.errors import CheckFailed
from hwgen.families import family
from hwgen.figures import Cycles
from hwgen.jobs import Job, plan_of
from hwgen.numerics.post import Columns, PostSettings, output_format
from hwgen.register_map import STATES, register_map
from hwgen.schedules.gemm_stream import Plan

if TYPE_CHECKING:
    from hwgen.families.gemm_stream import GemmStreamConfig

ALIGNMENT = 4096
"""Regions of memory begin at multiples of it."""


def run_engine(
    config: GemmStreamConfig,
    a: np.ndarray,
    w: np.ndarray,
    settings: PostSettings,
    columns: Columns | None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    timeout: float,
) -> tuple[np.ndarray, int, Cycles]:
    """Compute ``post(a . w)`` as one job, with a memory that answers in the next cycle.

    Parameters
    ----------
    config : FamilyConfig
        Of an engine.
    a : ndarray, shape (m, k)
    w : ndarray, shape (k, n)
    settings : PostSettings
        Post-processing.
    columns : Columns or None
        Records of the columns, if ``settings.columns``.
    on_progress : callable, optional
        Gets the cycles simulated and the cycles in all.
    timeout : float
        Seconds.

    Returns
    -------
    (ndarray, shape (m, n), int, Cycles)
        The product, the cycles in which the engine was busy, and those by the cycle model.

    Raises
    ------
    CheckFailed
        If nothing moves between engine and memory for as long as twice the whole job should take,
        and 1000 cycles, before it has ended; or the bus is misused.
    """
    plan = plan_of(config, a.shape[0], a.shape[1], w.shape[1], settings)
    plan.check_operands(a, w)
    placed = _place(config, plan, a, w, settings, columns)
    expected = family(config.family).part("cost").plan_cycles(plan)
    patience = 2 * expected + 1000
    registers = {register.name: register.offset for register in register_map(config)}
    library = compile_model(config.name, verilog_of(config), config.buses, cycles=expected)
    end = time.monotonic() + timeout

    def follow(done: int) -> None:
        if time.monotonic() > end:
            raise CheckFailed(f"the simulation did not end within {timeout:.0f} s")
        if on_progress:
            on_progress(done, expected)

    with Model(library, read_latency=1, write_latency=1) as model:
        for rows, size, stride, address in placed.job.regions.values():
            model.map(address, (rows - 1) * stride + size)
        for address, content in placed.images():
            model.store(address, content)
        for offset, value in placed.job.writes():
            model.write32(offset, value)
        model.write32(registers["INTERRUPT_ENABLE"], 3)
        model.write32(registers["SUBMIT"], 1)
        moved = None
        while not model.wait(patience, follow):
            before, moved = moved, _moved(model)
            if moved == before:
                raise CheckFailed(
                    f"the engine hangs: nothing was read or written for {patience} cycles"
                )
        state = STATES[model.read32(registers["JOB_STATUS_0"])]
        if state != "done":
            raise CheckFailed(f"the job ended with {state}")
        busy = model.read32(registers["BUSY_LOW"])
        busy |= model.read32(registers["BUSY_HIGH"]) << 32
        return placed.results(model.load), busy, Cycles(expected)


def _moved(model: Model) -> tuple[int, int]:
    """Return the beats that were read and written."""
    return model.traffic.read_beats, model.traffic.write_beats


def _place(
    config: GemmStreamConfig,
    plan: Plan,
    a: np.ndarray,
    w: np.ndarray,
    settings: PostSettings,
    columns: Columns | None,
) -> Placed:
    sizes = {
        "a_address": plan.m * plan.activation_row_bytes,
        "w_address": plan.weight_image_rows * plan.weight_row_bytes,
        "c_address": plan.m * plan.n * plan.result_bytes,
        "p_address": plan.n * plan.record_bytes,
    }
    addresses: dict[str, Any] = {}
    at = ALIGNMENT
    for name, size in sizes.items():
        addresses[name] = at
        at += -(-size // ALIGNMENT) * ALIGNMENT
    fmt = output_format(settings.output, config.result)
    blank = np.empty((plan.m, plan.n), fmt.dtype)
    return Placed(Job(plan, settings=settings, **addresses), a, w, columns, blank)
