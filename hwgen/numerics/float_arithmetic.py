# SPDX-License-Identifier: Apache-2.0
"""Golden arithmetic on the bit patterns of floating-point numbers, rounded to nearest even.

Why a sum that is computed in float64 and rounded again is the correctly rounded one: let `p` be
the precision of the format, at most 11 here, and ``|x| >= |y|``.  The first rounding does nothing
unless the last bit of `y` lies 53 places or more below the first bit of the exact sum; then
``|y| < 2**(p - 51) * |x|``, far less than a quarter of the distance from `x` to its neighbours of
precision `p`.  Hence `x` is the nearest of these to the exact sum, and, as the first rounding
moves the sum by less than `y` itself, also to the rounded one; neither is close to a tie.  Below
the smallest normal number sums are exact: all numbers are multiples of the smallest subnormal.

A product of two significands of up to 24 bits has at most 48 of them, and its exponent is within
the range of float64, so that products pass through float64 without being rounded there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .floating import FloatFormat

_FLOAT64_PRECISION = 11  # the largest for which sums pass through float64


def add(fmt: FloatFormat, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Return ``x + y`` by IEEE 754, rounded to nearest, ties to even.

    Parameters
    ----------
    fmt : FloatFormat
        Format of the operands and the sum.
    x, y : ndarray of unsigned int
        Bit patterns, broadcast against each other.

    Returns
    -------
    ndarray of ``fmt.bits_dtype``
        Every NaN is ``fmt.nan``.  Exact cancellation gives +0.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        if fmt.precision <= _FLOAT64_PRECISION:
            return fmt.round(fmt.to_float64(x) + fmt.to_float64(y))
        total = fmt.decode(x) + fmt.decode(y)
    return fmt.canonical(np.asarray(total).view(fmt.bits_dtype))


def multiply(fmt: FloatFormat, x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """Return ``x * y`` by IEEE 754, rounded to nearest, ties to even; see `add`.

    Zeros have the sign of the product; zero times infinity is ``fmt.nan``.
    """
    with np.errstate(invalid="ignore"):
        return fmt.round(fmt.to_float64(x) * fmt.to_float64(y))


def convert(src: FloatFormat, dst: FloatFormat, bits: NDArray[Any]) -> NDArray[Any]:
    """Return bit patterns of `src` in the format `dst`, rounded to nearest, ties to even.

    Exact if `dst` has at least the exponent and mantissa bits of `src`.  An infinity becomes NaN
    in a format without infinities; every NaN becomes ``dst.nan``.
    """
    return dst.round(src.to_float64(bits))
