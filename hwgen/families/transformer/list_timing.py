# SPDX-License-Identifier: Apache-2.0
"""Cycles of command lists: when each job begins and ends, by what the list executes.

The sequencer does one thing at a time, and each takes as many cycles as its states say
(`rtl_templates.transformer`). What it waits for, jobs of units and the memory's port, is modelled,
between two bounds:

- At least: no job is faster than on an idle unit with the port for itself, and jobs of a unit
  share neither its multipliers nor its port.
- At most: jobs of a unit do not overlap, and whatever may want the port at the same time waits for
  all of the other. What happens one after the other, from START to the end, is at each moment one
  job or the sequencer, which goes on as it would alone but while the port is somebody else's.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from hwgen.core.cycles.unit_job import UnitJob, bursts_of, port_latency
from hwgen.core.lists.commands import LINE
from hwgen.core.protocols import JobCore
from hwgen.core.registry import core_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwgen.families.transformer.params import TransformerConfig
    from hwgen.families.transformer.trace import Event

READS, WRITES = 4, 5
"""Cycles of an access to a register of a unit."""

FETCH, DATA, MULTIPLY = 3, 2, 1
"""Cycles of a descriptor, of one that holds words, and of a product beside one for each bit."""

FILL, LOAD, STORE = 4, 4, 8
"""Cycles around the beats of a line, of a LOAD, of a STORE: up to its request's handshake, and
behind the last beat."""

BEGIN = 1
"""Cycles before the first access."""

SEEN = 2
"""Cycles from the start of a read of STATUS to what it says, less those from SUBMIT to the job."""

NEXT_JOB = 4
"""Cycles from a unit's end of one job to the next."""

_UNREGISTERED = 2
"""Cycles of `port_latency` that are counted in `STORE`."""

_LINE_OUTSTANDING, _LINE_BURST = 2, 16
_BOUNDS: tuple[Literal["cycles", "least", "most"], ...] = ("cycles", "least", "most")


@dataclass
class Share:
    """Cost of the jobs of one descriptor, all executions together.

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
    least, most : int
        What it takes at least, and at most, with that memory.
    shares : dict of Share
        By the descriptor that submits the job.
    """

    cycles: int = 0
    least: int = 0
    most: int = 0
    shares: dict[int, Share] = field(default_factory=dict)


class _Port:
    """Accesses that may want the memory's port at the same time."""

    def __init__(self, config: TransformerConfig) -> None:
        self.units = list(config.units.values())
        self.pending: list[list[int]] = [[] for _ in self.units]  # of jobs not known to have ended
        self.lost = 0

    def waited(self, mask: int) -> None:
        """Note that all jobs of some units have ended."""
        for number, jobs in enumerate(self.pending):
            if mask >> number & 1:
                jobs.clear()

    def submitted(self, number: int, job: UnitJob) -> None:
        """Let a job, and those of other units that it may run beside, wait for each other."""
        own = job.reads + job.writes + 2 * job.bursts
        others = [jobs for i, jobs in enumerate(self.pending) if i != number and jobs]
        if others:
            self.lost += own + sum(map(sum, others))
            for jobs in others:
                jobs[:] = [0] * len(jobs)
            own = 0
        self.pending[number].append(own)

    def accessed(self, beats: int, bursts: int) -> None:
        """Let the sequencer wait for bursts under way, and jobs for what it reads or writes."""
        ahead = 0
        for unit, jobs in zip(self.units, self.pending, strict=True):
            if jobs:
                ahead += (unit.memory.outstanding + 1) * (unit.longest_burst + 2)
        if ahead:
            self.lost += bursts * ahead + beats + 2 * bursts


class EngineState:
    """Timing state of the sequencer and the units.

    Parameters
    ----------
    config : TransformerConfig
    bound : {"cycles", "least", "most"}
        What is counted.
    """

    def __init__(
        self, config: TransformerConfig, bound: Literal["cycles", "least", "most"]
    ) -> None:
        self.bound = bound
        self.units = list(config.units.values())
        self.now = BEGIN + len(self.units) * (2 * WRITES + READS)
        self.busy_until = [0] * len(self.units)  # of what jobs do not share
        self.free = [0] * len(self.units)
        self.queued: list[list[int]] = [[] for _ in self.units]
        self.bus = config.memory.data_width // 8
        self.latency = port_latency(config.memory) + config.memory.register_cycles
        self.longest = self.bus * min(config.memory.max_burst, _LINE_BURST)
        self.after = [
            next((1 << flag.offset for flag in unit.job_interface.flags if flag.name == "after"), 0)
            for unit in self.units
        ]

    def beats(self, event: Event) -> tuple[int, ...]:
        """Return the beats of each burst of an access."""
        return bursts_of(event.address % self.longest, event.count, self.bus, self.longest)

    def read(self, event: Event) -> None:
        """Wait for what is read, a line or a word."""
        request = beat = 0
        ends = deque([0] * _LINE_OUTSTANDING, _LINE_OUTSTANDING)
        for beats in self.beats(event):
            request = max(request, ends[0]) + 1
            beat = max(request + 1 + self.latency, beat + 1) + beats - 1
            ends.append(beat)
        self.now += beat + (LOAD if event.action == "load" else FILL)

    def poll(self, end: int) -> None:
        """Read STATUS until a job has ended."""
        waits = max(0, end - SEEN - self.now)
        if self.bound == "cycles":
            waits = -(-waits // READS) * READS
        elif self.bound == "most" and waits:
            waits += READS - 1
        self.now += waits + READS

    def wait(self, mask: int) -> None:
        """Wait for units, one after the other."""
        for number, free in enumerate(self.free):
            if mask >> number & 1:
                self.poll(free)
            else:
                self.now += 1

    def submit(self, number: int, job: UnitJob, registers: Mapping[str, int]) -> None:
        """Put a job into a unit's queue."""
        ends = [end for end in self.queued[number] if end > self.now]
        size = self.units[number].queue
        self.poll(ends[-size] if len(ends) >= size else 0)
        self.now += WRITES
        now, free = self.now, self.free[number]
        if self.bound == "least":
            begins = max(now, free) if registers.get("JOB_FLAGS", 0) & self.after[number] else now
            self.busy_until[number] = max(self.busy_until[number], now) + job.work
            self.free[number] = max(begins + job.least, self.busy_until[number], free)
        else:
            begins = free + NEXT_JOB if free > now else now
            self.free[number] = begins + (job.most if self.bound == "most" else job.cycles)
        self.queued[number] = [*ends, self.free[number]]

    def process(self, event: Event) -> None:
        """Let the sequencer do what an event but a job says."""
        match event.action:
            case "words":
                self.now += WRITES * event.count
            case "multiply":
                self.now += MULTIPLY + event.count
            case "store":
                self.now += STORE + self.latency - _UNREGISTERED + sum(self.beats(event))
            case "wait" | "submit":
                self.wait(event.mask)
            case "fetch":
                self.now += FETCH
            case "data":
                self.now += DATA


JobKey = tuple[int, tuple[tuple[str, int], ...]]
"""Unit and registers of a job, of addresses those within a burst."""


def job_key(event: Event, burst_bytes: int) -> JobKey:
    """Return everything that the duration of a job depends on; jobs of many layers share it.

    Parameters
    ----------
    event : Event
        Of a job.
    burst_bytes : int
        Of the longest burst: bursts end at its multiples.
    """
    registers = tuple(
        (name, value % burst_bytes if name.endswith("_ADDRESS_LOW") else value)
        for name, value in event.registers.items()
        if not name.endswith("_ADDRESS_HIGH")
    )
    return event.unit, registers


def timed_list(config: TransformerConfig, events: Iterable[Event]) -> ListTiming:
    """Return the cycles of what a list executes.

    Parameters
    ----------
    config : TransformerConfig
    events : iterable of Event
        See `hwgen.families.transformer.trace.trace`.
    """
    engines = [EngineState(config, bound) for bound in _BOUNDS]
    units, port = engines[0].units, _Port(config)
    known: dict[JobKey, UnitJob] = {}
    burst = config.longest_burst * config.memory_bytes
    shares = defaultdict[int, Share](Share)
    lines: dict[int, int] = {}
    reads = writes = 0
    for event in events:
        accesses = event.action in ("load", "store")
        if event.action in ("fetch", "data"):
            line = event.index // LINE
            accesses = lines.get(line % config.lists.cache_lines) != line
            lines[line % config.lists.cache_lines] = line
        if accesses:
            beats = engines[0].beats(event)
            port.accessed(sum(beats), len(beats))
        port.waited(event.mask)
        for engine in engines:
            if accesses and event.action != "store":
                engine.read(event)
            engine.process(event)
        if event.action != "submit":
            continue
        key = job_key(event, burst)
        if key not in known:
            unit = units[event.unit]
            core = core_of(unit)
            assert isinstance(core, JobCore)
            known[key] = core.register_cycles(event.registers)
        job = known[key]
        port.submitted(event.unit, job)
        for engine in engines:
            engine.submit(event.unit, job, event.registers)
        macs = 0
        if units[event.unit].multiplies:
            macs = event.registers["M"] * event.registers["K"] * event.registers["N"]
        shares[event.index] += Share(1, job.cycles, job.reads, job.writes, macs)
        reads, writes = reads + job.reads, writes + job.writes
    cycles, least, most = (engine.now for engine in engines)
    most += port.lost
    least = max(least, reads, writes)
    return ListTiming(min(max(cycles, least), most), least, most, dict(shares))
