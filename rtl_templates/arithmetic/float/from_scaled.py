# SPDX-License-Identifier: Apache-2.0
"""Conversion of integers with an exponent to floating point."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib.wiring import In, Out

from hwgen.formats.floating import FloatFormat
from hwgen.formats.integer import IntegerFormat
from rtl_templates.arithmetic.float.operator import encoded
from rtl_templates.arithmetic.pipeline import (
    Pipeline,
    leading_zeros,
    named,
    shift_left,
    shift_right_sticky,
)
from rtl_templates.hdl.hierarchy import Block

CUTS: tuple[tuple[str, ...], ...] = ((), ("normalised",), ("counted", "normalised"))
"""Where the registers of a converter of 0, 1 and 2 stages are."""


class ScaledToFloat(Block):
    """The number of a format nearest to ``i * 2**(exponent + offset)``, ties to even, or cut off.

    Parameters
    ----------
    source : IntegerFormat
        Format of the integer, signed.
    exponents : range
        The values of the exponent, not negative.
    offset : int
        Constant part of the scale.
    fmt : FloatFormat
    stages : int
        Latency in cycles, 0 to 2.
    enabled : bool
        Whether the registers load only while `run` is high.
    nearest : bool
        Whether it is rounded to nearest; else it is cut off towards zero.

    Members
    -------
    run : In(1)
        Present if `enabled` and there are registers.
    i, exponent : In
        The integer and the exponent.
    special : In(1)
        The result is the canonical NaN.
    o : Out
        The bit pattern, `stages` cycles later.

    Raises
    ------
    ValueError
        If `stages` is not 0..2.
    """

    def __init__(
        self,
        source: IntegerFormat,
        exponents: range,
        offset: int,
        fmt: FloatFormat,
        stages: int = 0,
        *,
        enabled: bool = False,
        nearest: bool = True,
    ) -> None:
        if not 0 <= stages < len(CUTS):
            raise ValueError(f"stages must be 0..{len(CUTS) - 1}, not {stages}")
        # Biased exponent of the result if the leading one is on top.
        self._top = source.width - 1 + offset + fmt.bias
        self.enabled = enabled and stages > 0
        self._bits = exponents[-1].bit_length()
        scale = f"e{self._bits}{'m' if offset < 0 else 'p'}{abs(offset)}"
        super().__init__(
            f"scaled_{source.name}_{scale}_to_{fmt.name}_{stages}{'e' if self.enabled else ''}"
            + ("" if nearest else "_cut"),
            {
                **({"run": In(1)} if self.enabled else {}),
                "i": In(source.width),
                **({"exponent": In(self._bits)} if self._bits else {}),
                "special": In(1),
                "o": Out(fmt.width),
            },
        )
        self.source, self.exponents, self.fmt, self.stages = source, exponents, fmt, stages
        self.nearest = nearest

    def build(self, m: Module) -> None:
        fmt, width = self.fmt, self.source.width
        pipe = Pipeline(m, CUTS[self.stages], self.run if self.enabled else None)

        sign = self.i[-1]
        negated = self.i ^ sign.replicate(width)
        magnitude = named(m, "magnitude", (negated + sign)[:width])
        zeros = named(m, "zeros", leading_zeros(m, "count", magnitude))
        lowest, largest = self._top + self.exponents[0], self._top + self.exponents[-1]
        bits = max(largest.bit_length(), fmt.exponent_bits)
        if lowest < 1:  # numbers far below the normal ones
            bits = 1 + max(bits, (lowest - width).bit_length() + 1)
        exponent: Value = Const(lowest % (1 << bits), bits)
        if self._bits:
            exponent = named(m, "top", (self.exponent + self._top)[:bits])
        sign, special, magnitude, zeros, exponent = pipe.cut(
            "counted",
            sign=sign,
            special=self.special,
            magnitude=magnitude,
            zeros=zeros,
            exponent=exponent,
        )

        shift = zeros
        if 1 <= lowest < width:
            # A subnormal result keeps the smallest exponent.
            below = named(m, "below", (exponent - 1)[:bits])
            shift = named(m, "shift", Mux(below < zeros, below, zeros)[: len(zeros)])
        normal: Value = shift_left(m, "moved", magnitude, shift)
        # Zeros below a short integer: its lowest bit is never the one that decides about rounding.
        normal = Cat(Const(0, max(0, fmt.precision + 2 - width)), normal)
        truncated, sticky = normal[-fmt.precision - 1 :], normal[: -fmt.precision - 1].any()
        exponent = named(m, "normal_exponent", (exponent - shift)[:bits])
        if lowest < 1:
            truncated, more = self._below_normal(m, exponent, truncated)
            sticky = sticky | more
        sign, special, truncated, sticky, exponent = pipe.cut(
            "normalised",
            sign=sign,
            special=special,
            truncated=truncated,
            sticky=sticky,
            exponent=exponent,
        )

        # Exponent and mantissa are one number: the carry of the rounding belongs into the exponent.
        up = named(m, "up", truncated[0] & (truncated[1] | sticky)) if self.nearest else Const(0, 1)
        whole = exponent & truncated[-1].replicate(bits)
        rounded = named(m, "rounded", Cat(truncated[1:-1], whole) + up)
        m.d.comb += self.o.eq(encoded(m, fmt, sign, special, special, rounded))

    def _below_normal(self, m: Module, exponent: Value, truncated: Value) -> tuple[Value, Value]:
        """Return a significand shifted to its place if it is subnormal, and whether ones were lost.

        `exponent` is that of the leading one, biased, in two's complement.
        """
        small = named(m, "small", exponent[-1] | ~exponent.any())
        distance = named(m, "distance", (1 - exponent.as_signed())[: len(exponent)])
        # Shifts by all ones of these bits leave nothing, not even the bit below the mantissa.
        bits = min((len(truncated) + 1).bit_length(), len(distance))
        far = distance[bits:].any().replicate(bits)
        amount = named(m, "amount", (distance[:bits] | far) & small.replicate(bits))
        return shift_right_sticky(m, "align", truncated, amount)
