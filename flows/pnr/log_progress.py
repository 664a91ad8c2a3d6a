# SPDX-License-Identifier: Apache-2.0
"""Progress of runs of nextpnr, estimated from their logs while they are written."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SYNTHESIS = 5
"""Percent of a whole run that synthesis is taken for."""

_START, _PLACING, _ANNEAL, _ROUTE, _END = 0.01, 0.03, 0.22, 0.52, 0.98
"""Shares of the time of a run at which its phases begin, as measured on large devices."""

_USUAL_PLACEMENT, _USUAL_ANNEALING, _USUAL_ROUTING = 25, 10, 8
"""Iterations after which half of a phase is over, where the log does not say how many there are."""

_MARKS = (
    (re.compile(rb"Routing\.\."), "routing", _ROUTE),
    (re.compile(rb"Running simulated annealing placer"), "refining the placement", _ANNEAL),
    (re.compile(rb"Running main analytical placer"), "placing", _PLACING),
)
_ITERATION = re.compile(rb"at iteration #(\d+)")
_ROUTER_ITERATION = re.compile(rb"iter=(\d+)")
_ARCS = re.compile(rb"Routing (\d+) arcs")
_REMAINING = re.compile(rb"^Info: +\d+ \|[^|]*\|[^|]*\| +(\d+)\|", re.M)


class Phase(NamedTuple):
    """Step of a run of nextpnr, and the share of its time that is over, from 0 to 1."""

    name: str
    share: float


def phase_of(log: bytes) -> Phase:
    """Return the phase of a run of nextpnr from its log so far."""
    for mark, name, begin in _MARKS:
        if started := mark.search(log):
            return Phase(name, begin + _part(name, log, started.end()))
    return Phase("packing", _START)


def _part(phase: str, log: bytes, start: int) -> float:
    """Return the share of the whole time that passed since a phase began."""
    if phase == "placing":
        return (_ANNEAL - _PLACING) * _saturating(_ITERATION, log, start, _USUAL_PLACEMENT)
    if phase != "routing":
        return (_ROUTE - _ANNEAL) * _saturating(_ITERATION, log, start, _USUAL_ANNEALING)
    arcs, remaining = _ARCS.search(log, start), _last(_REMAINING, log, start)
    if arcs and remaining is not None:
        # The first arcs take longer: they are rerouted more often.
        done = 1 - min(1.0, remaining / max(1, int(arcs[1]))) ** 2
    else:
        done = _saturating(_ROUTER_ITERATION, log, start, _USUAL_ROUTING)
    return (_END - _ROUTE) * done


def _saturating(pattern: re.Pattern[bytes], log: bytes, start: int, usual: int) -> float:
    done = _last(pattern, log, start) or 0
    return done / (done + usual)


def _last(pattern: re.Pattern[bytes], log: bytes, start: int) -> int | None:
    numbers = pattern.findall(log, start)
    return int(numbers[-1]) if numbers else None


class SeedProgress:
    """Progress of several runs of nextpnr, some of which run at once.

    Parameters
    ----------
    seeds : int
        Number of runs.
    on_progress : callable
        Takes what is done now, percent of the whole work, and 100.
    """

    def __init__(self, seeds: int, on_progress: Callable[[str, int, int], None]) -> None:
        self._shares, self._on_progress = [0.0] * seeds, on_progress
        self._lock = threading.Lock()  # seeds run in threads

    def read_log(self, seed: int, log: Path) -> None:
        """Report the progress of a seed, counted from 1, from its log."""
        phase = phase_of(log.read_bytes())
        self._update(seed, phase.share, f"%, seed {seed}: {phase.name}")

    def finish(self, seed: int) -> None:
        """Report that a seed, counted from 1, has ended."""
        self._update(seed, 1.0, f"%, seed {seed} done")

    def _update(self, seed: int, share: float, label: str) -> None:
        with self._lock:
            self._shares[seed - 1] = max(share, self._shares[seed - 1])
            mean = sum(self._shares) / len(self._shares)
            self._on_progress(label, SYNTHESIS + int((100 - SYNTHESIS) * mean), 100)
