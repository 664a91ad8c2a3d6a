# SPDX-License-Identifier: Apache-2.0
"""Golden model of attention: what the RTL computes, bit for bit, in integers.

Of a row of queries and the keys that it may look at, one after the other:

- the score is an exact integer; times the scales of key and query, rounded once, it is ``x``, a
  power of two with `softmax.fraction_bits` behind the point, saturated;
- the running maximum ``m`` is an integer, the least that is above all ``x`` so far. When it rises
  by ``d``, both sums are shifted to the right by ``d`` bits, what is shifted out is lost;
- ``2**(x - m)`` is a table's ``2**frac(x)``, from 1 to 2, shifted to the right by
  ``m - floor(x)``. With 8 more bits it goes into the sum of weights; rounded to
  `softmax.weight_bits`, and rounded again times the value's scale, it is what values are
  multiplied by.

In the end the sum of weighted values is divided by the sum of weights; see `divided`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hwgen.arithmetic.alignment import aligned, exponents
from hwgen.families.attention.formats import (
    BLOCK,
    BLOCK_SCALE_BITS,
    SCALE,
    SUM_GUARD,
)
from hwgen.families.attention.params import FIRST_MOVES, LAST_MOVES
from hwgen.families.attention.schedule import Mask, words_of
from hwgen.formats.block.elements import E8M0_NAN
from hwgen.lazy import np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hwgen.core.operation import Operation
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


def vectors(
    config: AttentionConfig, fmt: Any, values: NDArray[Any], scales: Integers | None = None
) -> Vectors:
    """Return vectors of a format, shape (..., elements), as integers of one exponent.

    Parameters
    ----------
    config : AttentionConfig
    fmt : FloatFormat
    values : ndarray, shape (..., elements)
    scales : ndarray of int64, shape (...), optional
        Biased powers of two of the vectors' blocks, that of the first in the lowest bits. Blocks
        without elements count, too: hardware takes theirs for zeros.
    """
    bits = fmt.encode(values)
    special = ~np.isfinite(fmt.to_float64(bits)).all(axis=-1)
    powers: Any = np.zeros(bits.shape, np.int64)
    least: Any = 0
    if scales is not None:
        block = np.arange(bits.shape[-1]) // BLOCK
        whole = np.asarray(scales).astype(np.uint64)[..., None]
        shift = (BLOCK_SCALE_BITS * np.arange(config.blocks)).astype(np.uint64)
        of_block = (whole >> shift & np.uint64(E8M0_NAN)).astype(np.int64)
        special = special | (of_block == E8M0_NAN).any(axis=-1)
        powers = of_block[..., block]
        least = np.where(special, 0, 1 + of_block.max(axis=-1))
    bits = np.where(special[..., None], 0, bits)
    powers = np.where(special[..., None], 0, powers)
    exponent = np.maximum((exponents(fmt, bits) + powers).max(axis=-1), least)
    numbers = aligned(fmt, bits, exponent[..., None] - powers, config.alignment_bits)
    return Vectors(numbers, exponent, special)


def scale_float_scores(
    config: AttentionConfig, query: Vectors, scale: Integers, key: Vectors
) -> Integers:
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
    scales: tuple[Integers, Integers] | None = None,
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
    scales : tuple of ndarray, shape (keys,), optional
        Powers of two of the blocks of keys, and of values.
    """
    of_keys, of_values = scales or (None, None)
    q = vectors(config, config.query, query)
    k = vectors(config, config.key, key, of_keys)
    v = vectors(config, config.value, value, of_values)
    x = scale_float_scores(config, q, scale, k)
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


_NOTHING = -(1 << 61)  # below every score, and far enough from the limits of int64
_EXACT_BITS = 53  # every integer of as many bits is a float64


class Sums(NamedTuple):
    """Softmax state of rows of queries after all keys.

    Parameters
    ----------
    level : ndarray of int64, shape (rows,)
        The running maximum; of a row that saw no key anything.
    weights : ndarray of int64, shape (rows,)
        Sums of weights, in units of ``2**-config.sum_fraction``.
    values : ndarray of int64, shape (rows, elements)
        Sums of weighted values, in units of ``2**-softmax.weight_bits``.
    """

    level: Integers
    weights: Integers
    values: Integers


def scale_scores(
    config: AttentionConfig, scores: Integers, query: Integers, key: Any = None
) -> Integers:
    """Return scaled scores, in units of ``2**-softmax.fraction_bits``.

    Parameters
    ----------
    config : AttentionConfig
    scores : ndarray of int64, shape (rows, keys)
    query : ndarray of int64, shape (rows,)
        Scales of the rows.
    key : ndarray of int64, shape (keys,), optional
        Scales of the keys.
    """
    mantissa = query & SCALE.max
    shift = query >> SCALE.width
    product = scores if key is None else scores * key
    twice = (product * mantissa[:, None] << 1) >> shift[:, None]
    return config.scaled.saturate((twice + 1) >> 1)


def accumulated(
    config: AttentionConfig,
    x: Integers,
    seen: NDArray[np.bool_],
    values: Integers,
    scales: Integers | None = None,
) -> Sums:
    """Return the sums over all keys.

    Parameters
    ----------
    config : AttentionConfig
    x : ndarray of int64, shape (rows, keys)
        Scaled scores.
    seen : ndarray of bool, shape (rows, keys)
        Which keys a row looks at.
    values : ndarray of int64, shape (keys, elements)
    scales : ndarray of int64, shape (keys,), optional
        Scales of the values.
    """
    fraction, bits = config.softmax.fraction_bits, config.softmax.weight_bits
    whole = x >> fraction
    power = config.powers.evaluate(x & ((1 << fraction) - 1)) << SUM_GUARD
    keys = x.shape[1]
    levels = levels_of(whole, seen)
    weight = np.where(seen, power >> np.clip(levels - whole, 0, 62), 0)
    factor = (weight + (1 << (SUM_GUARD - 1))) >> SUM_GUARD
    if scales is not None:
        factor = (factor * scales + (1 << (SCALE.width - 1))) >> SCALE.width
    weight_sum = shifted_sums(config, levels, weight, np.ones((keys, 1), np.int64))[:, 0]
    value_sum = shifted_sums(config, levels, factor, values)
    level = np.where(seen.any(axis=1), levels[:, -1] if keys else 0, 0)
    assert value_sum.size == 0 or np.abs(value_sum).max() < 1 << (config.total.width)
    assert np.all(weight_sum < 1 << config.sum_bits)
    assert np.all(power >> SUM_GUARD < 1 << (bits + 1))
    return Sums(level, weight_sum, value_sum)


def levels_of(whole: Integers, seen: NDArray[np.bool_]) -> Integers:
    """Return the running maxima of rows, shape (rows, keys), above all that they have seen."""
    return np.asarray(np.maximum.accumulate(np.where(seen, whole + 1, _NOTHING), axis=1))


def shifted_sums(
    config: AttentionConfig, levels: Integers, factors: Integers, values: Integers
) -> Integers:
    """Return sums of factors times values, shifted to the right as much as levels rise.

    Parameters
    ----------
    config : AttentionConfig
    levels, factors : ndarray of int64, shape (rows, keys)
    values : ndarray of int64, shape (keys, elements)

    Returns
    -------
    ndarray of int64, shape (rows, elements)
    """
    rows, keys = levels.shape
    total = np.zeros((rows, values.shape[1]), np.int64)
    # What is summed between two rises of a row's level is exact, so that only at these the order
    # of the keys matters.
    rise = np.diff(levels, axis=1, prepend=_NOTHING)
    rises = np.cumsum(rise > 0, axis=1)
    widest = max(config.total.width, config.sum_bits)
    exact = widest <= _EXACT_BITS  # sums are exact in float64, which is faster
    number = np.float64 if exact else np.int64
    terms = values.astype(number)
    for count in range(1, 1 + int(rises[:, -1].max(initial=0)) if keys else 1):
        here = rises == count
        some = here.any(axis=1)
        first = rise[np.arange(rows), here.argmax(axis=1)]
        down = np.where(some, np.minimum(first, 62), 0)
        keep = ~some | (first < config.clears)
        added = (np.where(here, factors, 0).astype(number) @ terms).astype(np.int64)
        total = np.where(keep[:, None], total >> down[:, None], 0) + added
    return total


def normalised(config: AttentionConfig, weights: Integers) -> tuple[Integers, Integers]:
    """Return by how many bits sums of weights are shifted to the left, and the divisors then.

    Divisors are cut off to `reciprocal_bits` behind the point, which stands behind the leading one.
    """
    bits, width = config.reciprocal_bits, config.sum_bits
    length = np.frexp(weights.astype(np.float64))[1].astype(np.int64)
    # Sums of up to 53 bits are exact in double precision, longer ones may be rounded up.
    length -= (weights >> np.maximum(length - 1, 0)) == 0
    zeros = np.where(weights == 0, 0, width - length)
    normal = weights << zeros
    drop = width - 1 - bits
    mantissa = normal >> drop if drop >= 0 else normal << -drop
    return zeros, mantissa | 1 << bits


def divided(config: AttentionConfig, weights: Integers, values: Integers) -> Integers:
    """Return sums of weighted values, divided by sums of weights; zero where the latter are.

    The sum of weights is normalised and cut off to `reciprocal_bits` behind the point, its
    reciprocal is that of a table; the sum of values is shifted by as much and cut off likewise.
    Their product is rounded and saturated.
    """
    bits, width = config.reciprocal_bits, config.sum_bits
    zeros, mantissa = normalised(config, weights)
    reciprocal = config.reciprocals.evaluate(mantissa)
    # The exact shift of both sums, without what would be shifted out again.
    cut = width - 1 - SUM_GUARD - config.quotient_fraction
    down = cut - zeros
    moved = np.where(
        down[:, None] >= 0,
        values >> np.maximum(down, 0)[:, None],
        values << np.maximum(-down, 0)[:, None],
    )
    rest = config.quotient_fraction + bits - config.fraction
    rounded = (moved * reciprocal[:, None] + (1 << rest >> 1)) >> rest
    results = np.where(weights[:, None] == 0, 0, config.output.saturate(rounded))
    return np.asarray(results, np.int64)


def attend(
    config: AttentionConfig, mask: Mask, operands: Mapping[str, NDArray[Any]]
) -> NDArray[Any]:
    """Return the attention of all heads.

    Parameters
    ----------
    config : AttentionConfig
    mask : Mask
    operands : mapping
        As of the operation ``attention``; see `hwgen.families.attention.params`.

    Returns
    -------
    ndarray, shape (kv_heads, group, queries, elements)
    """
    arrays = {name: _plain(config, name, array) for name, array in operands.items()}
    query, key = arrays["query"], arrays["key"]
    heads, group, queries, elements = query.shape
    first, last = mask.ranges(np.arange(queries), key.shape[1])
    column = np.arange(key.shape[1])
    seen = (column >= first[:, None]) & (column < last[:, None])
    results = []
    for head in range(heads):
        of_head = {
            "query": query[head].reshape(-1, elements),
            "query_scale": arrays["query_scale"][head].reshape(-1),
            **{name: arrays[name][head] for name in arrays if not name.startswith("query")},
        }
        results.append(_rows(config, of_head, np.tile(seen, (group, 1))))
    shape = (heads, group, queries, elements)
    return np.stack(results).reshape(shape).astype(config.output.dtype)


def _plain(config: AttentionConfig, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an operand as integers; vectors of floating point stay what they are."""
    if config.floating and not name.endswith("scale"):
        return array
    return array if array.dtype == np.uint64 else array.astype(np.int64)


def _rows(
    config: AttentionConfig, arrays: Mapping[str, NDArray[Any]], seen: NDArray[np.bool_]
) -> NDArray[Any]:
    """Return the results of rows of queries that share keys, shape (rows, elements)."""
    query, scale, key, value = (arrays[name] for name in ("query", "query_scale", "key", "value"))
    if config.floating:
        scales = (arrays["key_scale"], arrays["value_scale"]) if config.blocks else None
        return attended(config, query, scale, key, value, seen, scales)
    x = scale_scores(config, query @ key.T, scale, arrays.get("key_scale"))
    sums = accumulated(config, x, seen, value, arrays.get("value_scale"))
    return divided(config, sums.weights, sums.values)


def operate(
    config: AttentionConfig,
    operation: Operation,
    operands: Mapping[str, NDArray[Any]],
    scalars: Mapping[str, float],
) -> dict[str, NDArray[Any]]:
    """Return the results of a job by name; see `hwgen.core.operation`."""
    operation.check_operands(operands)
    return {"output": attend(config, Mask.of(scalars), operands)}


def respond(config: AttentionConfig, beats: Mapping[str, NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Return the beats of results of a command, shape (count, bytes).

    Parameters
    ----------
    config : AttentionConfig
    beats : mapping of ndarray of uint8, shape (count, bytes)
        Those of each input port.

    Raises
    ------
    ValueError
        If beats are missing or left over, or the command names more queries than there are rows.
    """
    ports = {port.name: port for port in config.ports}
    words = words_of(beats["command"][0])
    rows, keys, group = words["queries"], words["keys"], words["group"]
    if not 1 <= rows <= config.array.rows or not 0 <= keys <= config.max_keys or group < 1:
        raise ValueError(f"{rows} queries of groups of {group}, {keys} keys")
    arrays = {}
    for name, port in ports.items():
        if port.direction == "out" or port.per_job:
            continue
        count = rows if name.startswith("query") else keys
        values = _plain(config, name, port.unpack(beats[name]))
        steps = 1 if name.endswith("_scale") else config.steps
        if len(values) != count * steps:
            raise ValueError(f"{len(values)} beats at port {name}, not {count * steps}")
        width = config.steps * port.lanes
        arrays[name] = values.reshape((count,) if name.endswith("_scale") else (count, width))
    moved = np.arange(rows) // group
    first = words["first"] + moved * bool(words["moves"] & FIRST_MOVES)
    last = words["last"] + moved * bool(words["moves"] & LAST_MOVES)
    column = np.arange(keys)
    seen = (column >= first[:, None]) & (column < last[:, None])
    results = _rows(config, arrays, seen).astype(config.output.dtype)
    return ports["out"].pack(results.reshape(-1, config.array.lanes))
