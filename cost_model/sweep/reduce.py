# SPDX-License-Identifier: Apache-2.0
"""From points to what is kept of them: the Pareto set, the best, and why the others are not.

What is kept of a chunk is a few arrays by name, so that it can be sent, stored and merged.  The
same arrays follow from the same points, however they are cut into chunks and blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.sweep.expressions import Expression, ExpressionError
from cost_model.sweep.netlists import EXCLUDED
from cost_model.sweep.pareto import Best, Collector, Front, Indices
from cost_model.sweep.plan import Evaluate, Plan, metrics_of
from cost_model.sweep.space import Values
from hwgen.errors import InputError

BLOCK = 131072
"""Points that are evaluated at once; what depends on few parameters has axes of its own."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Tally:
    """Names of what is counted, in the order of the counts.

    Parameters
    ----------
    refusals : tuple of (place, reason)
        Of each family (by its place) why a point is not in the sweep.
    specs : tuple of Expression
    """

    refusals: tuple[tuple[int, str], ...]
    specs: tuple[Expression, ...]

    @classmethod
    def of(cls, plan: Plan) -> Tally:
        """Return the counters of a plan."""
        return cls(
            tuple(
                (index, reason)
                for index, subspace in enumerate(plan.space.subspaces)
                for reason, _ in subspace.refusals()
            ),
            plan.specs,
        )

    @property
    def size(self) -> int:
        """The number of counters: points, refusals, illegal, each spec, unknown, retained."""
        return len(self.refusals) + len(self.specs) + 4

    @property
    def illegal(self) -> int:
        """Place of the count of points that the family's own rules refuse."""
        return 1 + len(self.refusals)

    def refused(self, segment: int) -> int:
        """Return the place of a family's first refusal."""
        return 1 + sum(other < segment for other, _ in self.refusals)


class Reducer:
    """Takes points, block by block, in the order of their indices.

    Parameters
    ----------
    plan : Plan
    evaluate : Evaluate
    front : Collector, optional
        What keeps points; default those that no other beats.
    """

    def __init__(self, plan: Plan, evaluate: Evaluate, front: Collector | None = None) -> None:
        self.plan = plan
        self.evaluate = evaluate
        self.tally = Tally.of(plan)
        self.counts = np.zeros(self.tally.size, np.int64)
        self.failed = np.zeros(len(plan.specs), np.int64)
        self.lowest = np.full(len(plan.specs), np.nan)
        self.highest = np.full(len(plan.specs), np.nan)
        self.front = front or Front(plan.dimensions)
        self.best = [Best(top.count) for top in plan.tops]
        self.rows: list[Indices] = []
        self.groups: dict[tuple[float, ...], NDArray[np.int64]] = {}
        """By group of `Plan.group_by`, its counts, as `Tally` has them, but for that of points."""
        self._counts_groups = bool(plan.group_by) and front is None
        self._subjects = [spec.subject for spec in plan.specs]
        asked = [*plan.specs, *(objective.expression for objective in plan.objectives)]
        asked += [top.objective.expression for top in plan.tops]
        self._names = frozenset().union(*(expression.names for expression in asked))

    # -- taking points -----------------------------------------------------------------------

    def add(self, segment: int, values: Values, indices: Indices) -> NDArray[np.float64] | None:
        """Take points of one segment.

        Parameters
        ----------
        segment : int
            Place of their family.
        values : dict
            Their parameters without the derived ones, which are added; arrays that broadcast to
            all points.
        indices : array, shape (n,)
            Their numbers.

        Returns
        -------
        array or None
            The objectives of every point, to be minimised, infinite where the point is not in
            the sweep, breaks a rule or a spec or has no known figure; None if that is so of all.
        """
        try:
            return self._add(segment, values, indices)
        except ExpressionError as error:
            family = self.plan.space.subspaces[segment].family
            raise InputError(f"an expression of the sweep fails for {family}: {error}") from None

    def _add(self, segment: int, values: Values, indices: Indices) -> NDArray[np.float64] | None:
        plan, tally = self.plan, self.tally
        subspace = plan.space.subspaces[segment]
        count = len(indices)
        shape = _shape(values) or (count,)
        stages = np.full(shape, -1) if self._counts_groups else None
        legal, removed = subspace.check(values, shape, stages)
        self.counts[0] += count
        first = tally.refused(segment)
        self.counts[first : first + len(removed)] += np.array(removed, np.int64)
        present = np.flatnonzero(legal)
        if stages is not None:
            all_groups = [
                np.broadcast_to(plan.group_of(name, subspace.family, values), shape).ravel()
                for name in plan.group_by
            ]
            # Derived parameters out of their bounds make no groups.
            counted = (stages < 0) | (stages >= len(subspace.derived))
            stages = np.where(stages < 0, -1, stages + first).ravel()
            counted = counted.ravel()
        if not len(present):
            if stages is not None:
                self._count_groups(all_groups, stages, counted)
            return None
        values, inside = _within(values, legal, len(present))
        shape = inside.shape
        groups = [plan.group_of(name, subspace.family, values) for name in plan.group_by]
        valid, metrics = metrics_of(self.evaluate, subspace.family, values, plan, shape)
        excluded = _listed(metrics.pop(EXCLUDED, np.full(shape, -1.0)), inside)
        values.update(metrics)
        valid = _listed(valid, inside)
        values = {
            name: _listed(value, inside) if _is_array(value) else value
            for name, value in values.items()
            if name in self._names
        }
        good, ends = self._meets(values, valid, excluded)
        objectives = [
            np.broadcast_to(
                np.asarray(objective.sign * objective.expression(values), np.float64),
                (len(present),),
            )
            for objective in plan.objectives
        ]
        for group in groups:
            # A point beats another one only where both are equal: in the same group.
            listed = _listed(group, inside) if isinstance(group, np.ndarray) else group
            column = np.broadcast_to(np.asarray(listed, np.float64), (len(present),))
            objectives += [column, -column]
        complete = good.copy()
        for column in objectives:
            complete &= np.isfinite(column)
        self.counts[-2] += np.count_nonzero(good) - np.count_nonzero(complete)
        self.counts[-1] += np.count_nonzero(complete)
        if stages is not None:
            ends[good & ~complete] = tally.size - 2
            stages[present] = ends
            self._count_groups(all_groups, stages, counted)
        rows = np.flatnonzero(complete)
        if not len(rows):
            return None
        columns = [column[rows] for column in objectives]
        numbers = indices[present[rows]]
        near = self.front.screen(columns)
        self.front.add(np.stack([column[near] for column in columns], axis=1), numbers[near])
        for top, best in zip(plan.tops, self.best, strict=True):
            amount = top.objective.sign * top.objective.expression(values)
            amount = np.broadcast_to(np.asarray(amount, np.float64), (len(present),))
            best.add(amount[rows], numbers)
        if plan.keep == "all":
            self.rows.append(numbers)
        if plan.sample is None:
            return None
        result = np.full((count, len(columns)), np.inf)
        result[present[rows]] = np.stack(columns, axis=1)
        return result

    def _meets(
        self, values: Values, valid: NDArray[np.bool_], excluded: NDArray[np.float64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Mark the points that are legal and meet the specs; count the failures of the others.

        Returned as well is, for each point, which count it is in.  Of a point that is `excluded`
        only the failure of that spec is known.
        """
        good = valid.copy()
        counts = self.counts
        ends = np.where(good, self.tally.size - 1, self.tally.illegal)
        left = legal = int(np.count_nonzero(good))
        counts[self.tally.illegal] += len(good) - left
        for index, spec in enumerate(self.plan.specs):
            met = np.broadcast_to(spec(values), good.shape)
            for name in spec.names:
                value = values[name]
                if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                    met = met & ~np.isnan(value)  # what is not known does not meet a spec
            met = np.where(excluded < 0, met, excluded != index)
            self.failed[index] += legal - np.count_nonzero(met & valid)
            self._reach(index, values, valid)
            ends[good & ~met] = self.tally.illegal + 1 + index
            good &= met
            remaining = int(np.count_nonzero(good))
            counts[self.tally.illegal + 1 + index] += left - remaining
            left = remaining
        return good, ends

    def _count_groups(
        self,
        groups: list[NDArray[np.float64]],
        stages: NDArray[np.int64],
        counted: NDArray[np.bool_],
    ) -> None:
        """Count points by group, and by the count that they are in."""
        if not counted.any():
            return
        codes = np.zeros(len(stages), np.int64)
        for group in groups:
            numbers, inverse = np.unique(group, return_inverse=True)
            codes = codes * len(numbers) + inverse.reshape(-1)
        size = self.tally.size
        kept, where, codes = np.unique(codes[counted], return_index=True, return_inverse=True)
        table = np.bincount(
            codes.reshape(-1) * size + stages[counted], minlength=len(kept) * size
        ).reshape(len(kept), size)
        examples = np.flatnonzero(counted)[where]
        for row, example in zip(table, examples.tolist(), strict=True):
            key = tuple(float(group[example]) for group in groups)
            self.groups[key] = self.groups.get(key, 0) + row

    def _reach(self, number: int, values: Values, valid: NDArray[np.bool_]) -> None:
        """Follow the range of what a spec is about, for the message if nothing meets it."""
        subject = self._subjects[number]
        if subject is None:
            return
        amounts = subject(values)
        if getattr(amounts, "dtype", np.dtype(object)).kind not in "iuf":
            return
        amounts = np.broadcast_to(np.asarray(amounts, np.float64), valid.shape)[valid]
        if len(amounts):
            self.lowest[number] = np.fmin(self.lowest[number], np.fmin.reduce(amounts))
            self.highest[number] = np.fmax(self.highest[number], np.fmax.reduce(amounts))

    # -- results -----------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Return the retained points and counts as arrays."""
        values, indices = self.front.result()
        arrays: Arrays = {
            "counts": self.counts,
            "failed": self.failed,
            "lowest": self.lowest,
            "highest": self.highest,
            "front_values": values,
            "front_indices": indices,
        }
        for index, best in enumerate(self.best):
            arrays[f"top{index}_values"] = best.values
            arrays[f"top{index}_indices"] = best.indices
        if self.groups:
            arrays["group_keys"] = np.array(list(self.groups), np.float64)
            arrays["group_counts"] = np.stack(list(self.groups.values()))
        if self.plan.keep == "all":
            arrays["rows"] = np.concatenate([np.empty(0, np.int64), *self.rows])
        return arrays

    def merge(self, arrays: Arrays) -> None:
        """Take what was kept of other points; their rows stay where they are."""
        self.counts += arrays["counts"]
        self.failed += arrays["failed"]
        self.lowest = np.fmin(self.lowest, arrays["lowest"])
        self.highest = np.fmax(self.highest, arrays["highest"])
        self.front.add(arrays["front_values"], arrays["front_indices"])
        if "group_keys" in arrays:
            pairs = zip(arrays["group_keys"].tolist(), arrays["group_counts"], strict=True)
            for key, row in pairs:
                self.groups[tuple(key)] = self.groups.get(tuple(key), 0) + row
        for index, best in enumerate(self.best):
            best.add(arrays[f"top{index}_values"], arrays[f"top{index}_indices"])


def reduce_range(
    plan: Plan, evaluate: Evaluate, start: int, stop: int, reducer: Reducer | None = None
) -> Arrays:
    """Enumerate the points from `start` to before `stop` and return what is kept of them.

    Parameters
    ----------
    plan : Plan
    evaluate : Evaluate
    start, stop : int
    reducer : Reducer, optional
        What takes the points; default a new one.
    """
    reducer = reducer or Reducer(plan, evaluate)
    for run in plan.space.runs(start, stop, BLOCK):
        indices = np.arange(run.index, run.index + run.stop - run.start)
        reducer.add(run.subspace, plan.space.values(run), indices)
    return reducer.arrays()


def _shape(values: Values) -> tuple[int, ...]:
    """Return the shape to which the arrays among parameters broadcast."""
    return np.broadcast_shapes(*(np.shape(v) for v in values.values() if _is_array(v)))


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _within(
    values: Values, selected: NDArray[np.bool_], count: int
) -> tuple[Values, NDArray[np.bool_]]:
    """Return the parameters of the points to evaluate, and which of them are selected.

    Those are the `count` selected ones as a list, or, where axes have separate dimensions and
    about half of that block is selected, the smallest block that holds them.
    """
    if count == selected.size:
        return values, selected
    used = [
        np.flatnonzero(
            selected.any(axis=tuple(each for each in range(selected.ndim) if each != axis))
        )
        for axis in range(selected.ndim)
    ]
    if selected.ndim > 1 and math.prod(map(len, used)) <= 2 * count:
        return {
            name: _cut(value, used) if _is_array(value) else value for name, value in values.items()
        }, selected[np.ix_(*used)]
    return {
        name: np.broadcast_to(value, selected.shape)[selected] if _is_array(value) else value
        for name, value in values.items()
    }, np.ones(count, np.bool_)


def _listed(value: NDArray[Any], inside: NDArray[np.bool_]) -> NDArray[Any]:
    """Return the values of the kept points as a list."""
    value = np.broadcast_to(value, inside.shape)
    return value.reshape(-1) if inside.all() else value[inside]


def _cut(value: NDArray[Any], used: list[NDArray[np.intp]]) -> NDArray[Any]:
    """Select entries along each axis along which an array varies."""
    for axis, indices in enumerate(used):
        if value.shape[axis] > 1 and len(indices) < value.shape[axis]:
            value = value.take(indices, axis)
    return value
