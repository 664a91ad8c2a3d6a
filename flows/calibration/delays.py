# SPDX-License-Identifier: Apache-2.0
"""Fitting how long the steps of paths take to the measured delays of designs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.netlist.netlist import Netlist
from cost_model.timing.delay_compression import COMPRESSION, compress_delay, expand_delay
from cost_model.timing.graph import Path, Timer
from flows.calibration import structural
from flows.calibration.fit import within_bounds
from flows.calibration.measure import provenance
from flows.calibration.results import covered
from flows.synthesis.standard_cells import INPUT_DELAY

Array = NDArray[np.float64]

USUAL: Mapping[str, float] = {
    "register": 7.0, "gate": 1.0, "xor": 2.0, "mux": 1.5, "select": 1.0,
    "adder": 2.0, "adder_level": 2.0, "adder_bit": 0.4, "increment_bit": 0.3, "compress": 4.5,
    "full_adder_sum": 2.5, "full_adder_carry": 2.2,
    "multiplier": 4.0, "multiplier_level": 4.0, "multiplier_bit": 0.9,
    "shift": 1.5, "read": 1.5, "fanout": 0.4,
}  # fmt: skip
"""How long steps usually take, a gate being one; kinds of which designs say little stay near it."""

WEIGHT = 0.1
"""How much a step counts that takes twice as long as usual; a delay wrong by its whole: 1."""

FOLDS = 4
"""Parts of the designs of which each is left out once."""

RELIABLE = 0.95
"""Share of the designs that are as fast as estimated less the margin."""

EXPONENTS = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Powers of the sums of steps that are tried (`cost_model.timing.delay_compression`)."""

_ROUNDS, _STEPS = 8, 30


@dataclass(frozen=True)
class Timed:
    """A design and its measured delay.

    Parameters
    ----------
    what : str
        For people.
    design : Netlist
        What leads to something of it (`cost_model.netlist.netlist.Netlist.pruned`).
    outside_ns : float
        When inputs arrived, and how long before the clock outputs had to be there.
    delay_ns : float
        The shortest clock period that all paths meet.
    """

    what: str
    design: Netlist
    outside_ns: float
    delay_ns: float

    def path(
        self,
        ns: Mapping[str, float],
        outside_ns: float,
        compression: Mapping[str, float] | None = None,
    ) -> Path:
        """Return the path that limits the design."""
        path = Timer(self.design, ns).limiting(outside_ns)
        assert path is not None, self.what
        fixed = outside_ns * path.outside
        taken = float(compress_delay(path.period_ns - fixed, _timing(compression)))
        return replace(path, period_ns=fixed + taken)


def _timing(compression: Mapping[str, float] | None) -> dict[str, Any]:
    return {COMPRESSION: compression} if compression else {}


def fit_steps(
    measured: Sequence[Timed],
    usually: Mapping[str, float] = USUAL,
    compression: Mapping[str, float] | None = None,
) -> tuple[dict[str, float], list[float]]:
    """Fit the delay of each type of step in ns; return them and the relative error of each design.

    Which path limits a design depends on what is to be found: steps are fitted to the paths that
    were the slowest so far, such that the slowest of a design's paths is its delay, and again.

    Parameters
    ----------
    measured : sequence of Timed
    usually : mapping
        How long each kind of step usually takes, in any unit.
    compression : mapping, optional
        How long sums of steps take (`cost_model.timing.delay_compression`); default as long as
        they say.
    """
    ns, errors, _ = _fit(measured, usually, compression)
    return ns, errors


def _fit(
    measured: Sequence[Timed], usually: Mapping[str, float], compression: Mapping[str, float] | None
) -> tuple[dict[str, float], list[float], list[Array]]:
    """Fit as `fit_steps` does; return also the steps of the examined paths of each design.

    These are arrays of shape (paths, kinds and the time outside).
    """
    target = np.array([each.delay_ns for each in measured])
    steps = tuple(usually)
    usual = np.array([usually[step] for step in steps])
    # A first guess of how long a gate takes: what makes the usual steps as slow as measured.
    first = [each.path(dict(zip(steps, usual, strict=True)), 0.0) for each in measured]
    gate = float(np.median(target / np.array([_row(path, steps)[:-1] @ usual for path in first])))
    usual = usual * gate
    ns, best, least = usual, usual, np.inf
    tried: list[list[Array]] = [[] for _ in measured]
    errors: list[float] = []
    for _ in range(_ROUNDS):
        times = dict(zip(steps, ns.tolist(), strict=True))
        paths = [each.path(times, each.outside_ns, compression) for each in measured]
        result = np.array([path.period_ns for path in paths]) / target - 1
        if float(np.abs(result).mean()) < least:
            least, best, errors = float(np.abs(result).mean()), ns, result.tolist()
        fresh = False
        for each, rows, path in zip(measured, tried, paths, strict=True):
            row = _row(path, steps, each.outside_ns)
            if not any(np.allclose(row, other) for other in rows):
                rows.append(row)
                fresh = True
        if not fresh:
            break
        ns = _fitted([np.array(rows) for rows in tried], target, ns, usual, compression)
    # Least squares of relative errors leave delays too short on average, and frequencies too high.
    ratios = 1.0 + np.array(errors)
    centre = float(np.exp(-np.log(ratios).mean()))
    errors = (ratios * centre - 1.0).tolist()
    best = best * centre ** (1.0 / compression["exponent"] if compression else 1.0)
    return (
        dict(zip(steps, best.tolist(), strict=True)),
        errors,
        [np.array(rows) for rows in tried],
    )


def choose_compression(measured: Sequence[Timed]) -> dict[str, float] | None:
    """Choose the compression of sums of steps, None if they are not compressed.

    Of the `EXPONENTS` that is taken by which designs that are left out of a fit are estimated best,
    by the paths that limit them if sums take as long as they say.
    """
    target = np.array([each.delay_ns for each in measured])
    ns, _, rows = _fit(measured, USUAL, None)
    usual = np.array([USUAL[step] for step in ns])
    usual = usual * float(np.median(target / np.array([each[0, :-1] @ usual for each in rows])))
    start, indices = np.array(list(ns.values())), range(len(measured))
    best, least = None, np.inf
    for exponent in EXPONENTS:
        compression = None if exponent == 1 else {"ns": float(f"{np.median(target):.4g}"),
                                           "exponent": exponent}  # fmt: skip
        wrong = 0.0
        for first in range(FOLDS):
            others = [index for index in indices if index % FOLDS != first]
            times = _fitted(
                [rows[index] for index in others], target[others], start, usual, compression
            )
            wrong += sum(
                abs(
                    float(_delays(rows[index], times, _timing(compression)).max()) / target[index]
                    - 1
                )
                for index in indices[first::FOLDS]
            )
        if wrong < least:
            best, least = compression, wrong
    return best


def table(technology: str, designs: Sequence[structural.Measured]) -> dict[str, Any]:
    """Return ``Technology.timing`` of mapped designs; empty if none of them was timed.

    Uncertainty and margin are those of designs which were left out of a fit to the others, of the
    distribution for which they are larger.
    """
    timed = [each for each in designs if each.mapped.timing]
    measured = [
        Timed(
            each.name,
            each.design.pruned(),
            INPUT_DELAY * each.mapped.clock_ps / 1000,
            each.mapped.timing.path_ns,
        )
        for each in timed
        if each.mapped.timing
    ]
    if len(measured) < FOLDS:
        return {}
    compression = choose_compression(measured)
    left_out: dict[str, list[float]] = {each.distribution: [] for each in timed}
    for first in range(FOLDS):
        others = [each for index, each in enumerate(measured) if index % FOLDS != first]
        ns, _ = fit_steps(others, compression=compression)
        for each, source in zip(measured[first::FOLDS], timed[first::FOLDS], strict=True):
            left_out[source.distribution].append(error(each, ns, compression))
    ns, _ = fit_steps(measured, compression=compression)
    return {
        "ns": {step: float(f"{time:.4g}") for step, time in ns.items()},
        **_timing(compression),
        "outside": INPUT_DELAY,
        "uncertainty": round(max(covered(errors) for errors in left_out.values()), 4),
        "margin": round(max(too_fast(errors) for errors in left_out.values()), 4),
        "provenance": {
            **provenance(technology),
            "clock_ps": designs[0].mapped.clock_ps,
            "left_out": {
                name: {
                    "designs": len(errors),
                    "mape": round(float(np.abs(errors).mean()), 4),
                    "worst": round(errors[int(np.abs(errors).argmax())], 4),
                    "covered": round(covered(errors), 4),
                }
                for name, errors in left_out.items()
            },
        },
    }


def too_fast(errors: Sequence[float]) -> float:
    """Return the share by which a delay is longer than estimated in one design of twenty."""
    return max(0.0, -float(np.quantile(errors, 1 - RELIABLE)))


def error(
    each: Timed, ns: Mapping[str, float], compression: Mapping[str, float] | None = None
) -> float:
    """Return the relative error of a design's delay."""
    return each.path(ns, each.outside_ns, compression).period_ns / each.delay_ns - 1


def _row(path: Path, steps: Sequence[str], outside_ns: float = 0.0) -> Array:
    """Return the steps of a path by kind, and the time that it takes outside."""
    return np.array([*(path.steps.get(step, 0.0) for step in steps), outside_ns * path.outside])


def _fitted(
    designs: Sequence[Array],
    target: Array,
    start: Array,
    usual: Array,
    compression: Mapping[str, float] | None = None,
) -> Array:
    """Return the times of steps that make the slowest known path of each design its delay."""
    timing = _timing(compression)
    exponent = compression["exponent"] if compression else 1.0
    times, best, least = start, start, np.inf
    for _ in range(_STEPS):
        rows = np.array([paths[_slowest(paths, times, timing)] for paths in designs])
        near = WEIGHT * np.diag(1 / usual)
        inside = np.maximum(target - rows[:, -1], 0.01 * target)
        wanted = expand_delay(inside, timing)
        # An error of a sum is less of one of what the sum takes.
        weight = exponent * inside / wanted / target
        times = within_bounds(
            np.vstack([rows[:, :-1] * weight[:, None], near]),
            np.concatenate([wanted * weight, np.full(len(usual), WEIGHT)]),
            np.zeros(len(usual)),
            np.full(len(usual), np.inf),
        )
        delays = [float(_delays(paths, times, timing).max()) for paths in designs]
        wrong = float((np.square(np.array(delays) / target - 1)).mean())
        if wrong < least:
            best, least = times, wrong
    return best


def _delays(paths: Array, times: Array, timing: Mapping[str, Any]) -> Array:
    return np.asarray(compress_delay(paths[:, :-1] @ times, timing) + paths[:, -1])


def _slowest(paths: Array, times: Array, timing: Mapping[str, Any]) -> int:
    return int(_delays(paths, times, timing).argmax())
