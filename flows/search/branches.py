# SPDX-License-Identifier: Apache-2.0
"""Branch and bound: the best engines of a space that is too large to rank all of it.

A box has a range of options of each unit. No engine of a box is better than its bound: jobs as
short as the shortest of a range, costs as low as the lowest, the clock as high as the highest.
Timing without the rounding of polls, and without the gap between two jobs, never falls as jobs
take longer, so that it is a bound as well. Boxes that cannot be of the best ones are left out; the
others are halved, down to single engines, of which everything is computed as for a ranking. What
is found is therefore proven to be the best.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.search.costs import SUMS
from flows.search.cycles import BaseList, TimedOption
from flows.search.goals import METRICS, Goal, objectives
from flows.search.tables import Measures, Scores, Step, UnitTables
from hwgen.families.transformer.many_timings import many_timings

Numbers = NDArray[np.float64]
Metrics = Mapping[str, Numbers]

_BATCH = 512


@dataclass(frozen=True)
class Best:
    """Engines that were found.

    Parameters
    ----------
    points : list of (int, tuple of int)
        Which of the tables, and which option of each unit; the best first.
    values : list of float
        What they are ranked by, the smaller the better.
    bounded, exact : int
        Boxes that were bounded, and engines that were computed.
    """

    points: list[tuple[int, tuple[int, ...]]]
    values: list[float]
    bounded: int
    exact: int


class _Ranges:
    """Least and most of the columns of a table over every range of its rows."""

    def __init__(self, rows: Numbers) -> None:
        count = len(rows)
        self.least = np.empty((count, count + 1, rows.shape[1]))
        self.most = np.empty_like(self.least)
        for low in range(count):
            self.least[low, low + 1 :] = np.minimum.accumulate(rows[low:])
            self.most[low, low + 1 :] = np.maximum.accumulate(rows[low:])


class _Context:
    """The jobs of the units at a context, with the ranges of their options."""

    def __init__(self, base: BaseList, units: Mapping[str, Sequence[TimedOption]]) -> None:
        self.base = base
        self.columns = [{job: n for n, job in enumerate(base.jobs[unit])} for unit in units]
        self.jobs: list[_Ranges] = []
        self.beats: list[_Ranges] = []
        self.operations: list[_Ranges] = []
        for timed in units.values():
            self.jobs.append(_Ranges(np.array([each.cycles for each in timed], float)))
            self.beats.append(_Ranges(np.array([each.beats for each in timed], float)))
            flat = [[n for pair in each.operations for n in pair] for each in timed]
            self.operations.append(_Ranges(np.array(flat, float).reshape(len(timed), -1)))

    def step(self, at: Sequence[tuple[Any, Any]], *, exact: bool) -> Step:
        """Return a decode step of boxes; see `Boxes.measures`."""

        def duration(key: Any) -> NDArray[np.int64]:
            axis, job = key
            column = self.columns[axis][job]
            values: NDArray[np.int64] = self.jobs[axis].least[at[axis]][:, column].astype(np.int64)
            return values

        base = self.base
        cycles: Any = many_timings(
            base.config, base.events, base.job, duration, "cycles" if exact else "least"
        )
        beats: Any = sum(each.least[box] for each, box in zip(self.beats, at, strict=True))
        operations = []
        for each, box in zip(self.operations, at, strict=True):
            fewest, longest = each.least[box], each.most[box]
            for column in range(0, fewest.shape[1], 2):
                operations.append((longest[:, column], fewest[:, column + 1]))
        return Step(
            np.maximum(cycles, beats.max(axis=1)).astype(float),
            beats.sum(axis=1) * base.config.memory_bytes, operations,
        )  # fmt: skip


class Boxes:
    """The units of a width, with the ranges of their options.

    Parameters
    ----------
    units : UnitTables
    """

    def __init__(self, units: UnitTables) -> None:
        self.units = units
        self.contexts = [_Context(*each) for each in [(units.base, units.timed), *units.others]]
        self.costs = [
            _Ranges(np.array([(*each.sums, each.fmax_mhz) for each in costs], float))
            for costs in units.costs.values()
        ]

    def measures(self, low: NDArray[np.int64], high: NDArray[np.int64], *, exact: bool) -> Measures:
        """Return the measures of boxes, or the bounds of them.

        Parameters
        ----------
        low, high : ndarray
            Options of each unit, from `low` up to but not including `high`: (boxes, units).
        exact : bool
            Whether boxes are single engines, so that cycles are not a bound.
        """
        at = [(low[:, unit], high[:, unit]) for unit in range(low.shape[1])]
        least = [costs.least[box] for costs, box in zip(self.costs, at, strict=True)]
        most = [costs.most[box] for costs, box in zip(self.costs, at, strict=True)]
        sums: Any = sum(each[:, : len(SUMS)] for each in least)
        return Measures(
            [context.step(at, exact=exact) for context in self.contexts],
            {name: sums[:, i] + self.units.rest.sums[i] for i, name in enumerate(SUMS)},
            np.min([each[:, -1] for each in most], axis=0) * self.units.slower,
            np.min([each[:, -1] for each in least], axis=0) * self.units.slower,
        )


def ranked_by(goals: Sequence[Goal]) -> Callable[[Metrics], Numbers]:
    """Return a function that ranks engines by the first objective, infinite for missed goals."""

    def value(metrics: Metrics) -> Numbers:
        first, *_ = objectives(goals, metrics)
        result = np.array(metrics[first]) * (-1 if METRICS[first][1] else 1)
        for goal in goals:
            if METRICS[goal.metric][1] == (goal.sign == ">="):  # else a bound tells nothing
                result[~goal.met(metrics[goal.metric])] = np.inf
        return np.where(np.isnan(result), np.inf, result)

    return value


def missed_by(goals: Sequence[Goal]) -> Callable[[Metrics], Numbers]:
    """Return a function that ranks engines by the factor by which they miss goals."""

    def value(metrics: Metrics) -> Numbers:
        first, *_ = metrics.values()
        result = np.ones(np.shape(first))
        for goal in goals:
            values = metrics[goal.metric]
            if METRICS[goal.metric][1] == (goal.sign == ">="):
                ratio = goal.bound / values if goal.sign == ">=" else values / goal.bound
                result = np.maximum(result, np.nan_to_num(ratio, nan=np.inf))
        return result

    return value


def best_of(
    scores: Scores, units: Sequence[UnitTables], rank: Callable[[Metrics], Numbers], count: int
) -> Best:
    """Return the best engines of all combinations of options, proven to be the best.

    Parameters
    ----------
    scores : Scores
        Of any of them, which computes metrics.
    units : sequence of UnitTables
        By the width of the port.
    rank : callable
        See `ranked_by`; of bounds it returns a bound.
    count : int
        Engines that are wanted.
    """
    bounded = [Boxes(each) for each in units]
    heap: list[tuple[float, int, int, tuple[int, ...], tuple[int, ...]]] = []
    found: list[tuple[float, int, tuple[int, ...]]] = []
    serial = looked = exact = 0

    def limit() -> float:
        return found[count - 1][0] if len(found) >= count else math.inf

    def values_of(number: int, boxes: Sequence[Any], *, single: bool) -> Numbers:
        low = np.array([box[0] for box in boxes], np.int64)
        high = np.array([box[1] for box in boxes], np.int64)
        metrics = scores.of(bounded[number].measures(low, high, exact=single))
        values = rank(metrics)
        values[~scores.fit(metrics)] = np.inf
        return values

    for number, each in enumerate(units):
        sizes = tuple(map(len, each.timed.values()))
        heap.append((-math.inf, number, number, (0,) * len(sizes), sizes))
        serial += 1
    heapq.heapify(heap)
    while heap and heap[0][0] < limit():
        batches: dict[tuple[int, bool], list[Any]] = {}
        for _ in range(min(_BATCH, len(heap))):
            if heap[0][0] >= limit():
                break
            _, _, number, low, high = heapq.heappop(heap)
            for box in _halves(low, high):
                single = all(stop - start == 1 for start, stop in zip(*box, strict=True))
                batches.setdefault((number, single), []).append(box)
        for (number, single), boxes in batches.items():
            values = values_of(number, boxes, single=single)
            looked, exact = looked + len(boxes) * (not single), exact + len(boxes) * single
            for value, box in zip(values, boxes, strict=True):
                if not value < math.inf:
                    continue
                if single:
                    found.append((float(value), number, box[0]))
                else:
                    serial += 1
                    heapq.heappush(heap, (float(value), serial, number, *box))
        found.sort()
        del found[count:]
    return Best(
        [(number, index) for _, number, index in found], [value for value, *_ in found],
        looked, exact,
    )  # fmt: skip


def _halves(
    low: tuple[int, ...], high: tuple[int, ...]
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the halves of a box along its longest range; a single engine is itself."""
    sizes = [stop - start for start, stop in zip(low, high, strict=True)]
    axis = int(np.argmax(sizes))
    if sizes[axis] == 1:
        return [(low, high)]
    middle = low[axis] + sizes[axis] // 2
    return [
        (low, (*high[:axis], middle, *high[axis + 1 :])),
        ((*low[:axis], middle, *low[axis + 1 :]), high),
    ]
