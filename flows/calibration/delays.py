# SPDX-License-Identifier: Apache-2.0
"""Fitting how long the steps of paths take to the measured delays of designs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cost_model.structure.model import Design
from cost_model.structure.surroundings import pruned
from cost_model.timing.graph import Path, Timer
from flows.calibration.fit import non_negative
from flows.calibration.measure import provenance
from flows.calibration.results import covered
from flows.standard_cells import INPUT_DELAY

if TYPE_CHECKING:
    from flows.calibration import structural

Array = NDArray[np.float64]

USUAL: Mapping[str, float] = {
    "register": 7.0, "gate": 1.0, "xor": 2.0, "mux": 1.5, "select": 1.0,
    "adder": 2.0, "adder_level": 2.0, "adder_bit": 0.4, "compress": 4.5,
    "full_adder_sum": 2.5, "full_adder_carry": 2.2,
    "multiplier": 4.0, "multiplier_level": 4.0, "multiplier_bit": 0.9,
    "shift": 1.5, "read": 1.5, "fanout": 0.4,
}  # fmt: skip
"""How long steps usually take, a gate being one; kinds of which designs say little stay near it."""

WEIGHT = 0.1
"""How much a step counts that takes twice as long as usual; a delay wrong by its whole: 1."""

FOLDS = 4
"""Parts of the designs of which each is left out once."""

_ROUNDS, _STEPS = 8, 30


@dataclass(frozen=True)
class Timed:
    """A design and its measured delay.

    Parameters
    ----------
    what : str
        For people.
    design : Design
        What leads to something of it (`cost_model.structure.surroundings.pruned`).
    outside_ns : float
        When inputs arrived, and how long before the clock outputs had to be there.
    delay_ns : float
        The shortest clock period that all paths meet.
    """

    what: str
    design: Design
    outside_ns: float
    delay_ns: float

    def path(self, ns: Mapping[str, float], outside_ns: float) -> Path:
        """Return the path that limits the design."""
        path = Timer(self.design, ns).limiting(outside_ns)
        assert path is not None, self.what
        return path


def fit_steps(
    measured: Sequence[Timed], usually: Mapping[str, float] = USUAL
) -> tuple[dict[str, float], list[float]]:
    """Return how long each kind of step takes in ns, and the relative error of each design.

    Which path limits a design depends on what is to be found: steps are fitted to the paths that
    were the slowest so far, such that the slowest of a design's paths is its delay, and again.

    Parameters
    ----------
    measured : sequence of Timed
    usually : mapping
        How long each kind of step usually takes, in any unit.
    """
    target = np.array([each.delay_ns for each in measured])
    kinds = tuple(usually)
    usual = np.array([usually[kind] for kind in kinds])
    # A first guess of how long a gate takes: what makes the usual steps as slow as measured.
    first = [each.path(dict(zip(kinds, usual, strict=True)), 0.0) for each in measured]
    gate = float(np.median(target / np.array([_row(path, kinds)[:-1] @ usual for path in first])))
    usual = usual * gate
    ns, best, least = usual, usual, np.inf
    known: list[list[Array]] = [[] for _ in measured]
    errors: list[float] = []
    for _ in range(_ROUNDS):
        times = dict(zip(kinds, ns.tolist(), strict=True))
        paths = [each.path(times, each.outside_ns) for each in measured]
        found = np.array([path.period_ns for path in paths]) / target - 1
        if float(np.abs(found).mean()) < least:
            least, best, errors = float(np.abs(found).mean()), ns, found.tolist()
        fresh = False
        for each, rows, path in zip(measured, known, paths, strict=True):
            row = _row(path, kinds, each.outside_ns)
            if not any(np.allclose(row, other) for other in rows):
                rows.append(row)
                fresh = True
        if not fresh:
            break
        ns = _fitted([np.array(rows) for rows in known], target, ns, usual)
    return dict(zip(kinds, best.tolist(), strict=True)), errors


def table(technology: str, designs: Sequence[structural.Measured]) -> dict[str, Any]:
    """Return ``Technology.timing`` of mapped designs; empty if none of them was timed.

    The uncertainty is that of designs which were left out of a fit to the others.
    """
    measured = [
        Timed(
            each.name,
            pruned(each.design),
            INPUT_DELAY * each.mapped.clock_ps / 1000,
            each.mapped.timing.path_ns,
        )
        for each in designs
        if each.mapped.timing
    ]
    if len(measured) < FOLDS:
        return {}
    left_out: list[float] = []
    for first in range(FOLDS):
        others = [each for place, each in enumerate(measured) if place % FOLDS != first]
        ns, _ = fit_steps(others)
        left_out += [error(each, ns) for each in measured[first::FOLDS]]
    ns, _ = fit_steps(measured)
    wrong = np.abs(left_out)
    return {
        "ns": {kind: float(f"{time:.4g}") for kind, time in ns.items()},
        "outside": INPUT_DELAY,
        "uncertainty": round(covered(left_out), 4),
        "provenance": {
            **provenance(technology),
            "clock_ps": designs[0].mapped.clock_ps,
            "designs": len(measured),
            "held_out": {
                "designs": len(measured),
                "mape": round(float(wrong.mean()), 4),
                "worst": round(float(wrong.max()), 4),
            },
        },
    }


def error(each: Timed, ns: Mapping[str, float]) -> float:
    """Return the relative error of a design's delay."""
    return each.path(ns, each.outside_ns).period_ns / each.delay_ns - 1


def _row(path: Path, kinds: Sequence[str], outside_ns: float = 0.0) -> Array:
    """Return the steps of a path by kind, and the time that it takes outside."""
    return np.array([*(path.steps.get(kind, 0.0) for kind in kinds), outside_ns * path.outside])


def _fitted(known: Sequence[Array], target: Array, start: Array, usual: Array) -> Array:
    """Return the times of steps that make the slowest known path of each design its delay."""
    times, best, least = start, start, np.inf
    for _ in range(_STEPS):
        rows = np.array([paths[_slowest(paths, times)] for paths in known])
        near = WEIGHT * np.diag(1 / usual)
        times = non_negative(
            np.vstack([rows[:, :-1] / target[:, None], near]),
            np.concatenate([(target - rows[:, -1]) / target, np.full(len(usual), WEIGHT)]),
        )
        delays = [
            float(_delays(paths, times).max()) for paths in known
        ]  # fmt: skip
        wrong = float((np.square(np.array(delays) / target - 1)).mean())
        if wrong < least:
            best, least = times, wrong
    return best


def _delays(paths: Array, times: Array) -> Array:
    return np.asarray(paths[:, :-1] @ times + paths[:, -1])


def _slowest(paths: Array, times: Array) -> int:
    return int(_delays(paths, times).argmax())
