# SPDX-License-Identifier: Apache-2.0
"""Times at which blocks of C have left their buffer, and are in memory.

Followed cycle by cycle, from the buffer through post-processing to the last response of the
memory, as `rtl_templates.gemm_stream.drain`, `rtl_templates.post`, `rtl_templates.axi.scatter` and
`rtl_templates.axi.writer` do it.  A row that finds everything as an earlier row found it takes
what that one took.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from hwgen.core.cycles.unit_job import bursts_of
from hwgen.families.gemm_stream.cycles.steps import stored_at
from hwgen.families.gemm_stream.params import ROWS_AHEAD

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.cycles.steps import Regions, Step
    from hwgen.families.gemm_stream.schedule import Plan


NEXT_JOB = 1
"""Cycles from the last one of a job to the first in which the next one's results may leave."""


class Word(NamedTuple):
    """A word of results: how many bytes it has in memory, whether it ends its row."""

    size: int
    last: bool


class Row(NamedTuple):
    """A row of a block: its first byte's place in a beat, the beats of its bursts."""

    offset: int
    bursts: tuple[int, ...]


class Lanes(NamedTuple):
    """Post-processing.

    Parameters
    ----------
    offered : Word or None
        Waits for it.
    lanes : tuple of (Word or None)
        In its registers, the newest first.
    done : tuple of Word
        Behind them, the oldest first, two at most.
    """

    offered: Word | None
    lanes: tuple[Word | None, ...]
    done: tuple[Word, ...] = ()


class Scatterer(NamedTuple):
    """State of the scatterer, which makes beats of words.

    Parameters
    ----------
    piece, fill : int
        Pieces of the word that have gone; bytes in its register.
    midway, tail, beat : bool
        Whether it is within a row; whether bytes of the row's end are left; whether it offers a
        beat.
    """

    piece: int = 0
    fill: int = 0
    midway: bool = False
    tail: bool = False
    beat: bool = False


class Writer(NamedTuple):
    """State of the writer, which writes bursts.

    Parameters
    ----------
    bursts : tuple of int
        Those of the row at work.
    unclaimed, stored : int
        Beats without a burst; beats in its memory.
    head : bool
        Whether there is one in its register.
    announced : tuple of int
        Beats of the bursts that are announced and not sent.
    sent, flying : int
        Beats of the first of them that are sent; bursts without a response.
    responses : tuple of int
        Cycles until those in flight, the next first.
    """

    bursts: tuple[int, ...] = ()
    unclaimed: int = 0
    stored: int = 0
    head: bool = False
    announced: tuple[int, ...] = ()
    sent: int = 0
    flying: int = 0
    responses: tuple[int, ...] = ()


class WritePathState(NamedTuple):
    """Everything between the buffer and the memory.

    Parameters
    ----------
    post : Lanes
    scatterer : Scatterer
    writer : Writer
    offsets : tuple of int
        Of the rows whose words have not all gone.
    rows : tuple of tuple of int
        Bursts of the rows that wait for the writer.
    """

    post: Lanes
    scatterer: Scatterer = Scatterer()
    writer: Writer = Writer()
    offsets: tuple[int, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()

    @property
    def busy(self) -> bool:
        """Whether something is not in memory whose row is announced."""
        writer = self.writer
        return bool(self.rows or writer.bursts or writer.stored or writer.head or writer.flying)


class Results:
    """The path of results to memory.

    Parameters
    ----------
    plan : Plan
    regions : sequence of Regions
        Of each job.
    steps : sequence of Step
        Of all jobs.
    latency : int
        Cycles from the last beat of a burst to its response.

    Attributes
    ----------
    complete, records : list of int
        When blocks of C, and the records of their columns, are there, as far as known.
    freed, records_freed : list of int
        When their buffers are free again, as far as known.
    ends : list of int
        The last cycle of each job, as far as known.
    """

    def __init__(
        self, plan: Plan, regions: Sequence[Regions], steps: Sequence[Step], latency: int
    ) -> None:
        config = plan.config
        self._plan, self._regions, self._latency = plan, regions, latency
        self._blocks = [step.block for step in steps if step.block.last]
        self._bus = config.memory_bytes
        self._store = config.writer_beats
        self._outstanding = config.memory.outstanding
        self._empty = WritePathState(Lanes(None, (None,) * (config.post_features.latency - 1)))
        self.complete: list[int] = []
        self.records: list[int] = []
        self.freed: list[int] = []
        self.records_freed: list[int] = []
        self.ends: list[int] = []
        self._cached: dict[tuple[Row, int, WritePathState], tuple[int, WritePathState]] = {}

    def follow(self) -> Iterator[None]:
        """Follow the blocks; yield where it is not known when the next one is there."""
        plan, longest = self._plan, self._plan.config.longest_burst_bytes
        state, now = self._empty, 1  # in cycle 0 the job is seen
        of_a_job = len(self._blocks) // len(self._regions)
        for number, block in enumerate(self._blocks):
            job = number // of_a_job
            regions = self._regions[job]
            while number >= len(self.complete):
                yield
            arrived = max(now, self.complete[number])
            if plan.record_bytes:
                while number >= len(self.records):
                    yield
                arrived = max(arrived, self.records[number])
            now, state = self._wait(now, arrived + 1, state, number)
            words = self._words(block.n)
            start, size = stored_at(plan, regions, block), block.n * plan.result_bytes
            for _ in range(block.m):
                at = start % longest
                row = Row(at % self._bus, bursts_of(at, size, self._bus, longest))
                now, state = self._row(now, state, row, words, number)
                start += regions.c.stride
            if plan.record_bytes:
                self.records_freed.append(now - 1)
            if (number + 1) % of_a_job == 0:
                while state.busy:
                    now, state = self._wait(now, now + 1, state, number + 1)
                self.ends.append(now)
                now += NEXT_JOB

    def _words(self, columns: int) -> tuple[Word, ...]:
        """Return the words of a row of a block."""
        plan = self._plan
        size, lanes = plan.result_bytes, plan.config.post_lanes
        words = []
        for first in range(0, columns, lanes):
            left = columns - first
            words.append(Word(min(left, lanes) * size, left <= lanes))
        return tuple(words)

    def _wait(
        self, now: int, until: int, state: WritePathState, number: int
    ) -> tuple[int, WritePathState]:
        """Pass the cycles before `until`; block `number` is not begun."""
        while now < until:
            before = state
            state, _ = self._cycle(now, state, None, None, number - 1)
            now += 1
            if state == before:
                return until, state
        return now, state

    def _row(
        self, now: int, state: WritePathState, row: Row, words: tuple[Word, ...], number: int
    ) -> tuple[int, WritePathState]:
        """Let a row of block `number` leave its buffer; return the cycle behind that."""
        begins = len(self.freed) >= number  # nothing is left in the buffer of the block before
        key = (row, len(words), state)
        if begins and key in self._cached:
            cycles, state = self._cached[key]
            return now + cycles, state
        then = now
        announced = False
        while not announced:
            state, announced = self._cycle(now, state, row, None, number - 1)
            now += 1
        for word in words:
            accepted = False
            while not accepted:
                state, accepted = self._cycle(now, state, None, word, number - 1)
                now += 1
        if begins:
            self._cached[key] = now - then, state
        return now, state

    def _cycle(
        self, now: int, state: WritePathState, row: Row | None, word: Word | None, leaving: int
    ) -> tuple[WritePathState, bool]:
        """Pass a cycle in which a row is announced, or a word of it read.

        Block `leaving`, if its last word waits for post-processing, leaves with that.

        Returns
        -------
        WritePathState, bool
            And whether row or word was accepted.
        """
        post, scatterer, writer, offsets, rows = state
        pushed = scatterer.beat and writer.stored != self._store
        scatterer, popped = self._scattered(scatterer, post.done, offsets, pushed)
        if popped and post.done[0].last:
            offsets = offsets[1:]
        offered = post.offered
        post, run = _processed(post, word, popped)
        if run and offered is not None and offered.last and len(self.freed) == leaving:
            self.freed.append(now)
        accepted = word is not None and (offered is None or run)
        full = len(rows) == ROWS_AHEAD or len(state.offsets) == ROWS_AHEAD
        writer, rows = self._written(writer, rows, pushed)
        if row is not None and not full:
            rows, offsets, accepted = (*rows, row.bursts), (*offsets, row.offset), True
        return WritePathState(post, scatterer, writer, offsets, rows), accepted

    def _scattered(
        self, state: Scatterer, done: tuple[Word, ...], offsets: tuple[int, ...], pushed: bool
    ) -> tuple[Scatterer, bool]:
        """Pass a cycle of the scatterer, whose beat is pushed; return whether a word has gone."""
        piece, fill, midway, tail, beat = state
        if beat and not pushed:
            return state, False
        if tail:
            return Scatterer(piece, fill, midway, False, True), False
        if not done:
            return Scatterer(piece, fill, midway, tail, False), False
        size, last = done[0]
        left = size - piece * self._bus
        ends = left <= self._bus
        reach = (fill if midway else offsets[0]) + min(left, self._bus)
        row_ends = last and ends
        beat = reach >= self._bus or row_ends
        tail = row_ends and reach > self._bus
        piece = 0 if ends else piece + 1
        return Scatterer(piece, reach % self._bus, not row_ends, tail, beat), ends

    def _written(
        self, state: Writer, rows: tuple[tuple[int, ...], ...], pushed: bool
    ) -> tuple[Writer, tuple[tuple[int, ...], ...]]:
        """Pass a cycle of the writer: bursts whose beats are there are announced, then sent."""
        bursts, unclaimed, stored, head, announced, sent, flying, responses = state
        issue = bool(bursts) and unclaimed >= bursts[0] and flying != self._outstanding
        takes_row = not bursts or (issue and len(bursts) == 1)
        sends = head and bool(announced)
        reads = stored > 0 and (not head or sends)
        stored += pushed - reads
        head = reads or (head and not sends)
        answered = False
        if responses:
            responses = tuple([left - 1 for left in responses])
            if answered := responses[0] < 0:
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
        if takes_row and rows:
            bursts, rows = rows[0], rows[1:]
        return Writer(bursts, unclaimed, stored, head, announced, sent, flying, responses), rows


def _processed(state: Lanes, word: Word | None, popped: bool) -> tuple[Lanes, bool]:
    """Pass a cycle of post-processing; return whether its registers take what comes.

    All of them wait if the last one has to.
    """
    offered, lanes, done = state
    run = len(done) < 2 or lanes[-1] is None
    if popped:
        done = done[1:]
    if run:
        if lanes[-1] is not None:
            done = (*done, lanes[-1])
        lanes = (offered, *lanes[:-1])
    if offered is None or run:
        offered = word
    return Lanes(offered, lanes, done), run
