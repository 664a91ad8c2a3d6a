# SPDX-License-Identifier: Apache-2.0
"""Column of aligned activations: an exact sum of integers, then a floating-point total.

The order and the roundings are those of `hwgen.arithmetic.alignment`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Member

from hwgen.arithmetic.alignment import largest_exponent
from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.arithmetic.float.from_scaled import ScaledToFloat
from rtl_templates.arithmetic.integer.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.integer.multiply import add, shape_of
from rtl_templates.arithmetic.pipeline import Pipeline, named
from rtl_templates.hdl.hierarchy import Block, in_role, place

from .alignment import has_exponent
from .column import column_members, old_total
from .fetch import carry_weight, reader

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig


def aligned_column_members(config: TernaryLutConfig) -> dict[str, Member]:
    """Return the members of an `AlignedColumn`."""
    members = column_members(config)
    total = members.pop("total")
    exponent = {"exponent": In(config.activation.exponent_bits)} if has_exponent(config) else {}
    return {**members, **exponent, "special": In(1), "total": total}


class AlignedColumn(Block):
    """Fetches, their exact sum, its conversion, and the accumulator of one column of C.

    Members
    -------
    exponent : In
        The biased exponent of the activations, when their sum is converted; absent with alignment
        `exact`.
    special : In(1)
        As `exponent`: the sum is a NaN.

    The others are those of `rtl_templates.ternary_lut.column.Column`.  ``pipeline.reduce``
    registers are where ``config.column_cuts`` says, ``pipeline.accumulate`` within the adder of the
    totals.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        super().__init__("column", aligned_column_members(config))
        self.config = config

    def build(self, m: Module) -> None:
        config, result = self.config, self.config.result
        pipe = Pipeline(m, config.column_cuts, self.run)
        (psum,) = pipe.cut("summed", psum=self._sum(m, pipe))
        converter = converter_of(config)
        exponent = {"exponent": self.exponent} if has_exponent(config) else {}
        run = {"run": self.run} if converter.enabled else {}
        converted = place(
            m, "convert", converter, i=psum, special=self.special, **exponent, **run, role="reduce"
        ).o
        (addend,) = pipe.cut("converted", addend=converted)

        previous = named(m, "previous", Mux(self.starts, 0, old_total(self)))
        adder = FloatAdder(result, config.pipeline.accumulate, enabled=True)
        run = {"run": self.run} if adder.enabled else {}
        total = place(m, "accumulate", adder, a=previous, b=addend, **run, role="accumulate").o
        with m.If(self.load):
            m.d.sync += self.total.eq(total)
        if config.array.accumulator_depth > 1:
            m.d.comb += self.next.eq(total)

    def _sum(self, m: Module, pipe: Pipeline) -> Value:
        """Return the sum of the reads of all tables, exact."""
        core = self.config.integer_core
        block, table, key = reader(core), core.table_width, core.key_width
        values, carries = [], []
        for i in range(core.array.tables):
            read = place(
                m, f"read_{i}", block, table=self.tables.word_select(i, table),
                key=self.keys.word_select(i, key), role="reduce",
            )  # fmt: skip
            reads = {f"value_{i}_read": read.value, f"carry_{i}_read": read.carry}
            value, carry = pipe.cut("read", **reads)
            values.append(value.as_signed())
            carries.append(carry)
        psum = Signal(shape_of(core.result), name="psum")
        if core.array.reduction == "compressors":
            operands = [HeapOperand(value) for value in values]
            operands += [HeapOperand(carry, carry_weight(core)) for carry in carries]
            with in_role("reduce"):
                m.d.comb += psum.eq(sum_of(m, "fa", operands, len(psum)))
        else:
            m.d.comb += psum.eq(self._added(values, carries))
        return psum

    def _added(self, values: list[Value], carries: list[Value]) -> Value:
        """Return the sum by a tree of adders, each with a carry, and the last carry."""
        pending = list(carries)
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=False)
            sums = [add(a, b, pending.pop()) for a, b in pairs]
            values = sums + values[len(values) & ~1 :]
        return values[0] + pending.pop()


def converter_of(config: TernaryLutConfig) -> ScaledToFloat:
    """Return the converter of the sum of a beat to the accumulator's format."""
    fmt = config.activation
    offset, exponents = -fmt.bias - config.fraction_bits, range(1, largest_exponent(fmt) + 1)
    if not has_exponent(config):
        offset, exponents = offset + largest_exponent(fmt), range(1)
    inside = int("normalised" in config.column_cuts)
    source = config.integer_core.result
    return ScaledToFloat(source, exponents, offset, config.result, inside, enabled=True)
