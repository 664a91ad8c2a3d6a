# SPDX-License-Identifier: Apache-2.0
"""The integer part of floating-point numbers, and what is below it."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed

from hwgen.formats.floating import FloatFormat
from rtl_templates.arithmetic.pipeline import named, shift_right_sticky


def shifted_to_integer(
    m: Module, fmt: FloatFormat, bits: Value, width: int
) -> tuple[Value, Value, Value, Value]:
    """Return the integer part of a magnitude of up to `width` bits.

    Parameters
    ----------
    m : Module
    fmt : FloatFormat
        With infinities.
    bits : Value
        The number.
    width : int
        Bits of the integer part.

    Returns
    -------
    magnitude, guard, lost, large : Value
        The integer part; the bit below it; whether there are ones below that; whether it needs more
        bits, when the others are without meaning, as they are of infinities and NaNs.
    """
    fraction, field = bits[: fmt.mantissa_bits], bits[fmt.mantissa_bits : fmt.width - 1]
    top = fmt.bias + width - 1  # exponent of the first number with a one in the highest bit
    padding = max(0, width - fmt.precision)
    whole = Cat(Const(0, 1 + padding), fraction, field.any())
    below = len(whole) - width
    amount_bits = len(whole).bit_length()
    distance = Signal(signed(fmt.exponent_bits + 2), name="distance")
    m.d.comb += distance.eq(top - field)
    large = named(m, "large", distance < 0)
    far = distance[amount_bits:-1].any() if amount_bits < fmt.exponent_bits + 1 else Const(0, 1)
    amount = named(m, "amount", distance[:amount_bits] | far.replicate(amount_bits))
    shifted, lost = shift_right_sticky(m, "align", whole, amount)
    return shifted[below:], shifted[below - 1], lost | shifted[: below - 1].any(), large


def integer_part(
    m: Module, fmt: FloatFormat, bits: Value, width: int
) -> tuple[Value, Value, Value]:
    """Return the integer part of a magnitude, what is too large as ones; that of a NaN is 0.

    Parameters
    ----------
    m, fmt, bits, width
        As of `shifted_to_integer`.

    Returns
    -------
    magnitude, guard, sticky : Value
        The integer part; the bit below it, and whether there are ones below that.
    """
    magnitude, guard, lost, large = shifted_to_integer(m, fmt, bits, width)
    special = bits[fmt.mantissa_bits : fmt.width - 1].all()
    number = named(m, "number", ~(special & bits[: fmt.mantissa_bits].any()))
    magnitude = (magnitude | large.replicate(width)) & number.replicate(width)
    return magnitude, guard & number, lost & number
