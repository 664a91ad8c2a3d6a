# SPDX-License-Identifier: Apache-2.0
"""Intervals of reals with integer ends: every operation encloses all it may give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

BITS = 320
"""Ends are multiples of ``2**-BITS``."""

_ONE = 1 << BITS
_GUARD = 32  # bits that the functions compute with beyond these
_HALVINGS = 12  # of the argument of the exponential series


def _up(value: int, bits: int) -> int:
    return -((-value) >> bits)


@dataclass(frozen=True)
class Interval:
    """All reals from ``low * 2**-BITS`` to ``high * 2**-BITS``.

    Parameters
    ----------
    low, high : int
    """

    low: int
    high: int

    @classmethod
    def of(cls, value: Fraction | float, high: Fraction | float | None = None) -> Interval:
        """Return the narrowest interval that holds `value`, or all from `value` to `high`."""
        ends = Fraction(value), Fraction(value if high is None else high)
        return cls(
            (ends[0].numerator << BITS) // ends[0].denominator,
            -((-ends[1].numerator << BITS) // ends[1].denominator),
        )

    def __add__(self, other: Interval | int) -> Interval:
        if isinstance(other, int):
            return Interval(self.low + (other << BITS), self.high + (other << BITS))
        return Interval(self.low + other.low, self.high + other.high)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Interval | int) -> Interval:
        if isinstance(other, int):
            ends = self.low * other, self.high * other
            return Interval(min(ends), max(ends))
        if self.low >= 0 and other.low >= 0:
            return Interval((self.low * other.low) >> BITS, _up(self.high * other.high, BITS))
        products = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(products) >> BITS, _up(max(products), BITS))

    def __truediv__(self, other: Interval | int) -> Interval:
        """Divide by a positive interval or integer."""
        if isinstance(other, int):
            return Interval(self.low // other, -(-self.high // other))
        if other.low <= 0:
            raise ZeroDivisionError("the divisor must be positive")
        below = other.high if self.low >= 0 else other.low
        above = other.low if self.high >= 0 else other.high
        return Interval((self.low << BITS) // below, -((-self.high << BITS) // above))

    @property
    def middle(self) -> float:
        """Its middle, rounded."""
        return float(Fraction(self.low + self.high, 2 * _ONE))

    @property
    def radius(self) -> float:
        """Half its width, rounded up."""
        return math.nextafter(float(Fraction(self.high - self.low, 2 * _ONE)), math.inf)

    @property
    def magnitude(self) -> float:
        """The largest magnitude in it, rounded up."""
        largest = max(abs(self.low), abs(self.high))
        return math.nextafter(float(Fraction(largest, _ONE)), math.inf)


def sqrt(x: Interval) -> Interval:
    """Return the square roots of a non-negative interval."""
    return Interval(math.isqrt(x.low << BITS), math.isqrt(x.high << BITS) + 1)


@cache
def ln2() -> Interval:
    """Return an enclosure of the natural logarithm of 2."""
    # ln 2 = sum of 1 / (k * 2**k); what is left after n terms is below the last of them.
    terms = BITS + _GUARD
    total = sum((1 << (terms + BITS)) // (k << k) for k in range(1, terms))
    return Interval(total >> terms, (total >> terms) + 2)


@cache
def pi() -> Interval:
    """Return an enclosure of pi, by Machin's formula."""
    low = 16 * _arctangent(5) - 4 * _arctangent(239)
    # Each term of the two series is off by less than one unit of the last place.
    slack = 40 * (BITS + _GUARD)
    return Interval((low - slack) >> _GUARD, _up(low + slack, _GUARD))


def _arctangent(inverse: int) -> int:
    term = (_ONE << _GUARD) // inverse
    total, k = 0, 0
    while term:
        total += (-1) ** k * (term // (2 * k + 1))
        term //= inverse * inverse
        k += 1
    return total


def exp(x: Interval) -> Interval:
    """Return the exponentials of an interval."""
    low = _exp(x.low)
    high = low if x.low == x.high else _exp(x.high)
    return Interval(low[0], high[1])


def _exp(x: int) -> tuple[int, int]:
    """Enclose the exponential of one number.

    With ``x = k ln 2 + r`` the series is that of ``r / 2**_HALVINGS``, squared as often.  A term
    is off by one unit of the last place and every squaring doubles the relative error and adds
    one; the slack is more than a thousand times that.
    """
    ln = ln2()
    k = x // ln.low
    precision = BITS + _GUARD
    # ln 2 is known to 2**-BITS, and k of it are subtracted.
    r = ((x - k * ln.low) << _GUARD) >> _HALVINGS
    one = 1 << precision
    total, term, n = one, one, 0
    while term:
        n += 1
        term = (term * r >> precision) // n
        total += term
    for _ in range(_HALVINGS):
        total = total * total >> precision
    # In units of 2**-precision: the series and squarings, and 2 * |k| units of 2**-BITS of ln 2.
    slack = (n << (_HALVINGS + 4)) + ((2 * abs(k) + 2) << (_GUARD + 2))
    shift = _GUARD - k
    if shift <= 0:
        return (total - slack) << -shift, (total + slack) << -shift
    return max(0, (total - slack) >> shift), _up(total + slack, shift)
