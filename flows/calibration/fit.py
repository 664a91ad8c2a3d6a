# SPDX-License-Identifier: Apache-2.0
"""Fitting the cost of components to measured cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Equation:
    """Equation of a measured cost and the counts of its components.

    Parameters
    ----------
    what : str
        For people.
    counts : mapping
        How many components of each kind it has.
    measured : float
        Their cost; positive.
    """

    what: str
    counts: Mapping[str, float]
    measured: float


def fit(equations: Sequence[Equation]) -> tuple[dict[str, float], list[float]]:
    """Return the cost of each kind, none negative, and the relative error of each equation.

    The sum of the squares of the relative errors is as small as it can be.
    """
    names = sorted({name for e in equations for name, n in e.counts.items() if n})
    matrix = np.array([[e.counts.get(name, 0.0) for name in names] for e in equations], np.float64)
    measured = np.array([e.measured for e in equations])
    scaled = matrix / measured[:, None]
    solution = non_negative(scaled, np.ones(len(equations)))
    errors = scaled @ solution - 1
    return dict(zip(names, solution.tolist(), strict=True)), errors.tolist()


SMALL = 0.02
"""Relative errors that count as none where others are to be weighed less."""


def fit_robust(equations: Sequence[Equation], weights: Sequence[float]) -> dict[str, float]:
    """Return the cost of each kind, none negative, such that the mean relative error is small.

    The squares of the relative errors are weighed by their reciprocals until these hardly change:
    a design that is like no other does not shift the costs of all.
    """
    names = sorted({name for e in equations for name, n in e.counts.items() if n})
    matrix = np.array([[e.counts.get(name, 0.0) for name in names] for e in equations], np.float64)
    scaled = matrix / np.array([e.measured for e in equations])[:, None]
    base = np.array(weights)
    solution = non_negative(scaled * base[:, None], base)
    for _ in range(4):
        errors = np.abs(scaled @ solution - 1)
        weight = base / np.sqrt(np.maximum(errors, SMALL))
        solution = non_negative(scaled * weight[:, None], weight)
    return dict(zip(names, solution.tolist(), strict=True))


def non_negative(a: Array, b: Array) -> Array:
    """Return the non-negative x with the smallest ``|a x - b|``, by Lawson and Hanson's method."""
    scale = np.linalg.norm(a, axis=0)
    scale[scale == 0] = 1
    a = a / scale
    gram, against = a.T @ a, a.T @ b
    x = np.zeros(a.shape[1])
    passive = np.zeros(a.shape[1], bool)
    for _ in range(3 * a.shape[1]):
        gradient = against - gram @ x
        gradient[passive] = -np.inf
        best = int(np.argmax(gradient))
        if gradient[best] <= 1e-9:
            break
        passive[best] = True
        while True:
            trial = np.zeros_like(x)
            trial[passive] = np.linalg.lstsq(
                gram[np.ix_(passive, passive)], against[passive], rcond=None
            )[0]
            if (trial[passive] > 0).all():
                break
            falling = passive & (trial <= 0)
            steps = x[falling] / (x[falling] - trial[falling])
            x = x + float(steps.min()) * (trial - x)
            passive &= x > 1e-12
            x[~passive] = 0.0
        x = trial
    return np.asarray(x / scale, np.float64)


ROUNDS, IDLE = 30, 4
"""Most rounds of a fit to longest paths, and those without a gain after which it ends."""


def fit_longest(
    paths: Sequence[Sequence[Mapping[str, float]]],
    measured: Sequence[float],
    before: Sequence[Sequence[float]] | None = None,
) -> tuple[dict[str, float], list[float]]:
    """Return the delay of each kind, such that the longest of a core's paths is its delay.

    Which path is the longest depends on the delays: they are fitted to the paths that are the
    longest by the delays before, until these stay the same or the errors grow.  Kinds that no
    longest path leads through are then made as slow as the delays of nine of ten cores allow, one
    kind at a time, and if that makes errors smaller the fit goes on from there.

    Parameters
    ----------
    paths : sequence
        Of each core its paths, each what it leads through by kind.
    measured : sequence of float
        Delay of each core.
    before : sequence, optional
        Of each core and path a part of its delay that is known; default none.

    Returns
    -------
    dict
        Of kinds that no longest path leads through, 0.
    list of float
        Relative errors.
    """
    names = sorted({name for some in paths for path in some for name, n in path.items() if n})
    result = _Paths(
        np.array([[path.get(name, 0.0) for name in names] for some in paths for path in some]),
        np.array([part for some in before for part in some] if before
                 else [0.0] * sum(map(len, paths))),
        np.cumsum([0, *(len(some) for some in paths[:-1])]),
        np.array(measured),
    )  # fmt: skip
    best, least = result.fitted(np.ones(len(names)))
    for name in range(len(names)):
        if best[name]:
            continue
        trial = best.copy()
        trial[name] = result.allowed(name, best)
        trial, error = result.fitted(trial)
        if error < least:
            best, least = trial, error
    delays, _ = result.longest(best)
    errors = delays / result.target - 1
    return dict(zip(names, best.tolist(), strict=True)), errors.tolist()


@dataclass(frozen=True)
class _Paths:
    """The paths of all cores, one behind the other.

    Parameters
    ----------
    rows : ndarray, shape (paths, kinds)
    constants : ndarray, shape (paths,)
        Parts of their delays that are known.
    first : ndarray, shape (cores,)
        The first path of each core.
    target : ndarray, shape (cores,)
    """

    rows: Array
    constants: Array
    first: NDArray[np.int64]
    target: Array

    def longest(self, solution: Array) -> tuple[Array, NDArray[np.int64]]:
        """Return the delay of each core and its longest path."""
        delays = self.rows @ solution + self.constants
        most = np.maximum.reduceat(delays, self.first)
        owner = np.repeat(np.arange(len(self.first)), np.diff([*self.first.tolist(), len(delays)]))
        indices = np.flatnonzero(delays == most[owner])
        _, chosen = np.unique(owner[indices], return_index=True)
        return most, indices[chosen]

    def allowed(self, index: int, solution: Array) -> float:
        """Return the largest delay of a step that nine of ten cores allow."""
        through = np.flatnonzero(self.rows[:, index] > 0)
        core = np.searchsorted(self.first, through, side="right") - 1
        left = self.target[core] - self.rows[through] @ solution - self.constants[through]
        return max(0.0, float(np.quantile(left / self.rows[through, index], 0.1)))

    def fitted(self, start: Array) -> tuple[Array, float]:
        """Return the delays to which a fit comes from others, and their mean relative error."""
        solution, best, least, idle = start, start, np.inf, 0
        for _ in range(ROUNDS):
            delays, indices = self.longest(solution)
            errors = np.abs(delays / self.target - 1)
            if float(errors.mean()) < least - 1e-6:
                best, least, idle = solution, float(errors.mean()), 0
            elif (idle := idle + 1) == IDLE:
                break
            weight = 1 / np.sqrt(np.clip(errors, SMALL, 1.0)) / self.target
            solution = non_negative(
                self.rows[indices] * weight[:, None],
                (self.target - self.constants[indices]) * weight,
            )
        return best, least
