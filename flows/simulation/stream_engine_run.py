# SPDX-License-Identifier: Apache-2.0
"""An operation through an engine that works on memory, with no Python in the simulation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flows.build.design import Design
from flows.simulation.engine_program import Model, compile_model
from flows.simulation.stream_jobs import PlacedOperation, place_operation
from hwgen.core.registry import core_of
from hwgen.errors import CheckFailed

if TYPE_CHECKING:
    import numpy as np

    from hwgen.core.cycles.figures import Cycles
    from hwgen.core.operation import Operation
    from hwgen.families.stream_engine.params import StreamEngineConfig

BASE = 4096
"""Address of the first array."""


def run_on_engine(
    design: Design,
    operation: Operation,
    operands: Mapping[str, np.ndarray],
    scalars: Mapping[str, float],
    *,
    on_progress: Callable[[int, int], None] | None = None,
    timeout: float,
    pages: int = 0,
) -> tuple[dict[str, np.ndarray], int, Cycles]:
    """Carry out an operation with a memory that answers in the next cycle.

    With `pages`, the rows of ports that may have pages lie in about so many each.

    Returns
    -------
    (dict of ndarray, int, Cycles)
        Results by name, the cycles in which the engine was busy, and those by the cycle model.

    Raises
    ------
    CheckFailed
        If a job ends with an error, or has not ended after four times the cycles that all should
        take, and 10000 more.
    """
    config: StreamEngineConfig = design.config  # type: ignore[assignment]
    placed, _ = place_operation(
        config, operation, operands, scalars, base=BASE, golden=False, pages=pages
    )
    core = core_of(config)
    expected = core.cycles([core.job(operands, scalars, operation=operation.name)])
    library = compile_model(design.name, design.verilog, config.buses, cycles=expected.number)
    end = time.monotonic() + timeout
    with Model(library, read_latency=1, write_latency=1) as model:
        host = _Host(config, model, 4 * expected.number + 10_000)

        def follow(done: int) -> None:
            if time.monotonic() > end:
                raise CheckFailed(f"the simulation did not end within {timeout:.0f} s")
            if on_progress:
                on_progress(done, expected.number)

        host.run(placed, follow)
        return placed.found(model.load), host.wide("BUSY"), expected


class _Host:
    """Submits jobs and waits for them."""

    def __init__(self, config: StreamEngineConfig, model: Model, limit: int) -> None:
        self.config, self.model, self.limit = config, model, limit
        self.offsets = {register.name: register.offset for register in config.registers}

    def read(self, name: str) -> int:
        """Return a register."""
        return self.model.read32(self.offsets[name])

    def wide(self, name: str) -> int:
        """Return a counter."""
        return self.read(f"{name}_LOW") | self.read(f"{name}_HIGH") << 32

    def run(self, placed: PlacedOperation, follow: Callable[[int], None]) -> None:
        """Do all jobs of an operation."""
        for job in placed.jobs:
            for address, content in job.images():
                self.model.store(address, content)
        self.model.write32(self.offsets["INTERRUPT_ENABLE"], 3)
        for number, job in enumerate(placed.jobs):
            for offset, value in job.writes():
                self.model.write32(offset, value)
            self._until(number - self.config.queue + 1, follow)
            self.model.write32(self.offsets["SUBMIT"], 1)
        self._until(len(placed.jobs), follow)
        states = self.config.job_interface.states
        for slot in range(min(self.config.queue, len(placed.jobs))):
            state = states[self.read(f"JOB_STATUS_{slot}")]
            if state != "done":
                raise CheckFailed(f"a job ended with {state}")

    def _until(self, jobs: int, follow: Callable[[int], None]) -> None:
        """Wait until so many jobs have ended."""
        begun = self.model.traffic.cycles
        while self.read("FINISHED") < jobs:
            self.model.wait(1 << 14)
            self.model.write32(self.offsets["INTERRUPT"], 3)
            done = self.model.traffic.cycles
            follow(done)
            if done - begun > self.limit:
                raise CheckFailed(f"the engine hangs: {jobs} jobs have not ended")
