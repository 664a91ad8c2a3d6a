# SPDX-License-Identifier: Apache-2.0
"""Ternary products of floating-point numbers as a ternary-LUT core adds them up.

The order of the additions decides how they round, so it is part of what a core promises:

- *table*: an entry is its parent, the entry without the last non-zero weight, plus or minus that
  activation;
- *fetch*: the entry of a group's key, its sign flipped for a negative one; a group of zeros is +0;
- *column*: a balanced tree over the tables, neighbours first; an odd one at the end moves up;
- *accumulator*: the sum of a column, widened, is added to the total, which starts from +0.

All but the last are rounded to the format of the activations.  Activations that are aligned are
added up otherwise: `hwgen.arithmetic.alignment`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hwgen.arithmetic.alignment import aligned, exponents, largest_exponent
from hwgen.arithmetic.float_arithmetic import add, convert, multiply
from hwgen.formats import entries, index_width, parent_pattern, stored_patterns
from hwgen.lazy import NDArray, np

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.schedule import Schedule
    from hwgen.formats import FloatFormat

    Bits = NDArray[Any]

_ELEMENTS = 1 << 20  # of the arrays of one step, to bound the memory


def accumulated_sums(plan: Schedule, a: NDArray[Any], w: NDArray[np.integer]) -> NDArray[Any]:
    """Return ``A . W``, added up and rounded as the core does.

    Parameters
    ----------
    plan : Schedule
        The schedule of the product.
    a : ndarray of float, shape (m, k)
    w : ndarray of int, shape (k, n)
        Values -1, 0 and 1.

    Returns
    -------
    ndarray, shape (m, n)
        In the dtype of the configuration's results; every NaN is the canonical one.

    Raises
    ------
    InputError
        If an operand is not of the plan's shape, or a value is not of its format.
    """
    plan.check_operands(a, w)
    config, fmt = plan.config, plan.config.activation
    x = np.zeros((plan.m, plan.k_tiles * config.terms), fmt.bits_dtype)
    x[:, : plan.k] = fmt.encode(a)
    x = x.reshape(plan.m, plan.k_tiles, config.terms)
    add_up = aligned_beats(plan, w) if config.aligned else _rounded_beats(plan, w)
    rows = max(1, _ELEMENTS // max(plan.n * config.array.tables, config.terms))
    parts = []
    for start in range(0, plan.m, rows):
        block = x[start : start + rows]
        total = np.zeros((len(block), plan.n), config.result.bits_dtype)
        for number in range(plan.k_tiles):
            total = add(config.result, total, add_up(number, block[:, number]))
        parts.append(total)
    return np.asarray(config.result.decode(np.concatenate(parts)))


def _rounded_beats(
    plan: Schedule, w: NDArray[np.integer]
) -> Callable[[int, NDArray[Any]], NDArray[Any]]:
    """Return a function that adds up beats, shape (m, terms), and rounds each addition."""
    config = plan.config
    fmt, array = config.activation, config.array
    keys = config.key.encode(plan.keys(w)).reshape(plan.k_tiles, -1, array.tables)[:, : plan.n]
    read = _products if array.method == "multiply" else _reads

    def add_up(number: int, beat: NDArray[Any]) -> NDArray[Any]:
        groups = beat.reshape(len(beat), array.tables, array.group_size)
        return convert(fmt, config.result, _tree(fmt, read(fmt, groups, keys[number])))

    return add_up


def _table(fmt: FloatFormat, x: Bits) -> Bits:
    """Return the entries of groups, shape (..., mu), and +0 after them."""
    mu = x.shape[-1]
    sums: dict[tuple[int, ...], Bits] = {}
    for pattern in sorted(stored_patterns(mu), key=lambda pattern: sum(map(abs, pattern))):
        parent, last = parent_pattern(pattern)
        sign = fmt.bits_dtype.type(fmt.sign_mask if pattern[last] < 0 else 0)
        addend = x[..., last] ^ sign
        sums[pattern] = add(fmt, sums[parent], addend) if any(parent) else addend
    zero = np.zeros(x.shape[:-1], fmt.bits_dtype)
    return np.stack([*(sums[pattern] for pattern in stored_patterns(mu)), zero], axis=-1)


def _reads(fmt: FloatFormat, x: Bits, keys: Bits) -> Bits:
    """Return the fetched entries, (m, n, tables), of x (m, tables, mu) by keys (n, tables)."""
    mu = x.shape[-1]
    table = _table(fmt, x)
    index = keys.astype(np.int64) & ((1 << index_width(mu)) - 1)
    values = table[:, np.arange(x.shape[1]), np.minimum(index, entries(mu))]
    signs = (keys >> index_width(mu)).astype(fmt.bits_dtype)
    return np.asarray(values ^ (signs << fmt.bits_dtype.type(fmt.width - 1)))


def _products(fmt: FloatFormat, x: Bits, weights: Bits) -> Bits:
    """Return products instead: a weight of zero gives a zero with a sign, or the NaN."""
    return multiply(fmt, x[:, None, :, 0], weights)


def _tree(fmt: FloatFormat, values: Bits) -> Bits:
    """Return the sums over the last axis."""
    while values.shape[-1] > 1:
        pairs = values.shape[-1] // 2 * 2
        sums = add(fmt, values[..., :pairs:2], values[..., 1:pairs:2])
        values = np.concatenate([sums, values[..., pairs:]], axis=-1)
    return np.asarray(values[..., 0])


def aligned_beats(
    plan: Schedule, w: NDArray[np.integer]
) -> Callable[[int, NDArray[Any]], NDArray[Any]]:
    """Return a function that adds up beats, for `accumulated_sums`.

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
