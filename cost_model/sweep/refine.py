# SPDX-License-Identifier: Apache-2.0
"""The points of a sweep that are nearest to its Pareto set, evaluated by structure.

Closed forms are wrong by a margin.  A point that they take for worse than another may be better if
it is worse by no more than that: these candidates are evaluated by structure, the nearest first,
and specs and objectives are applied to those figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.estimate import technology as technologies
from cost_model.sweep.document import SweepFile
from cost_model.sweep.engine import chunk_size
from cost_model.sweep.outcome import Executor, Outcome, Progress, Refined
from cost_model.sweep.pareto import Best, Floats, Indices
from cost_model.sweep.plan import Evaluate, Plan, technologies_of
from cost_model.sweep.reader import Reader
from cost_model.sweep.reduce import Reducer, reduce_range
from cost_model.sweep.structural import (
    MOST_POINTS,
    Metrics,
    Question,
    Structural,
    answered,
    questions,
    without_closed_forms,
)
from cost_model.sweep.table import Points, enumerated_points, parameters_of, table_of
from hwgen.errors import InputError

COMPARED = ("area_mm2", "power_w", "fmax_mhz")
"""Metrics by which closed forms and structure are compared."""

_FRONT = 256
"""Points of the Pareto set that are compared with others at once."""


def margin_of(plan: Plan) -> float:
    """Return the relative error that nine of ten closed forms of a sweep's technologies have.

    Raises
    ------
    InputError
        If a technology has no costs of structures.
    """
    margin = 0.0
    for name in sorted(technologies_of(plan)):
        tech = technologies.technology(name)
        if not tech.structure:
            raise InputError(
                f"refine: the structure of designs has no costs in {name}; they are known of"
                " standard cells that `hwgen calibrate` has seen"
            )
        left_out = tech.provenance.get("left_out", {})
        margin = max([margin, *(error["covered"] for error in left_out.values())])
    return margin


class _Near:
    """Takes points in the place of a `cost_model.sweep.pareto.Front`, and keeps the nearest."""

    def __init__(self, front: Floats, margin: float, count: int) -> None:
        self.comparable = [_sign(column) for column in front.T]
        self.front, self.limit = self.worse(front), np.log1p(margin)
        self.best = Best(count)

    def screen(self, columns: Sequence[Floats]) -> NDArray[np.intp]:
        """Return the points that may matter: all."""
        return np.arange(len(columns[0]))

    def add(self, values: Floats, numbers: Indices) -> None:
        """Take points."""
        need = self.need(values)
        near = need <= self.limit
        self.best.add(need[near], numbers[near])

    def result(self) -> tuple[Floats, Indices]:
        """Return the distances of points from the front, and their numbers."""
        return self.best.values[:, None], self.best.indices

    def worse(self, values: Floats) -> Floats:
        """Return figures whose differences are relative ones of the objectives."""
        columns = []
        for column, sign in zip(values.T, self.comparable, strict=True):
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
            need = np.maximum(need, by.max(axis=1))
        return need


def _sign(column: Floats) -> int:
    return int(np.all(column > 0)) - int(np.all(column < 0))


def _reducer(plan: Plan, evaluate: Evaluate, front: Floats, margin: float, count: int) -> Reducer:
    near = _Near(front, margin, count)
    return Reducer(replace(plan, tops=(), keep="pareto"), evaluate, near)


def _near_chunk(
    plan: Plan, evaluate: Evaluate, front: Floats, margin: float, count: int, chunk: int
) -> tuple[Floats, Indices]:
    size = chunk_size(plan)
    reducer = _reducer(plan, evaluate, front, margin, count)
    start = chunk * size
    reduce_range(plan, evaluate, start, min(plan.space.size, start + size), reducer)
    return reducer.front.result()


def add_points(reducer: Reducer, points: Points) -> None:
    """Give points to a reducer."""
    for group in points.groups:
        values = parameters_of(reducer.plan, group)
        reducer.add(group.segment, values, points.numbers[group.where])


def candidates(
    outcome: Outcome, evaluate: Evaluate, executor: Executor, margin: float, count: int
) -> Indices:
    """Return the numbers of the `count` points nearest to the Pareto set, ascending.

    Points that would be in it if they were better by no more than the margin in all objectives;
    among them the best of each ``top``.
    """
    plan, front = outcome.plan, outcome.front_values
    best = Best(count)
    if plan.sample is not None:
        reducer = _reducer(replace(plan, sample=None), evaluate, front, margin, count)
        add_points(reducer, outcome.points_of(np.arange(outcome.evaluated)))
        need, numbers = reducer.front.result()
        best.add(need[:, 0], numbers)
    else:
        chunks = range(-(-plan.space.size // chunk_size(plan)))
        work = partial(_near_chunk, plan, evaluate, front, margin, count)
        for _, (need, numbers) in executor.run(work, chunks):
            best.add(need[:, 0], numbers)
    first = [top[:1] for top in outcome.tops]
    ranked = np.concatenate([*first, best.indices])
    unique, indices = np.unique(ranked, return_index=True)
    return np.sort(unique[np.argsort(indices)][:count])


def ask(
    structural: Structural,
    asked: Sequence[Question],
    workloads: Mapping[str, Any],
    executor: Executor,
    progress: Progress,
) -> None:
    """Have questions answered by other processes, and remember the answers."""
    missing = [each for each in dict.fromkeys(asked) if each not in structural.answers]
    work: Callable[[Question], Metrics] = partial(
        answered, costs=structural.costs, workloads=workloads
    )
    progress(0, len(missing))
    for done, (each, metrics) in enumerate(executor.run(work, missing), 1):
        structural.answers[each] = metrics
        progress(done, len(missing))


def refine(
    outcome: Outcome,
    evaluate: Evaluate,
    structural: Structural,
    executor: Executor,
    count: int,
    progress: Progress = lambda done, total: None,
) -> Outcome:
    """Return the outcome of a sweep among the candidates, by the figures of their structures.

    Parameters
    ----------
    outcome : Outcome
        By closed forms.
    evaluate : Evaluate
        The closed forms.
    structural : Structural
    executor : Executor
    count : int
        Most candidates.
    progress : callable, optional

    Raises
    ------
    InputError
        If a technology has no costs of structures, or no candidate meets the specs.
    """
    plan, margin = outcome.plan, margin_of(outcome.plan)
    numbers = candidates(outcome, evaluate, executor, margin, count)
    points = outcome.points_of(numbers)
    asked = dict(questions(plan, points))
    ask(structural, list(asked.values()), plan.workloads, executor, progress)
    reducer = Reducer(replace(plan, sample=None, keep="pareto"), structural)
    add_points(reducer, points)
    answers = {number: structural.answers[each] for number, each in asked.items()}
    refused = {
        number: answer or "a rule of its family does not allow it"
        for number, answer in sorted(answers.items())
        if isinstance(answer, str)
    }
    values, front = reducer.front.result()
    if not len(front):
        raise InputError(
            f"none of the {len(numbers)} candidates is left by the estimate by structure:"
            f" {len(refused)} have no figures, the others miss a spec; relax the specs, or refine"
            " more"
        )
    tops = tuple(best.indices for best in reducer.best)
    chosen = np.unique(np.concatenate([front, *tops]))
    rows = outcome.rows if plan.keep == "all" else lambda: iter([outcome.points_of(chosen)])
    compared = _differences(plan, points, evaluate, structural)
    return replace(
        outcome,
        front=front,
        front_values=values,
        tops=tops,
        chosen=outcome.points_of(chosen),
        rows=rows,
        refined=Refined(count, margin, numbers, points, structural, refused, compared),
    )


def by_structure(
    file: SweepFile, structural: Structural, executor: Executor, progress: Progress
) -> Structural:
    """Have a model answer all questions of a sweep about families without closed forms.

    Raises
    ------
    ConfigError
        If there are too many points.
    """
    plan, families = file.plan, without_closed_forms(file.plan)
    points = sum(each.size for each in plan.space.subspaces if each.family in families)
    if plan.sample is not None:
        points = min(points, plan.sample.points)
    if points > MOST_POINTS:
        reader = Reader(file.document)
        reader.complain(
            ("sample",) if plan.sample else (),
            f"there are no closed forms of {', '.join(families)}, whose hardware is evaluated point"
            f" by point: {points:,} points are more than {MOST_POINTS:,}; give fewer values, or"
            " search them: `sample: {points: 500, population: 50}`",
        )
        raise reader.error()
    if plan.sample is None:  # else it is not known yet what will be asked
        asked, offset = [], 0
        for subspace in plan.space.subspaces:
            if subspace.family in families:
                numbers = np.arange(offset, offset + subspace.size)
                result = questions(plan, enumerated_points(plan, numbers))
                asked += [each for _, each in result]
            offset += subspace.size
        ask(structural, asked, plan.workloads, executor, progress)
    return structural


def _differences(
    plan: Plan, points: Points, evaluate: Evaluate, structural: Structural
) -> dict[str, dict[str, float]]:
    """Return the differences between closed forms and netlists, by metric."""
    closed, result = (table_of(plan, how, COMPARED, points) for how in (evaluate, structural))
    differences = {}
    for metric in COMPARED:
        pairs = zip(closed[metric], result[metric], strict=True)
        relative = np.array([a / b - 1 for a, b in pairs if a is not None and b])
        if len(relative):
            differences[metric] = {
                "mean": float(np.abs(relative).mean()),
                "worst": float(relative[np.abs(relative).argmax()]),
            }
    return differences
