# SPDX-License-Identifier: Apache-2.0
"""Closed forms, which sweeps use, against the estimate by structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cost_model.estimate.technology import Technology, technology
from flows.bench import closed_forms as bench
from flows.bench.cost_tables import Errors
from flows.calibration import closed_forms
from flows.calibration.closed_forms import Costs, Sample
from hwgen.technologies import costs_of, technology_names
from sim_tests.support.selection import commit_seed

TECH = "nangate45"
DESIGNS = 60

MEAN = {"area": 0.06, "power": 0.09, "fmax": 0.13}
"""Largest mean relative error of so many designs, whichever they are, `CLIPPED` at most of one."""

CLIPPED = 0.5
WORST = 5.0
"""Largest relative error of any: accumulators much narrower than sums are the worst."""


@pytest.fixture(scope="module")
def seed() -> int:
    """Return the seed of this commit; ``python -m flows.bench.closed_forms --seed`` takes it."""
    return commit_seed()


@pytest.fixture(scope="module")
def drawn(seed: int) -> list[tuple[Sample, Costs]]:
    result = closed_forms.samples(seed, DESIGNS, jobs=1, sizes=closed_forms.SIZES[:1])
    return [(sample, closed_forms.costs_of(sample, technology(TECH))) for sample in result]


def exceeded(drawn: Sequence[tuple[Sample, Costs]], tech: Technology) -> list[str]:
    """Return the messages of errors beyond the bounds."""
    errors: dict[str, list[float]] = {metric: [] for metric in closed_forms.METRICS}
    for sample, costs in drawn:
        for metric, error in closed_forms.errors_of(sample, costs, tech).items():
            errors[metric].append(error)
    result = []
    for metric, some in errors.items():
        values = np.abs(some)
        if not np.isfinite(values).all():
            result.append(f"{metric} unknown")
            continue
        mean = np.minimum(values, CLIPPED).mean()
        if mean > MEAN[metric] or values.max() > WORST:
            result.append(f"{metric}: {mean:.3f} on average, {values.max():.3f} at worst")
    return result


@pytest.mark.slow
@pytest.mark.rotate(4)
def test_closed_forms_are_near_the_structure(
    drawn: Sequence[tuple[Sample, Costs]], seed: int
) -> None:
    assert not exceeded(drawn, technology(TECH)), f"seed {seed}"


@pytest.mark.slow
@pytest.mark.rotate(4)
def test_a_wrong_closed_form_is_noticed(drawn: Sequence[tuple[Sample, Costs]]) -> None:
    right = technology(TECH)
    costs = {q: {**prices, "flip_flop": 0.0} for q, prices in right.costs.items()}
    result = exceeded(drawn, replace(right, costs=costs))
    assert [text.partition(":")[0] for text in result] == ["area", "power"]
    delays = {
        kind: ns * (1.0 if kind == "register" else 0.7) for kind, ns in right.delays_ns.items()
    }
    assert "fmax" in [
        text.partition(":")[0] for text in exceeded(drawn, replace(right, delays_ns=delays))
    ]


def test_a_fit_finds_what_made_the_structural_estimates() -> None:
    """Of two designs, by the costs that closed forms have of them."""
    tech = technology(TECH)
    result = closed_forms.samples(3, 5, jobs=1, sizes=(2,))
    costs = [closed_forms.costs_of(sample, tech) for sample in result]
    fitted = closed_forms.fitted(list(zip(result, costs, strict=True)), tech)
    for sample, each in zip(result, costs, strict=True):
        errors = closed_forms.errors_of(sample, each, fitted)
        assert max(map(abs, errors.values())) < 0.05


def test_errors_of_the_bench() -> None:
    errors = Errors.of([0.1, -0.2, 0.0], [1.0, 2.0, 3.0])
    assert errors.mape == pytest.approx(0.1)
    assert errors.bias == pytest.approx(-0.1 / 3)
    assert (errors.worst, errors.tau) == (-0.2, 1.0)
    assert not bench.meets("area", errors)
    assert bench.meets("fmax", errors)
    assert len(errors.cells()) == len(bench.HEADINGS)


def test_the_benchmark_compares_all_cell_libraries() -> None:
    cells = {name for name in technology_names("standard_cells") if costs_of(name)}
    assert {"asap7", "ihp-sg13g2", "nangate45", "sky130hd"} <= cells == set(bench.technologies())
