# SPDX-License-Identifier: Apache-2.0
"""Matrices through an engine that works on memory, with no Python in the simulation."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hwgen.build import verilog_of
from hwgen.errors import CheckFailed
from hwgen.families import family
from hwgen.jobs import Job
from hwgen.registers import STATES, register_map
from sim_tests.engine import Placed
from sim_tests.model import Model, compile_model

ALIGNMENT = 4096
"""Regions of memory begin at multiples of it."""


def run_engine(
    config: Any,
    plan: Any,
    a: np.ndarray,
    w: np.ndarray,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    timeout: float,
) -> tuple[np.ndarray, int]:
    """Compute ``a . w`` as one job, with a memory that answers in the next cycle.

    Parameters
    ----------
    config : FamilyConfig
        Of an engine.
    plan : Plan
        Of the product, its results as the core gives them.
    a : ndarray, shape (m, k)
    w : ndarray, shape (k, n)
    on_progress : callable, optional
        Gets the cycles simulated and the cycles in all.
    timeout : float
        Seconds.

    Returns
    -------
    (ndarray, shape (m, n), int)
        The product, and the cycles in which the engine was busy.

    Raises
    ------
    CheckFailed
        If the job does not end well within twice its cycles and 1000, or the bus is misused.
    """
    expected = family(config.family).part("cost").cycles(config, plan.m, plan.k, plan.n)
    limit = 2 * expected + 1000
    placed = _place(config, plan, a, w)
    registers = {register.name: register.offset for register in register_map(config)}
    library = compile_model(config.name, verilog_of(config), config.buses)
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
        if not model.wait(limit, follow):
            raise CheckFailed(f"the job has not ended after {limit} cycles")
        state = STATES[model.read32(registers["JOB_STATUS_0"])]
        if state != "done":
            raise CheckFailed(f"the job ended with {state}")
        busy = model.read32(registers["BUSY_LOW"])
        busy |= model.read32(registers["BUSY_HIGH"]) << 32
        return placed.results(model.load).astype(config.result.dtype), busy


def _place(config: Any, plan: Any, a: np.ndarray, w: np.ndarray) -> Placed:
    sizes = {
        "a_address": plan.m * plan.k * config.activation_bytes,
        "w_address": plan.weight_image_rows * plan.weight_row_bytes,
        "c_address": plan.m * plan.n * plan.result_bytes,
    }
    addresses: dict[str, Any] = {}
    at = ALIGNMENT
    for name, size in sizes.items():
        addresses[name] = at
        at += -(-size // ALIGNMENT) * ALIGNMENT
    kind = "i" if config.result.signed else "u"
    blank = np.empty((plan.m, plan.n), f"{kind}{plan.result_bytes}")
    return Placed(Job(plan, **addresses), a, w, None, blank)
