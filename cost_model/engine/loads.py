# SPDX-License-Identifier: Apache-2.0
"""When the blocks of a plan are in the buffers of an engine.

Rows are requested one after the other, cut into bursts, and their beats come in order, so that
the times of a burst follow from those of bursts before it.  They are kept here burst by burst, as
the blocks of `rtl_templates.gemm_stream.load` and `rtl_templates.axi.reader` have them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cost_model.engine.steps import Load
    from hwgen.families.gemm_stream import GemmStreamConfig

LONG_AGO = -(1 << 62)
"""Before everything: what holds nothing up."""


@lru_cache(maxsize=1 << 14)
def bursts_of(start: int, size: int, bus: int, longest: int) -> tuple[int, ...]:
    """Return the beats of each burst of a row.

    Parameters
    ----------
    start, size : int
        Bytes: where it begins behind a boundary of bursts, and of the row.
    bus, longest : int
        Bytes of a beat, of the longest burst.
    """
    end = start + size
    found = []
    while start < end:
        stop = min(end, (start // longest + 1) * longest)
        found.append(-(-stop // bus) - start // bus)
        start = stop
    return tuple(found)


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
        self.bus = config.memory_bytes
        self.longest = config.longest_burst_bytes
        self.latency = latency
        self.words = config.word_bytes
        self.accepted = 0
        self._last_request = LONG_AGO  # of a burst
        self._beat = self._taken = LONG_AGO  # the last beat on the bus; in its buffer's gatherer
        self._pausing = ""  # the operand whose gatherer takes nothing in the next cycle
        flying, rows = config.memory.outstanding, config.rows_in_flight
        # Bursts that end, rows whose last beat is taken, rows that are complete: each has so many
        # places, and waits for the one that had its place.
        self._ends = _Ring(flying)
        self._routed = _Ring(rows)
        self._complete: dict[str, _Ring | None] = {"a": _Ring(rows), "w": _Ring(rows), "p": None}

    def read(self, load: Load) -> int:
        """Request the rows of a block; return the cycle in which its last word is written."""
        what, bus, longest, word = load.what, self.bus, self.longest, self.words[load.what]
        ends, routed, complete = self._ends, self._routed, self._complete[what]
        latency, accepted, request = self.latency, self.accepted, self._last_request
        beat, taken, pausing = self._beat, self._taken, self._pausing
        at, full = load.address, 0
        for _ in range(load.rows):
            start = at % longest
            at += load.stride
            accepted = max(accepted + 1, request, routed.oldest + 1)
            if complete is not None:
                accepted = max(accepted, complete.oldest + 1)
            request = max(request, accepted)
            for beats in bursts_of(start, load.size, bus, longest):
                request = max(request, ends.oldest) + 1
                first = max(request + 1 + latency, beat + 1, taken)
                here = max(first, taken + (pausing == what)) + 1
                pausing = ""
                taken = here + beats - 1
                beat = first if beats == 1 else taken - 1
                ends.push(beat)
            routed.push(taken)
            over = _reaches_over(start, load.size, bus, word)
            if over:
                pausing = what
            full = taken + 1 + over
            if complete is not None:
                complete.push(full)
        self.accepted, self._last_request = accepted, request
        self._beat, self._taken, self._pausing = beat, taken, pausing
        return full


class _Ring:
    """The times at which places become free, in the order in which they are taken."""

    __slots__ = ("_at", "_times", "oldest")

    def __init__(self, places: int) -> None:
        self._times = [LONG_AGO] * places
        self._at = 0
        self.oldest = LONG_AGO

    def push(self, time: int) -> None:
        """Take the oldest place; it is free again at `time`."""
        times, at = self._times, self._at
        times[at] = time
        at += 1
        self._at = at = 0 if at == len(times) else at
        self.oldest = times[at]
