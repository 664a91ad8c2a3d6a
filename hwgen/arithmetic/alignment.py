# SPDX-License-Identifier: Apache-2.0
"""Ternary products of floating-point numbers whose beats are added in integers.

What is rounded, and when, is part of what a core promises:

- *alignment*: `e` is the largest exponent of the activations of a beat, subnormals and zeros having
  the smallest normal one; with alignment `exact` it is the format's largest.  An activation becomes
  the multiple of ``2**(e - fraction_bits)`` nearest to it, away from zero if it is halfway;
- *beat*: the sum of a beat's integers by their weights is exact, and then rounded once to the
  accumulator's format, ties to even.  If an infinity or a NaN is among the beat's activations,
  it is NaN whatever the weights are;
- *accumulator*: it is added to the total, which starts from +0, by IEEE 754.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.lazy import NDArray, np

if TYPE_CHECKING:
    from hwgen.formats import FloatFormat

    Bits = NDArray[Any]


def exponents(fmt: FloatFormat, bits: Bits) -> NDArray[np.int64]:
    """Return the biased exponents of numbers, at least 1."""
    magnitudes = bits.astype(np.int64) & fmt.magnitude_mask
    return np.asarray(np.maximum(magnitudes >> fmt.mantissa_bits, 1))


def aligned(
    fmt: FloatFormat, bits: Bits, exponent: NDArray[np.int64], fraction_bits: int
) -> NDArray[np.int64]:
    """Return numbers as multiples of ``2**(exponent - bias - fraction_bits)``.

    Parameters
    ----------
    fmt : FloatFormat
    bits : ndarray
        Bit patterns; of those that are not finite the result means nothing.
    exponent : ndarray of int
        Biased exponents, at least those of the numbers; broadcast against `bits`.
    fraction_bits : int

    Returns
    -------
    ndarray of int64
        Rounded to nearest, away from zero if halfway.
    """
    own = exponents(fmt, bits)
    magnitudes = bits.astype(np.int64) & fmt.magnitude_mask
    leading = (magnitudes >> fmt.mantissa_bits > 0).astype(np.int64) << fmt.mantissa_bits
    fraction = magnitudes & ((1 << fmt.mantissa_bits) - 1)
    doubled = (leading | fraction) << (fraction_bits - fmt.mantissa_bits + 1)
    shifted = doubled >> np.clip(exponent - own, 0, fraction_bits + 2)
    rounded = (shifted + 1) >> 1
    return np.asarray(np.where(bits.astype(np.int64) & fmt.sign_mask, -rounded, rounded))


def largest_exponent(fmt: FloatFormat) -> int:
    """Return the largest biased exponent of a finite number."""
    return (1 << fmt.exponent_bits) - 1 - fmt.infinities
