# SPDX-License-Identifier: Apache-2.0
"""Cycles of command lists: when each job begins and ends, by what the list executes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hwgen.command_lists import BYTES, LINE
from hwgen.families import family

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwgen.list_builder import ListEngine
    from hwgen.list_trace import Event

A_WORD, A_DESCRIPTOR, A_LINE, AN_ACCESS, A_JOB, AT_START, AT_END = 5, 3, 8, 12, 4, 30, 12
"""Cycles of a word that goes into a job window, of a descriptor, of a line of descriptors beside
its beats, of a LOAD or STORE, from a unit's end of one job to the next, and around a list."""


@dataclass
class Share:
    """What the jobs of one descriptor take, all executions together.

    Parameters
    ----------
    jobs, cycles : int
        How often it is executed; cycles in which the unit was at work.
    read_beats, write_beats : int
    macs : int
        Multiply-accumulates of products.
    """

    jobs: int = 0
    cycles: int = 0
    read_beats: int = 0
    write_beats: int = 0
    macs: int = 0

    def __add__(self, other: Share) -> Share:
        return Share(
            self.jobs + other.jobs, self.cycles + other.cycles,
            self.read_beats + other.read_beats, self.write_beats + other.write_beats,
            self.macs + other.macs,
        )  # fmt: skip


@dataclass
class ListTiming:
    """Cycles of a list; modelled.

    Parameters
    ----------
    cycles : int
        From START to the end, with a memory that answers in the next cycle.
    least : int
        What it takes at least: all beats of the busier direction of the memory.
    shares : dict of Share
        By the descriptor that submits the job.
    """

    cycles: int = 0
    least: int = 0
    shares: dict[int, Share] = field(default_factory=dict)


class _Engine:
    """Where the sequencer and the units are."""

    def __init__(self, config: ListEngine) -> None:
        self.units = list(config.units.values())
        self.now = AT_START
        self.free = [0] * len(self.units)
        self.queued: list[list[int]] = [[] for _ in self.units]
        self.lines: list[int] = []
        self.kept = config.lists.cache_lines
        self.line = A_LINE + LINE * BYTES * 8 // config.memory.data_width
        self.known: dict[tuple[int, tuple[tuple[str, int], ...]], tuple[int, int, int]] = {}

    def fetch(self, index: int) -> None:
        """Take a descriptor, perhaps out of memory."""
        line = index // LINE
        if line not in self.lines:
            self.now += self.line
            self.lines = [*self.lines, line][-self.kept :]
        self.now += A_DESCRIPTOR

    def wait(self, mask: int) -> None:
        """Wait for units."""
        for number, free in enumerate(self.free):
            if mask >> number & 1:
                self.now = max(self.now, free)

    def submit(self, number: int, held: Mapping[str, int]) -> tuple[int, int, int]:
        """Put a job into a unit's queue; return what it takes."""
        unit = self.units[number]
        key = (number, tuple(held.items()))
        if key not in self.known:
            part = family(unit.family).part("cost")
            self.known[key] = part.registers_cycles(unit, held)
        cycles, reads, writes = self.known[key]
        ends = [end for end in self.queued[number] if end > self.now]
        if len(ends) >= unit.queue:
            self.now = ends[-unit.queue]
        self.free[number] = max(self.now, self.free[number]) + A_JOB + cycles
        self.queued[number] = [*ends, self.free[number]]
        return cycles, reads, writes


def timed_list(config: ListEngine, events: Iterable[Event]) -> ListTiming:
    """Return the cycles of what a list executes.

    Parameters
    ----------
    config : ListEngine
    events : iterable of Event
        See `hwgen.list_trace.trace`.

    Notes
    -----
    Jobs of several units share the memory's port; that they keep each other waiting there is not
    counted, nor that the loads of a job overlap the job before.
    """
    engine, shares = _Engine(config), defaultdict[int, Share](Share)
    reads = writes = 0
    for event in events:
        if event.kind == "fetch":
            engine.fetch(event.index)
        elif event.kind == "words":
            engine.now += A_WORD * event.count
        elif event.kind == "memory":
            engine.now += AN_ACCESS
        elif event.kind == "wait":
            engine.wait(event.mask)
        else:
            engine.wait(event.mask)
            cycles, read, written = engine.submit(event.unit, event.held)
            macs = 0
            if engine.units[event.unit].multiplies:
                macs = event.held["M"] * event.held["K"] * event.held["N"]
            shares[event.index] += Share(1, cycles, read, written, macs)
            reads, writes = reads + read, writes + written
    return ListTiming(engine.now + AT_END, max(reads, writes), dict(shares))
