# SPDX-License-Identifier: Apache-2.0
"""Reciprocals and reciprocal square roots: arguments are normalised, a table takes the significand.

The table of the square root has two halves, for even and for odd exponents.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwgen.arithmetic.functions.encoding import Result
from hwgen.arithmetic.functions.polynomial import Domain, Polynomial
from hwgen.formats.fixed import RealFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FUNCTIONS = ("reciprocal", "rsqrt")


@dataclass(frozen=True)
class Normalisation:
    """Arguments as significands from 1 to 2 and exponents.

    Parameters
    ----------
    function : str
        ``reciprocal`` or ``rsqrt``.
    source : RealFormat
    width : int
        Bits of a significand behind its leading one that are looked at.
    """

    function: str
    source: RealFormat
    width: int

    @property
    def significand_bits(self) -> int:
        """Bits of a magnitude, or of a floating-point significand, the leading one included."""
        if self.source.is_float:
            return self.source.precision
        return self.source.width

    @property
    def drop(self) -> int:
        """Low bits of a normalised significand that are left out."""
        return self.significand_bits - 1 - self.width

    @property
    def exponents(self) -> tuple[int, int]:
        """Smallest and largest exponent of an argument."""
        source = self.source
        if source.is_float:
            return 1 - source.bias - source.mantissa_bits, source.bias
        return -source.fraction, source.width - 1 - source.fraction

    @property
    def result_exponents(self) -> tuple[int, int]:
        """Smallest and largest exponent of a result."""
        low, high = self.exponents
        if self.function == "reciprocal":
            return -high - 1, -low - 1
        return -(high >> 1) - 1, -(low >> 1) - 1

    @property
    def signed(self) -> bool:
        """Whether there are negative arguments."""
        return self.source.signed

    def evaluate(
        self, raw: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return normalised significands, exponents and signs; of zero any significand."""
        source, bits = self.source, self.significand_bits
        if source.is_float:
            negative = source.is_negative(raw)
            biased = (raw & source.magnitude_mask) >> source.mantissa_bits
            magnitude = raw & ((1 << source.mantissa_bits) - 1)
            magnitude = magnitude | (np.minimum(biased, 1) << source.mantissa_bits)
            exponent = np.maximum(biased, 1) - source.bias
        else:
            negative = raw < 0
            magnitude = np.abs(raw)
            exponent = np.full(raw.shape, bits - 1 - source.fraction, np.int64)
        length = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)
        zeros = np.where(magnitude == 0, 0, bits - length)
        return magnitude << zeros, exponent - zeros, negative


@dataclass(frozen=True)
class Normalised:
    """A unit for reciprocals or reciprocal square roots.

    Parameters
    ----------
    normalisation : Normalisation
    table : Polynomial
        Of twice the function, for significands from 1 to 2, or to 4.
    result : Result
    """

    normalisation: Normalisation
    table: Polynomial
    result: Result

    def evaluate(self, raw: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return integers or bit patterns of the results."""
        norm, target = self.normalisation, self.result.target
        significand, exponent, negative = norm.evaluate(raw)
        argument = (significand >> norm.drop) & ((1 << norm.width) - 1)
        if norm.function == "rsqrt":
            argument = argument | ((exponent & 1) << norm.width)
            exponent = exponent >> 1
        value = self.result.evaluate(self.table.evaluate(argument), -exponent - 1)
        value = np.where(significand == 0, target.overflow, value)
        nan = norm.source.is_nan(raw)
        if norm.source.is_float:
            infinite = raw & norm.source.magnitude_mask == norm.source.overflow
            value = np.where(infinite, 0, value)
        if norm.function == "rsqrt":
            nan = nan | (negative & (significand != 0))
            if target.is_fixed and target.signed:
                negative = np.zeros_like(negative)
        return np.where(nan, target.nan, target.with_sign(value, negative))

    @property
    def significand_error(self) -> float:
        """Bound of a significand's error, with that of its argument, the significand 1 to 2."""
        # Twice the slope of both functions is at most 2.
        argument = 2 * 2.0**-self.normalisation.width if self.normalisation.drop else 0.0
        return float(np.abs(self.table.errors).max()) + argument

    @property
    def monotonic(self) -> bool:
        """Whether results are proven never to rise with rising arguments of one sign."""
        table = self.table
        pieces = len(table.domain.pieces)
        firsts = np.arange(pieces, dtype=np.int64) << table.domain.width
        first = table.evaluate(firsts)
        last = table.evaluate(firsts + (1 << table.domain.width) - 1)
        joined = all(last[i] >= first[i + 1] for i in range(pieces - 1))
        return table.monotonic and joined and bool(2 * last[-1] >= first[0])


def domain(normalisation: Normalisation) -> Domain:
    """Return the domain of the table."""
    pieces = ((1, 1),) if normalisation.function == "reciprocal" else ((1, 1), (2, 2))
    return Domain(normalisation.function, normalisation.width, pieces, 1)


def normalised(function: str, source: RealFormat, error: float) -> Normalisation:
    """Choose the bits of arguments for a significand error of about `error` at most."""
    full = Normalisation(function, source, 0).significand_bits - 1
    # Cutting off takes up to a quarter of the error.
    enough = max(1, math.ceil(-math.log2(error / 8)))
    return Normalisation(function, source, max(1, min(full, enough)))


def result_of(target: RealFormat, normalisation: Normalisation, precision: int) -> Result:
    """Return the rounding of significands of so many bits to results."""
    low, high = normalisation.result_exponents
    return Result(target, precision, low, high)
