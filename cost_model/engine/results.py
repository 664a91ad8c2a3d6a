# SPDX-License-Identifier: Apache-2.0
"""When blocks of C have left their buffer, and are in memory.

Followed cycle by cycle, from the buffer through post-processing to the last response of the
memory, as `rtl_templates.gemm_stream.drain`, `rtl_templates.post`, `rtl_templates.axi.scatter` and
`rtl_templates.axi.writer` do it.  A row that finds everything as an earlier row found it takes
what that one took.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cost_model.engine.loads import bursts_of
from cost_model.engine.steps import stored_at
from hwgen.families.gemm_stream import ROWS_AHEAD

if TYPE_CHECKING:
    from cost_model.engine.steps import Places, Step
    from hwgen.schedules.gemm_stream import Plan


class Word(NamedTuple):
    """A word of results: how many bytes it has in memory, whether it ends its row."""

    size: int
    last: bool


class Row(NamedTuple):
    """A row of a block: its first byte's place in a beat, the beats of its bursts."""

    offset: int
    bursts: tuple[int, ...]


class Way(NamedTuple):
    """Everything between the buffer and the memory.

    Parameters
    ----------
    offered : Word or None
        Waits for post-processing.
    lanes : tuple of (Word or None)
        In its registers, the newest first.
    done : tuple of Word
        Behind them, the oldest first, two at most.
    piece, fill, midway, tail, beat : int
        Of the scatterer: pieces of the word that have gone; bytes in its register; whether it is
        within a row; whether bytes of the row's end are left; whether it offers a beat.
    offsets : tuple of int
        Of the rows whose words have not all gone.
    rows : tuple of tuple of int
        Bursts of the rows that wait for the writer.
    bursts : tuple of int
        Those of the row at work.
    unclaimed, stored, head : int
        Of the writer: beats without a burst; beats in its memory; in its register.
    announced : tuple of int
        Beats of the bursts that are announced and not sent.
    sent, flying : int
        Beats of the first of them that are sent; bursts without a response.
    responses : tuple of int
        Cycles until those that are on their way, the next first.
    """

    offered: Word | None
    lanes: tuple[Word | None, ...]
    done: tuple[Word, ...] = ()
    piece: int = 0
    fill: int = 0
    midway: bool = False
    tail: bool = False
    beat: bool = False
    offsets: tuple[int, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()
    bursts: tuple[int, ...] = ()
    unclaimed: int = 0
    stored: int = 0
    head: bool = False
    announced: tuple[int, ...] = ()
    sent: int = 0
    flying: int = 0
    responses: tuple[int, ...] = ()

    @property
    def busy(self) -> bool:
        """Whether something is not in memory whose row is announced."""
        return bool(self.rows or self.bursts or self.stored or self.head or self.flying)


class Results:
    """The way of results to memory.

    Parameters
    ----------
    plan : Plan
    places : Places
    steps : sequence of Step
    latency : int
        Cycles from the last beat of a burst to its response.

    Attributes
    ----------
    complete, records : list of int
        When blocks of C, and the records of their columns, are there, as far as known.
    freed, records_freed : list of int
        When their places in the buffers are left, as far as known.
    end : int
        The last cycle of the job, once it is known.
    """

    def __init__(self, plan: Plan, places: Places, steps: Sequence[Step], latency: int) -> None:
        config = plan.config
        self._plan, self._places, self._latency = plan, places, latency
        self._blocks = [step.block for step in steps if step.block.last]
        self._bus = config.memory_bytes
        self._store = config.writer_beats
        self._outstanding = config.memory.outstanding
        self._empty = Way(None, (None,) * (config.post_features.latency - 1))
        self.complete: list[int] = []
        self.records: list[int] = []
        self.freed: list[int] = []
        self.records_freed: list[int] = []
        self.end = 0
        self._known: dict[tuple[Row, int, Way], tuple[int, Way]] = {}

    def follow(self) -> Iterator[None]:
        """Follow the blocks; yield where it is not known when the next one is there."""
        plan, longest = self._plan, self._plan.config.longest_burst_bytes
        way, now = self._empty, 1  # in cycle 0 the job is seen
        for number, block in enumerate(self._blocks):
            while number >= len(self.complete):
                yield
            arrived = max(now, self.complete[number])
            if plan.record_bytes:
                while number >= len(self.records):
                    yield
                arrived = max(arrived, self.records[number])
            now, way = self._wait(now, arrived + 1, way, number)
            words = self._words(block.n)
            start, size = stored_at(plan, self._places, block), block.n * plan.result_bytes
            for _ in range(block.m):
                at = start % longest
                row = Row(at % self._bus, bursts_of(at, size, self._bus, longest))
                now, way = self._row(now, way, row, words, number)
                start += self._places.c.stride
            if plan.record_bytes:
                self.records_freed.append(now - 1)
        while way.busy:
            now, way = self._wait(now, now + 1, way, len(self._blocks))
        self.end = now

    def _words(self, columns: int) -> tuple[Word, ...]:
        """Return the words of a row of a block."""
        plan = self._plan
        size, lanes = plan.result_bytes, plan.config.post_lanes
        words = []
        for first in range(0, columns, lanes):
            left = columns - first
            words.append(Word(min(left, lanes) * size, left <= lanes))
        return tuple(words)

    def _wait(self, now: int, until: int, way: Way, number: int) -> tuple[int, Way]:
        """Pass the cycles before `until`; block `number` is not begun."""
        while now < until:
            before = way
            way, _ = self._cycle(now, way, None, None, number - 1)
            now += 1
            if way == before:
                return until, way
        return now, way

    def _row(
        self, now: int, way: Way, row: Row, words: tuple[Word, ...], number: int
    ) -> tuple[int, Way]:
        """Let a row of block `number` leave its buffer; return the cycle behind that."""
        begins = len(self.freed) >= number  # nothing is left in the buffer of the block before
        key = (row, len(words), way)
        if begins and key in self._known:
            cycles, way = self._known[key]
            return now + cycles, way
        then = now
        announced = False
        while not announced:
            way, announced = self._cycle(now, way, row, None, number - 1)
            now += 1
        for word in words:
            accepted = False
            while not accepted:
                way, accepted = self._cycle(now, way, None, word, number - 1)
                now += 1
        if begins:
            self._known[key] = now - then, way
        return now, way

    def _cycle(
        self, now: int, way: Way, row: Row | None, word: Word | None, leaving: int
    ) -> tuple[Way, bool]:
        """Pass a cycle in which a row is announced, or a word of it read.

        Block `leaving`, if its last word waits for post-processing, leaves with that.

        Returns
        -------
        Way, bool
            And whether row or word was taken.
        """
        (
            offered, lanes, done, piece, fill, midway, tail, beat, offsets, rows, bursts,
            unclaimed, stored, head, announced, sent, flying, responses,
        ) = way  # fmt: skip
        bus = self._bus

        # The scatterer, which puts beats into the writer's memory.
        pushed = beat and stored != self._store
        free = not beat or pushed
        popped = False
        if free:
            if tail:
                beat, tail = True, False
            elif done:
                size, last = done[0]
                left = size - piece * bus
                ends = left <= bus
                reach = (fill if midway else offsets[0]) + min(left, bus)
                row_ends = last and ends
                beat = reach >= bus or row_ends
                piece = 0 if ends else piece + 1
                fill, midway, popped = reach % bus, not row_ends, ends
                tail = row_ends and reach > bus
            else:
                beat = False

        # Post-processing: all registers wait if the last one has to.
        run = len(done) < 2 or lanes[-1] is None
        if popped:
            if done[0].last:
                offsets = offsets[1:]
            done = done[1:]
        taken = offered is not None and run
        if run:
            if lanes[-1] is not None:
                done = (*done, lanes[-1])
            lanes = (offered, *lanes[:-1])
        if taken and offered is not None and offered.last and len(self.freed) == leaving:
            self.freed.append(now)
        accepted = False
        room = offered is None or run
        if room:
            offered, accepted = word, word is not None

        # The writer: bursts whose beats are there are announced, then sent.
        issue = bool(bursts) and unclaimed >= bursts[0] and flying != self._outstanding
        takes_row = not bursts or (issue and len(bursts) == 1)
        sends = head and bool(announced)
        reads = stored > 0 and (not head or sends)
        stored += pushed - reads
        head = reads or (head and not sends)
        responses = tuple(left - 1 for left in responses)
        answered = bool(responses) and responses[0] < 0
        if answered:
            responses = responses[1:]
        if sends:
            sent += 1
            if sent == announced[0]:
                announced, sent = announced[1:], 0
                responses = (*responses, self._latency - 1)
        unclaimed += pushed
        flying += issue - answered
        if issue:
            unclaimed -= bursts[0]
            announced = (*announced, bursts[0])
            bursts = bursts[1:]
        full = len(rows) == ROWS_AHEAD or len(way.offsets) == ROWS_AHEAD
        if takes_row and rows:
            bursts, rows = rows[0], rows[1:]
        if row is not None and not full:
            rows, offsets, accepted = (*rows, row.bursts), (*offsets, row.offset), True
        return Way(
            offered, lanes, done, piece, fill, midway, tail, beat, offsets, rows, bursts,
            unclaimed, stored, head, announced, sent, flying, responses,
        ), accepted  # fmt: skip
