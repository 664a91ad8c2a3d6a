# SPDX-License-Identifier: Apache-2.0
"""Correction of the sum of the last bit plane, the same for all columns."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.integer.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.hdl.hierarchy import Block

from .column import correction_format

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig


class Correction(Block):
    """Minus the sum of the activations that the tables hold, beside the last bit plane.

    The sum is that of the first entries of all tables, whose digits are all +1.  It passes
    ``pipeline.reduce + 1`` registers, one more than a key's: the tables are those of the beat
    before, which is of another bit plane but of the same pass.

    Members
    -------
    run : In(1)
        Advance the registers.
    sums : In
        The first entry of every table.
    last : In(1)
        The bit plane that is added to the totals is the last one.
    correction : Out
        Zero unless it is.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        super().__init__(
            "correction",
            {
                "run": In(1),
                "sums": In(config.array.tables * config.entry.width),
                "last": In(1),
                "correction": Out(shape_of(correction_format(config))),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config, entry = self.config, self.config.entry
        width = len(self.correction)
        values: list[Value] = []
        for i in range(config.array.tables):
            bits = self.sums.word_select(i, entry.width)
            # The inverse of a number is its negative less one.
            values.append((~(bits if entry.signed else Cat(bits, Const(0, 1)))).as_signed())
        for stage in range(config.pipeline.reduce + 1):
            group = ceil(len(values) ** (1 / (config.pipeline.reduce + 1 - stage)))
            stored = []
            for i in range(0, len(values), group):
                total = Signal(signed(width), name=f"sum_{stage}_{i // group}", reset_less=True)
                ones = min(group, len(values) - i) if stage == 0 else 0
                with m.If(self.run):
                    m.d.sync += total.eq(
                        self._sum(m, f"fa_{stage}_{i // group}", values[i : i + group], ones)
                    )
                stored.append(total)
            values = stored
        (total,) = values
        m.d.comb += self.correction.eq(total.as_unsigned() & self.last.replicate(width))

    def _sum(self, m: Module, name: str, values: list[Value], ones: int) -> Value:
        if self.config.array.reduction == "compressors":
            return sum_of(
                m, name, [HeapOperand(value) for value in values], len(self.correction), ones
            )
        while len(values) > 1:
            pairs = [a + b for a, b in zip(values[::2], values[1::2], strict=False)]
            values = pairs + values[len(values) & ~1 :]
        return values[0] + ones
