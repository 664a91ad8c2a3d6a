# SPDX-License-Identifier: Apache-2.0
"""Operands of attention from real numbers, with scales as the core takes them.

Those in floating point are the nearest numbers of their formats, or of blocks with powers of two by
which the largest magnitude of each fits. Integers are quantised by token:
a token's largest magnitude becomes the largest of its format. Scales of keys and of values are in
units of the largest, rounded to 16 bits, those of queries have a mantissa of 16 bits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from hwgen.errors import InputError
from hwgen.families.attention.formats import BLOCK, BLOCK_SCALE_BITS, SCALE
from hwgen.formats.block.elements import E8M0_BIAS, mx_powers
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.families.attention.params import AttentionConfig
    from hwgen.formats import IntegerFormat

    Reals = NDArray[np.float64]

_MOST_SHIFT = 63


class Quantised(NamedTuple):
    """Operands, and what results stand for.

    Parameters
    ----------
    operands : dict
        By name, as the operation ``attention`` takes them.
    unit : float
        What one unit of the results stands for.
    """

    operands: dict[str, NDArray[Any]]
    unit: float


def quantised(
    config: AttentionConfig, query: Reals, key: Reals, value: Reals, scale: float | None = None
) -> Quantised:
    """Return operands for queries, keys and values.

    Parameters
    ----------
    config : AttentionConfig
    query : ndarray, shape (kv_heads, group, queries, elements)
    key, value : ndarray, shape (kv_heads, keys, elements)
    scale : float, optional
        Of the scores, by default one over the square root of the elements.

    Raises
    ------
    InputError
        If something is not finite, a format has no sign, or scores are too large or too small for
        the scales of queries.
    """
    for name, array in (("query", query), ("key", key), ("value", value)):
        if not np.isfinite(array).all():
            raise InputError(f"{name}: must be finite numbers")
        in_blocks = config.blocks and name != "query"
        most = getattr(config, name).max
        if config.floating and not in_blocks and np.abs(array).max(initial=0) > most:
            raise InputError(f"{name}: must be up to {most:g} in magnitude")
        if not getattr(config, name).signed:
            raise InputError(f"{name}: {getattr(config, name)} has no sign; use a signed format")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if not 0 < scale < math.inf:
        raise InputError(f"scale: must be a positive number, not {scale}")
    if config.floating:
        factor = np.full(query.shape[:-1], scale * score_units(config))
        arrays = (("query", query), ("key", key), ("value", value))
        result: dict[str, NDArray[Any]] = {}
        for name, array in arrays:
            if config.blocks and name != "query":
                result[name], result[f"{name}_scale"] = in_blocks_of(config, name, array)
            else:
                result[name] = array.astype(getattr(config, name).dtype)
        return Quantised({**result, "query_scale": query_scales(factor)}, 1.0)
    q, q_unit = _by_token(query, config.query)
    tokens = config.scaled_keys
    k, k_unit = _by_token(key, config.key) if tokens else _as_a_whole(key, config.key)
    v, v_unit = _by_token(value, config.value) if tokens else _as_a_whole(value, config.value)
    operands: dict[str, NDArray[Any]] = {"query": q, "key": k, "value": v}
    k_most, v_most = float(np.max(k_unit)), float(np.max(v_unit))
    if tokens:
        for name, unit, most in (("key_scale", k_unit, k_most), ("value_scale", v_unit, v_most)):
            operands[name] = np.round(unit / most * SCALE.max).astype(SCALE.dtype)
        # The largest is one unit less than a power of two.
        k_most, v_most = k_most / SCALE.max, v_most * (1 << SCALE.width) / SCALE.max
    factor = q_unit * (k_most * scale * score_units(config))
    operands["query_scale"] = query_scales(factor)
    return Quantised(operands, v_most * 2.0**-config.fraction)


def in_blocks_of(
    config: AttentionConfig, name: str, numbers: Reals
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return keys or values in blocks: their elements, and the powers of two of each vector.

    Parameters
    ----------
    config : AttentionConfig
    name : str
        ``key`` or ``value``.
    numbers : ndarray of float64, shape (..., elements)
        Filled up with zeros to whole blocks.
    """
    fmt: Any = getattr(config, name)
    padded = np.zeros((*numbers.shape[:-1], config.blocks * BLOCK))
    padded[..., : numbers.shape[-1]] = numbers
    blocks = padded.reshape(*numbers.shape[:-1], config.blocks, BLOCK)
    powers = mx_powers(np.abs(blocks).max(axis=-1).astype(np.float32), fmt)
    unit = np.ldexp(1.0, (powers - E8M0_BIAS).astype(np.int32))[..., None]
    elements = fmt.nearest(blocks / unit).reshape(padded.shape)[..., : numbers.shape[-1]]
    return elements, packed_powers(config, powers)


def packed_powers(config: AttentionConfig, powers: NDArray[Any]) -> NDArray[Any]:
    """Return the powers of two of blocks, shape (..., blocks), as a number for each vector."""
    shift = (BLOCK_SCALE_BITS * np.arange(config.blocks)).astype(np.uint64)
    whole = np.bitwise_or.reduce(powers.astype(np.uint64) << shift, axis=-1)
    return np.asarray(whole.astype(config.block_scales.dtype))


def score_units(config: AttentionConfig) -> float:
    """Return units of a scaled score for one of a score in powers of e."""
    return float(math.log2(math.e) * 2.0**config.softmax.fraction_bits)


def _by_token(numbers: Reals, fmt: IntegerFormat) -> tuple[NDArray[Any], Reals]:
    """Return integers, and what a unit of each token stands for; 1 where all are zero."""
    largest = np.abs(numbers).max(axis=-1)
    unit = np.where(largest > 0, largest, fmt.max) / fmt.max
    return np.round(numbers / unit[..., None]).astype(fmt.dtype), unit


def _as_a_whole(numbers: Reals, fmt: IntegerFormat) -> tuple[NDArray[Any], Reals]:
    """Return integers, and what a unit of all of them stands for."""
    largest = float(np.abs(numbers).max())
    unit = (largest or fmt.max) / fmt.max
    return np.round(numbers / unit).astype(fmt.dtype), np.array(unit)


def query_scales(factor: Reals) -> NDArray[Any]:
    """Return scales of queries: mantissas from half of their range on, where shifts allow.

    Parameters
    ----------
    factor : ndarray of float64
        Units of a scaled score that one of a score stands for, times units of the keys' scales.

    Raises
    ------
    InputError
        If one is out of range.
    """
    shift = SCALE.width - np.frexp(factor)[1].astype(np.int64)
    if shift.min() < 0 or shift.max() > _MOST_SHIFT + SCALE.width:
        raise InputError(
            "query: its scales times those of the keys are out of range:"
            f" {factor.min():g}..{factor.max():g} units of a scaled score for one of a score"
        )
    shift = np.minimum(shift, _MOST_SHIFT)
    mantissa = np.round(np.ldexp(factor, shift)).astype(np.int64)
    over = mantissa > SCALE.max  # rounded up to the next power of two
    mantissa = np.where(over, mantissa >> 1, mantissa)
    return (shift - over) << SCALE.width | mantissa
