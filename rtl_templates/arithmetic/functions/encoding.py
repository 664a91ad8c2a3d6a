# SPDX-License-Identifier: Apache-2.0
"""Floating-point arguments of functions in fixed point."""

from __future__ import annotations

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed

from hwgen.arithmetic.functions.encoding import Alignment
from hwgen.formats.floating import FloatFormat
from rtl_templates.arithmetic.pipeline import named


class Fields(NamedTuple):
    """A floating-point number taken apart.

    Parameters
    ----------
    sign, nan, infinite : Value
    exponent : Value
        At least 1, that of the smallest normal numbers.
    significand : Value
        With its leading bit.
    """

    sign: Value
    nan: Value
    infinite: Value
    exponent: Value
    significand: Value


def fields(m: Module, fmt: FloatFormat, bits: Value) -> Fields:
    """Return the fields of a number."""
    mantissa = bits[: fmt.mantissa_bits]
    exponent = bits[fmt.mantissa_bits : fmt.width - 1]
    special = named(m, "special", exponent.all())
    normal = named(m, "is_normal", exponent.any())
    return Fields(
        bits[-1],
        named(m, "nan", special & mantissa.any()),
        named(m, "infinite", special & ~mantissa.any()),
        named(m, "at_least_1", Cat(exponent[0] | ~normal, exponent[1:])),
        Cat(mantissa, normal),
    )


def shifted(value: Value, amount: int) -> Value:
    """Return unsigned bits shifted to the left, or to the right if `amount` is negative."""
    if amount >= 0:
        return Cat(Const(0, amount), value)
    return value[-amount:]


def aligned(m: Module, alignment: Alignment, number: Fields) -> tuple[Value, Value]:
    """Return a magnitude in fixed point, and whether it is too large."""
    product = number.significand
    if alignment.factor != 1:
        product = named(m, "product", product * alignment.factor)[: alignment.product_bits]
    return lowered(m, alignment, number, product)


def lowered(m: Module, alignment: Alignment, number: Fields, product: Value) -> tuple[Value, Value]:
    """Return the magnitude of a number whose significand is multiplied; see `aligned`."""
    lifted = shifted(product, alignment.lift)
    if not len(lifted):
        lifted = Const(0, 1)
    limit = alignment.top - 1 + alignment.fmt.bias
    amount = Signal(range(limit + 1), name="amount")
    large = named(m, "large", (number.exponent > limit) | number.infinite | number.nan)
    m.d.comb += amount.eq(limit - number.exponent)
    return named(m, "magnitude", (lifted >> amount)[: alignment.width]), large


def named_signed(m: Module, name: str, value: Value) -> Value:
    """Return a signed signal with the value."""
    signal = Signal(signed(len(value)), name=name)
    m.d.comb += signal.eq(value)
    return signal
