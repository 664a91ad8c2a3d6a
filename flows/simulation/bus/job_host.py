# SPDX-License-Identifier: Apache-2.0
"""The host of a simulated engine: jobs into its queue, results out of its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from flows.build.design import Design
from flows.simulation.engine_program import Model, compile_model
from flows.simulation.placed_products import Placed
from flows.simulation.placement import MemoryJob
from hwgen.core.register_map import COUNTERS
from hwgen.errors import CheckFailed
from hwgen.families.gemm_stream.schedule import Job

POLL = 1 << 16
"""Cycles between two looks at a job that has not ended."""


class JobFailed(CheckFailed):
    """An error that an engine reports of a job."""


class JobHost:
    """A driver of an engine, on a `Model`.

    Parameters
    ----------
    config : FamilyConfig
        Of a family that takes jobs.
    model : Model
        Of the configuration's engine.
    """

    def __init__(self, config: Any, model: Model) -> None:
        self.config, self.model = config, model
        self._offsets = {register.name: register.offset for register in config.registers}
        self._states: Sequence[str] = config.job_interface.states
        self.submitted = self.read("SUBMITTED")
        self.write("INTERRUPT_ENABLE", 3)

    def read(self, name: str) -> int:
        """Return a register."""
        return self.model.read32(self._offsets[name])

    def write(self, name: str, value: int) -> None:
        """Write a register."""
        self.model.write32(self._offsets[name], value)

    def counter(self, name: str) -> int:
        """Return one of `hwgen.core.register_map.COUNTERS`."""
        return self.read(f"{name}_LOW") | self.read(f"{name}_HIGH") << 32

    def counters(self) -> dict[str, int]:
        """Return all counters."""
        return {name: self.counter(name) for name in COUNTERS}

    def submit(self, job: Job) -> int:
        """Put a job into the queue, which must not be full, and return its number."""
        return self.submit_writes(job.writes())

    def submit_writes(self, writes: Iterable[tuple[int, int]]) -> int:
        """Put a job into the queue by what is written to the job window."""
        for offset, value in writes:
            self.model.write32(offset, value)
        self.write("SUBMIT", 1)
        self.submitted += 1
        return self.submitted - 1

    def state(self, job: int) -> str:
        """Return the state of one of the last jobs.

        Raises
        ------
        JobFailed
            If the register has no state, as that of faulty hardware.
        """
        number = self.read(f"JOB_STATUS_{job % self.config.queue}")
        if number >= len(self._states):
            raise JobFailed(f"job {job} is in state {number}, which does not exist")
        return self._states[number]

    def has_finished(self, job: int) -> bool:
        """Return whether a job has ended."""
        return (self.read("FINISHED") - job - 1) & 0xFFFFFFFF < 1 << 31

    def wait(self, job: int, limit: int, on_progress: Callable[[int], None] | None = None) -> str:
        """Run until a job has ended and return its state.

        Raises
        ------
        CheckFailed
            If it has not ended after `limit` cycles.
        """
        done = 0
        while not self.has_finished(job):
            if done >= limit:
                raise CheckFailed(f"job {job} has not ended after {limit} cycles")
            self.model.wait(min(POLL, limit - done))
            self.write("INTERRUPT", 3)
            done = done + POLL if not self.model.interrupt else done
            if on_progress:
                on_progress(self.counter("BUSY"))
        return self.state(job)

    def run(
        self, jobs: Sequence[MemoryJob], patience: int, on_progress: Callable[[int], None]
    ) -> None:
        """Do jobs, several in the queue.

        Parameters
        ----------
        jobs : sequence of MemoryJob
            Their operands are in memory.
        patience : int
            Cycles in which something must move between engine and memory.
        on_progress : callable
            Gets the cycles since it was called last.

        Raises
        ------
        CheckFailed
            If nothing moves, or a job ends with an error.
        """
        numbers: list[int] = []

        def finish(number: int) -> None:
            wait_moving(self.model, patience, on_progress, lambda: self.has_finished(number))
            if (state := self.state(number)) != "done":
                raise JobFailed(f"the job ended with {state}")

        for job in jobs:
            if len(numbers) >= self.config.queue:
                finish(numbers[len(numbers) - self.config.queue])
            numbers.append(self.submit_writes(job.writes()))
        for number in numbers[-self.config.queue :]:
            finish(number)
        self.write("INTERRUPT", 3)

    def put(self, placed: Placed) -> None:
        """Put the operands of a job into memory."""
        for address, content in placed.images():
            self.model.store(address, content)

    def results(self, placed: Placed) -> np.ndarray:
        """Return the results of a job."""
        return placed.results(lambda address, size: self.model.load(address, size).tobytes())


def wait_moving(
    model: Model,
    patience: int,
    on_progress: Callable[[int], None],
    has_ended: Callable[[], bool] = lambda: False,
) -> None:
    """Run until the interrupt.

    Raises
    ------
    CheckFailed
        If nothing is read or written for `patience` cycles.
    """
    moved = None
    while not has_ended():
        if model.wait(patience, on_progress):
            return
        traffic = model.traffic
        before, moved = moved, (traffic.read_beats, traffic.write_beats)
        if moved == before:
            raise CheckFailed(
                f"the engine hangs: nothing was read or written for {patience} cycles"
            )


def open_engine(design: Design, *, cycles: int | None = None, **memory: Any) -> JobHost:
    """Return the host of an engine.

    Parameters
    ----------
    design : Design
    cycles : int, optional
        How many it is for, as far as known; see `compile_model`.
    **memory
        Of `Model`.
    """
    config: Any = design.params
    directory = compile_model(design.name, design.verilog, config.buses, cycles=cycles)
    memory.setdefault("longest_burst", config.memory.max_burst)
    memory.setdefault("outstanding", config.memory.outstanding)
    return JobHost(config, Model(directory, **memory))
