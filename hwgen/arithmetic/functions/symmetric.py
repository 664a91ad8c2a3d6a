# SPDX-License-Identifier: Apache-2.0
"""Sigmoid, tanh, GELU and SiLU: a table for magnitudes, the rest by symmetry, constant far out.

With g the table's curve: ``sigmoid(-a) = g(a)``, ``sigmoid(a) = 1 - g(a)``;
``tanh(-a) = -g(a)``, ``tanh(a) = g(a)``; for GELU and SiLU ``f(x) = max(x, 0) - g(|x|)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hwgen.arithmetic.functions.curves import enclosed
from hwgen.arithmetic.functions.encoding import Alignment, Result
from hwgen.arithmetic.functions.polynomial import Domain, Polynomial
from hwgen.formats.fixed import RealFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FUNCTIONS = ("sigmoid", "tanh", "gelu", "gelu_tanh", "silu")

GATED = ("gelu", "gelu_tanh", "silu")
"""Those that are the argument times a factor from 0 to 1."""

SLOPE = 1.2
"""More than the slope of any of these functions and of their curves."""


@dataclass(frozen=True)
class Magnitude:
    """Magnitudes of arguments in fixed point.

    Parameters
    ----------
    source : RealFormat
    top : int
        Those from ``2**top`` on have left the table.
    fraction : int
        Bits behind the point that are looked at.
    """

    source: RealFormat
    top: int
    fraction: int

    @property
    def alignment(self) -> Alignment:
        """Alignment of a floating-point argument to fixed point."""
        assert self.source.is_float
        return Alignment(self.source, self.top, self.fraction)

    @property
    def drop(self) -> int:
        """Low bits of a fixed-point magnitude that the table does not see."""
        assert self.source.is_fixed
        return self.source.fraction - self.fraction

    @property
    def width(self) -> int:
        """Bits of a magnitude below ``2**top``."""
        return self.top + self.fraction

    def evaluate(
        self, raw: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return magnitudes, which are ``2**top`` or more, and which are negative."""
        if self.source.is_fixed:
            magnitude = np.abs(raw) >> self.drop
            return magnitude, (magnitude >> self.width) != 0, raw < 0
        magnitude, large = self.alignment.evaluate(raw)
        return magnitude, large, self.source.is_negative(raw)


@dataclass(frozen=True)
class Symmetric:
    """A unit for one of `FUNCTIONS`.

    Parameters
    ----------
    function : str
    magnitude : Magnitude
    table : Polynomial
    target : RealFormat
        That of the argument, if both are floating-point.
    """

    function: str
    magnitude: Magnitude
    table: Polynomial
    target: RealFormat

    @property
    def exact_argument(self) -> int:
        """Bits behind the point of the argument where it is added, of gated functions."""
        source = self.magnitude.source
        return source.fraction if source.is_fixed else self.magnitude.fraction

    @cached_property
    def fraction(self) -> int:
        """Bits behind the point of the sum of table and argument."""
        precision = self.table.precision
        return max(precision, self.exact_argument) if self.function in GATED else precision

    @property
    def far(self) -> int:
        """Value of the curve beyond the end of the table, in units of its results."""
        return 1 << self.table.precision if self.function == "tanh" else 0

    @property
    def passes(self) -> bool:
        """Whether positive arguments beyond the table are results as they are, bit by bit."""
        return self.function in GATED and self.magnitude.source.is_float and self.target.is_float

    @property
    def largest(self) -> int:
        """Bound of the magnitudes of sums, in units of the sum's last bit."""
        one = 1 << self.fraction
        if self.function not in GATED:
            return 2 * one - 1
        source = self.magnitude.source
        if source.is_fixed:
            return max(-source.integer.min, source.integer.max) << (self.fraction - source.fraction)
        return 1 << (self.magnitude.top + self.fraction)

    def sums(
        self, raw: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return results before rounding, which arguments have left the table, which are large."""
        table = self.table
        magnitude, large, negative = self.magnitude.evaluate(raw)
        far = large | ((magnitude >> table.offset_bits) >= table.segments)
        value = np.where(far, self.far, table.evaluate(np.where(far, 0, magnitude)))
        if self.function == "sigmoid":
            return np.where(negative, value, (1 << table.precision) - value), far, large
        if self.function == "tanh":
            return np.where(negative, -value, value), far, large
        exact = np.abs(raw) if self.magnitude.source.is_fixed else magnitude
        step = np.where(negative, 0, exact) << (self.fraction - self.exact_argument)
        total: NDArray[np.int64] = step - (value << (self.fraction - table.precision))
        return total, far, large

    @property
    def result(self) -> Result:
        """Rounding of a normalised sum to floating point."""
        bits = self.largest.bit_length()
        return Result(self.target, bits - 1, -self.fraction, bits - 1 - self.fraction)

    def evaluate(self, raw: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return integers or bit patterns of the results."""
        total, far, large = self.sums(raw)
        target, source = self.target, self.magnitude.source
        if target.is_fixed:
            drop = self.fraction - target.fraction
            rounded = (total + (1 << drop >> 1)) >> drop if drop >= 0 else total << -drop
            result = np.clip(rounded, target.integer.min, target.integer.max)
            if source.is_float and self.function in GATED:
                # What is too large for the alignment is so for the target too.
                result = np.where(
                    large, np.where(source.is_negative(raw), 0, target.overflow), result
                )
        else:
            negative = total < 0
            significand = np.abs(total)
            length = np.frexp(significand.astype(np.float64))[1].astype(np.int64)
            precision = self.result.precision
            normal = significand << (precision + 1 - length)
            result = self.result.evaluate(normal, length - 1 - self.fraction)
            result = np.where(significand == 0, 0, result)
            result = target.with_sign(result, negative)
            if self.passes:
                result = np.where(far & ~source.is_negative(raw), raw, result)
        return np.where(source.is_nan(raw), target.nan, result)

    @property
    def sum_error(self) -> float:
        """Bound of the error of results before they are rounded."""
        errors = self.table.errors
        source = self.magnitude.source
        cut = source.is_float or self.magnitude.drop
        argument = SLOPE * 2.0**-self.magnitude.fraction if cut else 0.0
        end = self.table.segments * 2.0 ** (self.table.offset_bits - self.magnitude.fraction)
        beyond = rest(self.function, end) if self.reaches(end) else 0.0
        return max(float(np.abs(errors).max()) + argument, beyond)

    def reaches(self, end: float) -> bool:
        """Whether there are arguments of a magnitude of `end`."""
        source = self.magnitude.source
        if source.is_float:
            return True
        return source.largest >= end

    @property
    def monotonic(self) -> bool:
        """Whether results are proven never to fall with rising arguments; not of GELU and SiLU."""
        table = self.table
        if self.function in GATED or not table.monotonic:
            return False
        ends = table.evaluate(np.array([0, (table.segments << table.offset_bits) - 1]))
        if self.function == "tanh":
            return bool(0 <= ends[0] <= ends[1] <= self.far)
        return bool(1 << table.precision >= 2 * ends[0] and ends[0] >= ends[1] >= 0)


def rest(function: str, end: float) -> float:
    """Bound what is left of a curve from `end`, at least 2, on: it only nears its limit."""
    value, error = enclosed(function, np.array([min(end, 80.0)]))
    left = 1 - value if function == "tanh" else value
    return float(abs(left[0]) + error[0])


def end_of_table(function: str, left: float) -> float:
    """Find the argument from which the curve is nearer than `left` to its limit.

    It is a multiple of 1/16, at least 2.
    """
    sixteenths = 32
    while rest(function, sixteenths / 16) > left:
        sixteenths += 1
    return sixteenths / 16


def magnitudes(
    function: str, source: RealFormat, target: RealFormat, error: float
) -> tuple[Magnitude, float]:
    """Choose the alignment of magnitudes to fixed point, and the end of the table.

    Cutting off takes up to a quarter of `error`.
    """
    end = end_of_table(function, error)
    bits = max(1, math.ceil(-math.log2(error / (4 * SLOPE))))
    top = math.ceil(math.log2(end))
    if source.is_fixed:
        end = min(end, source.largest + source.ulp)
        top = math.ceil(math.log2(end))
        bits = min(source.fraction, max(bits, 1 - top))
    elif target.is_fixed and function in GATED:
        top = max(top, target.integer_bits)
    return Magnitude(source, top, bits), end


def domain(function: str, magnitude: Magnitude) -> Domain:
    """Return the domain of the table."""
    return Domain(function, magnitude.width, ((0, math.ldexp(1, magnitude.top)),))
