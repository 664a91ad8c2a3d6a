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

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hwgen.families.ternary_lut.alignment import largest_exponent

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.schedule import Schedule
    from hwgen.formats import FloatFormat

    Bits = NDArray[Any]


def aligned_beats(
    plan: Schedule, w: NDArray[np.integer]
) -> Callable[[int, NDArray[Any]], NDArray[Any]]:
    """Return what adds up beats, for `hwgen.core.golden.floating.accumulated_sums`.

    Parameters
    ----------
    plan : Schedule
        The schedule of the product, of a configuration with alignment.
    w : ndarray of int, shape (k, n)
        Values -1, 0 and 1.
    """
    config = plan.config
    fmt, result, bits = config.activation, config.result, config.fraction_bits
    weights = np.zeros((plan.k_tiles, config.terms, plan.n), np.int64)
    weights.reshape(-1, plan.n)[: plan.k] = w

    def add_up(number: int, beat: NDArray[Any]) -> NDArray[Any]:
        exponent = exponents(fmt, beat).max(axis=1, keepdims=True)
        if config.array.alignment == "exact":
            exponent = np.full_like(exponent, largest_exponent(fmt))
        psum = aligned(fmt, beat, exponent, bits) @ weights[number]
        # Sums have at most 52 bits, so that float64 holds them.
        scale = (exponent - fmt.bias - bits).astype(np.int32)
        addend = result.round(np.ldexp(psum.astype(np.float64), scale))
        special = ~np.isfinite(fmt.to_float64(beat)).all(axis=1, keepdims=True)
        return np.asarray(np.where(special, result.bits_dtype.type(result.nan), addend))

    return add_up


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
