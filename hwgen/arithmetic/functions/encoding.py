# SPDX-License-Identifier: Apache-2.0
"""From formats to what tables take, and from what they give to formats: exact bit manipulations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from hwgen.formats.fixed import RealFormat
from hwgen.formats.floating import FloatFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


Integers = TypeVar("Integers", int, "NDArray[np.int64]")


def shift_right(value: Integers, amount: int) -> Integers:
    """Return integers shifted to the right, or to the left if `amount` is negative."""
    return value >> amount if amount >= 0 else value << -amount


@dataclass(frozen=True)
class Alignment:
    """The magnitude of a floating-point number, times a constant, in fixed point, cut off.

    Parameters
    ----------
    fmt : FloatFormat
    top : int
        Magnitudes from ``2**top`` on, infinities and NaNs are too large.
    fraction : int
        Bits behind the point of the result.
    factor, factor_bits : int
        The constant is ``factor * 2**-factor_bits``, at least 1 and less than 2.
    """

    fmt: FloatFormat
    top: int
    fraction: int
    factor: int = 1
    factor_bits: int = 0

    @property
    def product_bits(self) -> int:
        """Bits of the significand times the constant."""
        return self.fmt.precision + self.factor.bit_length() - (self.factor == 1)

    @property
    def lift(self) -> int:
        """By how much the product is shifted to the left, the largest exponent given."""
        return self.top - 1 - self.fmt.mantissa_bits - self.factor_bits + self.fraction

    @property
    def width(self) -> int:
        """Bits of the result."""
        return max(1, self.product_bits + self.lift)

    @property
    def largest_exponent(self) -> int:
        """The biased exponent of numbers just below the limit."""
        return min(self.top - 1 + self.fmt.bias, (1 << self.fmt.exponent_bits) - 2)

    def evaluate(self, bits: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the magnitudes, and which are too large."""
        fmt = self.fmt
        exponent = (bits & fmt.magnitude_mask) >> fmt.mantissa_bits
        significand = bits & ((1 << fmt.mantissa_bits) - 1)
        significand = significand | (np.minimum(exponent, 1) << fmt.mantissa_bits)
        product = significand * self.factor
        product = shift_right(product, -self.lift)
        amount = self.top - 1 + fmt.bias - np.maximum(exponent, 1)
        infinite = exponent == (1 << fmt.exponent_bits) - 1
        return product >> np.clip(amount, 0, 63), (amount < 0) | infinite


@dataclass(frozen=True)
class Result:
    """Rounding of a significand and an exponent to a number of a format.

    They stand for ``significand * 2**(exponent - precision)``, the significand is from
    ``2**precision`` to ``2**(precision + 1)``.

    Parameters
    ----------
    target : RealFormat
    precision : int
    lowest, highest : int
        Exponents that occur.
    """

    target: RealFormat
    precision: int
    lowest: int
    highest: int

    @property
    def top(self) -> int:
        """Of fixed point: the largest exponent whose numbers may be in range."""
        assert self.target.is_fixed
        return min(self.highest, self.target.integer_bits - 1)

    @property
    def lift(self) -> int:
        """Of fixed point: by how much a significand is shifted to the left at `top`.

        One bit behind the point is kept for rounding.
        """
        assert self.target.is_fixed
        return self.top - self.precision + self.target.fraction + 1

    @property
    def guard(self) -> int:
        """Of floating point: bits of a significand behind those of the format, at least one."""
        assert self.target.is_float
        return max(1, self.precision - self.target.mantissa_bits)

    @property
    def pad(self) -> int:
        """Of floating point: zeros below a significand that is shorter."""
        assert self.target.is_float
        return self.guard - (self.precision - self.target.mantissa_bits)

    def evaluate(
        self, significand: NDArray[np.int64], exponent: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return magnitudes: rounded to nearest, halves up; too large ones at the format's end."""
        target = self.target
        if target.is_fixed:
            lifted = shift_right(significand, -self.lift)
            kept = lifted >> np.clip(self.top - exponent, 0, 63)
            rounded = np.minimum((kept + 1) >> 1, target.integer.max)
            return np.where(exponent > self.top, target.integer.max, rounded)
        biased = exponent + target.bias
        lifted = significand << self.pad
        kept = lifted >> np.clip(1 - biased, 0, target.mantissa_bits + self.guard + 2)
        rounded = (kept + (1 << (self.guard - 1))) >> self.guard
        whole = rounded + (np.maximum(biased - 1, 0) << target.mantissa_bits)
        return np.minimum(whole, target.overflow)
