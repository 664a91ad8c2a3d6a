# SPDX-License-Identifier: Apache-2.0
"""Operands of products of blocks as integers: codes and scales in exact arithmetic.

An operand is in a block format, or in a scalar format without a scale.  Its
elements are integers in units of ``2**unit``, so that the products of a block are summed exactly;
its scales are a significand times a power of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from hwgen.formats.block.elements import E8M0_BIAS, E8M0_NAN, SCALES, Scale
from hwgen.formats.block.format import subnormal_exponent
from hwgen.formats.format import Format
from hwgen.formats.integer import IntegerFormat, enclosing_format
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.formats.arrays import Array


@dataclass(frozen=True)
class ScaleNumber:
    """A scale in exact arithmetic: ``significand * 2**(exponent - fraction)``.

    Parameters
    ----------
    scale : Scale
    """

    scale: Scale

    @property
    def significand(self) -> IntegerFormat:
        """Format of the significand; the sign of an e4m3 scale is ignored."""
        floating = self.scale.floating
        if floating is None:
            return IntegerFormat(1 if self.scale.name == "e8m0" else self.scale.width, False)
        signed = self.scale.name != "e4m3"
        return IntegerFormat(floating.precision + signed, signed)

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest significand."""
        if self.scale.name == "e8m0":
            return 1, 1
        fmt = self.significand
        return (-fmt.max, fmt.max) if fmt.signed else (0, fmt.max)

    @property
    def fraction(self) -> int:
        """Fractional bits of the significand."""
        return self.scale.floating.mantissa_bits if self.scale.floating else 0

    @property
    def exponents(self) -> tuple[int, int]:
        """Smallest and largest exponent."""
        floating = self.scale.floating
        if floating is None:
            return (-E8M0_BIAS, E8M0_NAN - 1 - E8M0_BIAS) if self.scale.name == "e8m0" else (0, 0)
        highest = (1 << floating.exponent_bits) - 1 - floating.infinities
        return 1 - floating.bias, highest - floating.bias

    @property
    def exponent_width(self) -> int:
        """Bits of how much an exponent is above the lowest one; one that is none included."""
        if self.scale.floating is None:
            return 8 if self.scale.name == "e8m0" else 0
        return self.scale.floating.exponent_bits

    @property
    def has_nan(self) -> bool:
        """Whether there are scales that are no finite numbers."""
        return self.scale.name != "uint8"

    def decode(self, bits: Array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return significands, exponents, and where a scale is no finite number."""
        wide = bits.astype(np.int64)
        floating = self.scale.floating
        if floating is None:
            if self.scale.name == "e8m0":
                return np.ones_like(wide), wide - E8M0_BIAS, wide == E8M0_NAN
            return wide, np.zeros_like(wide), np.zeros(wide.shape, np.bool_)
        mantissa = wide & ((1 << floating.mantissa_bits) - 1)
        biased = (wide & floating.magnitude_mask) >> floating.mantissa_bits
        significand = mantissa | ((biased > 0).astype(np.int64) << floating.mantissa_bits)
        if self.significand.signed:
            significand = np.where(wide & floating.sign_mask, -significand, significand)
        none = wide & floating.magnitude_mask > floating.max_finite
        return significand, np.maximum(biased, 1) - floating.bias, none


@dataclass(frozen=True)
class Factor:
    """An operand of products of blocks: its elements as integers, its scales as numbers.

    Parameters
    ----------
    format : Format
    """

    format: Format

    def __str__(self) -> str:
        return self.format.name

    @property
    def block(self) -> int | None:
        """Elements of a block, None of an operand without."""
        return self.format.block

    @property
    def width(self) -> int:
        """Bits of a code."""
        return self.format.width

    @property
    def scale(self) -> ScaleNumber | None:
        """The scale of a block, None of an operand without."""
        scale = self.format.scale
        return ScaleNumber(SCALES[scale.name]) if scale else None

    @property
    def scale_width(self) -> int:
        """Bits of a scale, 0 without."""
        return self.format.scale.width if self.format.scale else 0

    @property
    def minimum(self) -> ScaleNumber | None:
        """The minimum of a block, None of an operand without."""
        minimum = self.format.minimum
        return ScaleNumber(SCALES[minimum.name]) if minimum else None

    @property
    def shared_width(self) -> int:
        """Bits of what a block shares: of its scale and its minimum."""
        return self.scale_width + self.format.minimum_width

    @property
    def zero_width(self) -> int:
        """Bits of the zero point of a block, 0 without."""
        return self.format.zero_width

    @property
    def special_width(self) -> int:
        """Bits that choose the special number of a block or are its zero point, 0 without any."""
        return self.format.special_width

    @property
    def special_numbers(self) -> tuple[int, ...]:
        """Integers that the code of the special number stands for, by choice."""
        choices = np.arange(self.format.choices)
        return tuple(map(int, self.decode(np.full(len(choices), self.special_code), choices)))

    @property
    def special_code(self) -> int:
        """The code that stands for the special number of a block."""
        assert self.format.special_code is not None
        return self.format.special_code

    @property
    def unit(self) -> int:
        """The integers are in units of ``2**unit``."""
        return self.format.unit

    @property
    def fields(self) -> tuple[int, int] | None:
        """Exponent and mantissa bits of elements that are floating-point numbers."""
        return self.format.fields

    @property
    def coding(self) -> str:
        """Coding: the relation between a code and its integer."""
        return self.format.coding

    @cached_property
    def range(self) -> tuple[int, int]:
        """Smallest and largest integer."""
        return self.format.integer_range

    @cached_property
    def integers(self) -> IntegerFormat:
        """Format of the integers."""
        return enclosing_format(*self.range)

    @property
    def below_unit(self) -> int:
        """Places from the unit up to the last bit of the smallest floating-point elements."""
        return 0 if self.fields is None else subnormal_exponent(self.fields) - self.unit

    @property
    def shifts(self) -> int:
        """Largest power of two by which the significand of an element is multiplied."""
        if self.fields is None:
            return 0
        return (self.integers.width - 1) - (self.fields[1] + 1)

    @property
    def precision(self) -> int:
        """Bits of the significands of floating-point elements."""
        assert self.fields is not None
        return self.fields[1] + 1

    @property
    def lowest_exponent(self) -> int:
        """Exponent of the smallest normal one of floating-point elements, and of subnormal ones."""
        return self.unit + self.below_unit + self.precision - 1

    @property
    def has_nan(self) -> bool:
        """Whether elements may be NaNs."""
        return self.format.has_nan

    @property
    def has_infinities(self) -> bool:
        """Whether elements may be infinite."""
        return self.format.has_infinities

    def decode(self, codes: Array, chosen: Array | None = None) -> NDArray[np.float64]:
        """Return the integers of codes; see `Format.integers_of`."""
        return self.format.integers_of(codes, chosen)


# -- elements as sums of powers of two -------------------------------------------------------
#
# A processing element that takes them one after the other uses the signed digits of the
# non-adjacent form, the fewest that there can be: two of the numbers of BitMoD's fp3 and fp4 with
# their special ones, half as many as bits of an integer.

Term = tuple[bool, int]
"""Whether it is negative, and its exponent."""

TABLE_BITS = 9
"""Most bits of a code and the choice of a special number together."""


def signed_digits(number: int) -> tuple[Term, ...]:
    """Return the digits of an integer that are not zero, the largest first."""
    digits, rest, position = [], abs(number), 0
    while rest:
        if rest & 1:
            digit = 2 - (rest & 3)
            digits.append(((digit < 0) != (number < 0), position))
            rest -= digit
        rest >>= 1
        position += 1
    return tuple(reversed(digits))


@cache
def term_table(factor: Factor) -> tuple[tuple[Term, ...], ...]:
    """Return the terms of each code, with the choice of a special number above its bits.

    Parameters
    ----------
    factor : Factor
        Of elements that are all finite, and of up to `TABLE_BITS`.
    """
    codes = np.arange(1 << factor.width)
    last, rows = factor.format.choices - 1, []
    for chosen in range(1 << factor.special_width):
        numbers = factor.decode(codes, np.array(min(chosen, last)))
        # Codes that stand for no number do not occur.
        rows += [signed_digits(int(n)) if np.isfinite(n) else () for n in numbers]
    return tuple(rows)


def term_count(factor: Factor) -> int:
    """Return the terms of the element that has most, at least one."""
    return max(1, *(len(terms) for terms in term_table(factor)))


def largest_exponent(factor: Factor) -> int:
    """Return the largest exponent of a term."""
    return max(exponent for terms in term_table(factor) for _, exponent in terms)


def exponent_bits(factor: Factor) -> int:
    """Return the bits of the exponent of a term."""
    return largest_exponent(factor).bit_length()
