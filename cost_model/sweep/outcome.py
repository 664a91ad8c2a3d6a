# SPDX-License-Identifier: Apache-2.0
"""Outcome of a sweep, and the interface of the executors that compute its chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cost_model.sweep.pareto import Floats, Indices
from cost_model.sweep.plan import Evaluate, Plan
from cost_model.sweep.table import Points

T = TypeVar("T")
R = TypeVar("R")

Progress = Callable[[int, int], None]
"""Takes the points done and the points in all."""


class Executor(Protocol):
    """Executor of chunks, in this process or others."""

    def run(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Yield each item with the function's result, in any order, as they are finished."""
        ...  # pragma: no cover


@dataclass(frozen=True)
class Refined:
    """Candidates of a sweep and their metrics by netlist.

    Parameters
    ----------
    asked : int
        Most candidates.
    margins : mapping
        Metric: the error of fits that was granted.
    samples : int
        Netlists that these are fitted to.
    numbers : array
        Of the candidates, ascending.
    points : Points
        The candidates.
    evaluate : Evaluate
        Their figures.
    refused : dict
        Number of a candidate: why it has no figures.
    differences : dict
        Metric: mean and worst of the relative difference of fits.
    total : int
        Candidates in all, of which those are the first.
    groups : mapping
        As of `Outcome`, of the candidates by netlist.
    """

    asked: int
    margins: Mapping[str, float]
    samples: int
    numbers: Indices
    points: Points
    evaluate: Evaluate
    refused: Mapping[int, str]
    differences: Mapping[str, Mapping[str, float]]
    total: int
    groups: Mapping[tuple[float, ...], NDArray[np.int64]] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """Outcome of a sweep.

    Parameters
    ----------
    plan : Plan
    counts, failed, lowest, highest : array
        As `cost_model.sweep.reduce.Reducer` counts.
    front, front_values : array
        Numbers of the Pareto set, ascending, and their objectives to be minimised.
    tops : tuple of array
        Numbers of the best points by each `Plan.tops`, the best first.
    chosen : Points
        The Pareto set and the best, by number.
    rows : callable
        Yields all points to be written, by number, in parts.
    points_of : callable
        Returns points by their numbers, ascending.
    refined : Refined, optional
        The candidates, where not all points are evaluated by netlist.
    excluded : int
        Points without a netlist, because a smaller one misses a spec already.
    groups : mapping
        By group, as `cost_model.sweep.reduce.Reducer` counts.
    """

    plan: Plan
    counts: NDArray[np.int64]
    failed: NDArray[np.int64]
    lowest: Floats
    highest: Floats
    front: Indices
    front_values: Floats
    tops: tuple[Indices, ...]
    chosen: Points
    rows: Callable[[], Iterator[Points]]
    points_of: Callable[[Indices], Points]
    refined: Refined | None = None
    excluded: int = 0
    groups: Mapping[tuple[float, ...], NDArray[np.int64]] = field(default_factory=dict)

    @property
    def evaluated(self) -> int:
        """Points that were looked at."""
        return int(self.counts[0])

    @property
    def feasible(self) -> int:
        """Legal points that meet every constraint and spec and have known figures."""
        return int(self.counts[-1])
