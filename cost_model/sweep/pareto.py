# SPDX-License-Identifier: Apache-2.0
"""The points of a stream that nothing beats: the Pareto set, and the best by one figure.

All figures are minimised.  Of points with equal figures the one with the lowest index stays, so
the result depends neither on the order in which points arrive nor on how they are cut into chunks.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

SCOUTS = 24
"""Points of the front that every arriving point meets first; they drop most of what is beaten."""

_LEAST_BATCH = 8192
_LOOK = 256


def nondominated(values: Floats) -> NDArray[np.bool_]:
    """Mark the Pareto-optimal rows; of equal rows only the first."""
    if len(values) <= 1:
        return np.ones(len(values), np.bool_)
    if values.shape[1] == 1:
        selected = np.zeros(len(values), np.bool_)
        selected[int(np.argmin(values[:, 0]))] = True
        return selected
    import moocore

    return np.asarray(moocore.is_nondominated(values, keep_weakly=False), np.bool_)


class Collector(Protocol):
    """Collector of the points of a sweep, in the order of their indices."""

    def screen(self, columns: list[Floats]) -> NDArray[np.intp]:
        """Return the positions of points that may matter, of the figures of new ones."""
        ...  # pragma: no cover

    def add(self, values: Floats, indices: Indices) -> None:
        """Take points; `values` has a row for each index, all finite."""
        ...  # pragma: no cover

    def result(self) -> tuple[Floats, Indices]:
        """Return the figures and indices of what was kept."""
        ...  # pragma: no cover


class Front:
    """The Pareto set of the points so far.

    Parameters
    ----------
    dimensions : int
        Figures of a point.
    """

    def __init__(self, dimensions: int) -> None:
        self._values: Floats = np.empty((0, dimensions))
        self._indices: Indices = np.empty(0, np.int64)
        self._pending: list[tuple[Floats, Indices]] = []
        self._waiting = 0
        self._scouts: Floats = self._values

    def add(self, values: Floats, indices: Indices) -> None:
        """Take points; `values` has a row for each index, all finite."""
        if not len(values):
            return
        self._pending.append((values, indices))
        self._waiting += len(values)
        if self._waiting >= max(_LEAST_BATCH, len(self._values)):
            self._merge()

    def screen(self, columns: list[Floats]) -> NDArray[np.intp]:
        """Return the positions of points that the scouts do not beat.

        Parameters
        ----------
        columns : list of array
            The figures of points that come after all points taken so far.
        """
        selected = np.arange(len(columns[0]))
        for scout in self._scouts[_order(self._scouts, columns)]:
            beaten = columns[0] >= scout[0]
            for column, value in zip(columns[1:], scout[1:], strict=True):
                beaten &= column >= value
            if beaten.any():
                stay = ~beaten
                selected = selected[stay]
                columns = [column[stay] for column in columns]
                if not len(selected):
                    break
        return selected

    def result(self) -> tuple[Floats, Indices]:
        """Return the figures and indices of the front, by index."""
        self._merge()
        return self._values, self._indices

    def _merge(self) -> None:
        if not self._pending:
            return
        values = np.concatenate([self._values, *(v for v, _ in self._pending)])
        indices = np.concatenate([self._indices, *(i for _, i in self._pending)])
        self._pending, self._waiting = [], 0
        order = np.argsort(indices, kind="stable")
        values, indices = values[order], indices[order]
        selected = nondominated(values)
        self._values, self._indices = values[selected], indices[selected]
        self._scouts = _scouts(self._values)


def _order(scouts: Floats, columns: list[Floats]) -> NDArray[np.intp]:
    """Return the order of scouts that drops points soonest, by a look at a few points."""
    step = len(columns[0]) // _LOOK or 1
    beaten = np.ones((len(scouts), len(columns[0][::step])), np.bool_)
    for axis, column in enumerate(columns):
        beaten &= column[::step] >= scouts[:, axis, None]
    return np.argsort(-beaten.sum(axis=1), kind="stable")


def _scouts(front: Floats) -> Floats:
    """Return a few points of a front, spread over it, the most central first."""
    if len(front) <= SCOUTS:
        return front
    ranks = np.empty(front.shape)
    for axis in range(front.shape[1]):
        ranks[np.argsort(front[:, axis], kind="stable"), axis] = np.arange(len(front))
    central = np.argsort(ranks.max(axis=1), kind="stable")
    chosen = list(central[: SCOUTS // 2])
    for axis in range(front.shape[1]):
        order = np.argsort(front[:, axis], kind="stable")
        step = len(order) * front.shape[1] // SCOUTS or 1
        chosen += list(order[step // 2 :: step])
    return front[list(dict.fromkeys(chosen))[:SCOUTS]]


class Best:
    """The `count` points with the least figure.

    Parameters
    ----------
    count : int
        At least 1.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.values: Floats = np.empty(0)
        self.indices: Indices = np.empty(0, np.int64)

    def add(self, values: Floats, indices: Indices) -> None:
        """Take points; NaN is no figure and never among the best."""
        full = len(self.values) == self.count
        near = values <= self.values[-1] if full else ~np.isnan(values)
        if not near.any():
            return
        values, indices = values[near], indices[near]
        if len(values) > 4 * self.count:
            bound = np.partition(values, self.count - 1)[self.count - 1]
            near = values <= bound
            values, indices = values[near], indices[near]
        values = np.concatenate([self.values, values])
        indices = np.concatenate([self.indices, indices])
        order = np.lexsort((indices, values))[: self.count]
        self.values, self.indices = values[order], indices[order]
