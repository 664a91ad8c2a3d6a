# SPDX-License-Identifier: Apache-2.0
"""The core of the attention family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hwgen.core.core import CONTRACT, Core
from hwgen.core.cycles.figures import Cycles
from hwgen.core.operation import Array, Arrays, Job, Operation, Sizes
from hwgen.core.port import Beats
from hwgen.families.attention import golden
from hwgen.families.attention.cycles import cycles_of_blocks
from hwgen.families.attention.params import AttentionConfig
from hwgen.families.attention.schedule import Mask, Plan, blocks_of, draw_operands


class AttentionCore(Core[AttentionConfig]):
    """An attention unit."""

    contract = CONTRACT
    summary = "softmax(Q K^T) V in one pass over K and V: integers or floats, masks, grouped heads"
    params_class = AttentionConfig

    def schedule(self, job: Job) -> Plan:
        """Return the beats of an attention."""
        return Plan(self.params, job.sizes, Mask.of(job.scalars))

    def golden(self, job: Job, operands: Arrays) -> dict[str, Array]:
        """Return the results of an attention by name."""
        return golden.operate(self.params, job.operation, operands, job.scalars)

    def cycles(self, jobs: Sequence[Job], operands: Sequence[Arrays] | None = None) -> Cycles:
        """Return the exact cycles of attentions that follow each other."""
        blocks = (
            (block.rows, len(block.keys))
            for job in jobs
            for block in blocks_of(self.params, job.sizes, Mask.of(job.scalars))
        )
        return Cycles(cycles_of_blocks(self.params, blocks))

    def command_cycles(self, words: Sequence[int]) -> int:
        """Return the cycles of the job of a command, by its words."""
        return cycles_of_blocks(self.params, [(words[0], words[1])])

    def respond(self, beats: Mapping[str, Beats]) -> Beats:
        """Return the result beats of a job's beats by input port."""
        return golden.respond(self.params, beats)

    def draw_operands(
        self, operation: Operation, sizes: Sizes, pattern: str, rng: np.random.Generator
    ) -> dict[str, Array]:
        """Return operands for a regression; see `hwgen.core.protocols.OperandSource`."""
        return draw_operands(self.params, operation, sizes, pattern, rng)
