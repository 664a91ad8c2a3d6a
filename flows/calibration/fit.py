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


@dataclass(frozen=True)
class Bound:
    """Bounds of the cost of a component.

    Parameters
    ----------
    low, usual, high : float
        In the unit of the quantity.
    """

    low: float
    usual: float
    high: float

    def contains(self, cost: float) -> bool:
        """Return whether a cost of six digits is within the bounds."""
        slack = 1e-5 * self.high
        return self.low - slack <= cost <= self.high + slack


_SWEEPS = 20_000

SMALL = 0.02
"""Relative errors that count as none where others are to be weighed less."""


def fit_robust(
    equations: Sequence[Equation],
    weights: Sequence[float],
    bounds: Mapping[str, Bound],
    guess: float,
) -> dict[str, float]:
    """Return the cost of each component within its bounds such that mean relative errors are small.

    The squares of the relative errors are weighed by their reciprocals until these hardly change:
    a design that is like no other does not shift the costs of all.

    Parameters
    ----------
    equations : sequence of Equation
    weights : sequence of float
        Of each equation.
    bounds : mapping
        Of each component; those that no equation has get their usual cost.
    guess : float
        Weight of the usual cost of a component, as of one more equation.
    """
    names = sorted(bounds)
    low, usual, high = (
        np.array([getattr(bounds[name], field) for name in names])
        for field in ("low", "usual", "high")
    )
    matrix = np.array([[e.counts.get(name, 0.0) for name in names] for e in equations], np.float64)
    scaled = matrix / np.array([e.measured for e in equations])[:, None]
    base = np.array(weights)
    near = guess * np.diag(1 / np.maximum(usual, 1e-3 * high))
    aim = near @ usual
    weight = base
    for _ in range(5):
        solution = within_bounds(
            np.vstack([scaled * weight[:, None], near]), np.concatenate([weight, aim]), low, high
        )
        errors = np.abs(scaled @ solution - 1)
        weight = base / np.sqrt(np.maximum(errors, SMALL))
    return dict(zip(names, solution.tolist(), strict=True))


def within_bounds(a: Array, b: Array, low: Array, high: Array) -> Array:
    """Return the x with the smallest ``|a x - b|`` for which ``low <= x <= high``.

    Coordinates are optimised in turn until none moves: the problem is convex.
    """
    gram, against = a.T @ a, a.T @ b
    x = np.clip(np.linalg.lstsq(a, b, rcond=None)[0], low, high)
    scale = np.maximum(high, 1e-12)
    for _ in range(_SWEEPS):
        before = x.copy()
        for index in range(len(x)):
            if gram[index, index] > 0:
                step = (against[index] - gram[index] @ x) / gram[index, index]
                x[index] = np.clip(x[index] + step, low[index], high[index])
        if (np.abs(x - before) <= 1e-9 * scale).all():
            break
    return np.asarray(x, np.float64)


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
