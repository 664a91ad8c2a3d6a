# SPDX-License-Identifier: Apache-2.0
"""Cycles of one command list on many engines at once, which differ in how long their jobs take.

What the sequencer does is that of `hwgen.families.transformer.list_timing`, event by event; what is
a number there is an array here, an element for each engine. Layers are executed again and again:
from one moment at which all units are idle to the next, what happens depends on nothing that was
before, so that each stretch is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from hwgen.core.lists.commands import LINE
from hwgen.families.transformer.list_timing import NEXT_JOB, READS, SEEN, WRITES, EngineState

if TYPE_CHECKING:
    from hwgen.families.transformer.params import TransformerConfig
    from hwgen.families.transformer.trace import Event

Cycles = NDArray[np.int64]


class _EngineStates(EngineState):
    """Timing state of many engines; times are arrays or numbers.

    Parameters
    ----------
    config : TransformerConfig
    bound : {"cycles", "least"}
        ``least``: polls end at once, and a unit takes its next job at once.
    """

    def __init__(self, config: TransformerConfig, bound: Literal["cycles", "least"]) -> None:
        super().__init__(config, bound)
        self.now: Any = 0
        self.ends: list[list[Any]] = [[] for _ in self.units]
        self.free: list[Any] = [0] * len(self.units)

    def poll(self, end: Any) -> None:
        """Read STATUS until a job has ended."""
        waits = np.maximum(0, end - SEEN - self.now)
        if self.bound == "cycles":
            waits = -(-waits // READS) * READS
        self.now = self.now + waits + READS

    def put(self, number: int, duration: Cycles) -> None:
        """Put a job into a unit's queue."""
        ends, size = self.ends[number], self.units[number].queue
        self.poll(ends[-size] if len(ends) >= size else 0)
        self.now = self.now + WRITES
        free = self.free[number]
        gap = NEXT_JOB if self.bound == "cycles" else 0
        begins = np.where(free > self.now, free + gap, self.now)
        self.free[number] = begins + duration
        ends.append(self.free[number])


def many_timings(
    config: TransformerConfig,
    events: Sequence[Event],
    job_of: Callable[[Event], Hashable],
    duration_of: Callable[[Hashable], Cycles],
    bound: Literal["cycles", "least"] = "cycles",
) -> Cycles:
    """Return the modelled cycles of what a list executes, on each of some engines.

    Parameters
    ----------
    config : TransformerConfig
        One of the engines: its units, their queues and the memory port are those of all.
    events : sequence of Event
        See `hwgen.families.transformer.trace.trace`.
    job_of : callable
        Returns what the duration of the job of an event depends on.
    duration_of : callable
        Returns the cycles of such a job, an element for each engine.
    bound : {"cycles", "least"}
        ``least``: cycles that never fall as jobs take longer, and are never more than the others.
    """
    states = EngineState(config, "cycles")
    everything = (1 << len(states.units)) - 1
    result: Any = states.now
    durations: dict[tuple[Hashable, ...], Any] = {}
    stretch: list[tuple[Event, Hashable, bool]] = []
    signature: list[Hashable] = []
    lines: dict[int, int] = {}
    for event in events:
        accesses = event.action in ("load", "store")
        if event.action in ("fetch", "data"):
            line = event.index // LINE
            accesses = lines.get(line % config.lists.cache_lines) != line
            lines[line % config.lists.cache_lines] = line
        job = (event.unit, job_of(event)) if event.action == "submit" else None
        stretch.append((event, job, accesses))
        beats = states.beats(event) if accesses else ()
        signature.append((event.action, event.mask, event.count * (event.action in _COUNTED),
                          beats, job))  # fmt: skip
        if event.action == "wait" and event.mask == everything:
            key = tuple(signature)
            if key not in durations:
                durations[key] = _duration(config, stretch, duration_of, bound)
            result = result + durations[key]
            stretch, signature = [], []
    return np.asarray(result + _duration(config, stretch, duration_of, bound))


_COUNTED = ("words", "multiply")


def _duration(
    config: TransformerConfig,
    stretch: Sequence[tuple[Event, Any, bool]],
    duration_of: Callable[[Hashable], Cycles],
    bound: Literal["cycles", "least"],
) -> Any:
    """Return the cycles of events from a moment on at which all units are idle."""
    states = _EngineStates(config, bound)
    for event, job, accesses in stretch:
        if accesses and event.action != "store":
            states.read(event)
        states.process(event)
        if event.action == "submit":
            number, each = job
            states.put(number, duration_of((number, each)))
    return states.now
