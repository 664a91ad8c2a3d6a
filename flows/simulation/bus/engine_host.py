# SPDX-License-Identifier: Apache-2.0
"""The host of a simulated engine: jobs into its queue, results out of its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from flows.build.design import Design
from flows.simulation.engine_memory import Placed
from flows.simulation.engine_program import Model, compile_model
from hwgen.core.register_map import COUNTERS, STATES, register_map
from hwgen.errors import CheckFailed
from hwgen.families.gemm_stream.schedule import Job

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

POLL = 1 << 16
"""Cycles between two looks at a job that has not ended."""


class EngineHost:
    """What a driver does, on a `Model`.

    Parameters
    ----------
    config : GemmStreamConfig
    model : Model
        Of the configuration's engine.
    """

    def __init__(self, config: GemmStreamConfig, model: Model) -> None:
        self.config, self.model = config, model
        self._offsets = {register.name: register.offset for register in register_map(config)}
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
        """Put a job into the queue, which must have room, and return its number."""
        return self.submit_writes(job.writes())

    def submit_writes(self, writes: Iterable[tuple[int, int]]) -> int:
        """Do the same by what is written to the job window."""
        for offset, value in writes:
            self.model.write32(offset, value)
        self.write("SUBMIT", 1)
        self.submitted += 1
        return self.submitted - 1

    def state(self, job: int) -> str:
        """Return the state of one of the last jobs, of `hwgen.core.register_map.STATES`."""
        return STATES[self.read(f"JOB_STATUS_{job % self.config.queue}")]

    def wait(self, job: int, limit: int, on_progress: Callable[[int], None] | None = None) -> str:
        """Run until a job has ended and return its state.

        Raises
        ------
        CheckFailed
            If it has not ended after `limit` cycles.
        """
        done = 0
        while (self.read("FINISHED") - job - 1) & 0xFFFFFFFF >= 1 << 31:
            if done >= limit:
                raise CheckFailed(f"job {job} has not ended after {limit} cycles")
            self.model.wait(min(POLL, limit - done))
            self.write("INTERRUPT", 3)
            done = done + POLL if not self.model.interrupt else done
            if on_progress:
                on_progress(self.counter("BUSY"))
        return self.state(job)

    def put(self, placed: Placed) -> None:
        """Put the operands of a job into memory."""
        for address, content in placed.images():
            self.model.store(address, content)

    def results(self, placed: Placed) -> np.ndarray:
        """Return what a job has written."""
        return placed.results(lambda address, size: self.model.load(address, size).tobytes())


def open_engine(
    design: Design,
    *,
    cycles: int | None = None,
    **memory: Any,
) -> EngineHost:
    """Return the host of an engine.

    Parameters
    ----------
    design : Design
    cycles : int, optional
        How many it is for, as far as known; see `compile_model`.
    **memory
        Of `Model`.
    """
    config: GemmStreamConfig = design.config  # type: ignore[assignment]
    directory = compile_model(design.name, design.verilog, config.buses, cycles=cycles)
    memory.setdefault("longest_burst", config.memory.max_burst)
    memory.setdefault("outstanding", config.memory.outstanding)
    return EngineHost(config, Model(directory, **memory))
