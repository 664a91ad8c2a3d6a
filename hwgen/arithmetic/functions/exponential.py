# SPDX-License-Identifier: Apache-2.0
"""Powers of 2 and of e: the integer part of the exponent is exact, a table holds its fraction.

``x * log2(e)`` is computed in fixed point, its integer part is the exponent of the result and
``2**fraction`` the significand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hwgen.arithmetic.functions.encoding import Alignment, Result, shift_right
from hwgen.arithmetic.functions.interval import ln2
from hwgen.arithmetic.functions.polynomial import Domain, Polynomial
from hwgen.formats.fixed import RealFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FUNCTIONS = ("exp2", "exp")


@dataclass(frozen=True)
class Scaling:
    """Arguments times the logarithm of the base, in fixed point.

    Parameters
    ----------
    function : str
        ``exp2`` or ``exp``.
    source : RealFormat
    fraction : int
        Bits behind the point.
    factor_bits : int
        Of the constant log2(e), behind the point; 0 for ``exp2``, whose constant is 1.
    top : int
        Floating-point magnitudes from ``2**top`` on are taken for infinite.
    """

    function: str
    source: RealFormat
    fraction: int
    factor_bits: int
    top: int

    @property
    def factor(self) -> int:
        """The constant, in units of ``2**-factor_bits``."""
        if self.function == "exp2":
            return 1
        inverse = Fraction(1 << 320, ln2().low)
        return round(inverse * (1 << self.factor_bits))

    @property
    def factor_error(self) -> float:
        """Bound of the difference between the constant and the logarithm."""
        return 0.0 if self.function == "exp2" else 0.501 * 2.0**-self.factor_bits

    @property
    def alignment(self) -> Alignment:
        """Alignment of a floating-point argument to fixed point."""
        assert self.source.is_float
        return Alignment(self.source, self.top, self.fraction, self.factor, self.factor_bits)

    @property
    def cut(self) -> int:
        """Bits of a fixed-point product that are left out."""
        assert self.source.is_fixed
        return self.source.fraction + self.factor_bits - self.fraction

    @property
    def magnitude(self) -> float:
        """The largest magnitude of an argument that is not taken for infinite."""
        if self.source.is_fixed:
            return self.source.largest
        return math.ldexp(1, self.top)

    @property
    def width(self) -> int:
        """Bits of the result, with a sign."""
        if self.source.is_float:
            return self.alignment.width + 1
        low, high = (shift_right(end * self.factor, self.cut) for end in self._ends)
        return max((~low if low < 0 else low).bit_length(), high.bit_length()) + 1

    @property
    def _ends(self) -> tuple[int, int]:
        assert self.source.is_fixed
        return self.source.integer.min, self.source.integer.max

    @property
    def exponents(self) -> tuple[int, int]:
        """Smallest and largest integer part."""
        if self.source.is_fixed:
            low, high = (
                shift_right(end * self.factor, self.cut) >> self.fraction for end in self._ends
            )
            return low, high
        end = 1 << (self.width - 1 - self.fraction)
        return -end, end - 1

    def evaluate(
        self, raw: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return scaled arguments, and which are above and below all that are looked at."""
        if self.source.is_fixed:
            never = np.zeros(raw.shape, bool)
            return shift_right(raw * self.factor, self.cut), never, never
        negative = self.source.is_negative(raw)
        magnitude, large = self.alignment.evaluate(raw)
        return np.where(negative, -magnitude, magnitude), large & ~negative, large & negative

    @property
    def error(self) -> tuple[float, float]:
        """Bounds of a scaled argument's error: most that it is too small, and too large."""
        cut = 2.0**-self.fraction
        constant = self.magnitude * self.factor_error
        if self.source.is_fixed:
            return (cut if self.cut > 0 else 0.0) + constant, constant
        return cut + constant, cut + constant


@dataclass(frozen=True)
class Exponential:
    """A unit for powers.

    Parameters
    ----------
    scaling : Scaling
    table : Polynomial
        Of ``2**f``.
    result : Result
    """

    scaling: Scaling
    table: Polynomial
    result: Result

    def evaluate(self, raw: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return integers or bit patterns of the results."""
        scaling, target = self.scaling, self.result.target
        scaled, above, below = scaling.evaluate(raw)
        fraction = scaled & ((1 << scaling.fraction) - 1)
        significand = self.table.evaluate(fraction)
        value = self.result.evaluate(significand, scaled >> scaling.fraction)
        value = np.where(below, 0, np.where(above, target.overflow, value))
        return np.where(scaling.source.is_nan(raw), target.nan, value)

    @property
    def significand_error(self) -> float:
        """Bound of a significand's error, with that of its argument, the significand 1 to 2."""
        argument = max(self.scaling.error)
        # 2**d - 1 is at most d, for arguments that are off by less than a unit.
        return float(np.abs(self.table.errors).max()) + 2 * argument

    @property
    def monotonic(self) -> bool:
        """Whether results are proven never to fall with rising arguments."""
        low, high = self.table.extremes
        return self.table.monotonic and high <= 2 * low


def limit(target: RealFormat, function: str) -> int:
    """Return from which power of two on all magnitudes of arguments overflow or underflow."""
    if target.is_float:
        reach = target.bias + target.mantissa_bits + 2
    else:
        reach = max(target.integer_bits, target.fraction + 2)
    factor = 1.0 if function == "exp2" else 1.44
    return math.ceil(math.log2(reach / factor))


def domain(scaling: Scaling) -> Domain:
    """Return the domain of the table."""
    return Domain("exp2", scaling.fraction, ((0, 1),))


def scaled(function: str, source: RealFormat, target: RealFormat, error: float) -> Scaling:
    """Choose the scaling of arguments for a significand error of about `error` at most."""
    top = limit(target, function)
    # Of `error`, cutting off takes a half and the constant a quarter.
    bits = max(1, math.ceil(-math.log2(error / 4)))
    if function == "exp2":
        if source.is_fixed:
            return Scaling(function, source, max(1, min(bits, source.fraction)), 0, top)
        return Scaling(function, source, bits, 0, top)
    if source.is_fixed:
        top = source.integer_bits + (source.signed and source.integer_bits == 0)
    factor_bits = max(bits, bits + 1 + top)
    return Scaling(function, source, bits, factor_bits, top)


def result_of(target: RealFormat, scaling: Scaling, precision: int) -> Result:
    """Return the rounding of significands of so many bits to results."""
    low, high = scaling.exponents
    return Result(target, precision, low, high)
