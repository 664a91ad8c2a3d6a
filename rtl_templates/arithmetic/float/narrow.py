# SPDX-License-Identifier: Apache-2.0
"""Rounding to a narrower floating-point format."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib.wiring import In, Out

from hwgen.formats.floating import FloatFormat
from rtl_templates.arithmetic.float.operator import encoded
from rtl_templates.arithmetic.pipeline import named, shift_right_sticky
from rtl_templates.hdl.hierarchy import Block


class FloatNarrow(Block):
    """The nearest number of a narrower format, ties to even, with subnormals; combinational.

    Parameters
    ----------
    src, dst : FloatFormat
        `src` has infinities, at least the exponent bits of `dst` and at least two mantissa bits
        more.

    Members
    -------
    i, o : In, Out
        Bit patterns.  Every NaN becomes ``dst.nan``; in a format without infinities and NaNs an
        infinity becomes the largest number of its sign, and a NaN the largest number.

    Raises
    ------
    ValueError
        If the formats are not as above.
    """

    def __init__(self, src: FloatFormat, dst: FloatFormat) -> None:
        if (
            not src.infinities
            or src.exponent_bits < dst.exponent_bits
            or src.mantissa_bits < dst.mantissa_bits + 2
        ):
            raise ValueError(f"{src} cannot be narrowed to {dst}")
        super().__init__(f"{src.name}_to_{dst.name}", {"i": In(src.width), "o": Out(dst.width)})
        self.src, self.dst = src, dst

    def build(self, m: Module) -> None:
        src, dst = self.src, self.dst
        fraction = self.i[: src.mantissa_bits]
        field = self.i[src.mantissa_bits : -1]
        normal = named(m, "normal", field.any())
        special = named(m, "special", field.all())
        nan = named(m, "nan", special & fraction.any())
        # The biased exponent in the narrow format, which may be too small or too large for it.
        exponent = Signal(signed(src.exponent_bits + 2), name="exponent")
        m.d.comb += exponent.eq(Cat(field[0] | ~normal, field[1:]) - (src.bias - dst.bias))
        dropped_bits = src.mantissa_bits - dst.mantissa_bits
        truncated, lost = (
            Cat(fraction, normal)[dropped_bits - 1 :],
            fraction[: dropped_bits - 1].any(),
        )
        if src.exponent_bits > dst.exponent_bits:
            small = named(m, "small", exponent < 1)
            distance = named(m, "distance", (1 - exponent)[: len(exponent)])
            # Shifts by all ones of these bits leave nothing, not even the bit below the mantissa.
            bits = min((dst.precision + 1).bit_length(), len(distance))
            far = distance[bits:].any().replicate(bits)
            amount = named(m, "amount", (distance[:bits] | far) & small.replicate(bits))
            truncated, more = shift_right_sticky(m, "align", truncated, amount)
            lost = lost | more

        # Exponent and mantissa are one number: the carry of the rounding belongs into the exponent.
        up = named(m, "up", truncated[0] & (truncated[1] | lost))
        whole = exponent[:-1] & truncated[-1].replicate(len(exponent) - 1)
        rounded = named(m, "rounded", Cat(truncated[1:-1], whole) + up)
        has_infinite = dst.infinities or not dst.has_nan
        infinite = special if has_infinite else Const(0, 1)
        none = nan if has_infinite else special
        m.d.comb += self.o.eq(encoded(m, dst, self.i[-1], none, infinite, rounded))
