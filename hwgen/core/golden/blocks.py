# SPDX-License-Identifier: Apache-2.0
"""Golden model of products of blocks; `hwgen.formats.block.products` says what is computed.

Integers that int64 does not hold are Python's, in arrays of objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from hwgen.arithmetic.float_arithmetic import add
from hwgen.formats.block.factors import Factor, ScaleNumber
from hwgen.formats.block.products import BlockProduct, MinimumSum
from hwgen.formats.floating import FloatFormat
from hwgen.formats.format import Format
from hwgen.lazy import NDArray, np

_FLOAT64_BITS = 53  # every integer of as many bits is a float64
_INT64_BITS = 62  # with one to spare for the sum of two
_LIMB = 21

Integers = Any
"""Arrays of integers: int64, or Python's."""


@dataclass(frozen=True)
class BlockMatrix:
    """An operand, its blocks along the last axis.

    Parameters
    ----------
    factor : Factor
    elements : ndarray of float64, shape (lines, blocks, length)
        Integers in units of ``2**factor.unit``, NaN, or infinite.
    scales : ndarray of unsigned int, shape (lines, blocks), or None
        Bit patterns; None of an operand without scales.
    minima : ndarray of unsigned int, shape (lines, blocks), or None
        Bit patterns; None of an operand without minima.
    """

    factor: Factor
    elements: NDArray[np.float64]
    scales: NDArray[Any] | None = None
    minima: NDArray[Any] | None = None

    def part(self, lines: slice) -> BlockMatrix:
        """Return some of the lines."""
        scales, minima = (
            None if shared is None else shared[lines] for shared in (self.scales, self.minima)
        )
        return BlockMatrix(self.factor, self.elements[lines], scales, minima)


@dataclass(frozen=True)
class Terms:
    """The terms of products, shape (m, n, blocks) each.

    Parameters
    ----------
    integers : ndarray of int
    exponents : ndarray of int64
        A term is ``integer * 2**(exponent - fraction)``.
    nan, positive, negative : ndarray of bool
        It is a NaN, or one of the infinities, instead.
    """

    integers: Integers
    exponents: NDArray[np.int64]
    nan: NDArray[Any]
    positive: NDArray[Any]
    negative: NDArray[Any]


def block_matrix(product: BlockProduct, fmt: Format, lines: NDArray[Any]) -> BlockMatrix:
    """Return an operand, whole steps of blocks of it.

    Parameters
    ----------
    product : BlockProduct
    fmt : Format
    lines : ndarray, shape (lines, k)
        As the format says an operand is, blocks along the last axis.
    """
    k = lines.shape[1]
    step = product.length * product.blocks_per_step
    blocks = -(-k // step) * product.blocks_per_step
    codes, scales, chosen, minima = fmt.lines(lines, blocks, product.length)
    choices = None if chosen is None else chosen[..., None]
    return BlockMatrix(Factor(fmt), fmt.integers_of(codes, choices), scales, minima)


def block_products(
    product: BlockProduct,
    a: BlockMatrix,
    w: BlockMatrix,
    *,
    initial: NDArray[np.uint32] | None = None,
) -> NDArray[np.float32]:
    """Return the products of the lines of two operands.

    Parameters
    ----------
    product : BlockProduct
    a, w : BlockMatrix
        M and N lines of equally many blocks.
    initial : ndarray of uint32, shape (m, n), optional
        Bit patterns that aligned sums begin with, by default +0.

    Returns
    -------
    ndarray of float32, shape (m, n)
        Every NaN is the canonical one.
    """
    parts = []
    blocks = a.elements.shape[1]
    each = product.length if product.fused else 1
    rows = max(1, (1 << 21) // max(1, blocks * each * len(w.elements)))
    for start in range(0, len(a.elements), rows):
        part = slice(start, start + rows)
        terms = block_terms(product, a.part(part), w)
        parts.append(accumulated(product, terms, None if initial is None else initial[part]))
    return np.asarray(product.result.decode(np.concatenate(parts)))


def block_terms(product: BlockProduct, a: BlockMatrix, w: BlockMatrix) -> Terms:
    """Return the terms of all blocks; see `Terms`."""
    if product.fused:
        return _terms_of_products(product, a, w)
    x, y = _finite(a.elements), _finite(w.elements)
    integers: Integers = _dots(x, y, product.sum.width)
    shape = integers.shape
    nan, positive, negative = np.zeros((3, *shape), np.bool_)
    if a.factor.has_nan or w.factor.has_nan:
        nan |= _any(np.isnan(a.elements))[:, None] | _any(np.isnan(w.elements))
    if product.has_infinities:
        more, positive, negative = _infinities(a.elements, w.elements)
        nan |= more
    exponents = np.zeros(shape, np.int64)
    if product.term.width > _INT64_BITS:
        integers = integers.astype(object)
    if product.offset is not None:
        special = _Part(integers, nan, positive, negative)
        operands = (a, w, 0) if product.offset.side == "a" else (w, a, 1)
        integers, nan, positive, negative = _with_minimum(product.offset, special, *operands)
    for operand, axis in ((a, 1), (w, 0)):
        scale = operand.factor.scale
        if scale is None or operand.scales is None or operand.minima is not None:
            continue
        decoded = scale.decode(operand.scales)
        parts: list[NDArray[Any]] = [np.expand_dims(part, axis) for part in decoded]
        significand, exponent, none = parts
        nan |= none | ((positive | negative) & (significand == 0))
        positive, negative = (
            np.where(significand < 0, negative, positive),
            np.where(significand < 0, positive, negative),
        )
        wide = integers.dtype == object
        integers = integers * (significand.astype(object) if wide else significand)
        exponents = exponents + exponent
    return Terms(integers, exponents, nan, positive, negative)


def _terms_of_products(product: BlockProduct, a: BlockMatrix, w: BlockMatrix) -> Terms:
    """Return the terms where each product is one, those of a block one behind the other."""
    sides = []
    for operand in (a, w):
        length = operand.elements.shape[-1]
        flat = operand.elements.reshape(len(operand.elements), -1)
        significands, exponents = _significands(operand.factor, _finite(flat))
        none = np.isnan(flat)
        scale = operand.factor.scale
        if scale is not None and operand.scales is not None:
            _, above, no_scale = scale.decode(operand.scales)
            exponents = exponents + np.repeat(above, length, axis=-1)
            none |= np.repeat(no_scale, length, axis=-1)
        sides.append((flat, significands, exponents, none))
    (x, x_significands, x_exponents, x_none), (y, y_significands, y_exponents, y_none) = sides
    with np.errstate(invalid="ignore"):
        products = x[:, None] * y[None]
    finite = np.isfinite(x)[:, None] & np.isfinite(y)[None]
    nan = x_none[:, None] | y_none[None] | np.isnan(products)
    # Elements are whole numbers here, so only infinite ones have infinite products.
    positive, negative = (~finite & ~nan & (products == sign * np.inf) for sign in (1, -1))
    return Terms(
        x_significands[:, None] * y_significands[None],
        x_exponents[:, None] + y_exponents[None],
        nan, positive, negative,
    )  # fmt: skip


def _significands(
    factor: Factor, elements: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the signed significands of floating-point elements, and their exponents."""
    above = np.frexp(elements)[1] - factor.precision - factor.below_unit
    shifts = np.where(elements == 0, 0, np.maximum(above, 0)).astype(np.int64)
    significands = np.ldexp(elements, -shifts - factor.below_unit).astype(np.int64)
    return significands, factor.lowest_exponent + shifts


class _Part(NamedTuple):
    """Integers, and what they are instead."""

    integers: Integers
    nan: NDArray[Any]
    positive: NDArray[Any]
    negative: NDArray[Any]

    def scaled(self, scale: ScaleNumber, bits: NDArray[Any], shift: int) -> _Part:
        """Return them times a scale, in units of its smallest exponent, `shift` places below."""
        significand, exponent, none = scale.decode(bits)
        nan = self.nan | none | ((self.positive | self.negative) & (significand == 0))
        places = np.where(none, 0, exponent - scale.exponents[0]) + shift
        factor = significand.astype(object) << places.astype(object)
        ends = self.positive, self.negative
        positive = np.where(significand < 0, ends[1], ends[0])
        negative = np.where(significand < 0, ends[0], ends[1])
        return _Part(self.integers.astype(object) * factor, nan, positive, negative)


def _with_minimum(
    offset: MinimumSum, products: _Part, x: BlockMatrix, y: BlockMatrix, axis: int
) -> _Part:
    """Return sums of products times the scales of `y`, with sums of `x` times its minima.

    Parameters
    ----------
    offset : MinimumSum
    products : _Part
    x, y : BlockMatrix
        The operand without a minimum, and that with one.
    axis : int
        Axis among (m, n, blocks) that the lines of `y` are spread over.
    """
    assert y.scales is not None
    assert y.minima is not None
    ones = np.ones((1, *x.elements.shape[1:]))
    sums = _dots(_finite(x.elements), ones, offset.sum.width)[:, 0]
    flags = [_any(test(x.elements)) for test in (np.isnan, np.isposinf, np.isneginf)]
    other = _Part(*(np.expand_dims(part, 1 - axis) for part in (sums, *flags)))
    scale, minimum = offset.parts
    both = [
        part.scaled(number, np.expand_dims(bits, axis), shift)
        for part, number, bits, shift in zip(
            (products, other), (scale, minimum), (y.scales, y.minima), offset.shifts, strict=True
        )
    ]
    a, b = both
    return _Part(a.integers + b.integers, *(p | q for p, q in zip(a[1:], b[1:], strict=True)))


def accumulated(
    product: BlockProduct, terms: Terms, initial: NDArray[np.uint32] | None = None
) -> NDArray[np.uint32]:
    """Return the bit patterns of the sums over the last axis, shape (m, n).

    Parameters
    ----------
    product : BlockProduct
    terms : Terms
    initial : ndarray of uint32, shape (m, n), optional
        Bit patterns that aligned sums begin with, by default +0.
    """
    method = product.accumulator.method
    if method == "aligned":
        return _aligned(product, terms, initial)
    if initial is not None:
        raise ValueError(f"only aligned sums have an initial total, not {product.accumulator}")
    if method == "fp32":
        return _in_single_precision(product, terms)
    flags = _any(terms.nan), _any(terms.positive), _any(terms.negative)
    return _flagged(product.result, _exact(product, terms), *flags)


def rounded(
    fmt: FloatFormat, integers: Integers, exponents: NDArray[np.int64] | int
) -> NDArray[Any]:
    """Return the bit patterns of ``integers * 2**exponents``, to nearest, ties to even.

    What is lost of long integers is replaced by one bit below 53 others, which says whether any of
    it was set; no format has so many places that it could decide more.  Zero is +0.
    """
    negative = (integers < 0).astype(np.bool_)
    magnitude = np.abs(integers)
    if integers.dtype == object:
        excess = np.vectorize(lambda v: max(0, v.bit_length() - _FLOAT64_BITS), [np.int64])(
            magnitude
        )
        shift = excess.astype(object)
        lost = (magnitude & ((1 << shift) - 1)).astype(np.bool_)
        kept = (magnitude >> shift).astype(np.int64) | lost
    else:
        excess = np.where(magnitude >> _FLOAT64_BITS, 1 + _INT64_BITS - _FLOAT64_BITS, 0)
        kept = (magnitude >> excess) | (magnitude & ((np.int64(1) << excess) - 1) != 0)
    wide = np.ldexp(kept.astype(np.float64), (exponents + excess).astype(np.int32))
    return fmt.round(np.where(negative, -wide, wide))


def _any(flags: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(flags.any(axis=-1))


def _finite(elements: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.isfinite(elements), elements, 0.0)


def _dots(x: NDArray[np.float64], y: NDArray[np.float64], width: int) -> Integers:
    """Return exact sums of products over the last axis, shape (m, n, blocks)."""
    if width <= _FLOAT64_BITS:
        return _matmul(x, y).astype(np.int64)
    total: Integers = np.zeros((len(x), len(y), x.shape[1]), object)
    for i, low in enumerate(_limbs(x)):
        for j, high in enumerate(_limbs(y)):
            sums = _matmul(low, high).astype(np.int64).astype(object)
            total = total + (sums << _LIMB * (i + j))
    return total


def _limbs(numbers: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return integers as sums of limbs, the last one signed, each `_LIMB` places above another."""
    limb, parts = float(1 << _LIMB), []
    while True:
        above = np.floor(numbers / limb)
        parts.append(numbers - above * limb)
        if not ((above != 0) & (above != -1)).any():
            parts[-1] = parts[-1] + above * limb
            return parts
        numbers = above


def _matmul(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums of products over the last axis, shape (m, n, blocks)."""
    return np.moveaxis(np.moveaxis(x, 1, 0) @ np.moveaxis(y, 1, 0).swapaxes(1, 2), 0, -1)


def _infinities(
    x: NDArray[np.float64], y: NDArray[np.float64]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return masks of the sums with NaNs from infinities, +inf and -inf among their products."""

    def any_of(*pairs: tuple[Any, Any]) -> NDArray[Any]:
        sums = sum(_matmul(p.astype(np.float64), q.astype(np.float64)) for p, q in pairs)
        return np.asarray(sums) > 0

    up_x, down_x, up_y, down_y = x == np.inf, x == -np.inf, y == np.inf, y == -np.inf
    nan = any_of((up_x | down_x, y == 0), (x == 0, up_y | down_y))
    positive = any_of((up_x, y > 0), (down_x, y < 0), (x > 0, up_y), (x < 0, down_y))
    negative = any_of((up_x, y < 0), (down_x, y > 0), (x > 0, down_y), (x < 0, up_y))
    return nan, positive, negative


def _flagged(
    fmt: FloatFormat,
    bits: NDArray[Any],
    nan: NDArray[Any],
    positive: NDArray[Any],
    negative: NDArray[Any],
) -> NDArray[Any]:
    bits = np.where(positive, fmt.overflow, np.where(negative, fmt.overflow | fmt.sign_mask, bits))
    return np.where(nan | (positive & negative), fmt.nan, bits).astype(fmt.bits_dtype)


def _in_single_precision(product: BlockProduct, terms: Terms) -> NDArray[np.uint32]:
    fmt = product.result
    bits = rounded(fmt, terms.integers, terms.exponents - product.fraction)
    bits = _flagged(fmt, bits, terms.nan, terms.positive, terms.negative)
    total = np.zeros(bits.shape[:2], fmt.bits_dtype)
    for block in range(bits.shape[-1]):
        total = add(fmt, total, bits[..., block])
    return total


def _exact(product: BlockProduct, terms: Terms) -> NDArray[Any]:
    lowest, _ = product.exponents
    places = np.where(terms.nan, 0, terms.exponents - lowest)
    integers = terms.integers
    if product.total.width > _INT64_BITS:
        integers, places = integers.astype(object), places.astype(object)
    total = (integers << places).sum(axis=-1)
    return rounded(product.result, np.asarray(total), product.last_bit)


def _aligned(
    product: BlockProduct, terms: Terms, initial: NDArray[np.uint32] | None = None
) -> NDArray[Any]:
    """Return totals that are cut off after each step; see `hwgen.formats.block.products`."""
    fmt, places = product.result, product.accumulator.fraction_bits
    step, blocks = product.addends, terms.integers.shape[-1]
    wide = max(product.aligned.width, product.term.width) > _INT64_BITS
    bits = np.zeros(terms.integers.shape[:2], fmt.bits_dtype) if initial is None else initial
    lowest = product.lowest_exponent
    for start in range(0, blocks, step):
        part = slice(start, start + step)
        integers, exponents = terms.integers[..., part], terms.exponents[..., part]
        total, exponent = _unpacked(fmt, bits)
        exponent = np.where(total != 0, exponent, lowest)
        usable = np.where((integers != 0).astype(np.bool_), exponents, lowest)
        largest = np.maximum(np.maximum(exponent, lowest), usable.max(axis=-1))
        aligned = _cut(integers, usable - largest[..., None] + places - product.fraction, wide)
        whole = aligned.sum(axis=-1) + _cut(
            total, exponent - largest + places - fmt.mantissa_bits, wide
        )
        sums = _truncated(fmt, np.asarray(whole), largest - places, product.accumulator.result_bits)
        if product.accumulator.tensor_core:
            sums = np.where(sums == fmt.sign_mask, 0, sums)
        # A total that has become infinite, or a NaN, remains so.
        nan = _any(terms.nan[..., part]) | fmt.is_nan(bits)
        positive = _any(terms.positive[..., part]) | (bits == fmt.overflow)
        negative = _any(terms.negative[..., part]) | (bits == fmt.overflow | fmt.sign_mask)
        bits = _flagged(fmt, sums, nan, positive, negative)
    return bits


def _unpacked(fmt: FloatFormat, bits: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return signed significands and exponents of finite numbers; of others anything."""
    wide = bits.astype(np.int64)
    biased = (wide & fmt.magnitude_mask) >> fmt.mantissa_bits
    significand = wide & ((1 << fmt.mantissa_bits) - 1)
    significand |= (biased > 0).astype(np.int64) << fmt.mantissa_bits
    signed = np.where(wide & fmt.sign_mask, -significand, significand)
    return signed, np.maximum(biased, 1) - fmt.bias


def _cut(integers: Integers, shifts: NDArray[np.int64], wide: bool) -> Integers:
    """Return ``integers * 2**places``, towards zero."""
    left, right = np.maximum(shifts, 0), np.minimum(np.maximum(-shifts, 0), _INT64_BITS)
    magnitude = np.abs(integers)
    if wide or integers.dtype == object:
        # Beyond every bit of an integer nothing is left.
        magnitude, left = magnitude.astype(object), left.astype(object)
        right = np.maximum(-shifts, 0).astype(object)
    shifted = (magnitude << left) >> right
    signed: Integers = np.where((integers < 0).astype(np.bool_), -shifted, shifted)
    return signed


def _truncated(
    fmt: FloatFormat, integers: Integers, exponents: NDArray[np.int64], fraction_bits: int
) -> NDArray[Any]:
    """Return the bit patterns of ``integers * 2**exponents``, towards zero, too large infinite.

    `fraction_bits` of the fraction are used.
    """
    magnitude = np.abs(integers)
    length = _lengths(magnitude)
    # The exponent of the last bit that is kept.
    leading = np.maximum(length + exponents - 1, 1 - fmt.bias)
    last = leading - fraction_bits
    drop = np.maximum(last - exponents, 0)
    kept = magnitude >> (drop.astype(object) if magnitude.dtype == object else drop)
    wide = np.ldexp(kept.astype(np.float64), (exponents + drop).astype(np.int32))
    return fmt.round(np.where((integers < 0).astype(np.bool_), -wide, wide))


def _lengths(magnitude: Integers) -> NDArray[np.int64]:
    """Return the bits of integers that are not negative."""
    if magnitude.dtype == object:
        lengths: NDArray[np.int64] = np.vectorize(int.bit_length, [np.int64])(magnitude)
        return lengths
    length: NDArray[np.int64] = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)
    # float64 may have rounded up to a power of two.
    length -= (length > 0) & (magnitude >> np.maximum(length - 1, 0) == 0)
    return length
