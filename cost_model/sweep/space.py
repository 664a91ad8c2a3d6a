# SPDX-License-Identifier: Apache-2.0
"""The points of a sweep: every combination of the values of its parameters, by number.

A point is a number below `Space.size`, written in a mixed radix: its digits choose the family,
then a value of every axis.  Nothing is stored for a point, so a space may have any size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.configurations.metrics import DEVICE
from cost_model.sweep.expressions import Expression
from hwgen.technologies import technology_of

TECHNOLOGY = "target.technology"

Digits = NDArray[np.int64]
Values = dict[str, Any]
"""Parameters by dotted name: plain data, or an array with a value for each point."""


@dataclass(frozen=True)
class Steps:
    """The numbers ``first, first + step, ...``, `count` of them."""

    first: int | float
    step: int | float
    count: int

    def at(self, digits: Digits) -> NDArray[Any]:
        """Return the numbers at some places."""
        if isinstance(self.first, int) and isinstance(self.step, int):
            return self.first + digits * self.step
        # 0.1 + 2 * 0.1 is meant to be 0.3.
        return np.round(self.first + digits * self.step, 12)

    def ends(self) -> list[int | float]:
        """Return the first and the last number."""
        last = self.first + (self.count - 1) * self.step
        return [self.first, last if isinstance(last, int) else round(last, 12)]


@dataclass(frozen=True)
class Axis:
    """A parameter and the values that it takes.

    Parameters
    ----------
    name : str
        Dotted name.
    values : Steps or tuple
        Numbers in steps, or plain data in a given order.
    numeric : bool
        Whether the values are numbers, so that many points are evaluated at once.
    """

    name: str
    values: Steps | tuple[Any, ...]
    numeric: bool

    @property
    def count(self) -> int:
        """The number of values."""
        return self.values.count if isinstance(self.values, Steps) else len(self.values)

    @cached_property
    def _table(self) -> NDArray[Any]:
        assert not isinstance(self.values, Steps)
        return np.array(self.values)

    def at(self, digits: Digits) -> NDArray[Any]:
        """Return the numbers at some places of a numeric axis."""
        return self.values.at(digits) if isinstance(self.values, Steps) else self._table[digits]

    def value(self, digit: int) -> Any:
        """Return one value as plain data."""
        if isinstance(self.values, Steps):
            return self.at(np.array([digit])).item()
        return self.values[digit]


@dataclass(frozen=True)
class Derived:
    """A numeric parameter that follows from others.

    Parameters
    ----------
    name : str
        Dotted name.
    expression : Expression
        What it follows from.
    integer : bool
        Whether the parameter must be an integer.
    low, high : float
        Its bounds.
    path : tuple
        Where it stands in the sweep's file.
    """

    name: str
    expression: Expression
    integer: bool
    low: float = -math.inf
    high: float = math.inf
    path: tuple[str | int, ...] = ()

    def legal(self, value: Any) -> Any:
        """Return whether values are within the bounds, and integers where they must be."""
        inside = (value >= self.low) & (value <= self.high)
        return inside & (value == np.floor(value)) if self.integer else inside


@dataclass(frozen=True)
class Constraint:
    """A condition on parameters; points that break it are not in the sweep.

    Parameters
    ----------
    expression : Expression
    path : tuple
        Where it stands in the sweep's file.
    """

    expression: Expression
    path: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        return self.expression.text


@dataclass(frozen=True)
class Subspace:
    """The points of one family.

    Parameters
    ----------
    family : str
    axes : tuple of Axis
        Axes that are not numeric come first; the last one varies fastest.
    derived : tuple of Derived
        In an order in which each uses only those before it.
    constraints : tuple of Constraint
    fixed : mapping
        Every other parameter of the family with its value.
    stated : tuple of str
        The parameters that the sweep mentions, in its order.
    """

    family: str
    axes: tuple[Axis, ...]
    derived: tuple[Derived, ...]
    constraints: tuple[Constraint, ...]
    fixed: Mapping[str, Any]
    stated: tuple[str, ...]

    @cached_property
    def size(self) -> int:
        """The number of points before any constraint."""
        return math.prod(axis.count for axis in self.axes)

    @property
    def parameters(self) -> frozenset[str]:
        """The names of all parameters."""
        own = [axis.name for axis in self.axes] + [item.name for item in self.derived]
        return frozenset((*own, *self.fixed))

    @cached_property
    def categories(self) -> int:
        """The number of axes that are not numeric."""
        return sum(not axis.numeric for axis in self.axes)

    @cached_property
    def segment(self) -> int:
        """Points that share the values of all axes that are not numeric; they lie together."""
        return math.prod(axis.count for axis in self.axes[self.categories :])

    def digits(self, index: int) -> list[int]:
        """Return the digits of one point."""
        digits = []
        for axis in reversed(self.axes):
            index, digit = divmod(index, axis.count)
            digits.append(digit)
        return digits[::-1]

    def columns(self, local: Digits, dense_axes: int = 0) -> Values:
        """Return the numeric axes of points of a segment.

        Parameters
        ----------
        local : array of int, shape (n,)
            Positions of the points in the segment, without its last `dense_axes` axes.
        dense_axes : int
            How many of the last axes have a separate dimension, with all of their values.

        Returns
        -------
        dict
            Arrays that broadcast against each other, to n points by all of those axes.  Whatever is
            computed of a few of them is computed once for each of their combinations.
        """
        columns: Values = {}
        axes = self.axes[self.categories :]
        slow, fast = axes[: len(axes) - dense_axes], axes[len(axes) - dense_axes :]
        stride = total = math.prod(axis.count for axis in slow)
        for axis in slow:
            stride //= axis.count
            digits = local // stride if stride > 1 else local
            if stride * axis.count < total:
                digits = digits % axis.count
            columns[axis.name] = axis.at(digits).reshape(-1, *[1] * dense_axes)
        for index, axis in enumerate(fast, 1):
            shape = [1] * index + [axis.count] + [1] * (dense_axes - index)
            columns[axis.name] = axis.at(np.arange(axis.count)).reshape(shape)
        return columns

    def count_dense_axes(self, longest: int) -> tuple[int, int]:
        """Count the last numeric axes with at most `longest` points together, and these points."""
        count, points = 0, 1
        for axis in reversed(self.axes[self.categories :]):
            if points * axis.count > longest:
                break
            count, points = count + 1, points * axis.count
        return (count, points) if points > 1 else (0, 1)

    def settled(self, categories: Sequence[int]) -> Values:
        """Return the values that all points of a segment share, `categories` being its digits."""
        chosen = zip(self.axes[: self.categories], categories, strict=True)
        values = {**self.fixed, **{axis.name: axis.value(int(digit)) for axis, digit in chosen}}
        if values.get(DEVICE) is not None and TECHNOLOGY not in self.stated:
            values[TECHNOLOGY] = technology_of(values[DEVICE])
        return values

    def derive(self, values: Values) -> list[Any]:
        """Add the derived parameters to `values`; return for each whether it is legal."""
        legal = []
        for item in self.derived:
            value = item.expression(values)
            good = item.legal(value)
            legal.append(good)
            if item.integer:
                # Whatever is not legal is dropped by the caller; it must only not overflow.
                value = np.where(good, value, 1).astype(np.int64)[()]
            # A number alone is Python's: the fields of a configuration take no others.
            values[item.name] = value.item() if isinstance(value, np.generic) else value
        return legal

    def refusals(self) -> list[tuple[str, tuple[str | int, ...]]]:
        """Return why a point may not be in the sweep, and where that is said.

        The order is that in which `check` counts.
        """
        bounds = [(_outside(item), item.path) for item in self.derived]
        return [*bounds, *((str(item), item.path) for item in self.constraints)]

    def check(
        self,
        values: Values,
        shape: tuple[int, ...],
        stages: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.bool_], list[int]]:
        """Add the derived parameters to those of some points and apply the constraints.

        Parameters
        ----------
        values : dict
            The parameters of the points; derived ones are added.
        shape : tuple of int
            To which they broadcast.
        stages : array, optional
            Of that shape; takes, of each point that is removed, which of `refusals` did it.

        Returns
        -------
        kept : array of bool
            Which points are in the sweep.
        removed : list of int
            How many each of `refusals` removed that those before it had not.
        """
        legal = np.ones(shape, np.bool_)
        removed = []
        conditions = self.derive(values)
        conditions += [constraint.expression(values) for constraint in self.constraints]
        left = legal.size
        for index, condition in enumerate(conditions):
            if stages is not None:
                stages[legal & ~np.asarray(condition, np.bool_)] = index
            legal &= condition
            remaining = int(np.count_nonzero(legal))
            removed.append(left - remaining)
            left = remaining
        return legal, removed


def _outside(item: Derived) -> str:
    kind = "an integer " if item.integer else ""
    bounds = f"{item.low:g}..{item.high:g}"
    return f"{item.name} = {item.expression} being {kind}in {bounds}"


def split(values: Values) -> tuple[Values, Values]:
    """Return the parameters that points share as plain data, and the arrays."""
    fixed, varying = {}, {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            varying[name] = value
        else:
            fixed[name] = value.item() if isinstance(value, np.generic) else value
    return fixed, varying


@dataclass(frozen=True)
class Run:
    """Points of one segment that follow each other.

    Parameters
    ----------
    subspace : int
        Place of the family in `Space.subspaces`.
    categories : tuple of int
        Digits of the segment.
    start, stop : int
        Places in the segment.
    index : int
        Number of the first point in the whole space.
    dense_axes : int
        How many of the last axes they go through from end to end, once or several times.
    """

    subspace: int
    categories: tuple[int, ...]
    start: int
    stop: int
    index: int
    dense_axes: int


@dataclass(frozen=True)
class Space:
    """The points of all families, one family after the other."""

    subspaces: tuple[Subspace, ...]

    @cached_property
    def size(self) -> int:
        """The number of points before any constraint."""
        return sum(subspace.size for subspace in self.subspaces)

    def locate(self, index: int) -> tuple[int, int]:
        """Return the place of a point's family and the point's number in it."""
        for position, subspace in enumerate(self.subspaces):
            if index < subspace.size:
                return position, index
            index -= subspace.size
        raise IndexError(index)

    def runs(self, start: int, stop: int, longest: int) -> Iterator[Run]:
        """Yield the points from `start` to before `stop` in runs of at most `longest`."""
        while start < stop:
            index, local = self.locate(start)
            subspace = self.subspaces[index]
            segment, inside = divmod(local, subspace.segment)
            end = min(subspace.segment, inside + longest, inside + stop - start)
            numeric, round_ = subspace.count_dense_axes(longest)
            before = -inside % round_  # points up to where those axes begin again
            if before or end - inside < round_:
                numeric, end = 0, min(end, inside + before) if before else end
            else:
                end -= (end - inside) % round_
            categories = subspace.digits(segment * subspace.segment)[: subspace.categories]
            yield Run(index, tuple(categories), inside, end, start, numeric)
            start += end - inside

    def values(self, run: Run) -> Values:
        """Return the parameters of the points of a run; see `Subspace.columns`."""
        subspace = self.subspaces[run.subspace]
        axes = subspace.axes[len(subspace.axes) - run.dense_axes :]
        round_ = math.prod(axis.count for axis in axes)
        rows = np.arange(run.start // round_, run.stop // round_)
        return {**subspace.settled(run.categories), **subspace.columns(rows, run.dense_axes)}
