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

from hwgen.formats.floating import FloatFormat
from hwgen.lazy import NDArray, np

_FLOAT64_PRECISION = 11  # the largest for which sums pass through float64
_EXACT_BITS = 53  # every integer of as many bits is a float64


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
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        if fmt.dtype == np.float32:  # one rounding, as the processor has it
            product = np.asarray(fmt.decode(x) * fmt.decode(y))
            return fmt.canonical(product.view(fmt.bits_dtype))
        return fmt.round(fmt.to_float64(x) * fmt.to_float64(y))


def convert(src: FloatFormat, dst: FloatFormat, bits: NDArray[Any]) -> NDArray[Any]:
    """Return bit patterns of `src` in the format `dst`, rounded to nearest, ties to even.

    Exact if `dst` has at least the exponent and mantissa bits of `src`.  An infinity becomes NaN
    in a format without infinities; every NaN becomes ``dst.nan``.
    """
    if src == dst:
        return dst.canonical(np.asarray(bits, dst.bits_dtype))
    return dst.round(src.to_float64(bits))


def from_integers(fmt: FloatFormat, values: NDArray[Any]) -> NDArray[Any]:
    """Return the bit patterns of integers, rounded to nearest, ties to even.

    Parameters
    ----------
    fmt : FloatFormat
    values : ndarray of int
        int64, or Python integers of up to 100 bits.

    Returns
    -------
    ndarray of ``fmt.bits_dtype``
        Zero is +0.
    """
    negative = (values < 0).astype(bool)
    if values.dtype == object:
        magnitude = np.abs(values)
        excess = np.vectorize(lambda v: max(0, v.bit_length() - _EXACT_BITS), [int])(magnitude)
        sticky = (magnitude & ((1 << excess.astype(object)) - 1)).astype(bool)
    else:
        magnitude = _magnitude(values)
        # Of 54 to 64 bits 11 can go: 43 are left at the least.
        excess = np.where(magnitude >> np.uint64(_EXACT_BITS), np.uint64(11), np.uint64(0))
        sticky = magnitude & ((np.uint64(1) << excess) - np.uint64(1)) != 0
    # Bits beyond what float64 holds are replaced by one that says whether any of them is set; no
    # format has so many places that it could decide more than on which side of a tie they are.
    kept = (magnitude >> excess) | sticky
    wide = np.ldexp(kept.astype(np.float64), excess.astype(np.int32))
    return fmt.round(np.where(negative, -wide, wide))


def _magnitude(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Return absolute values of int64 numbers, also that of the smallest."""
    bits = values.astype(np.int64).view(np.uint64)
    return np.where(values < 0, ~bits + np.uint64(1), bits)
