# SPDX-License-Identifier: Apache-2.0
"""Blocks around arithmetic that designs use inside of other blocks, to prove it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Const, Module, Signal, signed
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.digit_sums import DigitSum
from hwgen.arithmetic.digits import Encoding
from hwgen.formats.integer import IntegerFormat
from rtl_templates.arithmetic.integer.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.integer.multiply import accumulate, select, shape_of
from rtl_templates.arithmetic.integer.recode import plus_ones, recode, row_operands
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.ternary_lut.fetch import carry_weight, reader
from rtl_templates.ternary_lut.table import Table

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig


class OperandSum(Block):
    """Sum of operands by a compressor tree.

    Members
    -------
    x : In
        The operands, signed, the first in the low bits.
    o : Out
    """

    def __init__(self, operands: int, width: int) -> None:
        self.operands, self.bits = operands, width
        total = width + (operands - 1).bit_length()
        super().__init__("operand_sum", {"x": In(operands * width), "o": Out(total)})

    def build(self, m: Module) -> None:
        """Add the arithmetic."""
        operands = [
            HeapOperand(self.x.word_select(i, self.bits).as_signed()) for i in range(self.operands)
        ]
        m.d.comb += self.o.eq(sum_of(m, "sum", operands, len(self.o)))


class DigitProduct(Block):
    """Product by the digits of one factor: their rows, and what these are short of.

    Members
    -------
    x, w : In
        Factor that is recoded; the other one.
    o : Out
    """

    def __init__(self, encoding: Encoding, fmt: IntegerFormat) -> None:
        self.encoding, self.fmt = encoding, fmt
        super().__init__(
            f"{encoding}_product",
            {
                "x": In(shape_of(fmt)),
                "w": In(signed(fmt.width)),
                "o": Out(signed(2 * fmt.width)),
            },
        )

    def build(self, m: Module) -> None:
        """Add the arithmetic."""
        digit_sum = DigitSum(self.fmt, IntegerFormat(self.fmt.width, True), 1)
        digits = recode(m, "digits", self.encoding, self.fmt, self.x, Const(1, 1))
        operands = row_operands(m, "row", digits, self.w, digit_sum)
        ones = plus_ones(m, "ones", [digits], digit_sum)
        operands += [HeapOperand(bit, 2 * i) for i, bit in enumerate(ones)]
        total = sum_of(m, "sum", operands, len(self.o), -digit_sum.sign_constant)
        m.d.comb += self.o.eq(total)


class ClampedSum(Block):
    """Sum of an accumulator and an addend, clamped to the accumulator's format.

    Members
    -------
    total, addend : In
    carry : In(1)
    o : Out
    """

    def __init__(self, fmt: IntegerFormat) -> None:
        self.fmt = fmt
        shape = shape_of(fmt)
        super().__init__(
            "clamped_sum",
            {"total": In(shape), "addend": In(shape), "carry": In(1), "o": Out(shape)},
        )

    def build(self, m: Module) -> None:
        """Add the arithmetic."""
        m.d.comb += self.o.eq(accumulate(m, self.total, self.addend, self.fmt, self.carry))


class TernaryProduct(Block):
    """Product with a ternary weight: a term, and a bit that is to be added.

    Members
    -------
    x, w : In
    o : Out
    carry : Out(1)
    """

    def __init__(self, fmt: IntegerFormat) -> None:
        wide = fmt.width + (not fmt.signed)
        super().__init__(
            "ternary_product",
            {"x": In(shape_of(fmt)), "w": In(2), "o": Out(signed(wide)), "carry": Out(1)},
        )
        self.fmt = fmt

    def build(self, m: Module) -> None:
        """Add the arithmetic."""
        x, w = Signal(shape_of(self.fmt), name="factor"), Signal(2, name="weight")
        term, carry = select(m, 0, x, w, self.fmt, registered=False)
        assert carry is not None
        m.d.comb += [x.eq(self.x), w.eq(self.w), self.o.eq(term), self.carry.eq(carry)]


class TableRead(Block):
    """A table of sums of activations, and a column that reads it.

    Members
    -------
    x, key : In
        The activations of a group; the key of their weights.
    o : Out
    carry : Out(1)
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        self.config, self.table, self.reader = config, Table(config), reader(config)
        self.low = carry_weight(config)
        super().__init__(
            "table_read",
            {
                "x": In(self.table.width("x")),
                "key": In(config.key_width),
                "o": Out(signed(self.reader.width("value"))),
                "carry": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        """Add the arithmetic."""
        entries = Signal(self.table.width("entries"), name="entries")
        place(m, "table", self.table, step=Const(1, 1), x=self.x, entries=entries)
        place(m, "read", self.reader, table=entries, key=self.key, value=self.o, carry=self.carry)
