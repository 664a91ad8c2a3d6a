# SPDX-License-Identifier: Apache-2.0
"""The core of the stream-engine family: a memory engine around a stream core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hwgen.core.core import CONTRACT, Core
from hwgen.core.cycles.basis import Cycles
from hwgen.core.cycles.unit_job import UnitJob
from hwgen.core.lists.golden import Memory
from hwgen.core.operation import Array, Arrays, Job
from hwgen.core.registry import core_of
from hwgen.core.schedule.memory import MemoryPlan, memory_plan
from hwgen.families.stream_engine import golden
from hwgen.families.stream_engine.cycles import engine_cycles, register_cycles
from hwgen.families.stream_engine.params import StreamEngineConfig


class StreamEngineCore(Core[StreamEngineConfig]):
    """A memory engine around a stream core."""

    contract = CONTRACT
    summary = "memory engine around any core with stream ports, which multiplies no matrices"
    params_class = StreamEngineConfig

    def schedule(self, job: Job) -> MemoryPlan:
        """Return the accesses of a job to memory."""
        child = core_of(self.params.compute)
        return memory_plan(job, child.schedule(job), child.ports)

    def golden(self, job: Job, operands: Arrays) -> dict[str, Array]:
        """Return the results by name: those of the core inside."""
        return core_of(self.params.compute).golden(job, operands)

    def cycles(self, jobs: Sequence[Job], operands: Sequence[Arrays] | None = None) -> Cycles:
        """Return the modelled cycles of jobs that follow each other."""
        plans = [self.schedule(job) for job in jobs]
        child = core_of(self.params.compute).cycles(jobs, operands)
        return engine_cycles(self.params, plans, child.number)

    def register_cycles(self, registers: Mapping[str, int]) -> UnitJob:
        """Return the cycles and traffic of a job, by the contents of its job window."""
        return register_cycles(self.params, registers)

    def execute(self, registers: Mapping[str, int], memory: Memory) -> None:
        """Compute the job that the contents of a job window describe, in a memory."""
        golden.execute(self.params, registers, memory)
