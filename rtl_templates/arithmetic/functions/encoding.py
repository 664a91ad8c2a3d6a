# SPDX-License-Identifier: Apache-2.0
"""From formats to what tables take, and from what they give to formats."""

from __future__ import annotations

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed, unsigned

from hwgen.arithmetic.functions.encoding import Alignment, Result
from hwgen.formats.fixed import FixedFormat
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


def encoded(m: Module, result: Result, significand: Value, exponent: Value) -> Value:
    """Return the magnitude of a result: rounded, too large ones at the format's end.

    Parameters
    ----------
    m : Module
    result : Result
    significand : Value
        Unsigned.
    exponent : Value
        Signed.
    """
    if result.target.is_fixed:
        return _fixed(m, result, result.target, significand, exponent)
    return _floating(m, result, result.target, significand, exponent)


def _fixed(
    m: Module, result: Result, target: FixedFormat, significand: Value, exponent: Value
) -> Value:
    lifted = shifted(significand, result.lift)
    if not len(lifted):
        lifted = Const(0, 1)
    amount = Signal(range(max(1, result.top - result.lowest + 1)), name="right")
    m.d.comb += amount.eq(result.top - exponent)
    kept = named(m, "kept", (lifted >> amount)[: len(lifted)])
    rounded = named(m, "rounded", kept + 1)[1:]
    largest = target.integer.max
    over: Value = Const(0, 1)
    if len(rounded) and (1 << len(rounded)) > largest:
        over = rounded > largest
    if result.highest > result.top:
        over = over | (exponent > result.top)
    width = target.width
    magnitude = Signal(width, name="in_range")
    m.d.comb += magnitude.eq(Mux(over, largest, rounded))
    return magnitude


def _floating(
    m: Module, result: Result, target: FloatFormat, significand: Value, exponent: Value
) -> Value:
    biased = Signal(
        range(min(-1, result.lowest + target.bias), max(2, result.highest + target.bias + 1)),
        name="biased",
    )
    m.d.comb += biased.eq(exponent + target.bias)
    kept: Value = Cat(Const(0, result.pad), significand)
    if result.lowest + target.bias < 1:
        most = target.mantissa_bits + result.guard + 2
        missing = named_signed(m, "missing", 1 - biased)
        amount = Signal(range(most + 1), name="down")
        m.d.comb += amount.eq(Mux(missing < 0, 0, Mux(missing > most, most, missing)))
        kept = named(m, "kept", (kept >> amount)[: len(kept)])
    rounded = named(m, "rounded", kept + (1 << (result.guard - 1)))[result.guard :]
    above = Signal(unsigned(max(1, len(biased) - 1)), name="above")
    m.d.comb += above.eq(Mux(biased < 1, 0, biased - 1))
    whole = named(m, "whole", Cat(Const(0, target.mantissa_bits), above) + rounded)
    magnitude = Signal(target.width - 1, name="finite")
    m.d.comb += magnitude.eq(Mux(whole >= target.overflow, target.overflow, whole))
    return magnitude


def named_signed(m: Module, name: str, value: Value) -> Value:
    """Return a signed signal with the value."""
    signal = Signal(signed(len(value)), name=name)
    m.d.comb += signal.eq(value)
    return signal
