# SPDX-License-Identifier: Apache-2.0
"""Matrices through an engine that works on memory, with no Python in the simulation."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from flows.build.design import Design
from flows.simulation.engine_memory import Placed
from flows.simulation.engine_program import Model, compile_model
from hwgen.core.cycles.figures import Cycles
from hwgen.core.lists.commands import STATES as LIST_STATES
from hwgen.core.lists.commands import Program
from hwgen.core.post import Columns, PostSettings, output_format
from hwgen.core.protocols import ListCore
from hwgen.core.register_map import JOB_WINDOW, STATES
from hwgen.core.registry import core_of
from hwgen.errors import CheckFailed
from hwgen.families.gemm_stream.cycles.job import job_cycles
from hwgen.families.gemm_stream.params import is_engine
from hwgen.families.gemm_stream.schedule import Job, Plan, plan_of
from hwgen.families.transformer.registers import start_writes

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig
    from hwgen.families.transformer.params import TransformerConfig

ALIGNMENT = 4096
"""Regions of memory begin at multiples of it."""


def run_engine(
    design: Design,
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
    design : Design
        Of an engine, or of one with several units: then a list gives the job to the first unit.
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
    config: Any = design.config
    lists: Any = config  # if it is no engine that takes jobs itself
    unit: GemmStreamConfig = config if is_engine(config) else lists.job_unit
    plan = plan_of(unit, a.shape[0], a.shape[1], w.shape[1], settings)
    plan.check_operands(a, w)
    placed, end_of_data = _place(unit, plan, a, w, settings, columns)
    cycles = job_cycles(plan)
    host: _Jobs = _Jobs(config, placed) if is_engine(config) else _Lists(lists, placed, end_of_data)
    expected = host.cycles(cycles)
    patience = 2 * expected.number + 1000
    library = compile_model(design.name, design.verilog, config.buses, cycles=expected.number)
    end = time.monotonic() + timeout

    def follow(done: int) -> None:
        if time.monotonic() > end:
            raise CheckFailed(f"the simulation did not end within {timeout:.0f} s")
        if on_progress:
            on_progress(done, expected.number)

    with Model(library, read_latency=1, write_latency=1) as model:
        for rows, size, stride, address in placed.job.regions.values():
            model.map(address, (rows - 1) * stride + size)
        for address, content in placed.images():
            model.store(address, content)
        host.begin(model)
        moved = None
        while not model.wait(patience, follow):
            before, moved = moved, _moved(model)
            if moved == before:
                raise CheckFailed(
                    f"the engine hangs: nothing was read or written for {patience} cycles"
                )
        busy = host.end(model)
        return placed.results(model.load), busy, expected


class _Jobs:
    """The host of an engine: puts a job into its queue."""

    def __init__(self, config: GemmStreamConfig | TransformerConfig, placed: Placed) -> None:
        self.placed = placed
        self.registers = {register.name: register.offset for register in config.registers}

    def cycles(self, job: int) -> Cycles:
        """Return what the cycle model says of a job of so many cycles."""
        return Cycles(job)

    def begin(self, model: Model) -> None:
        """Submit the job."""
        for offset, value in self.placed.job.writes():
            model.write32(offset, value)
        model.write32(self.registers["INTERRUPT_ENABLE"], 3)
        model.write32(self.registers["SUBMIT"], 1)

    def end(self, model: Model) -> int:
        """Check how the job ended; return the cycles."""
        state = STATES[model.read32(self.registers["JOB_STATUS_0"])]
        if state != "done":
            raise CheckFailed(f"the job ended with {state}")
        return self._wide(model, "BUSY")

    def _wide(self, model: Model, name: str) -> int:
        low = model.read32(self.registers[f"{name}_LOW"])
        return low | model.read32(self.registers[f"{name}_HIGH"]) << 32


class _Lists(_Jobs):
    """The host of an engine of several units: starts a list that submits the job."""

    def __init__(self, config: TransformerConfig, placed: Placed, address: int) -> None:
        super().__init__(config, placed)
        self.config, self.address = config, address
        self.program = Program(list(config.units), config.lists.registers)
        unit = config.job_unit_name
        self.program.window(unit, JOB_WINDOW, [word for _, word in placed.job.writes()])
        self.program.submit(unit)
        self.program.halt()

    def cycles(self, job: int) -> Cycles:
        """Return what the cycle model says of a list with a job of so many cycles."""
        core = core_of(self.config)
        assert isinstance(core, ListCore)
        around = core.list_cycles()
        return Cycles(job + around, "modelled", least=job)

    def begin(self, model: Model) -> None:
        """Put the list into memory and start it."""
        data = self.program.encode()
        model.map(self.address, len(data))
        model.store(self.address, data)
        for offset, value in start_writes(self.config, self.address, data):
            model.write32(offset, value)

    def end(self, model: Model) -> int:
        """Check how the list ended; return the cycles."""
        state = LIST_STATES[model.read32(self.registers["STATUS"]) >> 8 & 15]
        if state != "done":
            index = model.read32(self.registers["INDEX"])
            raise CheckFailed(f"the command list ended with {state} at descriptor {index}")
        return self._wide(model, "CYCLES")


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
) -> tuple[Placed, int]:
    """Return the job with its operands, and the first address behind them."""
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
    return Placed(Job(plan, settings=settings, **addresses), a, w, columns, blank), at
