# SPDX-License-Identifier: Apache-2.0
"""Searching a space that is too large to enumerate, by a genetic algorithm (NSGA-II).

The digits of a point are the genes.  A family is searched on its own: families have different
parameters.  The result follows from the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.sweep.plan import Evaluate, Plan, Sample
from cost_model.sweep.reduce import Reducer
from cost_model.sweep.space import Digits, Subspace, Values
from hwgen.errors import ToolMissing

_IDLE_GENERATIONS = 20
"""Generations without a new point after which the space counts as exhausted."""

_UNFIT = 1e30
"""Figure of a point that is not to be chosen; the algorithm does not take infinities."""


@dataclass(frozen=True)
class Search:
    """Points that a search retained.

    Parameters
    ----------
    reducer : Reducer
    points : list of (place, digits)
        Every point that was evaluated: the place of its family and its digits.
    """

    reducer: Reducer
    points: list[tuple[int, Digits]]


def search(plan: Plan, evaluate: Evaluate, progress: Callable[[int, int], None]) -> Search:
    """Search the space of a plan that has a `sample`."""
    sample = plan.sample
    assert sample is not None
    searched = Search(Reducer(plan, evaluate), [])
    subspaces = plan.space.subspaces
    shares = [sample.points * (index + 1) // len(subspaces) for index in range(len(subspaces))]
    for index, (subspace, share) in enumerate(zip(subspaces, shares, strict=True)):
        if subspace.axes:
            _search(searched, index, subspace, share, sample, progress)
        else:
            _evaluate(searched, index, np.empty((1, 0), np.int64))
    return searched


def _search(
    searched: Search,
    segment: int,
    subspace: Subspace,
    share: int,
    sample: Sample,
    progress: Callable[[int, int], None],
) -> None:
    """Search one family until `share` points have been evaluated in all."""
    scores: dict[bytes, NDArray[np.float64]] = {}
    algorithm = _algorithm(subspace, searched.reducer.plan.dimensions, sample, segment)
    idle = 0
    while len(searched.points) < share and len(scores) < subspace.size and idle < _IDLE_GENERATIONS:
        asked = algorithm.ask()
        if asked is None or not len(asked):
            break
        digits = np.rint(np.array(asked.get("X"), np.float64)).astype(np.int64)
        keys = [row.tobytes() for row in digits]
        first = {key: row for row, key in reversed(list(enumerate(keys)))}
        fresh = sorted(row for key, row in first.items() if key not in scores)
        fresh = fresh[: share - len(searched.points)]
        idle = 0 if fresh else idle + 1
        for row, score in zip(fresh, _evaluate(searched, segment, digits[fresh]), strict=True):
            scores[keys[row]] = score
        unknown = np.full(searched.reducer.plan.dimensions, np.inf)
        every = np.array([scores.get(key, unknown) for key in keys])
        unfit = ~np.isfinite(every).all(axis=1)
        asked.set("F", np.where(unfit[:, None], _UNFIT, every))
        asked.set("G", unfit.astype(np.float64)[:, None])
        algorithm.tell(infills=asked)
        progress(len(searched.points), sample.points)


def _evaluate(searched: Search, segment: int, digits: Digits) -> NDArray[np.float64]:
    """Return the objectives of points, infinite where one is not to be chosen."""
    subspace = searched.reducer.plan.space.subspaces[segment]
    scores = np.full((len(digits), searched.reducer.plan.dimensions), np.inf)
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, point in enumerate(digits):
        groups.setdefault(tuple(point[: subspace.categories].tolist()), []).append(row)
    for categories, rows in groups.items():
        numbers = np.arange(len(searched.points), len(searched.points) + len(rows))
        searched.points.extend((segment, digits[row]) for row in rows)
        values: Values = subspace.settled(categories)
        for axis, column in zip(
            subspace.axes[subspace.categories :],
            digits[rows, subspace.categories :].T,
            strict=True,
        ):
            values[axis.name] = axis.at(column)
        result = searched.reducer.add(segment, values, numbers)
        if result is not None:
            scores[rows] = result
    return scores


def _algorithm(subspace: Subspace, objectives: int, sample: Sample, segment: int) -> Any:
    try:
        from pymoo.algorithms.moo.nsga2 import NSGA2
        from pymoo.core.problem import Problem
        from pymoo.operators.crossover.sbx import SBX
        from pymoo.operators.mutation.pm import PM
        from pymoo.operators.repair.rounding import RoundingRepair
        from pymoo.operators.sampling.rnd import IntegerRandomSampling
        from pymoo.termination import get_termination
    except ImportError:
        raise ToolMissing("a sweep with `sample` needs pymoo; pip install 'hwgen[sweep]'") from None
    problem = Problem(
        n_var=len(subspace.axes),
        n_obj=objectives,
        n_ieq_constr=1,
        xl=np.zeros(len(subspace.axes), np.int64),
        xu=np.array([axis.count - 1 for axis in subspace.axes]),
        vtype=int,
    )
    # Small distribution indices: children far from their parents, as integers need them.
    algorithm = NSGA2(
        pop_size=min(sample.population, sample.points),
        sampling=IntegerRandomSampling(),
        crossover=SBX(prob=1.0, eta=3.0, vtype=float, repair=RoundingRepair()),
        mutation=PM(prob=1.0, eta=3.0, vtype=float, repair=RoundingRepair()),
        eliminate_duplicates=True,
    )
    algorithm.setup(
        problem, termination=get_termination("n_gen", 1 << 30), seed=sample.seed + segment
    )
    return algorithm
