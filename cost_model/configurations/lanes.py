# SPDX-License-Identifier: Apache-2.0
"""Execution of functions of single numbers on arrays of them.

A function runs once for many configurations.  `Lanes` stand for its numbers: arithmetic is that of
arrays.  Where the function asks for one number (a branch, a range, a key of a cache) and they
differ, `Split` stops it, and it runs again for each group of configurations that agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Columns = Mapping[str, NDArray[Any]]
"""Arrays that broadcast against each other, by name."""


class Split(Exception):
    """Signal that a function needs one number where they differ."""

    def __init__(self, lanes: NDArray[Any]) -> None:
        super().__init__()
        self.lanes = lanes


class TooManyGroupsError(Exception):
    """Signal that a function hardly ever treats configurations alike."""


class Lanes(np.ndarray[Any, Any]):
    """Numbers of many configurations that Python code takes for one number."""

    def _single(self) -> Any:
        first = self.flat[0]
        if not (np.asarray(self) == first).all():
            raise Split(np.asarray(self))
        return first.item()

    def __bool__(self) -> bool:
        lanes = np.asarray(self)
        if lanes.all():
            return True
        if not lanes.any():
            return False
        raise Split(lanes != 0)

    def __int__(self) -> int:
        return int(self._single())

    def __index__(self) -> int:
        return int(self._single().__index__())

    def __float__(self) -> float:
        return float(self._single())

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(self._single())

    def __format__(self, spec: str) -> str:
        return "some"

    def __iadd__(self, other: Any) -> Any:  # type: ignore[misc]  # results may have other shapes
        return self + other

    def __isub__(self, other: Any) -> Any:  # type: ignore[misc]
        return self - other

    def __imul__(self, other: Any) -> Any:  # type: ignore[misc]
        return self * other

    def __trunc__(self) -> Any:
        return np.trunc(self).astype(np.int64)

    def __ceil__(self) -> Any:
        return np.ceil(self).astype(np.int64)

    def __floor__(self) -> Any:
        return np.floor(self).astype(np.int64)

    def __round__(self, digits: int = 0) -> Any:
        return np.round(self, digits)

    def is_integer(self) -> Any:
        """Return whether numbers are integers."""
        return self == np.floor(self)

    def bit_length(self) -> Any:
        """Return the bits of integers."""
        return np.frexp(np.abs(self).astype(np.float64))[1].astype(np.int64)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(func, types, args, kwargs)
        return result.view(Lanes) if isinstance(result, np.ndarray) else result


def run(
    function: Callable[[Mapping[str, Any]], Sequence[Any]],
    columns: Columns,
    count: int,
    most_groups: int,
) -> NDArray[np.float64]:
    """Return the results of a function for many numbers at once.

    Parameters
    ----------
    function : callable
        Takes numbers by name and returns `count` numbers.
    columns : mapping
        The numbers.
    count : int
    most_groups : int
        Groups of lanes that are treated differently before it is given up.

    Returns
    -------
    array, shape (count, *shape)
        NaN for each None.

    Raises
    ------
    TooManyGroupsError
    """
    shape = np.broadcast_shapes(*(column.shape for column in columns.values()))
    result = np.full((count, math.prod(shape)), np.nan)
    waiting: list[tuple[dict[str, NDArray[Any]], NDArray[np.int64]]] = [
        (dict(columns), np.arange(math.prod(shape)).reshape(shape))
    ]
    groups = 0
    while waiting:
        some, places = waiting.pop()
        groups += 1
        if groups > most_groups:
            raise TooManyGroupsError
        numbers = {name: _number(column) for name, column in some.items()}
        try:
            values = function(numbers)
        except Split as split:
            waiting += _split(some, places, split.lanes)
            continue
        for row, value in zip(result, values, strict=True):
            if value is not None:
                row[places] = np.asarray(value, np.float64)
    return result.reshape(count, *shape)


def _number(column: NDArray[Any]) -> Any:
    """Return the one number of a column, or lanes."""
    first = column.flat[0]
    if column.size == 1 or (column == first).all():
        return first.item()
    return column.view(Lanes)


def _split(
    columns: Columns, positions: NDArray[np.int64], lanes: NDArray[Any]
) -> list[tuple[dict[str, NDArray[Any]], NDArray[np.int64]]]:
    """Return the groups of configurations in which lanes agree."""
    lanes = lanes.reshape((1,) * (positions.ndim - lanes.ndim) + lanes.shape)
    long = [axis for axis in range(lanes.ndim) if lanes.shape[axis] > 1]
    result = []
    if len(long) == 1:
        (axis,) = long
        line = lanes.reshape(-1)
        for value in np.unique(line):
            chosen = np.flatnonzero(line == value)
            some = {
                name: column.take(chosen, axis - positions.ndim + column.ndim)
                if column.ndim >= positions.ndim - axis
                and column.shape[axis - positions.ndim + column.ndim] > 1
                else column
                for name, column in columns.items()
            }
            result.append((some, positions.take(chosen, axis)))
        return result
    lanes = np.broadcast_to(lanes, positions.shape)
    whole = {name: np.broadcast_to(column, positions.shape) for name, column in columns.items()}
    for value in np.unique(lanes):
        chosen_lanes = lanes == value
        result.append((
            {name: column[chosen_lanes] for name, column in whole.items()}, positions[chosen_lanes],
        ))  # fmt: skip
    return result
