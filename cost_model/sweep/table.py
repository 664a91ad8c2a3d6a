# SPDX-License-Identifier: Apache-2.0
"""Chosen points of a sweep as a table: parameters and metrics by column."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.estimate import technology as technologies
from cost_model.sweep.expressions import Expression
from cost_model.sweep.pareto import Indices
from cost_model.sweep.plan import Evaluate, Metrics, Plan, metrics_of
from cost_model.sweep.space import TECHNOLOGY, Digits, Values
from hwgen.technologies.utilization import FITS, SHARES, all_fit

INDEX, FAMILY = "index", "family"

FMAX = "fmax_mhz"

MEETS_CLOCK = "meets_clock"
"""Column that says whether the Fmax of a point reaches the clock that was asked for."""

YES, WITHIN, NO = "yes", "within ±", "no"
"""Values of `MEETS_CLOCK`: by more than the uncertainty of Fmax, by less, not at all."""


@dataclass(frozen=True)
class Group:
    """Points of one segment.

    Parameters
    ----------
    segment : int
        Place of the family in the space.
    categories : tuple of int
        Digits of the segment.
    digits : array
        A row for each point, a column for each numeric axis.
    where : array
        Places of the points in `Points.numbers`.
    """

    segment: int
    categories: tuple[int, ...]
    digits: Digits
    where: Indices


@dataclass(frozen=True)
class Points:
    """Some points of a space, by number."""

    numbers: Indices
    groups: tuple[Group, ...]


def enumerated_points(plan: Plan, numbers: Indices) -> Points:
    """Return the points of an enumerated space, `numbers` ascending."""
    groups = []
    offset = 0
    for index, subspace in enumerate(plan.space.subspaces):
        first, last = np.searchsorted(numbers, [offset, offset + subspace.size])
        local = numbers[first:last] - offset
        offset += subspace.size
        segments, starts = np.unique(local // subspace.segment, return_index=True)
        bounds = [*starts, len(local)]
        for segment, start, stop in zip(segments, bounds, bounds[1:], strict=False):
            rest = local[start:stop] % subspace.segment
            digits = np.empty((len(rest), len(subspace.axes) - subspace.categories), np.int64)
            for column in reversed(range(digits.shape[1])):
                rest, digits[:, column] = np.divmod(
                    rest, subspace.axes[subspace.categories + column].count
                )
            categories = subspace.digits(int(segment) * subspace.segment)[: subspace.categories]
            rows = np.arange(first + start, first + stop)
            groups.append(Group(index, tuple(categories), digits, rows))
    return Points(numbers, tuple(groups))


def sampled_points(plan: Plan, archive: Sequence[tuple[int, Digits]], numbers: Indices) -> Points:
    """Return points that a search met: each number is a place in its `archive`."""
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for row, number in enumerate(numbers):
        index, digits = archive[int(number)]
        count = plan.space.subspaces[index].categories
        groups.setdefault((index, tuple(map(int, digits[:count]))), []).append(row)
    return Points(
        numbers,
        tuple(
            Group(
                index,
                categories,
                np.array([archive[int(numbers[w])][1][len(categories) :] for w in rows]),
                np.array(rows),
            )
            for (index, categories), rows in groups.items()
        ),
    )


def parameters_of(plan: Plan, group: Group) -> Values:
    """Return every parameter of the points of a group, the derived ones included."""
    subspace = plan.space.subspaces[group.segment]
    values = subspace.settled(group.categories)
    numeric = subspace.axes[subspace.categories :]
    for axis, digits in zip(numeric, group.digits.T, strict=True):
        values[axis.name] = axis.at(digits)
    subspace.derive(values)
    return values


def columns_of(plan: Plan) -> list[str]:
    """Return the parameters that the sweep mentions, of all families."""
    names = [name for subspace in plan.space.subspaces for name in subspace.stated]
    return list(dict.fromkeys(names))


def ranking_metrics(plan: Plan) -> list[str]:
    """Return the objectives and what else points are ranked by."""
    ranked = [*plan.objectives, *(top.objective for top in plan.tops)]
    return list(dict.fromkeys(map(str, ranked)))


Table = dict[str, list[Any]]
"""Columns of plain data; None where a family has no such parameter or a figure is not known."""


def table_of(plan: Plan, evaluate: Evaluate, metrics: Sequence[str], points: Points) -> Table:
    """Return the parameters, the metrics and the figures by which points are ranked."""
    count = len(points.numbers)
    clock = (MEETS_CLOCK,) if FMAX in metrics else ()
    shown = (FAMILY, *columns_of(plan), *metrics, *ranking_metrics(plan), *clock)
    names = list(dict.fromkeys(shown))
    table: Table = {INDEX: points.numbers.tolist()}
    table |= {name: [None] * count for name in names}
    for group in points.groups:
        values = parameters_of(plan, group)
        family = plan.space.subspaces[group.segment].family
        columns = {name: values.get(name) for name in names}
        result = metrics_of(evaluate, family, values, plan, len(group.where))[1]
        values |= result
        columns |= {name: values[name] for name in metrics if name in values}
        if FITS in result:
            columns[FITS] = _fits(result)
        if FMAX in metrics:
            columns[MEETS_CLOCK] = _meets_clock(values, len(group.where))
        columns |= {text: Expression(text)(values) for text in ranking_metrics(plan)}
        for name in names:
            column = table[name]
            plain = _plain(columns.get(name), len(group.where))
            for row, value in zip(group.where, plain, strict=True):
                column[row] = value
    return table


def _fits(metrics: Metrics) -> NDArray[Any]:
    """Return whether points fit their device, None where that is not known."""
    result = all_fit(metrics[share] for share in SHARES)
    fits: NDArray[Any] = (result == 1).astype(object)
    fits[np.isnan(result)] = None
    return fits


def _meets_clock(values: Values, count: int) -> NDArray[Any]:
    """Return whether points meet their clock, see `MEETS_CLOCK`; None where that is not known."""
    name = str(values.get(TECHNOLOGY, ""))
    tech = technologies.technology(name) if technologies.is_calibrated(name) else None
    margin = (tech.timing.get("uncertainty") if tech else None) or 0.0
    fmax, clock = (
        np.broadcast_to(np.asarray(values.get(key, np.nan), np.float64), count)
        for key in (FMAX, "target.clock_mhz")
    )
    result = np.full(count, None, object)
    result[fmax < clock] = NO
    result[fmax >= clock] = WITHIN
    result[fmax * (1 - margin) >= clock] = YES
    return result


def _plain(value: Any, count: int) -> Iterator[Any]:
    """Yield a value for each point as plain data."""
    if isinstance(value, np.ndarray) and value.ndim:
        for item in value.tolist():
            yield None if isinstance(item, float) and not math.isfinite(item) else item
    else:
        for _ in range(count):
            yield value.item() if isinstance(value, np.generic) else value
