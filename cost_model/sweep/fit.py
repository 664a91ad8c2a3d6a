# SPDX-License-Identifier: Apache-2.0
"""Regression of figures of hardware in the parameters of configurations.

A figure is a sum of products: of functions of numeric parameters that take many values, and of
choices of the others (*levels*).  Terms are selected one after the other by how much of the
relative error they explain, as long as the error of left-out samples falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FEW, _SMALL = 5, 8
"""Most values of a numeric parameter, and the largest, of which each is a level of its own."""

_FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "x": lambda x: x,
    "log": lambda x: np.log2(x + 1.0),
    "ceil": lambda x: np.ceil(np.log2(np.maximum(x, 1.0))),
    "square": lambda x: x * x,
    "fours": lambda x: np.ceil(x / 4),
    "eights": lambda x: np.ceil(x / 8),
    "sixteens": lambda x: np.ceil(x / 16),
    "beyond1": lambda x: np.greater(x, 1).astype(float),
    "beyond2": lambda x: np.greater(x, 2).astype(float),
    "beyond8": lambda x: np.greater(x, 8).astype(float),
    "beyond16": lambda x: np.greater(x, 16).astype(float),
}
"""Functions of a numeric parameter: itself, trees of it, and groups that hardware divides it in."""

_PATIENCE = 8
T = TypeVar("T")

_MOST_TERMS = 60
_SAMPLES_A_TERM = 1.6

_LOWEST, _HIGHEST = 0.1, 1e6
"""Figures beyond those of samples, as factors: samples are small designs."""

ENOUGH = 2e-4
"""Relative error of left-out samples that needs no further term."""

Factor = tuple[str, str]
"""A parameter and a function of it."""

Level = tuple[str, Any]
"""A parameter and a value that it must have."""

Term = tuple[tuple[Factor, ...], tuple[Level, ...]]


def distinct(values: Iterable[T]) -> list[T]:
    """Return values without repetitions, in order; groups of parameters are values, too."""
    result: dict[Any, T] = {}
    for value in values:
        try:
            result.setdefault(value, value)
        except TypeError:  # a group is not hashable
            result.setdefault(repr(value), value)
    return list(result.values())


@dataclass(frozen=True)
class Variables:
    """The parameters that figures depend on.

    Parameters
    ----------
    numbers : tuple of str
        Numeric ones with many values.
    levels : mapping
        Others, with their values.
    structures : tuple
        The values that all of these have together, if there are three or more.
    """

    numbers: tuple[str, ...]
    levels: Mapping[str, tuple[Any, ...]]
    structures: tuple[tuple[Level, ...], ...] = ()

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[Any]]) -> Variables:
        """Return the variables of samples: what varies."""
        numbers, levels = [], {}
        for name, column in columns.items():
            values = distinct(column)
            numeric = all(type(value) in (int, float) for value in values)
            if len(values) < 2:
                continue
            if numeric and (len(values) > _FEW or max(values) > _SMALL):
                numbers.append(name)
            else:
                levels[name] = tuple(sorted(values) if numeric else values)
        structures: list[tuple[Level, ...]] = []
        if len(levels) > 2:
            rows = zip(*(columns[name] for name in levels), strict=True)
            structures = distinct(tuple(zip(levels, row, strict=True)) for row in rows)
        return cls(tuple(numbers), levels, tuple(structures))

    def terms(self) -> list[Term]:
        """Return all terms that may be selected."""
        singles: list[tuple[Factor, ...]] = [
            ((name, function),) for name in self.numbers for function in _FUNCTIONS
        ]
        pairs: list[tuple[Factor, ...]] = [
            ((a, f), (b, g))
            for a, b in combinations(self.numbers, 2)
            for f, g in (("x", "x"), ("x", "log"), ("log", "x"), ("log", "log"), ("x", "ceil"),
                         ("ceil", "x"), ("sixteens", "x"), ("x", "sixteens"),
                         ("sixteens", "sixteens"), ("beyond16", "x"), ("x", "beyond16"),
                         ("beyond16", "beyond16"))
        ]  # fmt: skip
        triples: list[tuple[Factor, ...]] = [
            tuple((name, "x") for name in names) for names in combinations(self.numbers, 3)
        ]
        products: list[tuple[Factor, ...]] = [(), *singles, *pairs, *triples]
        alone: list[tuple[Level, ...]] = [()]
        alone += [((n, value),) for n, values in self.levels.items() for value in values]
        both: list[tuple[Level, ...]] = [
            ((a, x), (b, y))
            for a, b in combinations(self.levels, 2)
            for x in self.levels[a] for y in self.levels[b]
        ]  # fmt: skip
        simple = [product for product in products if all(f == "x" for _, f in product)]
        # Numbers of few values are numbers as well.
        few = [
            ((name, "x"),) for name, values in self.levels.items()
            if all(type(value) in (int, float) for value in values)
        ]  # fmt: skip
        mixed = [(*product, *one) for product in simple for one in few]
        return [
            *((product, level) for level in alone for product in products),
            *((product, level) for level in both for product in simple),
            *((product, ()) for product in mixed),
            *((product, structure) for structure in self.structures for product in simple),
        ]


def _values(term: Term, columns: Mapping[str, Any]) -> Any:
    """Return a term of samples or points."""
    factors, levels = term
    result: Any = 1.0
    for name, value in levels:
        result = result * (columns[name] == value)
    for name, function in factors:
        result = result * _FUNCTIONS[function](columns[name])
    return result


@dataclass(frozen=True)
class Fit:
    """Figures as sums of terms.

    Parameters
    ----------
    terms : tuple
    weights : tuple of tuple of float
        For each term, its weight in each figure.
    low, high : tuple of float
        Bounds of the figures that it returns.
    error : float
        Root mean square of the scaled errors of samples that were left out, by cross validation.
    """

    terms: tuple[Term, ...]
    weights: tuple[tuple[float, ...], ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    error: float


def fit(columns: Mapping[str, Sequence[Any]], values: Floats, scale: Floats | None = None) -> Fit:
    """Return a fit to samples.

    Parameters
    ----------
    columns : mapping
        Parameter: its value in each sample.
    values : array, shape (samples, figures)
        The figures of each sample, none negative.
    scale : array, shape (samples,) or (samples, figures), optional
        What the error of each sample is multiplied by, default the reciprocals of the figures.
    """
    low, high = values.min(axis=0), values.max(axis=0)
    bounds = tuple(map(float, _LOWEST * low)), tuple(map(float, _HIGHEST * high))
    if (high - low <= 1e-9 * np.abs(high)).all():
        first = tuple(map(float, values[0]))
        return Fit((((), ()),), (first,), first, first, 0.0)
    arrays = {name: _array(column) for name, column in columns.items()}
    terms = Variables.of(columns).terms()
    if scale is None:
        usual = [
            np.median(column[column > 0]) if (column > 0).any() else 1.0 for column in values.T
        ]
        scale = 1 / np.maximum(values, 0.1 * np.array(usual))
    scale = np.broadcast_to(scale.reshape(len(values), -1), values.shape)
    # One scale for the selection of terms, each figure's own for the weights.
    shared = scale[:, :1]
    matrix = np.stack(
        [np.broadcast_to(np.asarray(_values(term, arrays), np.float64), len(values))
         for term in terms], axis=1,
    )  # fmt: skip
    scaled = matrix * shared
    norms = np.linalg.norm(scaled, axis=0)
    used = np.flatnonzero(norms > 1e-9 * norms.max())
    target = values * scale
    chosen, error = _selected(scaled[:, used] / norms[used], target)
    picked = used[chosen]
    weights = np.stack(
        [
            np.linalg.lstsq(matrix[:, picked] * scale[:, q, None], target[:, q], rcond=None)[0]
            for q in range(values.shape[1])
        ],
        axis=1,
    )
    return Fit(
        tuple(terms[index] for index in picked),
        tuple(tuple(map(float, row)) for row in weights),
        *bounds,
        error,
    )


def _array(column: Sequence[Any]) -> NDArray[Any]:
    array = np.asarray(column)
    return array.astype(np.float64) if array.dtype.kind in "iu" else array


def _selected(matrix: Floats, target: Floats) -> tuple[list[int], float]:
    """Return the columns whose sums explain the targets best, and the error of left-out rows."""
    count = len(target)
    most = int(max(1, min(_MOST_TERMS, count / _SAMPLES_A_TERM, matrix.shape[1])))
    basis = matrix.copy()  # what is left of each column
    start = (basis**2).sum(axis=0)
    residual, leverage = target.copy(), np.zeros(count)
    chosen: list[int] = []
    best, best_error = 1, np.inf
    for _ in range(most):
        squares = (basis**2).sum(axis=0)
        able = squares > 1e-9 * start
        able[chosen] = False
        if not able.any():
            break
        gain = ((residual.T @ basis) ** 2).sum(axis=0) / np.where(able, squares, np.inf)
        index = int(np.argmax(gain))
        direction = basis[:, index] / np.sqrt(squares[index])
        basis -= np.outer(direction, direction @ basis)
        residual = residual - np.outer(direction, direction @ residual)
        leverage = leverage + direction**2
        chosen.append(index)
        left_out = residual / np.maximum(1 - leverage, 1e-2)[:, None]
        error = float(np.sqrt(np.mean(left_out**2)))
        # A term must pay: choosing among many is a fit as well.
        if error < 0.98 * best_error:
            best, best_error = len(chosen), error
        elif len(chosen) >= best + _PATIENCE:
            break
        if best_error < ENOUGH:
            break
    return chosen[:best], best_error


class Points:
    """Points at which fits are evaluated.

    Parameters
    ----------
    columns : mapping
        Parameter: a value, or an array of values that broadcasts against the others.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self.columns = columns
        self._products: dict[tuple[Factor, ...], Any] = {}

    def _product(self, factors: tuple[Factor, ...]) -> Any:
        if factors not in self._products:
            *rest, (name, function) = factors
            own = _FUNCTIONS[function](self.columns[name])
            self._products[factors] = self._product(tuple(rest)) * own if rest else own
        return self._products[factors]

    def evaluate(self, of: Fit) -> list[Any]:
        """Return the figures of a fit: numbers or arrays, no larger than what they depend on."""
        sums: list[dict[tuple[Factor, ...], Any]] = [{} for _ in of.low]
        for (factors, levels), weights in zip(of.terms, of.weights, strict=True):
            there: Any = 1.0
            for name, value in levels:
                there = there * (self.columns[name] == value)
            if np.ndim(there) == 0 and not there:
                continue
            for amounts, weight in zip(sums, weights, strict=True):
                amounts[factors] = amounts.get(factors, 0.0) + there * weight
        results = []
        for amounts, low, high in zip(sums, of.low, of.high, strict=True):
            total: Any = 0.0
            # What depends on fewer parameters is added up first.
            for factors in sorted(amounts, key=len):
                part = amounts[factors]
                total = total + (part * self._product(factors) if factors else part)
            results.append(np.clip(total, low, high))
        return results
