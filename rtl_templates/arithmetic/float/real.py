# SPDX-License-Identifier: Apache-2.0
"""Conversions between the formats of the ports and single precision, combinational."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux
from amaranth.lib.wiring import In, Out

from hwgen.formats.floating import FLOATS, FloatFormat
from hwgen.formats.integer import IntegerFormat
from rtl_templates.arithmetic.float.from_integer import IntegerToFloat
from rtl_templates.arithmetic.float.narrow import FloatNarrow
from rtl_templates.arithmetic.float.to_integer import shifted_to_integer
from rtl_templates.arithmetic.float.widen import FloatWiden
from rtl_templates.arithmetic.pipeline import Pipeline, named
from rtl_templates.hdl.hierarchy import Block

REAL = FLOATS["fp32"]


class Canonical(Block):
    """A number of single precision, every NaN replaced by the canonical one.

    Members
    -------
    i, o : In(32), Out(32)
    """

    def __init__(self) -> None:
        super().__init__("canonical_fp32", {"i": In(32), "o": Out(32)})

    def build(self, m: Module) -> None:
        nan = self.i[23:31].all() & self.i[:23].any()
        m.d.comb += self.o.eq(Mux(nan, REAL.nan, self.i))


_INTEGER_CUTS: tuple[tuple[str, ...], ...] = ((), ("aligned",), ("aligned", "rounded"))
"""Where the registers of a converter to integers of 0, 1 and 2 stages are."""


class RealToInteger(Block):
    """The integer nearest to a number, ties to even; too large ones saturate, a NaN gives 0.

    Parameters
    ----------
    target : IntegerFormat
        Signed.
    stages : int
        Latency in cycles, 0 to 2; registers load only while `run` is high.

    Members
    -------
    run : In(1)
        Present if there are registers.
    i, o : In(32), Out
        The number; the integer, `stages` cycles later.
    """

    def __init__(self, target: IntegerFormat, stages: int = 0) -> None:
        super().__init__(
            f"fp32_to_{target.name}" + f"_{stages}" * bool(stages),
            {**({"run": In(1)} if stages else {}), "i": In(32), "o": Out(target.width)},
        )
        self.target, self.stages = target, stages

    def build(self, m: Module) -> None:
        width = self.target.width
        pipe = Pipeline(m, _INTEGER_CUTS[self.stages], self.run if self.stages else None)
        fraction, field = self.i[:23], self.i[23:31]
        integer, guard, sticky, large = shifted_to_integer(m, REAL, self.i, width)
        integer, up, large, sign, nan = pipe.cut(
            "aligned", integer=integer, up=guard & (integer[0] | sticky), large=large,
            sign=self.i[31], nan=field.all() & fraction.any(),
        )  # fmt: skip
        rounded, large, sign, nan = pipe.cut(
            "rounded", rounded=integer + up, large=large, sign=sign, nan=nan
        )
        limit = named(m, "limit", Const(self.target.max, width) + sign)
        magnitude = named(m, "magnitude", Mux(large | (rounded > limit), limit, rounded)[:width])
        value = Mux(sign, (-magnitude)[:width], magnitude)
        m.d.comb += self.o.eq(Mux(nan, 0, value))


def float_to_real(fmt: FloatFormat) -> Block:
    """Return the converter of a floating-point format to single precision."""
    return Canonical() if fmt == REAL else FloatWiden(fmt, REAL)


def real_to_float(fmt: FloatFormat) -> Block | None:
    """Return the converter of single precision to another format; None if it is the same."""
    return None if fmt == REAL else FloatNarrow(REAL, fmt)


def integer_to_real(fmt: IntegerFormat) -> Block:
    """Return the converter of integers to single precision."""
    return IntegerToFloat(fmt, REAL)
