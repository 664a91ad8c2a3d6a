# SPDX-License-Identifier: Apache-2.0
"""Exact conversion to a wider floating-point format."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib.wiring import In, Out

from hwgen.formats.floating import FloatFormat
from rtl_templates.arithmetic.pipeline import leading_zeros, named, shift_left
from rtl_templates.hdl.hierarchy import Block


class FloatWiden(Block):
    """The same number in a wider format, combinational.

    Wires and the NaN, and where the exponent becomes wider a constant added to it and a shifter
    for the subnormals, which all become normal.

    Parameters
    ----------
    src, dst : FloatFormat
        `dst` has infinities, and at least the exponent and mantissa bits of `src`.

    Members
    -------
    i, o : In, Out
        Bit patterns.

    Raises
    ------
    ValueError
        If `dst` does not hold every number of `src`, or subnormals of `src` that it holds would
        be subnormal in spite of its wider exponent.
    """

    def __init__(self, src: FloatFormat, dst: FloatFormat) -> None:
        lowest = 1 - src.bias - src.mantissa_bits  # exponent of the smallest subnormal
        wider = dst.exponent_bits > src.exponent_bits
        if (
            dst.mantissa_bits < src.mantissa_bits
            or dst.exponent_bits < src.exponent_bits
            or not dst.infinities
            or (wider and lowest + dst.bias < 1)
            or (not wider and not src.infinities)
        ):
            raise ValueError(f"{src} cannot be widened to {dst}")
        super().__init__(f"{src.name}_to_{dst.name}", {"i": In(src.width), "o": Out(dst.width)})
        self.src, self.dst = src, dst

    def build(self, m: Module) -> None:
        src, dst = self.src, self.dst
        magnitude = self.i[: src.width - 1]
        fraction: Value = magnitude[: src.mantissa_bits]
        exponent: Value = magnitude[src.mantissa_bits :]
        if src.infinities:
            special = named(m, "special", exponent.all())
            nan = special & fraction.any()
        else:
            special = nan = named(m, "special", magnitude.all())
        if dst.exponent_bits > src.exponent_bits:
            normal = named(m, "normal", exponent.any())
            # The first zero above a subnormal's leading one is the missing leading one of a normal.
            zeros = leading_zeros(m, "zeros", fraction)
            shifted = shift_left(m, "moved", fraction, zeros)
            step = dst.bias - src.bias
            subnormal = named(m, "subnormal", (Const(step, dst.exponent_bits) - zeros))
            exponent = Mux(normal, exponent + step, subnormal[: dst.exponent_bits])
            exponent &= (normal | fraction.any()).replicate(dst.exponent_bits)
            fraction = Mux(normal, fraction, Cat(Const(0, 1), shifted[:-1]))
        exponent = exponent[: dst.exponent_bits] | special.replicate(dst.exponent_bits)
        # The payload of a NaN is dropped.
        fraction &= (~special).replicate(src.mantissa_bits)
        fraction = Cat(fraction[:-1], fraction[-1] | nan)
        padding = Const(0, dst.mantissa_bits - src.mantissa_bits)
        m.d.comb += self.o.eq(Cat(padding, fraction, exponent, self.i[-1] & ~nan))
