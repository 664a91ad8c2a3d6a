# SPDX-License-Identifier: Apache-2.0
"""The functions as power series with enclosed coefficients, and their values at many points.

Sources of the formulas: the series follow from the differential equations of the functions, by the
rules of automatic differentiation in Taylor mode (Griewank and Walther, *Evaluating Derivatives*,
chapter 13); the integral of the normal distribution is Abramowitz and Stegun 26.2.11.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from hwgen.arithmetic.functions.interval import Interval, exp, ln2, pi, sqrt
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Series = list[Interval]
"""Coefficients of powers, the constant one first."""

CELL = 32
"""Cells per unit, in each of which a function is one polynomial."""

ORDER = 8
"""Degree of that polynomial; the next term bounds what is left."""


def _times(a: Series, b: Series) -> Series:
    """Return the product of two series to the same order."""
    zero = Interval(0, 0)
    return [_sum([a[j] * b[k - j] for j in range(k + 1) if a[j] != zero]) for k in range(len(b))]


def _sum(terms: list[Interval]) -> Interval:
    total = Interval(0, 0)
    for term in terms:
        total += term
    return total


def _exponential(rate: Callable[[], Interval]) -> Callable[[Interval, int], Series]:
    def series(x: Interval, order: int) -> Series:
        result = [exp(x * rate())]
        for k in range(1, order + 1):
            result.append(result[-1] * rate() / k)
        return result

    return series


def _reciprocal(x: Interval, order: int) -> Series:
    inverse = Interval.of(1) / x
    result = [inverse]
    for _ in range(order):
        result.append(-(result[-1] * inverse))
    return result


def _rsqrt(x: Interval, order: int) -> Series:
    inverse = Interval.of(1) / x
    result = [Interval.of(1) / sqrt(x)]
    for k in range(1, order + 1):
        result.append(-(result[-1] * inverse * (2 * k - 1) / (2 * k)))
    return result


def _falling(w: Series) -> Series:
    """Return the series of ``1 / (1 + exp(w))``: its derivative is ``-(s - s**2) w'``."""
    result = [Interval.of(1) / (exp(w[0]) + 1)]
    slopes: Series = []
    for k in range(len(w) - 1):
        square = _sum([result[j] * result[k - j] for j in range(k + 1)])
        slopes.append(result[k] - square)
        total = _sum([slopes[k - j] * w[j + 1] * (j + 1) for j in range(k + 1)])
        result.append(-total / (k + 1))
    return result


def _argument(x: Interval, order: int, factor: int = 1) -> Series:
    return [x * factor, Interval.of(factor), *[Interval(0, 0)] * (order - 1)][: order + 1]


def _sigmoid(x: Interval, order: int) -> Series:
    return _falling(_argument(x, order))


def _tanh(x: Interval, order: int) -> Series:
    falling = [term * -2 for term in _falling(_argument(x, order, 2))]
    return [falling[0] + 1, *falling[1:]]


def _silu(x: Interval, order: int) -> Series:
    return _times(_argument(x, order), _sigmoid(x, order))


@cache
def _slope() -> Interval:
    """Return twice the square root of 2/pi."""
    return sqrt(Interval.of(2) / pi()) * 2


CUBE = Fraction(44715, 1000000)
"""Factor of the third power in the tanh form of GELU."""


def _gelu_tanh(x: Interval, order: int) -> Series:
    third = Interval.of(CUBE)
    inner = [x + x * x * x * third, x * x * third * 3 + 1, x * third * 3, third]
    inner += [Interval(0, 0)] * (order - 3)
    w = [term * _slope() for term in inner[: order + 1]]
    return _times(_argument(x, order), _falling(w))


@cache
def _upper_tail(x: int) -> Interval:
    """Enclose the share of a normal distribution above one number, given in units of 2**-BITS."""
    at = Interval(x, x)
    square, term = at * at, at
    total, n = Interval(0, 0), 1
    while term.high > 1:
        total += term
        n += 2
        term = term * square / n
    # Behind the last term, of a unit, the series falls at least as fast as a geometric one of
    # ratio 1/2 once n exceeds twice the square, which the terms before it have brought about.
    density = exp(-square / 2) / sqrt(pi() * 2)
    return Interval.of(Fraction(1, 2)) - density * Interval(total.low, total.high + 4)


def _gelu(x: Interval, order: int) -> Series:
    # Density and upper tail: d' = -x d and q' = -d.
    density = [exp(-(x * x) / 2) / sqrt(pi() * 2)]
    tail = [Interval(_upper_tail(x.high).low, _upper_tail(x.low).high)]
    for k in range(order):
        before = density[k - 1] if k else Interval(0, 0)
        density.append(-((x * density[k] + before) / (k + 1)))
        tail.append(-density[k] / (k + 1))
    return _times(_argument(x, order), tail)


CURVES: dict[str, Callable[[Interval, int], Series]] = {
    "exp2": _exponential(ln2),
    "exp": _exponential(lambda: Interval.of(1)),
    "reciprocal": _reciprocal,
    "rsqrt": _rsqrt,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
}
"""Taylor series by name, around every point of an interval, to an order.

``exp2``, ``exp``, ``reciprocal``, ``rsqrt`` and ``tanh`` are the functions themselves; the others
are what is left of them for a non-negative argument beside a step: ``sigmoid`` is
``1 / (1 + exp(x))``, ``silu`` x times that, ``gelu`` x times the upper tail of the normal
distribution, ``gelu_tanh`` its approximation.
"""


@cache
def cell(name: str, index: int, per_unit: int) -> tuple[tuple[float, ...], float]:
    """Return a polynomial around the middle of a cell and the bound of its error in the cell.

    Parameters
    ----------
    name : str
        Of `CURVES`.
    index, per_unit : int
        The cell reaches from ``index / per_unit`` to ``(index + 1) / per_unit``.

    Returns
    -------
    coefficients : tuple of float
        `ORDER` + 1 of them, the constant one first.
    error : float
        More than the polynomial, evaluated in any order of operations in double precision, is off.
    """
    low, high = Fraction(index, per_unit), Fraction(index + 1, per_unit)
    half = float((high - low) / 2)
    around = CURVES[name](Interval.of((low + high) / 2), ORDER)
    rest = CURVES[name](Interval.of(low, high), ORDER + 1)[-1].magnitude * half ** (ORDER + 1)
    powers = [half**k for k in range(ORDER + 1)]
    size = sum(c.magnitude * power for c, power in zip(around, powers, strict=True))
    exact = sum(c.radius * power for c, power in zip(around, powers, strict=True))
    # Products, sums and the rounded coefficients: some four roundings for each of the terms.
    error = 1.001 * (rest + exact + size * 4 * (ORDER + 2) * 2.0**-53)
    return tuple(c.middle for c in around), error


def enclosed(name: str, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a curve's values at many points, and bounds of their errors.

    Parameters
    ----------
    name : str
        Of `CURVES`.
    x : ndarray of float64
        In the curve's domain, finite.
    """
    if name in ("reciprocal", "rsqrt"):
        # Divisions and square roots are rounded correctly.
        values = 1 / (x if name == "reciprocal" else np.sqrt(x))
        return values, np.abs(values) * 2.0**-51
    flat = x.ravel()
    indices = np.floor(flat * CELL).astype(np.int64)
    order = np.argsort(indices, kind="stable")
    values, errors = np.empty(flat.shape), np.empty(flat.shape)
    starts = np.flatnonzero(np.diff(indices[order], prepend=indices[order[:1]] - 1))
    for chosen in np.split(order, starts[1:]):
        index = int(indices[chosen[0]])
        coefficients, error = cell(name, index, CELL)
        at = flat[chosen] - (index + 0.5) / CELL
        total = np.full(at.shape, coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            total = total * at + coefficient
        values[chosen], errors[chosen] = total, error
    return values.reshape(x.shape), errors.reshape(x.shape)


def sampled(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a curve's values by the libraries at hand, for choosing, not for proofs."""
    if name in ("exp2", "exp"):
        return np.asarray(getattr(np, name)(x))
    if name in ("reciprocal", "rsqrt"):
        return enclosed(name, x)[0]
    if name == "tanh":
        return np.asarray(np.tanh(x))
    if name == "gelu":
        tails = [math.erfc(value / math.sqrt(2)) / 2 for value in x.ravel().tolist()]
        return np.asarray(x * np.asarray(tails).reshape(x.shape))
    if name == "gelu_tanh":
        inner = 2 * math.sqrt(2 / math.pi) * (x + float(CUBE) * x**3)
        return np.asarray(x / (1 + np.exp(np.minimum(inner, 700))))
    falling = 1 / (1 + np.exp(np.minimum(x, 700)))
    return np.asarray(falling if name == "sigmoid" else x * falling)
