# SPDX-License-Identifier: Apache-2.0
"""The points that a sweep returns: each evaluated by its netlist.

All points are ranked by fits (`cost_model.sweep.fitted`), which are wrong by a measured margin.  A
point is a candidate if it meets all specs and no other beats it, were its costs better by that
margin.  Candidates are evaluated by netlist, the nearest to the Pareto set first, and specs and
objectives are applied to those figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cost_model.sweep.document import SweepFile
from cost_model.sweep.engine import chunk_size, run_sweep
from cost_model.sweep.exclusion import ask_within
from cost_model.sweep.fitted import BATCH, FEW_NETLISTS, Fitted, fitted
from cost_model.sweep.journal import Journal
from cost_model.sweep.netlists import Excluded, Netlists, Question, hardware_count, questions
from cost_model.sweep.outcome import Executor, Outcome, Progress, R, Refined, T
from cost_model.sweep.pareto import Best, Floats, Indices
from cost_model.sweep.plan import Evaluate, Plan
from cost_model.sweep.probe import Probe
from cost_model.sweep.reduce import Reducer, reduce_range
from cost_model.sweep.samples import Pool, pools
from cost_model.sweep.table import Points, parameters_of, table_of
from hwgen.errors import InputError

COMPARED = ("area_mm2", "power_w", "fmax_mhz", "luts")
"""Metrics by which fits and netlists are compared."""

_FRONT = 256
"""Points of the Pareto set that are compared with others at once."""


class _Near:
    """Takes points in the place of a `cost_model.sweep.pareto.Front`, and keeps the nearest."""

    def __init__(self, front: Floats, count: int, objectives: int) -> None:
        self.number = objectives
        self.comparable = [_sign(column) for column in self.objectives(front).T]
        self.front, self.groups = self.worse(front), front[:, objectives::2]
        self.best = Best(count)
        self.total = 0

    def screen(self, columns: Sequence[Floats]) -> NDArray[np.intp]:
        """Return the points that may matter: all."""
        return np.arange(len(columns[0]))

    def add(self, values: Floats, numbers: Indices) -> None:
        """Take points."""
        need = self.need(values)
        near = need <= 0
        self.total += int(np.count_nonzero(near))
        self.best.add(need[near], numbers[near])

    def result(self) -> tuple[Floats, Indices]:
        """Return the distances of points from the front, and their numbers."""
        return self.best.values[:, None], self.best.indices

    def objectives(self, values: Floats) -> Floats:
        """Return the figures without those of the group, which `Plan.group_by` adds."""
        return values[:, : self.number]

    def worse(self, values: Floats) -> Floats:
        """Return figures whose differences are relative ones of the objectives."""
        columns = []
        for column, sign in zip(self.objectives(values).T, self.comparable, strict=True):
            if sign == 0:  # nothing is granted where figures are not all of one sign
                columns.append(column * 1e12)
            else:
                columns.append(sign * np.log(np.maximum(sign * column, 1e-300)))
        return np.stack(columns, axis=1)

    def need(self, values: Floats) -> Floats:
        """Return the factor by which points must improve to be Pareto-optimal."""
        worse = self.worse(values)
        need = np.full(len(worse), -np.inf)
        for start in range(0, len(self.front), _FRONT):
            some = self.front[start : start + _FRONT]
            by = np.full((len(worse), len(some)), np.inf)
            for axis in range(worse.shape[1]):
                np.minimum(by, worse[:, axis, None] - some[None, :, axis], out=by)
            of_values, of_front = values[:, self.number :: 2], self.groups[start : start + _FRONT]
            for own, other in zip(of_values.T, of_front.T, strict=True):
                by[own[:, None] != other[None, :]] = -np.inf
            need = np.maximum(need, by.max(axis=1))
        return need


def _group_numbers(columns: Floats) -> Indices:
    """Return a number for each point, equal where all columns are."""
    if not columns.shape[1]:
        return np.zeros(len(columns), np.int64)
    numbers: Indices = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
    return numbers


def _sign(column: Floats) -> int:
    return int(np.all(column > 0)) - int(np.all(column < 0))


def _near_chunk(
    plan: Plan, evaluate: Evaluate, front: Floats, count: int, chunk: int
) -> tuple[Floats, Indices, int]:
    size, near = chunk_size(plan), _Near(front, count, len(plan.objectives))
    reducer = Reducer(replace(plan, tops=(), keep="pareto"), evaluate, near)
    start = chunk * size
    reduce_range(plan, evaluate, start, min(plan.space.size, start + size), reducer)
    return *near.result(), near.total


def add_points(reducer: Reducer, points: Points) -> None:
    """Pass points to a reducer."""
    for group in points.groups:
        values = parameters_of(reducer.plan, group)
        reducer.add(group.segment, values, points.numbers[group.where])


def candidates(
    outcome: Outcome, evaluate: Fitted, executor: Executor, count: int
) -> tuple[Indices, int]:
    """Return the numbers of at most `count` candidates, ascending, and how many there are in all.

    First a share of the Pareto set itself, spread over it, and of the best of each ``top``; then
    the nearest points that would be Pareto-optimal if their costs were better by the margin.
    """
    plan = outcome.plan
    tops = [number for row in zip(*outcome.tops, strict=False) for number in row]
    front = outcome.front[np.argsort(outcome.front_values[:, 0], kind="stable")]
    most = max(1, count // 2)
    if len(front) > most:
        front = front[np.unique(np.linspace(0, len(front) - 1, most).round().astype(int))]
    count_of = len(plan.objectives)
    groups = _group_numbers(outcome.front_values[:, count_of::2])
    ends = [
        outcome.front[groups == group][int(np.argmin(column[groups == group]))]
        for column in outcome.front_values.T[:count_of]
        for group in np.unique(groups)
    ]
    ranked: list[int] = [*map(int, ends), *tops[: count // 4], *front.tolist()]
    hopeful, best = replace(evaluate, optimism=1.0), Best(count)
    if plan.sample is not None:
        near = _Near(outcome.front_values, count, len(plan.objectives))
        reducer = Reducer(replace(plan, tops=(), keep="pareto", sample=None), hopeful, near)
        add_points(reducer, outcome.points_of(np.arange(outcome.evaluated)))
        need, numbers = near.result()
        best.add(need[:, 0], numbers)
        total = near.total
    else:
        total = 0
        chunks = range(-(-plan.space.size // chunk_size(plan)))
        work = partial(_near_chunk, plan, hopeful, outcome.front_values, count)
        for _, (need, numbers, some) in executor.run(work, chunks):
            best.add(need[:, 0], numbers)
            total += some
    ranked += best.indices.tolist()
    unique = list(dict.fromkeys(ranked))
    return np.sort(np.array(unique[:count], np.int64)), max(total, len(unique))


def sweep(
    file: SweepFile,
    probed: Probe,
    netlists: Netlists,
    executor: Executor,
    journal: Journal,
    progress: Mapping[str, Progress],
) -> tuple[Outcome, Evaluate]:
    """Run a sweep; every point that it returns is evaluated by netlist.

    Parameters
    ----------
    file : SweepFile
    probed : Probe
    netlists : Netlists
        Takes the answers.
    executor : Executor
    journal : Journal
    progress : mapping
        Of ``samples``, ``points`` and ``candidates``.

    Returns
    -------
    outcome : Outcome
    evaluate : callable
        What ranked the points.

    Raises
    ------
    ConfigError, InputError
        If no point is left.
    """
    plan = file.plan
    evaluate = Fitted()
    if plan.asks_about_hardware:
        drawn = pools(plan)
        if plan.sample is None and (asked := few_questions(drawn)) is not None:
            ask_within(plan, netlists, asked, executor, progress["samples"])
            outcome = run_sweep(file, probed, netlists, _Here(), journal, progress["points"])
            return replace(outcome, excluded=netlists.excluded), netlists
        evaluate = fitted(plan, drawn, netlists, executor, progress["samples"])
    outcome = run_sweep(file, probed, evaluate, executor, journal, progress["points"])
    count = max(plan.refine, len(plan.objectives) + 1)
    return refine(outcome, evaluate, netlists, executor, count, progress["candidates"]), evaluate


class _Here:
    """Executor in this process, where the answers are."""

    def run(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Yield each item with the function's result."""
        for item in items:
            yield item, function(item)


def few_questions(drawn: Sequence[Pool]) -> list[Question] | None:
    """Return the questions about all points of a sweep, None if they are too many.

    They are too many if fits need fewer netlists.
    """
    if not all(pool.whole for pool in drawn):
        return None
    asked = {pool.question(point) for pool in drawn for point in pool.points}
    fits = {pool.question(point) for pool in drawn for point in pool.stars}
    least = hardware_count(fits) + BATCH * len({pool.family for pool in drawn})
    few = hardware_count(asked) <= max(FEW_NETLISTS, least)
    return sorted(asked, key=repr) if few else None


def refine(
    outcome: Outcome,
    evaluate: Fitted,
    netlists: Netlists,
    executor: Executor,
    count: int,
    progress: Progress = lambda done, total: None,
) -> Outcome:
    """Return the outcome of a sweep among its candidates, by their netlists.

    Parameters
    ----------
    outcome : Outcome
        By fits.
    evaluate : Fitted
    netlists : Netlists
    executor : Executor
    count : int
        Most candidates.
    progress : callable, optional

    Raises
    ------
    InputError
        If no candidate meets the specs.
    """
    plan = outcome.plan
    numbers, total = candidates(outcome, evaluate, executor, count)
    points = outcome.points_of(numbers)
    asked = dict(questions(plan, points))
    ask_within(plan, netlists, list(asked.values()), executor, progress)
    reducer = Reducer(replace(plan, sample=None, keep="pareto"), netlists)
    add_points(reducer, points)
    evaluated = [n for n in numbers if not isinstance(netlists.answers[asked[int(n)]], Excluded)]
    numbers = np.array(evaluated, np.int64)
    points = outcome.points_of(numbers)
    refused = {
        number: answer
        for number, each in sorted(asked.items())
        if isinstance(answer := netlists.answers[each], str)
    }
    values, front = reducer.front.result()
    if not len(front):
        raise InputError(
            f"none of the {len(numbers)} candidates is left by its netlist: {len(refused)} cannot"
            " be built, the others miss a spec; relax the specs, or refine more"
        )
    tops = tuple(best.indices for best in reducer.best)
    chosen = np.unique(np.concatenate([front, *tops]))
    rows = outcome.rows if plan.keep == "all" else lambda: iter([outcome.points_of(chosen)])
    return replace(
        outcome,
        front=front,
        front_values=values,
        tops=tops,
        chosen=outcome.points_of(chosen),
        rows=rows,
        refined=Refined(
            count, evaluate.margins, evaluate.samples, numbers, points, netlists, refused,
            _differences(plan, points, evaluate, netlists), total, reducer.groups,
        ),
    )  # fmt: skip


def _differences(
    plan: Plan, points: Points, evaluate: Evaluate, netlists: Netlists
) -> dict[str, dict[str, float]]:
    """Return the differences between fits and netlists, by metric."""
    ranked, result = (table_of(plan, how, COMPARED, points) for how in (evaluate, netlists))
    differences = {}
    for metric in COMPARED:
        pairs = zip(ranked[metric], result[metric], strict=True)
        relative = np.array([a / b - 1 for a, b in pairs if a is not None and b])
        if len(relative):
            differences[metric] = {
                "mean": float(np.abs(relative).mean()),
                "worst": float(relative[np.abs(relative).argmax()]),
            }
    return differences
