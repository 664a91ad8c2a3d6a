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
    """What the components of a measured thing cost together.

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
    kinds = sorted({kind for e in equations for kind, n in e.counts.items() if n})
    matrix = np.array([[e.counts.get(kind, 0.0) for kind in kinds] for e in equations], np.float64)
    measured = np.array([e.measured for e in equations])
    scaled = matrix / measured[:, None]
    solution = non_negative(scaled, np.ones(len(equations)))
    errors = scaled @ solution - 1
    return dict(zip(kinds, solution.tolist(), strict=True)), errors.tolist()


SMALL = 0.02
"""Relative errors that count as none where others are to be weighed less."""


def fit_robust(equations: Sequence[Equation], weights: Sequence[float]) -> dict[str, float]:
    """Return the cost of each kind, none negative, such that the mean relative error is small.

    The squares of the relative errors are weighed by their reciprocals until these hardly change:
    a design that is like no other does not shift the costs of all.
    """
    kinds = sorted({kind for e in equations for kind, n in e.counts.items() if n})
    matrix = np.array([[e.counts.get(kind, 0.0) for kind in kinds] for e in equations], np.float64)
    scaled = matrix / np.array([e.measured for e in equations])[:, None]
    given = np.array(weights)
    solution = non_negative(scaled * given[:, None], given)
    for _ in range(4):
        errors = np.abs(scaled @ solution - 1)
        weight = given / np.sqrt(np.maximum(errors, SMALL))
        solution = non_negative(scaled * weight[:, None], weight)
    return dict(zip(kinds, solution.tolist(), strict=True))


def non_negative(a: Array, b: Array) -> Array:
    """Return the non-negative x with the smallest ``|a x - b|``, by Lawson and Hanson's method."""
    scale = np.linalg.norm(a, axis=0)
    scale[scale == 0] = 1
    a = a / scale
    x = np.zeros(a.shape[1])
    passive = np.zeros(a.shape[1], bool)
    for _ in range(3 * a.shape[1]):
        gradient = a.T @ (b - a @ x)
        gradient[passive] = -np.inf
        best = int(np.argmax(gradient))
        if gradient[best] <= 1e-9:
            break
        passive[best] = True
        while True:
            trial = np.zeros_like(x)
            trial[passive] = np.linalg.lstsq(a[:, passive], b, rcond=None)[0]
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
    kinds = sorted({kind for some in paths for path in some for kind, n in path.items() if n})
    cores = [np.array([[path.get(k, 0.0) for k in kinds] for path in some]) for some in paths]
    known = [np.array(each) for each in before or [[0.0] * len(some) for some in paths]]
    target = np.array(measured)
    best, least = _longest(cores, known, target, np.ones(len(kinds)))
    for kind in range(len(kinds)):
        if best[kind]:
            continue
        slowest = [
            float(((delay - core @ best - own)[through] / core[through, kind]).min())
            for core, own, delay in zip(cores, known, target, strict=True)
            if (through := core[:, kind] > 0).any()
        ]
        trial = best.copy()
        trial[kind] = max(0.0, float(np.quantile(slowest, 0.1)))
        found, error = _longest(cores, known, target, trial)
        if error < least:
            best, least = found, error
    errors = [
        float((core @ best + own).max()) / delay - 1
        for core, own, delay in zip(cores, known, measured, strict=True)
    ]
    return dict(zip(kinds, best.tolist(), strict=True)), errors


def _longest(
    cores: Sequence[Array], known: Sequence[Array], target: Array, start: Array
) -> tuple[Array, float]:
    """Return the delays to which a fit comes from others, and their mean relative error."""
    solution, best, least, idle = start, start, np.inf, 0
    for _ in range(ROUNDS):
        all_paths = [core @ solution + own for core, own in zip(cores, known, strict=True)]
        longest = [int(np.argmax(delays)) for delays in all_paths]
        delays = np.array([found[place] for found, place in zip(all_paths, longest, strict=True)])
        errors = np.abs(delays / target - 1)
        if float(errors.mean()) < least - 1e-6:
            best, least, idle = solution, float(errors.mean()), 0
        elif (idle := idle + 1) == IDLE:
            break
        rows = np.array([core[place] for core, place in zip(cores, longest, strict=True)])
        left = target - np.array([own[place] for own, place in zip(known, longest, strict=True)])
        weight = 1 / np.sqrt(np.clip(errors, SMALL, 1.0)) / target
        solution = non_negative(rows * weight[:, None], left * weight)
    return best, least
