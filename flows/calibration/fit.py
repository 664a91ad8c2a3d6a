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

    By a set of free coordinates, as Stark and Parker's BVLS ("Bounded-variable least-squares",
    Computational Statistics 10, 1995): the others are at a bound, and one of these becomes free as
    long as that reduces the error.
    """
    scale = np.linalg.norm(a, axis=0)
    scale[scale == 0] = 1
    a, least, most = a / scale, low * scale, high * scale
    gram, against = a.T @ a, a.T @ b
    x = np.clip(np.linalg.lstsq(a, b, rcond=None)[0], least, most)
    free = (x > least) & (x < most)
    for _ in range(10 * len(x)):
        x = _free_optimum(gram, against, x, free, least, most)
        gradient = against - gram @ x
        rising, falling = (x < most) & (gradient > 0), (x > least) & (gradient < 0)
        gain = np.where(~free & (rising | falling), np.abs(gradient), 0.0)
        best = int(np.argmax(gain))
        if gain[best] <= _NO_GAIN:
            break
        free[best] = True
    return np.clip(np.asarray(x / scale, np.float64), low, high)


_NO_GAIN = 1e-9
"""Gradient of a squared error, of about 1, that counts as none."""


def _free_optimum(
    gram: Array, against: Array, x: Array, free: NDArray[np.bool_], low: Array, high: Array
) -> Array:
    """Return x with the best free coordinates; those that meet a bound are not free any more."""
    while free.any():
        held = np.where(free, 0.0, x)
        best = x.copy()
        best[free] = np.linalg.lstsq(
            gram[np.ix_(free, free)], (against - gram @ held)[free], rcond=None
        )[0]
        outside = (best < low) | (best > high)
        if not outside.any():
            return best
        limit = np.where(best < low, low, high)[outside]
        steps = (limit - x[outside]) / (best - x)[outside]
        x = np.clip(x + steps.min() * (best - x), low, high)
        met = np.flatnonzero(outside)[steps <= steps.min()]
        x[met] = limit[steps <= steps.min()]
        free[met] = False
    return x
