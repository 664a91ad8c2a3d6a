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
