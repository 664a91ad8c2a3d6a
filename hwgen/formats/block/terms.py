# SPDX-License-Identifier: Apache-2.0
"""Elements as sums of powers of two, which a processing element takes one after the other.

An element is the sum of the signed digits of its non-adjacent form, the fewest that there can be:
two of the numbers of BitMoD's fp3 and fp4 with their special ones, half as many as bits of an
integer.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from hwgen.formats.block.factors import Factor
from hwgen.formats.integer import IntegerFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Term = tuple[bool, int]
"""Whether it is negative, and its exponent."""

TABLE_BITS = 9
"""Most bits of a code and the choice of a special number together."""


def signed_digits(number: int) -> tuple[Term, ...]:
    """Return the digits of an integer that are not zero, the largest first."""
    found, rest, place = [], abs(number), 0
    while rest:
        if rest & 1:
            digit = 2 - (rest & 3)
            found.append(((digit < 0) != (number < 0), place))
            rest -= digit
        rest >>= 1
        place += 1
    return tuple(reversed(found))


@cache
def term_table(factor: Factor) -> tuple[tuple[Term, ...], ...]:
    """Return the terms of each code, with the choice of a special number above its bits.

    Parameters
    ----------
    factor : Factor
        Of elements that are all finite, and of up to `TABLE_BITS`.
    """
    codes = np.arange(1 << factor.width)
    rows = []
    for chosen in range(1 << factor.special_width):
        numbers: NDArray[Any]
        if isinstance(factor.format, IntegerFormat):
            numbers = factor.format.decode(codes)
        else:
            choices = factor.kinds if factor.special_width else (None,)
            numbers = factor.decode(codes, np.array(min(chosen, len(choices) - 1)))
        # Codes that stand for no number do not occur.
        rows += [signed_digits(int(n)) if np.isfinite(n) else () for n in numbers]
    return tuple(rows)


def term_count(factor: Factor) -> int:
    """Return the terms of the element that has most, at least one."""
    return max(1, *(len(terms) for terms in term_table(factor)))


def largest_exponent(factor: Factor) -> int:
    """Return the largest exponent of a term."""
    return max(place for terms in term_table(factor) for _, place in terms)


def exponent_bits(factor: Factor) -> int:
    """Return the bits of the exponent of a term."""
    return largest_exponent(factor).bit_length()
