# SPDX-License-Identifier: Apache-2.0
"""Golden model of attention in floating point, where it differs from that of integers.

- Queries, keys and values: `e` is the largest exponent of a vector, subnormals and zeros having the
  smallest normal one; an element becomes the multiple of ``2**(e - alignment_bits)`` nearest to it,
  away from zero if halfway. What follows is integers, with the exponents as scales.
- Scores saturate where exponents and scale would shift them to the left.
- Sums of values have a running maximum of their own, of ``floor(x) + 1 + e`` with `e` of the value:
  weights are rounded to `softmax.weight_bits` below it.
- The quotient of both sums is rounded once to the format of the results, ties to even; it is +0
  of a row that looks at nothing.
- A row is NaN that looks at a key if its query, or a key or value that it looks at, has an infinity
  or a NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hwgen.families.attention.formats import SCALE, SUM_GUARD
from hwgen.families.ternary_lut.golden_aligned import aligned, exponents

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.families.attention.params import AttentionConfig

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_EXACT = 53


class Vectors(NamedTuple):
    """Vectors of one exponent each.

    Parameters
    ----------
    numbers : ndarray of int64, shape (..., elements)
    exponent : ndarray of int64, shape (...)
        Biased exponents.
    special : ndarray of bool, shape (...)
        Whether an element is no finite number.
    """

    numbers: Integers
    exponent: Integers
    special: Flags


def vectors(config: AttentionConfig, fmt: Any, values: NDArray[Any]) -> Vectors:
    """Return vectors of a format, shape (..., elements), as integers of one exponent."""
    bits = fmt.encode(values)
    special = ~np.isfinite(fmt.to_float64(bits)).all(axis=-1)
    bits = np.where(special[..., None], 0, bits)
    exponent = exponents(fmt, bits).max(axis=-1)
    numbers = aligned(fmt, bits, exponent[..., None], config.alignment_bits)
    return Vectors(numbers, exponent, special)


def scaled(config: AttentionConfig, query: Vectors, scale: Integers, key: Vectors) -> Integers:
    """Return scaled scores, shape (rows, keys), in units of ``2**-softmax.fraction_bits``.

    Parameters
    ----------
    config : AttentionConfig
    query, key : Vectors, shapes (rows, elements) and (keys, elements)
    scale : ndarray of int64, shape (rows,)
        Scales of the rows.
    """
    product = query.numbers @ key.numbers.T * (scale & SCALE.max)[:, None]
    shift = (scale >> SCALE.width)[:, None] + config.align_shift
    shift = shift - query.exponent[:, None] - key.exponent
    x = config.scaled.saturate(((product << 1 >> np.clip(shift, 0, 63)) + 1) >> 1)
    ends = np.where(product < 0, config.scaled.min, np.where(product > 0, config.scaled.max, 0))
    return np.asarray(np.where(shift < 0, ends, x))


def attended(
    config: AttentionConfig,
    query: NDArray[Any],
    scale: Integers,
    key: NDArray[Any],
    value: NDArray[Any],
    seen: Flags,
) -> NDArray[Any]:
    """Return the results of rows of queries, shape (rows, elements).

    Parameters
    ----------
    config : AttentionConfig
    query : ndarray, shape (rows, elements)
    scale : ndarray of int64, shape (rows,)
    key, value : ndarray, shape (keys, elements)
    seen : ndarray of bool, shape (rows, keys)
        Which keys a row looks at.
    """
    from hwgen.families.attention.golden import levels_of, shifted_sums

    q, k, v = (
        vectors(config, fmt, values)
        for fmt, values in ((config.query, query), (config.key, key), (config.value, value))
    )
    x = scaled(config, q, scale, k)
    fraction = config.softmax.fraction_bits
    whole = x >> fraction
    power = config.powers.evaluate(x & ((1 << fraction) - 1)) << SUM_GUARD
    levels, value_levels = levels_of(whole, seen), levels_of(whole + v.exponent, seen)
    weight = np.where(seen, power >> np.clip(levels - whole, 0, 62), 0)
    ones = np.ones((len(key), 1), np.int64)
    weights = shifted_sums(config, levels, weight, ones)[:, 0]
    weight = np.where(seen, power >> np.clip(value_levels - whole - v.exponent, 0, 62), 0)
    weight = (weight + (1 << (SUM_GUARD - 1))) >> SUM_GUARD
    values = shifted_sums(config, value_levels, weight, v.numbers)
    last = np.where(seen.any(axis=1), value_levels[:, -1] - levels[:, -1], 0) if len(key) else 0
    bad = np.asarray((seen & (q.special[:, None] | k.special | v.special)).any(axis=1))
    bits = quotients(config, weights, values, np.broadcast_to(last, weights.shape), bad)
    return np.asarray(config.output.decode(bits))


def quotients(
    config: AttentionConfig, weights: Integers, values: Integers, gap: Integers, bad: Flags
) -> NDArray[Any]:
    """Return the bits of sums of values divided by sums of weights.

    Parameters
    ----------
    config : AttentionConfig
    weights : ndarray of int64, shape (rows,)
        Sums of weights; zero gives +0.
    values : ndarray of int64, shape (rows, elements)
    gap : ndarray of int64, shape (rows,)
        By how many powers of two the maximum of the values' sums is above that of the weights'.
    bad : ndarray of bool, shape (rows,)
        Which rows are NaN.
    """
    from hwgen.families.attention.golden import normalised

    zeros, mantissa = normalised(config, weights)
    reciprocal = config.reciprocals.evaluate(mantissa)
    product = np.where(weights[:, None] == 0, 0, values * reciprocal[:, None])
    # What float64 cannot hold becomes odd: then it is rounded as if it were all there.
    extra = max(0, config.quotient.width - _EXACT)
    cut = product >> extra
    odd = cut | (cut << extra != product)
    scale = zeros + gap + config.quotient_scale + extra
    numbers = np.ldexp(odd.astype(np.float64), scale[:, None].astype(np.int32))
    return np.asarray(config.output.round(np.where(bad[:, None], np.nan, numbers)))
