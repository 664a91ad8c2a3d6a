# SPDX-License-Identifier: Apache-2.0
"""The activations of a beat as integers of one exponent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.alignment import largest_exponent
from rtl_templates.arithmetic.float.align import Align, LargestExponent, special_of
from rtl_templates.arithmetic.pipeline import Pipeline
from rtl_templates.hdl.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig


class Alignment(Block):
    """Aligns the activations of a beat, and keeps their exponent until the tables hold their sums.

    Members
    -------
    step : In(1)
        Advance the registers, ``pipeline.table`` of them.
    x : In
        A beat of activations.
    aligned : Out
        The integers, ``config.alignment_registers`` cycles later.
    exponent : Out
        Their biased exponent, when the tables hold their sums; absent with alignment `exact`.
    special : Out(1)
        An infinity or a NaN is among the activations; as `exponent`.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        fmt, width = config.activation, config.integer_core.activation.width
        super().__init__(
            "alignment",
            {
                "step": In(1),
                "x": In(config.terms * fmt.width),
                "aligned": Out(config.terms * width),
                **({"exponent": Out(fmt.exponent_bits)} if has_exponent(config) else {}),
                "special": Out(1),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config, fmt = self.config, self.config.activation
        # The exponents are registered first if there are two registers.
        cuts = (("aligned",), ("largest", "aligned"))
        registers = config.alignment_registers
        pipe = Pipeline(m, cuts[registers - 1] if registers else (), self.step)

        x: Value = self.x
        special = Signal(name="special_here")
        exponent: Value = Const(largest_exponent(fmt), fmt.exponent_bits)
        if has_exponent(config):
            exponent = Signal(fmt.exponent_bits, name="largest")
            block = LargestExponent(fmt, config.terms)
            place(m, "find", block, i=x, exponent=exponent, special=special)
            x, exponent, flag = pipe.cut("largest", x=x, exponent=exponent, special=special)
        else:
            lanes = (x.word_select(i, fmt.width) for i in range(config.terms))
            m.d.comb += special.eq(Cat(special_of(fmt, lane) for lane in lanes).any())
            flag = special

        block_of_one = Align(fmt, config.fraction_bits)
        width = block_of_one.width("o")
        integers = Signal(config.terms * width, name="integers")
        for i in range(config.terms):
            place(
                m,
                f"align_{i}",
                block_of_one,
                i=x.word_select(i, fmt.width),
                exponent=exponent,
                o=integers.word_select(i, width),
            )
        aligned, exponent, flag = pipe.cut(
            "aligned", aligned=integers, exponent=exponent, special=flag
        )
        m.d.comb += self.aligned.eq(aligned)
        for stage in range(config.pipeline.table - registers):
            behind = Pipeline(m, (f"built_{stage}",), self.step)
            exponent, flag = behind.cut(f"built_{stage}", exponent=exponent, special=flag)
        m.d.comb += self.special.eq(flag)
        if has_exponent(config):
            m.d.comb += self.exponent.eq(exponent)


def has_exponent(config: TernaryLutConfig) -> bool:
    """Return whether beats have exponents of their own."""
    return config.array.alignment == "beat"
