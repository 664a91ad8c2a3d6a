# SPDX-License-Identifier: Apache-2.0
"""Branch and bound finds what ranking all points finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from flows.search import branches
from flows.search.branches import best_of, missed_by, ranked_by
from flows.search.costs import SUMS, Cost
from flows.search.cycles import BaseList, TimedOption
from flows.search.goals import Goal, objectives, order, parse_goals
from flows.search.space import Frame, Option, Space, needs_of, space_of
from flows.search.tables import Scores, UnitTables
from flows.search.words import rejected
from hwgen.core.params.off_chip import OffChip
from hwgen.core.params.target import Target
from hwgen.models.files.store import Model
from sim_tests.search.searching import CONTEXT, FRAME

WIDTHS = (64, 128)


@pytest.fixture(scope="module")
def bases(model: Model) -> dict[Frame, BaseList]:
    """Return lists of a model, on an engine with each frame."""
    space: Space = space_of(needs_of(model, CONTEXT), {"technology": "nangate45"}, WIDTHS)
    return {
        frame: BaseList(
            model,
            space.config("engine", frame, [every[0] for every in units.values()]),
            CONTEXT - 1,
        )
        for frame, units in space.options.items()
    }


def invented(base: BaseList, frame: Frame, sizes: Sequence[int], seed: int) -> UnitTables:
    """Return options with drawn cycles and costs; faster ones often cost more."""
    rng = np.random.default_rng([seed, frame.data_width])
    options, timed, costs = {}, {}, {}
    for unit, size in zip(base.units, sizes, strict=True):
        options[unit] = [Option(unit, {}, {f"{unit}.n": n}) for n in range(size)]
        work = rng.integers(200, 20_000, len(base.jobs[unit]))
        speed = 1.3 ** rng.permutation(size) * rng.uniform(0.8, 1.25, size)
        timed[unit] = [
            TimedOption(
                tuple(map(int, 60 + work / each)),
                ((int(work.sum() / each), int(4 * work.sum())), (100, 3000)),
                (int(work.sum() / 9), int(work.sum() / 30)),
            )
            for each in speed
        ]
        costs[unit] = [
            Cost(tuple(rng.uniform(0.7, 1.4) * 1e4 * each**0.8 for _ in SUMS),
                 rng.uniform(300, 600))
            for each in speed
        ]  # fmt: skip
    return UnitTables(frame, options, timed, costs, Cost((500.0,) * len(SUMS), 900.0), 0.97, base)


def scores_of(units: Sequence[UnitTables], target: Target, clock: float | None) -> Scores:
    return Scores([each.table() for each in units], target, clock)


SPACES = [
    ((60, 4, 4, 4, 2, 4, 4), None, None, ["tokens_per_s>={fast}"], []),
    ((90, 3, 5, 4, 1, 5, 5), None, 1.0, ["tokens_per_s>={fast}"], ["power_w={high}"]),
    ((60, 5, 4, 4, 2, 4, 3), 350.0, 0.5, [], ["area_mm2={small}"]),
    ((110, 4, 3, 4, 2, 3, 4), None, 4.0, ["j_per_token<={low}"], ["area_mm2={small}"]),
    ((40, 6, 6, 3, 2, 4, 4), 450.0, None, ["ms_per_token<={short}"], []),
    ((80, 5, 5, 3, 1, 4, 5), None, 0.2, ["tokens_per_s>={fast}", "clock_mhz>=400"], []),
    ((70, 4, 4, 4, 2, 4, 4), None, 1.0, ["tokens_per_s>={never}"], ["area_mm2={small}"]),
]


def filled(texts: Sequence[str], scores: Scores) -> list[str]:
    """Return conditions that some of the points meet."""
    metrics = scores.metrics
    numbers = {
        "fast": np.quantile(metrics["tokens_per_s"], 0.8),
        "never": 1.4 * metrics["tokens_per_s"].max(),
        "high": np.quantile(metrics["power_w"], 0.7),
        "small": np.quantile(metrics["area_mm2"], 0.4),
        "low": np.quantile(metrics["j_per_token"], 0.3),
        "short": np.quantile(metrics["ms_per_token"], 0.2),
    }
    return [text.format(**numbers) for text in texts]


def values_by_ranking(scores: Scores, goals: Sequence[Goal], count: int) -> list[float]:
    left, _ = rejected(scores, goals)
    if not left.any():
        values = missed_by(goals)(scores.metrics)
        return sorted(values[scores.fit(scores.metrics)])[:count]
    numbers = order(goals, scores.metrics)
    numbers = numbers[left[numbers]][:count]
    return list(ranked_by(goals)(scores.metrics)[numbers])


@pytest.mark.rotate(6)
@pytest.mark.parametrize("number", range(len(SPACES)))
def test_branch_and_bound_finds_what_ranking_finds(
    bases: dict[Frame, BaseList], number: int
) -> None:
    sizes, clock, gb_s, goal_texts, limit_texts = SPACES[number]
    target = Target(memory=OffChip(gb_s=gb_s)) if gb_s else Target()
    units = [invented(base, frame, sizes, number) for frame, base in bases.items()]
    assert sum(each.points for each in units) >= 1e5
    scores = scores_of(units, target, clock)
    goals = parse_goals(filled(goal_texts, scores), filled(limit_texts, scores))
    expected = values_by_ranking(scores, goals, 9)
    found = best_of(scores, units, ranked_by(goals), 9)
    never = not found.points
    if never:
        found = best_of(scores, units, missed_by(goals), 9)
    assert np.allclose(found.values, expected, rtol=1e-12)
    assert found.exact + found.bounded < scores.points / 2
    metric, *_ = objectives(goals, scores.metrics)
    for (at, index), value in zip(found.points, found.values, strict=True):
        point = scores.number(scores.tables[at], index)
        if never:
            assert value > 1
        else:
            assert abs(value) == pytest.approx(scores.metrics[metric][point], rel=1e-12)


def test_bounds_are_bounds_and_a_wrong_one_is_noticed(
    bases: dict[Frame, BaseList], monkeypatch: pytest.MonkeyPatch
) -> None:
    units = [invented(bases[FRAME], FRAME, (12, 3, 3, 3, 2, 3, 3), 5)]
    target = Target(memory=OffChip(gb_s=0.5))
    scores = scores_of(units, target, None)
    goals = parse_goals([f"tokens_per_s>={np.quantile(scores.metrics['tokens_per_s'], 0.5)}"], [])
    expected = values_by_ranking(scores, goals, 5)
    assert np.allclose(best_of(scores, units, ranked_by(goals), 5).values, expected)
    rng = np.random.default_rng(1)
    shape = np.array(scores.tables[0].shape)
    bounded = branches.Boxes(units[0])
    low = (rng.random((50, 7)) * shape).astype(np.int64)
    high = low + 1 + (rng.random((50, 7)) * (shape - low)).astype(np.int64)
    best = scores.of(bounded.measures(low, high, exact=False))
    grid = {name: values.reshape(shape) for name, values in scores.metrics.items()}
    for number in range(50):
        box = tuple(slice(*ends) for ends in zip(low[number], high[number], strict=True))
        assert best["ms_per_token"][number] <= grid["ms_per_token"][box].min() * (1 + 1e-12)
        assert best["power_w"][number] <= grid["power_w"][box].min() * (1 + 1e-12)
        assert best["clock_mhz"][number] >= grid["clock_mhz"][box].max() * (1 - 1e-12)

    exact = branches.Boxes.measures

    def slow(self: Any, *ends: Any, exact: bool) -> Any:
        made = right(self, *ends, exact=exact)
        return made if exact else replace(made, sums={n: 2 * v for n, v in made.sums.items()})

    right = exact
    monkeypatch.setattr(branches.Boxes, "measures", slow)
    assert not np.allclose(best_of(scores, units, ranked_by(goals), 5).values, expected)
