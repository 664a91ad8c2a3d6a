# SPDX-License-Identifier: Apache-2.0
"""The core of the attention family."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hwgen.core.core import CONTRACT, Core
from hwgen.core.cycles.basis import Cycles
from hwgen.core.operation import Array, Arrays, Job, Operation, Sizes
from hwgen.core.port import Beats
from hwgen.families.attention import golden
from hwgen.families.attention.params import AttentionConfig
from hwgen.families.attention.schedule import Mask, Plan, blocks_of, draw_operands
from hwgen.lazy import np


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


@dataclass
class _Flow:
    """Timing state of the core: cycles, the first input beat in cycle 0.

    Parameters
    ----------
    config : AttentionConfig
    """

    config: AttentionConfig

    def __post_init__(self) -> None:
        ahead = self.config.weights_ahead
        self.front = 1  # the next beat of queries or keys may be taken, out of an input's buffer
        self.ready = 1 + self.config.align_latency  # the first vectors are aligned
        self.back = 0  # the next beat of values may be taken, or a result given
        self.free = 0  # the sums of weights have left
        self.left = 0  # the results of all jobs so far have been given
        self.loads = 1  # the next queries may be taken, with a second place for them
        # When the weights of the last keys were taken from their queue.
        self.popped: deque[int] = deque([-1] * ahead, ahead)

    def pass_job(self, rows: int, keys: int) -> None:
        """Pass the queries, the keys and the results of a job."""
        config = self.config
        steps, latency = config.steps, config.weight_latency
        doubled = config.doubled
        if rows:
            self.loads = max(self.loads, self.ready)
            if not doubled:
                self.front = max(self.front, self.ready)
        if doubled:
            # Queries are there, the job before has ended, and a cycle later the keys start.
            starts = max(self.loads + max(1, rows * steps), self.front - 1)
            self.loads = self.front = starts + 1
        else:
            self.front += max(1, rows * steps)
        if keys:
            self.front = max(self.front, self.ready)
        left = max(1, keys)
        steady = 0
        while left:
            if steady > config.weights_ahead and left > 1:
                # Nothing waited for as long as the queue reaches back: the rest takes as long.
                self._move(steps * (left - 1))
                left, steady = 1, 0
                continue
            end = max(self.front + steps - 1, self.popped[0] + 1)
            if left == 1:
                end = max(end, self.free)
            popped = max(end + latency, self.back) + steps - 1
            if doubled and left == 1:
                popped = max(popped, self.left)
            previous = self.popped[-1]
            waits = end > self.front + steps - 1 or popped - previous > steps
            steady = 0 if waits else steady + 1
            self.front, self.back = end + 1, popped + 1
            self.popped.append(popped)
            left -= 1
        self.left = self.back + rows * steps
        if not doubled:
            self.back = self.left
        self.free = self.back

    def _move(self, cycles: int) -> None:
        self.front += cycles
        self.back += cycles
        self.popped = deque((at + cycles for at in self.popped), self.popped.maxlen)


def cycles_of_blocks(config: AttentionConfig, blocks: Iterable[tuple[int, int]]) -> int:
    """Return the cycles of jobs of the core that follow each other without a pause.

    Counted from the cycle of the first input beat to that of the last result beat, both included.

    Parameters
    ----------
    config : AttentionConfig
    blocks : iterable of (int, int)
        Rows of queries and keys of each job.
    """
    flow = _Flow(config)
    for rows, keys in blocks:
        flow.pass_job(rows, keys)
    return flow.left + config.divide_latency + 2
