# SPDX-License-Identifier: Apache-2.0
"""Conversion of integers to floating point."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux
from amaranth.lib.wiring import In, Out

from hwgen.formats.floating import FloatFormat
from hwgen.formats.integer import IntegerFormat
from rtl_templates.arithmetic.float.operator import encoded
from rtl_templates.arithmetic.pipeline import Pipeline, leading_zeros, named, shift_left
from rtl_templates.hdl.hierarchy import Block

CUTS: tuple[tuple[str, ...], ...] = ((), ("normalised",), ("counted", "normalised"))
"""Where the registers of a converter of 0, 1 and 2 stages are."""


class IntegerToFloat(Block):
    """The number of a format nearest to an integer, ties to even.

    Parameters
    ----------
    source : IntegerFormat
        Format of the integer, which need not be one of up to 64 bits.
    fmt : FloatFormat
        With infinities.
    stages : int
        Latency in cycles, 0 to 2.
    enabled : bool
        Whether the registers load only while `run` is high.

    Members
    -------
    run : In(1)
        Present if `enabled` and there are registers.
    i, o : In, Out
        The integer; the bit pattern, `stages` cycles later.

    Raises
    ------
    ValueError
        If `stages` is not 0..2 or the format has no infinities.
    """

    def __init__(
        self, source: IntegerFormat, fmt: FloatFormat, stages: int = 0, *, enabled: bool = False
    ) -> None:
        if not 0 <= stages < len(CUTS):
            raise ValueError(f"stages must be 0..{len(CUTS) - 1}, not {stages}")
        if not fmt.infinities:
            raise ValueError(f"integers cannot be converted to {fmt}")
        self.enabled = enabled and stages > 0
        super().__init__(
            f"{source.name}_to_{fmt.name}_{stages}{'e' if self.enabled else ''}",
            {
                **({"run": In(1)} if self.enabled else {}),
                "i": In(source.width),
                "o": Out(fmt.width),
            },
        )
        self.source, self.fmt, self.stages = source, fmt, stages

    def build(self, m: Module) -> None:
        fmt, width = self.fmt, self.source.width
        pipe = Pipeline(m, CUTS[self.stages], self.run if self.enabled else None)

        sign = self.i[-1] if self.source.signed else Const(0, 1)
        magnitude = named(m, "magnitude", Mux(sign, (-self.i.as_signed())[:width], self.i))
        zeros = named(m, "zeros", leading_zeros(m, "count", magnitude))
        sign, magnitude, zeros = pipe.cut("counted", sign=sign, magnitude=magnitude, zeros=zeros)

        top = fmt.bias + width - 1  # exponent with the leading one on top
        bits = max(top.bit_length(), fmt.exponent_bits)
        normal = shift_left(m, "moved", magnitude, zeros)
        # Zeros below a short integer: its lowest bit is never the one that decides about rounding.
        normal = Cat(Const(0, max(0, fmt.precision + 2 - width)), normal)
        truncated, sticky = normal[-fmt.precision - 1 :], normal[: -fmt.precision - 1].any()
        exponent = (Const(top, bits) - zeros)[:bits]
        sign, truncated, sticky, exponent = pipe.cut(
            "normalised", sign=sign, truncated=truncated, sticky=sticky, exponent=exponent
        )

        # Exponent and mantissa are one number: the carry of the rounding belongs into the exponent.
        up = named(m, "up", truncated[0] & (truncated[1] | sticky))
        whole = exponent & truncated[-1].replicate(bits)
        rounded = named(m, "rounded", Cat(truncated[1:-1], whole) + up)
        m.d.comb += self.o.eq(encoded(m, fmt, sign, Const(0, 1), Const(0, 1), rounded))
