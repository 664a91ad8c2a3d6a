# SPDX-License-Identifier: Apache-2.0
"""Jobs of an engine from their submission to their end, to the cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hwgen.core.protocols import TileCore
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.families.gemm_stream.cycles.cores import Cores
from hwgen.families.gemm_stream.cycles.loads import LONG_AGO, Reader
from hwgen.families.gemm_stream.cycles.results import NEXT_JOB, Results
from hwgen.families.gemm_stream.cycles.steps import Regions, loads_of, steps_of

if TYPE_CHECKING:
    from hwgen.core.cycles.core_flow import CoreFlow
    from hwgen.core.params.base import FamilyConfig
    from hwgen.families.gemm_stream.schedule import Plan

_FILLED = 1
"""Cycles from a block's last word until its walk can begin."""

_COLLECTED = 2
"""Cycles from the last beat of results until a block of C is complete."""

_FREE = 1
"""Cycles from the end of the use of a half of a buffer until it is free."""


ACCESS_CYCLES = 3
"""Cycles of a host's access to a register."""

_LOOKS, _WAITS = 2, 3
"""Accesses of a host to learn that a job has ended: at once, and after an interrupt."""


class Engine:
    """An engine with jobs of one plan, the first of which is submitted in cycle 0 while it is idle.

    Loads, cores and results follow each other by what is in the buffers between them: each is
    taken as far as it is known what it waits for.  What is not known of loads and results waits
    for the cores, which go from cycle to cycle, and so has not happened yet.

    Parameters
    ----------
    plan : Plan
    regions : Regions or sequence of Regions
        Of each job.
    read_latency, write_latency : int
        Cycles of the memory, at least 1: from an address to its first beat, from the last beat of
        a burst to its response, beside those of the port's registers.  It gives and takes a beat in
        every cycle.
    submission : int
        Cycles that the host needs to submit the next job.
    """

    def __init__(
        self,
        plan: Plan,
        regions: Regions | Sequence[Regions],
        read_latency: int,
        write_latency: int,
        submission: int = 0,
    ) -> None:
        config = plan.config
        self._plan, self._submission = plan, submission
        self._regions = [regions] if isinstance(regions, Regions) else list(regions)
        self._steps = steps_of(plan, len(self._regions))
        more = config.memory.register_cycles
        self._reader = Reader(config, read_latency + more)
        self._cores = Cores(_flow(config.compute), self._steps, self._happens)
        self._results = Results(plan, self._regions, self._steps, write_latency + more)
        self._waiting = {"a": self._cores.act.full, "w": self._cores.wgt.full,
                         "p": self._results.records}  # fmt: skip
        self._free: dict[str, list[int]] = {"a": [], "w": [], "p": self._results.records_freed}
        self._halves = {"a": 2 - plan.a_whole, "w": 2 - plan.w_whole, "p": 2}
        self._loading, self._leaving = self._load(), self._results.follow()

    def run(self) -> int:
        """Return the cycles until the last job has ended."""
        self._settle()
        self._cores.run()
        return self._results.ends[-1] + 1

    @property
    def ends(self) -> list[int]:
        """The last cycle of each job."""
        return self._results.ends

    def _load(self) -> Iterator[None]:
        """Load the blocks; yield where it is not known when the next one fits."""
        reader, now = self._reader, 1  # in cycle 0 the job is seen
        queue, ends, submitted = self._plan.config.queue, self._results.ends, 0
        self.submitted = [0]
        of_a_job = len(self._steps) // len(self._regions)
        for number, step in enumerate(self._steps):
            job, first = divmod(number, of_a_job)
            if job and not first:
                if job >= queue:
                    while len(ends) <= job - queue:
                        yield
                    looked = submitted + _LOOKS * ACCESS_CYCLES
                    submitted = max(looked, ends[job - queue] + _WAITS * ACCESS_CYCLES)
                submitted += self._submission
                self.submitted.append(submitted)
                now = max(now + NEXT_JOB, submitted + 1)
            for load in loads_of(self._plan, self._regions[job], step.block):
                what = load.what
                full = self._waiting[what]
                before = len(full) - self._halves[what]  # the block that it replaces
                while before >= len(self._free[what]):
                    yield
                free_at = self._free[what][before] + _FREE if before >= 0 else LONG_AGO
                reader.accepted = max(now, free_at)
                full.append(reader.read(load) + _FILLED)
                now = reader.accepted + 1
            now += 1

    def _happens(self, event: str, now: int) -> None:
        if event == "c":
            self._results.complete.append(now + _COLLECTED)
        else:
            self._free[event].append(now)
        self._settle()

    def _settle(self) -> None:
        """Take loads and results as far as it is known what they wait for."""
        before = -1
        while before != (now := self._progress()):
            before = now
            next(self._loading, None)
            next(self._leaving, None)
            first, freed = len(self._cores.free) == 0, self._results.freed
            if first:
                self._cores.free += [LONG_AGO, LONG_AGO]  # both halves are free
            for at in freed[len(self._cores.free) - 2 :]:
                self._cores.free.append(at + _FREE)

    def _progress(self) -> int:
        """Return a number that grows with what is known."""
        results = self._results
        known = (*self._waiting.values(), results.records_freed, results.ends)
        return sum(map(len, known))


def _flow(core: FamilyConfig) -> CoreFlow:
    """Return the flow through the core inside an engine."""
    child = core_of(core)
    if not isinstance(child, TileCore):
        raise InputError(
            f"family {core.family}: {type(child).__name__} has no core_flow, so the cycles of an"
            " engine around its cores are not known; add it, as docs/adding-a-family.md says"
        )
    return child.core_flow()


def job_cycles(
    plan: Plan, regions: Regions | None = None, *, read_latency: int = 1, write_latency: int = 1
) -> int:
    """Return the cycles of a job on an idle engine, while it is unfinished, as BUSY counts them.

    Exact for a memory that gives and takes a beat in every cycle.

    Parameters
    ----------
    plan : Plan
    regions : Regions, optional
        By default `Regions.aligned`.
    read_latency, write_latency : int
        See `Engine`.
    """
    return Engine(plan, regions or Regions.aligned(plan), read_latency, write_latency).run()


_FOLLOWED = 12
"""Jobs in a queue that are followed; more of them take as long each as the last of these."""


def queue_cycles(plan: Plan, regions: Sequence[Regions]) -> int:
    """Return the cycles of jobs of one plan, several in the queue, while one is unfinished.

    Modelled: loads of a job begin while an earlier one computes.  A host submits each job by writes
    to the job window one after the other, and waits where the queue is full; the memory gives and
    takes a beat in every cycle.

    Parameters
    ----------
    plan : Plan
    regions : sequence of Regions
        Of each job.
    """
    words = len(plan.config.job_interface.window)
    submission = (words + 1) * ACCESS_CYCLES
    followed = regions[:_FOLLOWED]
    engine = Engine(plan, followed, 1, 1, submission)
    total = engine.run()
    idle = zip(engine.submitted[1:], engine.ends[:-1], strict=True)
    total -= sum(max(0, submitted - end - 1) for submitted, end in idle)
    if len(regions) > len(followed):
        ends, half = engine.ends, len(followed) // 2
        each = (ends[-1] - ends[half - 1]) / (len(followed) - half)
        total += round(each * (len(regions) - len(followed)))
    return total
