# SPDX-License-Identifier: Apache-2.0
"""Times at which the blocks of a plan are in the buffers of an engine.

Rows are requested one after the other, cut into bursts, and their beats come in order, so that
the times of a burst follow from those of bursts before it.  They are kept here burst by burst, as
the blocks of `rtl_templates.gemm_stream.load` and `rtl_templates.axi.reader` have them.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from hwgen.core.cycles.unit_job import bursts_of
from hwgen.families.gemm_stream.cycles.steps import Load

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

LONG_AGO = -(1 << 62)
"""Before everything: what holds nothing up."""


@lru_cache(maxsize=1 << 14)
def _reaches_over(start: int, size: int, bus: int, word: int) -> int:
    """Return 1 if a row's last beat reaches into a word of its own."""
    beats = -(-(start + size) // bus) - start // bus
    tail = size if beats == 1 else (start + size - 1) % bus + 1
    return int((size - tail) % word + tail > word)


class Reader:
    """Requests of rows, their bursts and beats.

    Parameters
    ----------
    config : GemmStreamConfig
    latency : int
        Cycles from the handshake of an address to the first beat.

    Attributes
    ----------
    accepted : int
        When the last row was accepted; the next one is, at the earliest, a cycle later.
    """

    def __init__(self, config: GemmStreamConfig, latency: int) -> None:
        self._bus = config.memory_bytes
        self._longest = config.longest_burst_bytes
        self._latency = latency
        self._words = config.word_bytes
        self.accepted = 0
        rows = config.rows_in_flight
        self._at = 0  # times of the state count from here
        self._state = _Reading(
            0, 0, 0, "", (0,) * config.memory.outstanding, (0,) * rows, (0,) * rows, (0,) * rows
        )
        self._cached: dict[tuple[_Reading, Load], tuple[int, int, _Reading]] = {}

    def read(self, load: Load) -> int:
        """Request the rows of a block; return the cycle in which its last word is written."""
        begin, state = self.accepted, self._state
        if begin != self._at:
            state = state.seen_from(begin - self._at)
        address, stride = load.address % self._longest, load.stride % self._longest
        key = state, Load(load.what, load.rows, address, stride, load.size)
        if key not in self._cached:
            self._cached[key] = self._read(*key)
        accepted, full, self._state = self._cached[key]
        self.accepted = self._at = begin + accepted
        return begin + full

    def _read(self, state: _Reading, load: Load) -> tuple[int, int, _Reading]:
        """Return when the last row is accepted, when its last word is written, and what is left."""
        what, bus, longest, word = load.what, self._bus, self._longest, self._words[load.what]
        request, beat, gathered, pausing, *queues = state
        ends, routed, of_a, of_w = (deque(queue, len(queue)) for queue in queues)
        complete = {"a": of_a, "w": of_w}.get(what)
        accepted, at, full = 0, load.address, 0
        for _ in range(load.rows):
            start = at % longest
            at += load.stride
            accepted = max(accepted + 1, request, routed[0] + 1)
            if complete is not None:
                accepted = max(accepted, complete[0] + 1)
            request = max(request, accepted)
            for beats in bursts_of(start, load.size, bus, longest):
                request = max(request, ends[0]) + 1
                first = max(request + 1 + self._latency, beat + 1, gathered)
                here = max(first, gathered + (pausing == what)) + 1
                pausing = ""
                gathered = here + beats - 1
                beat = first if beats == 1 else gathered - 1
                ends.append(beat)
            routed.append(gathered)
            over = _reaches_over(start, load.size, bus, word)
            if over:
                pausing = what
            full = gathered + 1 + over
            if complete is not None:
                complete.append(full)
        left = _Reading(request, beat, gathered, pausing, *map(tuple, (ends, routed, of_a, of_w)))
        return accepted, full, left.seen_from(accepted)


class _Reading(NamedTuple):
    """State that the next rows depend on, times counted from the last row that was accepted.

    What was earlier holds nothing up, and counts as then.

    Parameters
    ----------
    request, beat, gathered : int
        Of the last burst, and of the last beat: on the bus, by its gatherer.
    pausing : str
        The operand whose gatherer takes nothing in the cycle behind that.
    ends, routed, of_a, of_w : tuple of int
        Ends of bursts, last beats of rows, last words of rows of A and of W: each is limited to
        so many at once, and the next one waits for the oldest.
    """

    request: int
    beat: int
    gathered: int
    pausing: str
    ends: tuple[int, ...]
    routed: tuple[int, ...]
    of_a: tuple[int, ...]
    of_w: tuple[int, ...]

    def seen_from(self, time: int) -> _Reading:
        """Return the same with times counted from `time`."""
        request, beat, gathered, pausing, *queues = self
        return _Reading(
            max(request - time, 0),
            max(beat - time, 0),
            max(gathered - time, 0),
            pausing if gathered > time else "",
            *(tuple([x - time if x > time else 0 for x in queue]) for queue in queues),
        )
