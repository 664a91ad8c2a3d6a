# SPDX-License-Identifier: Apache-2.0
"""A network that is compiled to jobs on the RTL of its engine, every job held against its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.build.design import Design
from flows.simulation.bus.job_host import JobHost
from flows.simulation.engine_program import Model, compile_model
from flows.simulation.models.model_run import Record
from hwgen.errors import CheckFailed
from hwgen.models.compile.compiled_files import JobFiles, JobWords
from hwgen.models.compile.golden_jobs import GoldenJobs

MOST_CYCLES = 1 << 40


class RtlJobs(GoldenJobs):
    """An engine by its golden model and by its RTL, which must write the same.

    Parameters
    ----------
    compiled : JobFiles
    record : Record, optional
        Which products are simulated, and which are known to be equal; by default all are simulated.
    **timing
        Of the memory; see `flows.simulation.engine_program.Model`.

    Attributes
    ----------
    record : Record
        Cycles are those in which the engine was busy.
    """

    def __init__(self, compiled: JobFiles, record: Record | None = None, **timing: Any) -> None:
        super().__init__(compiled)
        config = compiled.config
        self.record = record or Record()
        library = compile_model(config.name, Design.of(config).verilog, config.buses)
        settings = {"read_latency": 1, "write_latency": 1, "longest_burst": config.longest_burst}
        self._model = Model(library, **{**settings, **timing})
        self._model.map(compiled.base, compiled.bytes)
        self._model.store(compiled.base, bytes(self.memory.data))
        self._host = JobHost(config, self._model)

    def close(self) -> None:
        """End the simulation."""
        self._model.close()

    def store(self, address: int, data: bytes) -> None:
        """Put bytes into both memories."""
        super().store(address, data)
        self._model.store(address, data)

    def run(self, jobs: Sequence[JobWords], name: str, layer: int | None = None) -> None:
        """Do the jobs of a product by both, several in the queue, and compare what they write.

        Raises
        ------
        CheckFailed
            If a byte differs, or a job does not end as it should; it names the operation.
        """
        super().run(jobs, name, layer)
        rows = [self._rows(job, "A", job.registers["M"], job.registers["K"]) for job in jobs]
        changing = [job for job in jobs if not self.constant(job)]
        rows += [self._rows(job, "W", job.registers["K"], job.registers["N"]) for job in changing]
        self.record.begin(name, layer)
        self.record.check(self.compiled.config, rows, lambda: self._simulate(jobs))

    def _simulate(self, jobs: Sequence[JobWords]) -> int:
        """Return the cycles of jobs, whose results are those of the golden model."""
        before = self._host.counter("BUSY")
        waiting: list[tuple[int, JobWords]] = []
        for job in jobs:
            if len(waiting) == self.compiled.config.queue:
                self._end(*waiting.pop(0))
            waiting.append((self._host.submit_writes(job.writes()), job))
        for number, job in waiting:
            self._end(number, job)
        return self._host.counter("BUSY") - before

    def _end(self, number: int, job: JobWords) -> None:
        """Wait for a job and compare its results."""
        state = self._host.wait(number, MOST_CYCLES)
        if state != "done":
            raise CheckFailed(f"its job ended with {state}")
        size = job.registers["N"] * self.compiled.result_bytes
        for row in range(job.registers["M"]):
            address = job.address("C") + row * job.registers["C_STRIDE"]
            result = self._model.load(address, size)
            wanted = np.frombuffer(self.memory.read(address, size), np.uint8)
            if not np.array_equal(result, wanted):
                place = int(np.flatnonzero(result != wanted)[0])
                raise CheckFailed(
                    f"row {row} of its sums differs from the golden model's, first at"
                    f" {address + place:#x}"
                )
