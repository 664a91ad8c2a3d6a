# SPDX-License-Identifier: Apache-2.0
"""Products of elements and terms of blocks; `hwgen.formats.block.products` says what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import xor
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from hwgen.formats.integer import enclosing_format
from rtl_templates.arithmetic.block.accumulators import exponent_width
from rtl_templates.arithmetic.block.elements import ElementForm
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.arithmetic.pipeline import named, shift_left

if TYPE_CHECKING:
    from hwgen.formats.block.products import BlockProduct, MinimumSum


def element_product(
    m: Module,
    product: BlockProduct,
    forms: Sequence[ElementForm],
    a: Value,
    w: Value,
    term: int,
) -> tuple[Value, Value]:
    """Return the product of two elements, and its flags: NaN, and each infinity.

    Of significands it comes in ones' complement, its sign to be added.

    Parameters
    ----------
    m : Module
    product : BlockProduct
    forms : sequence of ElementForm
        Of both.
    a, w : Value
        As these say.
    term : int
        Number of the product, for names.
    """
    (x, x_shift, x_infinite), (y, y_shift, y_infinite) = (
        form.parts(bits) for form, bits in zip(forms, (a, w), strict=True)
    )
    if product.splits:
        negative, x, y = x[-1] ^ y[-1], x[:-1], y[:-1]
        wide = Signal(product.addend.width - 1, name=f"wide_{term}")
        m.d.comb += wide.eq(x * y)
        shift = named(m, f"shift_{term}", x_shift + y_shift)
        moved = shift_left(m, f"moved_{term}", wide, shift)
        value = Cat(moved ^ negative.replicate(len(moved)), negative).as_signed()
    else:
        value = x * y
        negative = _sign(forms, x, y)
    if not product.has_infinities:
        return value, Const(0, 3)
    infinite = x_infinite | y_infinite
    some = x.any() & y.any()
    flags = Cat(infinite & ~some, infinite & some & ~negative, infinite & some & negative)
    return value, named(m, f"flags_of_{term}", flags)


def block_term(
    m: Module,
    product: BlockProduct,
    shared: Mapping[str, Value],
    block: int,
    total: Value,
    flags: Value,
    suffix: str = "",
) -> tuple[Value, Value, Value]:
    """Return the term of a block: integer, exponent above the lowest one, and flags.

    Parameters
    ----------
    m : Module
    product : BlockProduct
    shared : mapping
        What edges give of blocks, with ``a_`` or ``w_`` in front; see `operand_members`.
    block : int
        Number of the block, among those of a beat.
    total, flags : Value
        The exact sum of its products, and its flags.
    suffix : str, optional
        Of the names of signals, default the number.
    """
    suffix = suffix or f"{block}"
    if product.offset is not None:
        total, flags = _with_minimum(m, product, shared, block, product.offset, total, flags)
    nan, positive, negative = flags
    significand: Value | None = None
    exponent: Value = Const(0, 0)
    for side, factor in zip("aw", (product.a, product.w), strict=True):
        scale = factor.scale
        if scale is None or factor.minimum is not None:
            continue
        if f"{side}_none" in shared:
            nan = nan | shared[f"{side}_none"][block]
        if f"{side}_exponent" in shared:
            part = shared[f"{side}_exponent"].word_select(block, scale.exponent_width)
            exponent = exponent + part if len(exponent) else part
        if f"{side}_significand" in shared:
            width = scale.significand.width
            part = shared[f"{side}_significand"].word_select(block, width)
            part = part.as_signed() if scale.significand.signed else part
            significand = part if significand is None else significand * part
            if product.has_infinities:
                nan = nan | ((positive | negative) & ~part.any())
                if scale.significand.signed:
                    positive, negative = (
                        Mux(part[-1], negative, positive),
                        Mux(part[-1], positive, negative),
                    )
    integer = Signal(shape_of(product.term), name=f"integer_{suffix}")
    m.d.comb += integer.eq(total if significand is None else total * significand)
    bits = exponent_width(product)
    exponent = named(m, f"exponent_{suffix}", exponent[:bits]) if bits else exponent
    return integer, exponent, named(m, f"flags_of_block_{suffix}", Cat(nan, positive, negative))


def _with_minimum(
    m: Module,
    product: BlockProduct,
    shared: Mapping[str, Value],
    block: int,
    offset: MinimumSum,
    total: Value,
    flags: Value,
) -> tuple[Value, Value]:
    """Return the sums of a block with its scale and its minimum, aligned, and their flags."""
    own, other = ("w", "a") if offset.side == "a" else ("a", "w")
    total_of_other = shared[f"{other}_sum"].word_select(block, offset.sum.width)
    infinite: Value = Const(0, 2)
    if product.has_infinities:
        infinite = shared[f"{other}_sum_infinite"].word_select(block, 2)
    products = product.sum.min, product.sum.max
    both_sums = (total, flags), (total_of_other.as_signed(), Cat(Const(0, 1), infinite))
    sums, ends = [], offset.ends(products)
    all_flags = [Const(0, 1), Const(0, 1), Const(0, 1)]
    for (value, seen), prefix, number, shift, reach in zip(
        both_sums, ("", "min_"), offset.parts, offset.shifts, ends, strict=True
    ):
        bits = number.significand.width
        significand = shared[f"{own}_{prefix}significand"].word_select(block, bits)
        factor = significand.as_signed() if number.significand.signed else significand
        exponent_bits = number.exponent_width
        exponent: Value = Const(0, 0)
        if exponent_bits:
            exponent = shared[f"{own}_{prefix}exponent"].word_select(block, exponent_bits)
        wide = Signal(signed(enclosing_format(*reach).width), name=f"{prefix}wide_{block}")
        m.d.comb += wide.eq((value * factor) << shift)
        moved = shift_left(m, f"{prefix}placed_{block}", wide[:], exponent)
        sums.append(moved.as_signed())
        nan, positive, negative = seen
        if number.has_nan:
            nan = nan | shared[f"{own}_{prefix}none"][block]
        if product.has_infinities:
            nan = nan | ((positive | negative) & ~significand.any())
            sign = significand[-1] if number.significand.signed else Const(0, 1)
            positive, negative = Mux(sign, negative, positive), Mux(sign, positive, negative)
        all_flags = [
            old | new for old, new in zip(all_flags, (nan, positive, negative), strict=True)
        ]
    both = Signal(shape_of(enclosing_format(*offset.range(products))), name=f"both_{block}")
    m.d.comb += both.eq(sums[0] + sums[1])
    return both, named(m, f"flags_of_both_{block}", Cat(*all_flags))


def _sign(forms: Sequence[ElementForm], x: Value, y: Value) -> Value:
    """Return the sign of a product that is not zero."""
    signs = [number[-1] for form, number in zip(forms, (x, y), strict=True) if form.signed]
    return reduce(xor, signs, Const(0, 1))
