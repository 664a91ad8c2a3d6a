# SPDX-License-Identifier: Apache-2.0
"""Operands that make floating-point arithmetic difficult, and counts of what they met."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.arithmetic.float_arithmetic import add, multiply
from hwgen.formats.floating import FloatFormat

Bits = NDArray[Any]


def corners(fmt: FloatFormat) -> Bits:
    """Return bit patterns of both signs at the edges of everything.

    Zeros, smallest and largest subnormals, the numbers around powers of two near the smallest, one
    and the largest exponent, which hold every halfway case with one of them, infinities, quiet
    and signalling NaNs.
    """
    m, p = fmt.mantissa_bits, fmt.precision
    top = (1 << fmt.exponent_bits) - 1
    middle = range(max(1, fmt.bias - p - 3), min(top, fmt.bias + p + 4))
    exponents = sorted({1, 2, 3, *middle, top - 2, top - 1})
    magnitudes = {0, 1, 2, 3, 1 << (m - 1), (1 << m) - 2, (1 << m) - 1}
    for exponent in exponents:
        magnitudes |= {(exponent << m) + step for step in (-1, 0, 1, 1 << (m - 1))}
    for edge in (fmt.overflow, fmt.nan, fmt.max_finite, fmt.magnitude_mask):
        magnitudes |= {edge - 1, edge, edge + 1}
    legal = [value for value in sorted(magnitudes) if 0 <= value <= fmt.magnitude_mask]
    both = [*legal, *(value | fmt.sign_mask for value in legal)]
    return np.array(both, fmt.bits_dtype)


def corner_pairs(fmt: FloatFormat) -> tuple[Bits, Bits]:
    """Return every pair of `corners`."""
    x, y = np.meshgrid(corners(fmt), corners(fmt))
    return x.ravel(), y.ravel()


def all_pairs(fmt: FloatFormat) -> tuple[Bits, Bits]:
    """Return every pair of a format of 8 bits."""
    pairs = np.arange(1 << (2 * fmt.width))
    return (pairs >> fmt.width).astype(fmt.bits_dtype), pairs.astype(fmt.bits_dtype)


def random_pairs(fmt: FloatFormat, count: int, seed: int) -> tuple[Bits, Bits]:
    """Return `count` pairs: a mixture of the ways in which addition can go wrong."""
    rng = np.random.default_rng(seed)
    m, p = fmt.mantissa_bits, fmt.precision
    top = (1 << fmt.exponent_bits) - 1
    kind = rng.integers(0, 7, count)
    x = rng.integers(0, 1 << fmt.width, count)
    y = rng.integers(0, 1 << fmt.width, count)
    mantissa = y & ((1 << m) - 1)
    exponent = (x & fmt.magnitude_mask) >> m
    # 0: anything.  1: almost the opposite.
    delta = rng.integers(0, 1 << rng.integers(0, p + 1, count)) * rng.choice([-1, 1], count)
    y = np.where(kind == 1, (x ^ fmt.sign_mask) + delta, y)
    # 2: exponents 0 to p + 3 apart.  3: the same, with few bits set, for ties and carries.
    below = np.maximum(exponent - rng.integers(0, p + 4, count), 0)
    near = (y & fmt.sign_mask) | (below << m) | mantissa
    few = np.where(rng.random(count) < 0.5, 0, 1 << rng.integers(0, m, count))
    sparse = (y & fmt.sign_mask) | (below << m) | few
    y = np.select([kind == 2, kind == 3], [near, sparse], y)
    # 4: large.  5: small.
    for number, low, high in ((4, top - 2, top), (5, 0, min(p, top))):
        for operand in (x, y):
            drawn = rng.integers(low, high, count) << m
            value = (operand & ~(top << m)) | drawn
            operand[kind == number] = value[kind == number]
    # 6: corners, those that are not subject to rounding more often.
    few_edges = [0, fmt.sign_mask, fmt.overflow, fmt.overflow | fmt.sign_mask, fmt.nan]
    edges = corners(fmt).astype(np.int64)
    edges = np.concatenate([edges, np.repeat(few_edges, len(edges) // 5)])
    x = np.where(kind == 6, rng.choice(edges, count), x)
    y = np.where((kind == 6) & (rng.random(count) < 0.5), rng.choice(edges, count), y)
    x, y = x & (fmt.sign_mask * 2 - 1), y & (fmt.sign_mask * 2 - 1)
    swap = rng.random(count) < 0.5
    x, y = np.where(swap, y, x), np.where(swap, x, y)
    return x.astype(fmt.bits_dtype), y.astype(fmt.bits_dtype)


def coverage(fmt: FloatFormat, x: Bits, y: Bits) -> dict[str, int]:
    """Return the number of additions for each special case of an adder."""
    a, b = fmt.to_float64(x), fmt.to_float64(y)
    with np.errstate(all="ignore"):
        exact = a + b  # or so close to the sum that it is on the same side of every tie
        bits = add(fmt, x, y)
        total = fmt.to_float64(bits)
        up, down = np.nextafter(exact, np.inf), np.nextafter(exact, -np.inf)
    finite = np.isfinite(a) & np.isfinite(b)
    normal = finite & np.isfinite(total)
    large, small, result = (
        np.maximum((value & fmt.magnitude_mask).astype(np.int64) >> fmt.mantissa_bits, 1)
        for value in (
            np.maximum(x & fmt.magnitude_mask, y & fmt.magnitude_mask),
            np.minimum(x & fmt.magnitude_mask, y & fmt.magnitude_mask),
            bits,
        )
    )
    subtract = ((x ^ y) & fmt.sign_mask) != 0
    tie = normal & (exact != total) & (fmt.round(up) != fmt.round(down))
    below = np.abs(total) < 2.0 ** (1 - fmt.bias)
    met = {
        "overflow": finite & ~np.isfinite(total),
        "exact zero": finite & (total == 0) & (a != 0),
        "subnormal": normal & below & (total != 0),
        "subnormal from normals": normal & below & (total != 0) & (small > 1),
        "normal from subnormals": normal & ~below & (small == 1) & (large == 1),
        "tie to the even above": tie & (np.abs(total) > np.abs(exact)),
        "tie to the even below": tie & (np.abs(total) < np.abs(exact)),
        "rounded up": normal & (np.abs(total) > np.abs(exact)),
        "rounded down": normal & (np.abs(total) < np.abs(exact)),
        "carry": normal & (result == large + 1),
        "one place lost": normal & (result == large - 1),
        "most places lost": normal & (total != 0) & (result <= large - fmt.mantissa_bits),
        "NaN": np.isnan(a) | np.isnan(b),
    }
    for distance in range(fmt.precision + 4):
        apart = finite & (large - small == distance)
        met[f"added {distance} apart"] = apart & ~subtract
        met[f"subtracted {distance} apart"] = apart & subtract
    if fmt.infinities:
        met["infinity and number"] = np.isinf(a) & np.isfinite(b)
        met["infinities of opposite signs"] = np.isinf(a) & np.isinf(b) & subtract
    return {name: int(np.count_nonzero(where)) for name, where in met.items()}


def random_factors(fmt: FloatFormat, count: int, seed: int) -> tuple[Bits, Bits]:
    """Return `count` pairs: a mixture of the ways in which multiplication can go wrong."""
    rng = np.random.default_rng(seed)
    m, p = fmt.mantissa_bits, fmt.precision
    top = (1 << fmt.exponent_bits) - 1
    kind = rng.choice([0, 1, 2, 3, 4, 5, 5, 5, 6, 7], count)
    x = rng.integers(0, 1 << fmt.width, count)
    y = rng.integers(0, 1 << fmt.width, count)

    def with_exponent(bits: Bits, exponent: Bits) -> Bits:
        return (bits & ~(top << m)) | (np.clip(exponent, 0, top) << m)

    # 0: anything.  1: products around the smallest normal and the subnormals.  2: around the
    # largest.  3: a subnormal, so small as any, times a large one.
    exponent = (x & fmt.magnitude_mask) >> m
    for number, low, high in ((1, fmt.bias - p - 3, fmt.bias + 3), (2, top - 3, top + 2)):
        other = rng.integers(low, high, count) - exponent + (fmt.bias if number == 2 else 0)
        y = np.where(kind == number, with_exponent(y, other), y)
    fraction = rng.integers(0, 1 << rng.integers(1, m + 1, count))
    x = np.where(kind == 3, (x & fmt.sign_mask) | fraction, x)
    y = np.where(kind == 3, with_exponent(y, rng.integers(fmt.bias - 2, top, count)), y)
    # 4: few bits set, for ties and carries.  5: such ties below the smallest normal.
    few = (rng.choice([1, 3], (2, count)) << rng.integers(0, m, (2, count))) & ((1 << m) - 1)
    few[rng.random((2, count)) < 0.2] ^= (1 << m) - 1
    lowest = np.where(kind == 5, rng.integers(fmt.bias - p - 1, fmt.bias + 1, count), fmt.bias + 2)
    sparse = (kind == 4) | (kind == 5)
    x = np.where(sparse, (x & ~((1 << m) - 1)) | few[0], x)
    y = np.where(sparse, (with_exponent(y, lowest - exponent) & ~((1 << m) - 1)) | few[1], y)
    # 6: close to powers of two, the smallest normal and what overflows among them.
    step = rng.integers(1, 1 << max(1, m // 2), count)
    power = rng.choice([1, fmt.bias, top], count)
    near = with_exponent(y, power - 1 + fmt.bias - exponent)
    x = np.where(kind == 6, (x & ~((1 << m) - 1)) | ((1 << m) - 2 * step), x)
    y = np.where(kind == 6, (near & ~((1 << m) - 1)) | step, y)
    # 7: corners, those that are not subject to rounding more often.
    few_edges = [0, fmt.sign_mask, fmt.overflow, fmt.overflow | fmt.sign_mask, fmt.nan]
    edges = corners(fmt).astype(np.int64)
    edges = np.concatenate([edges, np.repeat(few_edges, len(edges) // 5)])
    x = np.where(kind == 7, rng.choice(edges, count), x)
    y = np.where((kind == 7) & (rng.random(count) < 0.5), rng.choice(edges, count), y)
    swap = rng.random(count) < 0.5
    x, y = np.where(swap, y, x), np.where(swap, x, y)
    return x.astype(fmt.bits_dtype), y.astype(fmt.bits_dtype)


def product_coverage(fmt: FloatFormat, x: Bits, y: Bits) -> dict[str, int]:
    """Return the number of multiplications for each special case of a multiplier."""
    a, b = fmt.to_float64(x), fmt.to_float64(y)
    with np.errstate(all="ignore"):
        exact = a * b
        total = fmt.to_float64(multiply(fmt, x, y))
        tie = fmt.round(np.nextafter(exact, np.inf)) != fmt.round(np.nextafter(exact, -np.inf))
    lowest = 2.0 ** (1 - fmt.bias)
    finite = np.isfinite(a) & np.isfinite(b)
    normal = finite & np.isfinite(total) & (exact != 0)
    small = (np.abs(a) < lowest) | (np.abs(b) < lowest)
    subnormal = normal & (np.abs(total) < lowest)
    tie &= normal & (exact != total)
    up = np.abs(total) > np.abs(exact)
    down = np.abs(total) < np.abs(exact)
    carry = np.frexp(total)[1] > np.frexp(exact)[1]
    met = {
        "overflow": finite & ~np.isfinite(total),
        "overflow by rounding": finite
        & ~np.isfinite(total)
        & (np.frexp(exact)[1] == np.frexp(fmt.to_float64(np.array([fmt.max_finite])))[1]),
        "underflow to zero": normal & (total == 0),
        "subnormal": subnormal & (total != 0),
        "subnormal from a subnormal": subnormal & (total != 0) & small,
        "normal from a subnormal": normal & small & (np.abs(total) >= lowest),
        "normal by rounding": normal & (np.abs(exact) < lowest) & (np.abs(total) == lowest),
        "zero": finite & (exact == 0),
        "carry": normal & carry & ~subnormal,
        "NaN": np.isnan(a) | np.isnan(b),
    }
    for name, where in (("", ~subnormal), ("subnormal ", subnormal)):
        met[f"{name}tie to the even above"] = tie & up & where
        met[f"{name}tie to the even below"] = tie & down & where
        met[f"{name}rounded up"] = normal & up & ~tie & where
        met[f"{name}rounded down"] = normal & down & ~tie & where
    if fmt.infinities:
        met["infinity and number"] = np.isinf(a) & np.isfinite(b) & (b != 0)
        met["infinity and zero"] = np.isinf(a) & (b == 0)
        met["infinities"] = np.isinf(a) & np.isinf(b)
    return {name: int(np.count_nonzero(where)) for name, where in met.items()}
