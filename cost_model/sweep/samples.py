# SPDX-License-Identifier: Apache-2.0
"""Points that fits of a sweep are made of: drawn at random, and small designs of each structure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cost_model.configurations.configurations import Configurations, configuration
from cost_model.roofline.roofline import PREFIX
from cost_model.sweep.fit import Variables, distinct
from cost_model.sweep.netlists import NOT_IN_NETLISTS, Question
from cost_model.sweep.plan import Plan
from cost_model.sweep.space import TECHNOLOGY, Axis, Digits, Subspace, Values

_DRAWN = 1 << 17
_POOL = 6000
_MOST_STRUCTURES = 60
_MOST_STARS = 200
_STAR_VALUES = 6


@dataclass(frozen=True)
class Pool:
    """Legal points of one family in one technology, drawn at random.

    Parameters
    ----------
    family, technology : str
    points : list of dict
        Their parameters.
    stars : list of dict
        Small designs and others that differ from these in one parameter, constraints or not.
    names : tuple of str
        Those that vary and shape hardware.
    whole : bool
        Whether these are all points that there are.
    """

    family: str
    technology: str
    points: list[dict[str, Any]]
    stars: list[dict[str, Any]]
    names: tuple[str, ...]
    whole: bool

    def question(self, point: Mapping[str, Any]) -> Question:
        """Return the question about a point."""
        return Question.of(self.family, point, self.technology)


def pools(plan: Plan) -> list[Pool]:
    """Draw points of each family and technology of a sweep."""
    result = []
    for subspace in plan.space.subspaces:
        points: dict[str, list[dict[str, Any]]] = {}
        whole = subspace.size <= _DRAWN
        for values, count in _drawn(subspace, whole=whole):
            technology = str(values.get(TECHNOLOGY, ""))
            rows = points.setdefault(technology, [])
            rows += _legal_points(subspace, values, count)
        for technology, rows in points.items():
            order = np.random.default_rng(0).permutation(len(rows))
            rows = [rows[index] for index in order[:_POOL]]
            names = tuple(
                name for name in (rows[0] if rows else ())
                if not name.startswith(PREFIX) and name not in NOT_IN_NETLISTS
                and any(row[name] != rows[0][name] for row in rows)
            )  # fmt: skip
            stars = list(_stars(subspace, rows, names))
            every = whole and len(order) <= _POOL
            result.append(Pool(subspace.family, technology, rows, stars, names, every))
    return result


def _stars(
    subspace: Subspace, rows: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield small designs of each structure, and others that differ from them in one parameter."""
    if not rows:
        return
    derived = {item.name for item in subspace.derived}
    axes = {axis.name: axis for axis in subspace.axes if axis.name in names}
    variables = Variables.of({name: [row[name] for row in rows] for name in axes})
    few = distinct(tuple(row[name] for name in variables.levels) for row in rows)
    structures = [dict(zip(variables.levels, each, strict=True)) for each in few]
    if len(structures) > _MOST_STRUCTURES:
        order = np.random.default_rng(2).permutation(len(structures))[:_MOST_STRUCTURES]
        structures = [structures[index] for index in order]
    values = {name: _some_values(axes[name]) for name in variables.numbers}
    base = {name: each[min(1, len(each) - 1)] for name, each in values.items()}
    points = [{**rows[0], **base, **structure} for structure in structures]
    for place, structure in enumerate(structures):
        for name, each in values.items():
            # More values of one structure, two more of each other.
            others = [value for value in each if value != base[name]]
            for value in others if place == 0 else [*others[:1], *others[2:3]]:
                points.append({**rows[0], **base, **structure, name: value})
        if place % 3 == 0:  # together, as well
            points.append(
                {**rows[0], **structure, **{n: v[min(3, len(v) - 1)] for n, v in values.items()}}
            )
    for point in points[:_MOST_STARS]:
        whole: Values = {name: value for name, value in point.items() if name not in derived}
        if all(bool(np.all(good)) for good in subspace.derive(whole)):
            plain = {n: v.item() if isinstance(v, np.generic) else v for n, v in whole.items()}
            if configuration(subspace.family, plain) is not None:
                yield plain


def _some_values(axis: Axis) -> list[Any]:
    """Return a few values of a numeric axis, about as far from each other as factors of 2."""
    values = [axis.value(int(index)) for index in np.unique(
        np.concatenate([[0], np.geomspace(1, axis.count, 40) - 1]).astype(int)
    )]  # fmt: skip
    chosen = [values[0]]
    for value in values[1:]:
        if value >= 1.9 * chosen[-1]:
            chosen.append(value)
    return chosen[:_STAR_VALUES]


def _drawn(subspace: Subspace, *, whole: bool) -> Iterator[tuple[Values, int]]:
    """Yield points of a family by segment, the derived parameters not yet among them."""
    counts = [axis.count for axis in subspace.axes]
    if whole:
        digits = np.indices(counts).reshape(len(counts), -1).T if counts else np.zeros((1, 0), int)
    else:
        rng = np.random.default_rng(0)
        columns = [rng.integers(0, count, _DRAWN) for count in counts]
        digits = np.unique(np.stack(columns, axis=1), axis=0)
    categories = digits[:, : subspace.categories]
    segments, inverse = np.unique(categories, axis=0, return_inverse=True)
    for place, segment in enumerate(segments):
        some: Digits = digits[inverse.ravel() == place, subspace.categories :]
        values = subspace.settled(segment.tolist())
        for axis, column in zip(subspace.axes[subspace.categories :], some.T, strict=True):
            values[axis.name] = axis.at(column)
        yield values, len(some)


def _legal_points(subspace: Subspace, values: Values, count: int) -> list[dict[str, Any]]:
    """Return the points that meet the constraints and the rules of their family."""
    inside, _ = subspace.check(values, (count,))
    where = np.flatnonzero(inside)
    if len(where) > _POOL:
        where = np.random.default_rng(0).choice(where, _POOL, replace=False)
    if not len(where):
        return []
    arrays = {n: np.broadcast_to(v, (count,))[where] for n, v in values.items() if _is_array(v)}
    fixed = {name: value for name, value in values.items() if name not in arrays}
    legal = Configurations(subspace.family, fixed, arrays).legal() if arrays else [True]
    varying = {axis.name for axis in subspace.axes} | {item.name for item in subspace.derived}
    return [
        {**fixed, **{name: column[row].item() for name, column in arrays.items()},
         **{name: fixed[name] for name in varying & fixed.keys()}}
        for row in np.flatnonzero(legal).tolist()
    ]  # fmt: skip


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0
