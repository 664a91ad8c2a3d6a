# SPDX-License-Identifier: Apache-2.0
"""Elements and scales of block formats: what a block consists of.

An element format is a table of the values of its codes.  That holds floating-point numbers of every
kind, integers, and code books that no formula gives, on one footing; hardware reads from it the
integers that its multipliers take (`Element.integers`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import TYPE_CHECKING, Literal

from hwgen.formats.floating import FLOATS, FloatFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.formats.arrays import Array, DType

Rounding = Literal["even", "away", "up", "inward", "zero"]
"""To nearest, halves to the even code, away from zero or up; or towards zero."""

MAX_WIDTH = 8

_NARROW_FLOAT = re.compile(r"e([1-5])m([0-3])")
_INTEGER = re.compile(r"(u?)int([2-8])(?:f([1-8]))?")


@dataclass(frozen=True)
class Element:
    """The values of codes.

    Parameters
    ----------
    name : str
    width : int
        Bits of a code, 1..8.
    values : tuple of float
        By code; NaN where a code is no number.  One of them is zero.
    """

    name: str
    width: int
    values: tuple[float, ...]

    def __str__(self) -> str:
        return self.name

    @cached_property
    def finite(self) -> tuple[float, ...]:
        """The different numbers, in ascending order."""
        return tuple(sorted({value + 0.0 for value in self.values if math.isfinite(value)}))

    @property
    def max(self) -> float:
        """Largest magnitude."""
        return max(abs(value) for value in self.finite)

    @property
    def emax(self) -> int:
        """Exponent of the largest magnitude: ``floor(log2(max))``."""
        return math.frexp(self.max)[1] - 1

    @cached_property
    def exponent(self) -> int:
        """Largest e for which every value is a multiple of ``2**e``."""
        ratios = (value.as_integer_ratio() for value in self.finite if value)
        # In lowest terms, over a power of two.
        return min((n & -n).bit_length() - over.bit_length() for n, over in ratios)

    @cached_property
    def integers(self) -> tuple[int | None, ...]:
        """The values by code in units of ``2**exponent``, None where a code is no number."""
        unit = Fraction(2) ** self.exponent
        return tuple(
            int(Fraction(value) / unit) if math.isfinite(value) else None for value in self.values
        )

    def encode(self, values: NDArray[np.float64], rounding: Rounding = "even") -> NDArray[np.uint8]:
        """Return the codes of numbers, rounded, too large ones saturated.

        Parameters
        ----------
        values : ndarray of float64
            Finite.
        rounding : {"even", "away", "up", "inward", "zero"}
            To the nearest number, halves to the even code, away from zero, up or toward zero; or
            everything toward zero.

        Returns
        -------
        ndarray of uint8
            Zero is the smallest of its codes.
        """
        numbers, codes = _sorted_codes(self)
        above = np.clip(np.searchsorted(numbers, values, side="right"), 1, len(numbers) - 1)
        low, high = numbers[above - 1], numbers[above]
        if rounding == "zero":
            up = np.where(values < 0, values > low, values >= high)
        else:
            # Differences to a power of two's multiples nearby; both are exact, or far from a tie.
            to_low, to_high = values - low, high - values
            ties = {
                "away": values > 0,
                "inward": values < 0,
                "up": True,
                "even": codes[above] & 1 == 0,
            }
            tie = ties[rounding]
            up = (to_high < to_low) | ((to_high == to_low) & tie)
        up |= values >= numbers[-1]
        up &= values > numbers[0]
        return codes[np.where(up, above, above - 1)]

    def decode(self, codes: Array) -> NDArray[np.float64]:
        """Return the numbers of codes, NaN where they are none."""
        return np.asarray(_table(self)[codes])


@cache
def _table(element: Element) -> NDArray[np.float64]:
    table = np.array(element.values)
    table.flags.writeable = False
    return table


@cache
def _sorted_codes(element: Element) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Return the numbers in ascending order, and the first code of each."""
    first: dict[float, int] = {}
    for code, value in enumerate(element.values):
        if math.isfinite(value):
            first.setdefault(value + 0.0, code)
    numbers = sorted(first)
    return np.array(numbers), np.array([first[value] for value in numbers], np.uint8)


def float_element(exponent_bits: int, mantissa_bits: int) -> Element:
    """Return a floating-point element: sign, exponent, mantissa from the top bit down.

    ``e4m3`` and ``e5m2`` have the NaNs and infinities of the 8-bit formats of that name; narrower
    ones are numbers throughout (OCP Microscaling Formats 1.0, section 5.3).
    """
    name = f"e{exponent_bits}m{mantissa_bits}"
    width = 1 + exponent_bits + mantissa_bits
    if (fmt := FLOATS.get(f"fp8_{name}")) is not None:
        patterns = np.arange(1 << fmt.width, dtype=fmt.bits_dtype)
        return Element(name, width, tuple(fmt.to_float64(patterns).tolist()))
    bias = max((1 << exponent_bits - 1) - 1, 0)
    values = []
    for code in range(1 << width):
        mantissa = code & ((1 << mantissa_bits) - 1)
        biased = code >> mantissa_bits & ((1 << exponent_bits) - 1)
        significand = mantissa + ((biased > 0) << mantissa_bits)
        magnitude = math.ldexp(significand, max(biased, 1) - bias - mantissa_bits)
        values.append(-magnitude if code >> (width - 1) else magnitude)
    return Element(name, width, tuple(values))


def integer_element(width: int, *, signed: bool, fraction_bits: int = 0) -> Element:
    """Return integers, unsigned or in two's complement, with `fraction_bits` fractional bits.

    Signed ones are symmetric: the smallest one's code is no number.
    """
    name = f"{'' if signed else 'u'}int{width}" + (f"f{fraction_bits}" if fraction_bits else "")
    values = []
    for code in range(1 << width):
        number = code - (1 << width) * (signed and code >> (width - 1) == 1)
        lowest = signed and number == -(1 << (width - 1))
        values.append(math.nan if lowest else math.ldexp(number, -fraction_bits))
    return Element(name, width, tuple(values))


def offset_element(width: int) -> Element:
    """Return integers from ``-2**(width-1)`` up, in the order of their codes (excess code)."""
    half = 1 << (width - 1)
    return Element(f"offset{width}", width, tuple(float(code - half) for code in range(2 * half)))


@cache
def element(name: str) -> Element:
    """Return the element format called `name`.

    ``e2m1`` and other floating-point formats of at most 8 bits, ``int2`` to ``int8`` (symmetric),
    ``uint2`` to ``uint8``, either with fractional bits as in ``int8f6``, ``offset4`` (the code less
    8) and its like, ``ternary``.

    Raises
    ------
    ValueError
        If there is none.
    """
    if name == "ternary":
        return Element("ternary", 2, (0.0, 1.0, math.nan, -1.0))
    if (match := _NARROW_FLOAT.fullmatch(name)) and 1 + int(match[1]) + int(match[2]) <= MAX_WIDTH:
        return float_element(int(match[1]), int(match[2]))
    if match := _INTEGER.fullmatch(name):
        fraction_bits = int(match[3] or 0)
        return integer_element(int(match[2]), signed=not match[1], fraction_bits=fraction_bits)
    if name.startswith("offset") and name[6:] in map(str, range(2, MAX_WIDTH + 1)):
        return offset_element(int(name[6:]))
    raise ValueError(
        f"must be e2m1 or another floating-point format of at most {MAX_WIDTH} bits, int2..int8,"
        f" uint2..uint8, these with fractional bits as in int8f6, offset2..offset8 or ternary, not"
        f" {name!r}"
    )


# -- scales ----------------------------------------------------------------------------------

E8M0_BIAS = 127
E8M0_NAN = 0xFF

MX_BLOCK = 32
"""Elements of a block of the MX formats."""


def mx_powers(largest: Array, element: FloatFormat) -> NDArray[np.integer]:
    """Return biased powers of two by which the largest magnitudes of blocks fit below an element.

    The largest element times the power is at least the magnitude, and less than twice that, as
    `quantise_block` of vector units has it; the least is 1, also of zeros.

    Parameters
    ----------
    largest : ndarray of float32
    element : FloatFormat
    """
    _, above = np.frexp(largest * np.float32(2 / element.max))
    return np.asarray(np.clip(above - 1 + E8M0_BIAS, 1, E8M0_NAN - 1))


@dataclass(frozen=True)
class Scale:
    """A format of scales: floating point, or where `floating` is None as the name says.

    Parameters
    ----------
    name : str
        ``e8m0``, an exponent alone; ``uint8``; or the name of `floating`.
    width : int
    floating : FloatFormat or None
    """

    name: str
    width: int = 8
    floating: FloatFormat | None = None

    @property
    def max(self) -> float:
        """Largest scale that is not a power of two."""
        return self.floating.max if self.floating else float((1 << self.width) - 1)

    @property
    def dtype(self) -> DType:
        """NumPy's type of bit patterns."""
        return self.floating.bits_dtype if self.floating else np.dtype(np.uint8)

    def round(self, values: NDArray[np.float64]) -> Array:
        """Return the bit patterns nearest to values, ties to even; not of exponents."""
        if self.floating:
            return self.floating.round(values)
        return np.clip(np.round(values), 0, self.max).astype(np.uint8)

    def decode(self, bits: Array) -> NDArray[np.float64]:
        """Return the values of bit patterns; the sign of an e4m3 scale is ignored."""
        if self.floating:
            values = self.floating.to_float64(bits)
            return np.abs(values) if self.name == "e4m3" else values
        if self.name == "e8m0":
            values = np.ldexp(1.0, bits.astype(np.int32) - E8M0_BIAS)
            return np.where(bits == E8M0_NAN, np.nan, values)
        return bits.astype(np.float64)


SCALES = {
    scale.name: scale
    for scale in (
        Scale("e8m0"),
        Scale("uint8"),
        Scale("e4m3", 8, FLOATS["fp8_e4m3"]),
        *(Scale(name, FLOATS[name].width, FLOATS[name]) for name in ("fp16", "bf16", "fp32")),
    )
}
"""Formats of scales by name."""
