# SPDX-License-Identifier: Apache-2.0
"""A column of floating-point numbers: reads of all tables, their sum, and the total.

The order of the additions is that of `hwgen.families.ternary_lut.golden`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.arithmetic.float.multiplier import FloatMultiplier
from rtl_templates.arithmetic.float.widen import FloatWiden
from rtl_templates.arithmetic.pipeline import named
from rtl_templates.hdl.hierarchy import Block, place

from .column import column_members, old_total
from .fetch import selected_entry

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig


class FloatFetch(Block):
    """The entry that a key selects, its sign flipped for a negative one; +0 for a group of zeros.

    Members
    -------
    table : In
        What the table of the group holds.
    key : In
        The key.
    value : Out
        Bit pattern.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        members = {
            "table": In(config.table_width),
            "key": In(config.key_width),
            "value": Out(config.entry.width),
        }
        super().__init__("fetch", members)
        self.config = config

    def build(self, m: Module) -> None:
        entry = named(m, "entry", selected_entry(m, self.config, self.table, self.key))
        m.d.comb += self.value.eq(Cat(entry[:-1], entry[-1] ^ self.key[-1]))


class FloatColumn(Block):
    """Fetches, their sum and the accumulator of one column of C; see `Column` for the members.

    ``pipeline.reduce`` registers are within each adder of the tree, and within the multipliers of
    the method `multiply`; ``pipeline.accumulate`` within the adder of the totals.  `load` follows
    `starts` and the old total by that many cycles.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        super().__init__("column", column_members(config))
        self.config = config

    def build(self, m: Module) -> None:
        config, fmt, result = self.config, self.config.activation, self.config.result
        read = self._multiplied if config.array.method == "multiply" else self._fetched
        table, key = config.table_width, config.key_width
        values: list[Value] = []
        for i in range(config.array.tables):
            values.append(
                read(m, i, self.tables.word_select(i, table), self.keys.word_select(i, key))
            )

        psum = self._tree(m, values)
        if fmt != result:
            psum = place(m, "widen", FloatWiden(fmt, result), i=psum).o
        previous = named(m, "previous", Mux(self.starts, 0, old_total(self)))
        adder = FloatAdder(result, config.pipeline.accumulate, enabled=True)
        total = self._place(m, "accumulate", adder, previous, psum, "accumulate")
        with m.If(self.load):
            m.d.sync += self.total.eq(total)
        if config.array.accumulator_depth > 1:
            m.d.comb += self.next.eq(total)

    def _fetched(self, m: Module, i: int, table: Value, key: Value) -> Value:
        return place(m, f"read_{i}", FloatFetch(self.config), table=table, key=key).value

    def _multiplied(self, m: Module, i: int, table: Value, key: Value) -> Value:
        block = FloatMultiplier(self.config.activation, self.config.pipeline.reduce, enabled=True)
        return self._place(m, f"read_{i}", block, table, key)

    def _tree(self, m: Module, values: list[Value]) -> Value:
        """Return the sum of neighbours, of neighbouring sums, and so on."""
        stages = self.config.pipeline.reduce
        adder = FloatAdder(self.config.activation, stages, enabled=True)
        level = 0
        while len(values) > 1:
            merged: list[Value] = []
            for i in range(0, len(values) - 1, 2):
                name = f"add_{level}_{i // 2}"
                merged.append(self._place(m, name, adder, values[i], values[i + 1], "reduce"))
            if len(values) % 2:
                merged.append(self._delayed(m, f"odd_{level}", values[-1], stages))
            values, level = merged, level + 1
        return values[0]

    def _delayed(self, m: Module, name: str, value: Value, stages: int) -> Value:
        for stage in range(stages):
            register = Signal(len(value), name=f"{name}_{stage}", reset_less=True)
            with m.If(self.run):
                m.d.sync += register.eq(value)
            value = register
        return value

    def _place(
        self, m: Module, name: str, block: FloatAdder | FloatMultiplier, a: Value, b: Value,
        role: str = "",
    ) -> Value:  # fmt: skip
        run = {"run": self.run} if block.enabled else {}
        return place(m, name, block, a=a, b=b, **run, role=role).o
