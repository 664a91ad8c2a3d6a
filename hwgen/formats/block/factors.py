# SPDX-License-Identifier: Apache-2.0
"""Operands of products of blocks as integers: what codes and scales are in exact arithmetic.

An operand is in a block format, an integer format, or a floating-point format without a scale.  Its
elements are integers in units of ``2**unit``, so that the products of a block are summed exactly;
its scales are a significand times a power of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

from hwgen.formats.block.elements import Element, float_element
from hwgen.formats.block.model import BlockFormat
from hwgen.formats.block.scales import E8M0_BIAS, E8M0_NAN, SCALES, Scale
from hwgen.formats.floating import FloatFormat
from hwgen.formats.integer import IntegerFormat, enclosing_format
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Coding = Literal["signed", "unsigned", "offset", "float"]
"""How a code says an integer: two's complement, excess code, or sign, exponent and mantissa."""

_WIDEST_EXPONENT = 5


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

    def decode(
        self, bits: NDArray[Any]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
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
    """An operand of products of blocks.

    Parameters
    ----------
    format : BlockFormat, IntegerFormat or FloatFormat
    """

    format: BlockFormat | IntegerFormat | FloatFormat

    def __str__(self) -> str:
        return self.format.name

    @property
    def block(self) -> int | None:
        """Elements of a block, None of an operand without."""
        return self.format.block if isinstance(self.format, BlockFormat) else None

    @property
    def width(self) -> int:
        """Bits of a code."""
        if isinstance(self.format, BlockFormat):
            return self.format.element.width
        return self.format.width

    @property
    def scale(self) -> ScaleNumber | None:
        """The scale of a block, None of an operand without."""
        return ScaleNumber(self.format.scale) if isinstance(self.format, BlockFormat) else None

    @property
    def scale_width(self) -> int:
        """Bits of a scale, 0 without."""
        return self.format.scale.width if isinstance(self.format, BlockFormat) else 0

    @property
    def minimum(self) -> ScaleNumber | None:
        """The minimum of a block, None of an operand without."""
        if not isinstance(self.format, BlockFormat) or self.format.minimum is None:
            return None
        return ScaleNumber(SCALES[self.format.minimum.name])

    @property
    def shared_width(self) -> int:
        """Bits of what a block shares: of its scale and its minimum."""
        beside = self.format.minimum_width if isinstance(self.format, BlockFormat) else 0
        return self.scale_width + beside

    @property
    def zero_width(self) -> int:
        """Bits of the zero point of a block, 0 without."""
        return self.format.zero_width if isinstance(self.format, BlockFormat) else 0

    @property
    def special_width(self) -> int:
        """Bits that choose the special number of a block or are its zero point, 0 without any."""
        return self.format.special_width if isinstance(self.format, BlockFormat) else 0

    @property
    def kinds(self) -> tuple[Element, ...]:
        """The elements of a block format, for each choice of the special number."""
        assert isinstance(self.format, BlockFormat)
        return tuple(self.format.elements_of(number) for number in range(self.format.choices))

    @cached_property
    def unit(self) -> int:
        """The integers are in units of ``2**unit``."""
        if isinstance(self.format, IntegerFormat):
            return 0
        if isinstance(self.format, FloatFormat):
            return 1 - self.format.bias - self.format.mantissa_bits
        if self.fields is not None:
            return min(self._lowest, _lowest_exponent(self.fields))
        return self._lowest

    @cached_property
    def _lowest(self) -> int:
        """Largest power of two that the elements of a block format are multiples of."""
        return min(kind.exponent for kind in self.kinds)

    @cached_property
    def fields(self) -> tuple[int, int] | None:
        """Exponent and mantissa bits of elements that are floating-point numbers."""
        if isinstance(self.format, FloatFormat):
            return self.format.exponent_bits, self.format.mantissa_bits
        if isinstance(self.format, IntegerFormat) or self._plain is not None:
            return None
        return _fields(self.format.element)

    @cached_property
    def coding(self) -> Coding:
        """How a code says its integer."""
        if isinstance(self.format, IntegerFormat):
            return "signed" if self.format.signed else "unsigned"
        return "float" if self.fields is not None else self._plain or "signed"

    @cached_property
    def _plain(self) -> Coding | None:
        """How the codes of a block format say integers, if they are not floating-point numbers."""
        assert isinstance(self.format, BlockFormat)
        element = self.format.element
        half, codes = 1 << (element.width - 1), range(1 << element.width)
        unit = self._lowest
        readings: dict[Coding, list[int]] = {
            "unsigned": list(codes),
            "signed": [(code ^ half) - half for code in codes],
            "offset": [code - half for code in codes],
        }
        for coding, numbers in readings.items():
            pairs = zip(element.values, numbers, strict=True)
            if all(not math.isfinite(v) or v == math.ldexp(n, unit) for v, n in pairs):
                return coding
        return None

    @cached_property
    def integers(self) -> IntegerFormat:
        """Format of the integers."""
        if isinstance(self.format, IntegerFormat):
            return self.format
        return enclosing_format(*self.range)

    @cached_property
    def range(self) -> tuple[int, int]:
        """Smallest and largest integer."""
        if isinstance(self.format, IntegerFormat):
            return self.format.min, self.format.max
        if isinstance(self.format, FloatFormat):
            largest = int(math.ldexp(self.format.max, -self.unit))
            return -largest, largest
        ends = [kind.finite for kind in self.kinds]
        low, high = min(values[0] for values in ends), max(values[-1] for values in ends)
        return int(math.ldexp(low, -self.unit)), int(math.ldexp(high, -self.unit))

    @property
    def below_unit(self) -> int:
        """Places from the unit up to the last bit of the smallest floating-point elements."""
        return 0 if self.fields is None else _lowest_exponent(self.fields) - self.unit

    @property
    def special_code(self) -> int:
        """The code that stands for the special number of a block."""
        assert isinstance(self.format, BlockFormat)
        assert self.format.special_code is not None
        return self.format.special_code

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

    @cached_property
    def has_nan(self) -> bool:
        """Whether elements may be NaNs."""
        if isinstance(self.format, BlockFormat):
            return self.fields is not None and any(map(math.isnan, self.format.element.values))
        return isinstance(self.format, FloatFormat) and self.format.has_nan

    @cached_property
    def has_infinities(self) -> bool:
        """Whether elements may be infinite."""
        if isinstance(self.format, BlockFormat):
            return any(map(math.isinf, self.format.element.values))
        return isinstance(self.format, FloatFormat) and self.format.infinities

    @cached_property
    def zero_code(self) -> int:
        """The code that fills blocks: that of zero."""
        if isinstance(self.format, BlockFormat):
            return next(c for c, value in enumerate(self.format.element.values) if value == 0)
        return 0

    def decode(
        self, codes: NDArray[Any], chosen: NDArray[Any] | None = None
    ) -> NDArray[np.float64]:
        """Return the integers of codes; NaN and infinite where an element is.

        Parameters
        ----------
        codes : ndarray of int
            Bit patterns, of an integer format the numbers.
        chosen : ndarray of int, broadcast against `codes`
            Which special number a block has.
        """
        if isinstance(self.format, IntegerFormat):
            return codes.astype(np.float64)
        if isinstance(self.format, FloatFormat):
            with np.errstate(invalid="ignore"):
                return np.asarray(np.ldexp(self.format.to_float64(codes), -self.unit))
        tables = _tables(self)
        return np.asarray(tables[0 if chosen is None else chosen, codes])


def _fields(element: Element) -> tuple[int, int] | None:
    for exponent_bits in range(1, _WIDEST_EXPONENT + 1):
        mantissa_bits = element.width - 1 - exponent_bits
        if 0 <= mantissa_bits <= 3:
            other = float_element(exponent_bits, mantissa_bits).values
            same = (
                a == b or (a != a and b != b) for a, b in zip(element.values, other, strict=True)
            )
            if all(same):
                return exponent_bits, mantissa_bits
    return None


def _lowest_exponent(fields: tuple[int, int]) -> int:
    """Return the exponent of the last bit of subnormal elements."""
    exponent_bits, mantissa_bits = fields
    return 1 - max((1 << exponent_bits - 1) - 1, 0) - mantissa_bits


@cache
def _tables(factor: Factor) -> NDArray[np.float64]:
    """Return the integers of all codes, a row for each choice of the special number."""
    tables = np.ldexp(np.array([kind.values for kind in factor.kinds]), -factor.unit)
    tables.flags.writeable = False
    kept: NDArray[np.float64] = tables
    return kept
