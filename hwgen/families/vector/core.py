# SPDX-License-Identifier: Apache-2.0
"""The core of the vector family: row operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hwgen.core.core import CONTRACT, Core
from hwgen.core.cycles.basis import Cycles
from hwgen.core.operation import Array, Arrays, Job
from hwgen.core.port import Beats
from hwgen.families.vector import golden
from hwgen.families.vector.operations import CODES
from hwgen.families.vector.params import VectorConfig
from hwgen.families.vector.schedule import Plan, beats_of_row
from hwgen.formats import NumberFormat

OVERHEAD = 1
"""Cycles of a job for its command, taken while no other is worked on."""


class VectorCore(Core[VectorConfig]):
    """A vector unit."""

    contract = CONTRACT
    summary = "row operations: softmax, normalisation, rotary embedding, gates, quantisation"
    params_class = VectorConfig

    def schedule(self, job: Job) -> Plan:
        """Return the beats of a row operation."""
        return Plan(self.params, job.operation, job.sizes, job.scalars)

    def golden(self, job: Job, operands: Arrays) -> dict[str, Array]:
        """Return the results of a row operation by name."""
        return golden.operate(self.params, job.operation, operands, job.scalars)

    def unrounded(self, job: Job, operands: Arrays) -> tuple[Array, NumberFormat] | None:
        """Return results in single precision, and the format that they are rounded to."""
        exact = golden.unrounded(self.params, job.operation, operands, job.scalars)
        if exact is None:
            return None
        return exact, self.params.output_of(self.params.datapaths[job.operation.name])

    def cycles(self, jobs: Sequence[Job], operands: Sequence[Arrays] | None = None) -> Cycles:
        """Return the exact cycles of row operations that follow each other without a pause.

        Counted from the cycle of the first input beat to that of the last output beat, both
        included.

        Notes
        -----
        A beat of a row goes into the unit in every cycle.  A row's first result waits for each of
        its reductions as long as a row takes, once a job, as the rows that follow are reduced
        meanwhile; of rows that are not stored it waits for one beat.
        """
        total = 2  # the buffers at the ports
        for job in jobs:
            path, sizes = self.params.datapaths[job.operation.name], job.sizes
            beats = beats_of_row(self.params, sizes["length"]) + path.tail
            waits = path.passes * (beats if path.stores or not self.params.streams_rows else 1)
            total += sizes["rows"] * beats + waits + self.params.job_latency(path) + OVERHEAD
        return Cycles(total)

    def command_cycles(self, words: Sequence[int]) -> int:
        """Return the cycles of the job of a command, by its words."""
        code, rows, length = words[:3]
        operation = next(o for o in self.operations if CODES[o.name] == code)
        return self.cycles([Job(operation, {"rows": rows, "length": length})]).number

    def respond(self, beats: Mapping[str, Beats]) -> Beats:
        """Return the result beats of a job's beats by input port."""
        return golden.respond(self.params, beats)
