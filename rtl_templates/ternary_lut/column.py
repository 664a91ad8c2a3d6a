# SPDX-License-Identifier: Apache-2.0
"""Column: its reads of all tables, their sum, and the total that accumulates it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib.wiring import In, Member, Out

from hwgen.families.ternary_lut.choice import sum_groups
from hwgen.formats import enclosing_format
from rtl_templates.arithmetic.integer.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.integer.multiply import accumulate, add, saturated, shape_of
from rtl_templates.hdl.hierarchy import Block, in_role, place

from .fetch import carry_weight, reader

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig
    from hwgen.formats import IntegerFormat

READ_ARRIVAL = 30
"""Delay of a read, in tenths of a gate's."""

TOTAL_ARRIVAL = 60
"""Arrival of the old total: `starts` drives many gates."""


@dataclass(frozen=True)
class Addend:
    """An operand of the sum: a signed value, its missing carry, and its number of tables."""

    value: Value
    carry: Value
    tables: int


def column_members(config: TernaryLutConfig) -> dict[str, Member]:
    """Return the members of a `Column`."""
    tables, width = config.array.tables, config.total_width
    stored = {"again": In(1), "stored": In(width), "next": Out(width)}
    return {
        "run": In(1),
        "load": In(1),
        "starts": In(1),
        "tables": In(tables * config.table_width),
        "keys": In(tables * config.key_width),
        **(stored if config.array.accumulator_depth > 1 else {}),
        **(_plane_members(config) if config.planes > 1 else {}),
        "total": Out(width),
    }


def _plane_members(config: TernaryLutConfig) -> dict[str, Member]:
    return {"first": In(1), "correction": In(shape_of(correction_format(config)))}


def correction_format(config: TernaryLutConfig) -> IntegerFormat:
    """Return the format of the correction of the last bit plane's sum."""
    a = config.activation
    return enclosing_format(-config.terms * a.max, -config.terms * a.min)


def old_total(column: Any) -> Value:
    """Return the total to which a column adds, unless it starts."""
    if column.config.array.accumulator_depth == 1:
        return column.total
    return Mux(column.again, column.total, column.stored)


class Counts(Block):
    """Bits of a number that flip when it counts up, and when it counts down.

    The module keeps its boundary in synthesis: the number arrives long before its enable, which a
    mapper would otherwise put first.

    Members
    -------
    value : In
    up, down : Out
    """

    keep_hierarchy = True

    def __init__(self, width: int) -> None:
        super().__init__("counts", {"value": In(width), "up": Out(width), "down": Out(width)})

    def build(self, m: Module) -> None:
        for i in range(len(self.value)):
            m.d.comb += [
                self.up[i].eq(self.value[:i].all()),
                self.down[i].eq(~self.value[:i].any()),
            ]


class Column(Block):
    """Fetches, their sum and the accumulator of one column of C.

    Bit planes arrive from the most significant to the least.  Before the first, the lowest bits of
    the total, one for each further plane, move to a register; before each other plane the total is
    shifted to the left by one, and the next of these bits enters.

    Members
    -------
    run : In(1)
        Advance the registers between the tables and the sum, ``pipeline.reduce`` of them.
    load : In(1)
        Load the new total.
    starts : In(1)
        The old total is zero; with several bit planes, high for the first only.
    tables : In
        Contents of every table.
    keys : In
        A key for every table.
    again : In(1)
        With several rows of totals: the old total is `total`, not `stored`.
    stored, next : In, Out
        The old total, from a memory outside, and the new one.
    first : In(1)
        With several bit planes: it is the first.
    correction : In
        With several bit planes: another addend; see `Correction`.
    total : Out
        The new total, in a register.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        super().__init__("column", column_members(config))
        self.config = config

    def build(self, m: Module) -> None:
        config = self.config
        block, table, key = reader(config), config.table_width, config.key_width
        addends = []
        for i in range(config.array.tables):
            read = place(
                m, f"read_{i}", block, table=self.tables.word_select(i, table),
                key=self.keys.word_select(i, key), role="reduce",
            )  # fmt: skip
            carry = Const(0, 1) if config.array.method == "multiply" else read.carry
            addends.append(Addend(read.value.as_signed(), carry, 1))

        loaded = self._loaded
        clear = self.starts if loaded == config.total_width else self.starts & self.load
        old: Value = Mux(clear, 0, old_total(self))
        if config.planes > 1:
            old = self._aligned(m, old)
        previous = Signal(Shape(config.total_width, config.result.signed), name="previous")
        m.d.comb += previous.eq(old)

        total = Signal(config.total_width, name="sum")
        reduction = self._compressed if config.array.reduction == "compressors" else self._added
        with in_role("reduce"):
            m.d.comb += total.eq(reduction(m, addends, previous))
        with m.If(self.load):
            m.d.sync += self.total[:loaded].eq(total[:loaded])
        m.d.sync += self.total[loaded:].eq(total[loaded:])
        if config.array.accumulator_depth > 1:
            m.d.comb += self.next.eq(total)

    def _aligned(self, m: Module, old: Value) -> Value:
        """Return the old total, aligned with the lowest bit of this bit plane."""
        low = self.config.planes - 1
        waiting = Signal(low, reset_less=True)
        whole = Signal(len(old), name="whole")
        m.d.comb += whole.eq(old)
        with m.If(self.load):
            m.d.sync += waiting.eq(Mux(self.first, whole[:low], waiting << 1))
        shifted = Cat(waiting[-1], self.total)[: len(whole)]
        # Bits above a shifted total are shifted out before the last plane.
        return Mux(self.first, whole[low:], shifted)

    @property
    def _loaded(self) -> int:
        """Number of bits of the total that are loaded; those above only count."""
        config = self.config
        counted = config.array.reduction == "compressors" and not config.saturates
        if not counted or config.planes > 1 or config.array.accumulator_depth > 1:
            return config.total_width
        return min(config.total_width, self._low)

    @property
    def _low(self) -> int:
        """Number of bits of the total that are added; those above are counted up or down."""
        return self.config.addend.width - 1

    def _compressed(self, m: Module, addends: list[Addend], previous: Signal) -> Value:
        """Return the new total, a sum of bits with the old total as another operand.

        Registers divide the sum into sums of fewer addends.
        """
        config, registers = self.config, self.config.pipeline.reduce
        groups = sum_groups(len(addends), registers)
        for stage in range(registers):
            addends = self._registered(m, addends, stage)
            if stage < registers - 1:
                group = groups[stage]
                addends = [
                    self._sum(m, f"sum_{stage}_{i}", addends[i : i + group])
                    for i in range(0, len(addends), group)
                ]
        operands = [o for a in addends for o in self._operands(a)]
        if config.planes > 1:
            operands.append(HeapOperand(self.correction))
        if config.saturates:
            wide = Signal(signed(1 + max(len(previous), self._low + 1)), name="previous_wide")
            m.d.comb += wide.eq(previous)
            return saturated(m, self._accumulated(m, operands, wide).as_signed(), config.result)
        return self._accumulated(m, operands, previous)

    def _accumulated(self, m: Module, operands: list[HeapOperand], previous: Signal) -> Value:
        """Return ``sum(operands) + previous``; the operands' sum is signed, of ``low + 1`` bits.

        The low bits and the operands make a number of two bits more, whose top ones, worth -1, 0
        or 1, count the high bits up or down.
        """
        low = self._low
        if low >= len(previous):
            operands = [HeapOperand(previous, arrival=TOTAL_ARRIVAL), *operands]
            return sum_of(m, "fa", operands, len(previous))
        operands = [HeapOperand(previous[:low], arrival=TOTAL_ARRIVAL), *operands]
        total = sum_of(m, "fa", operands, low + 2)
        up, down = Signal(name="count_up"), Signal(name="count_down")
        m.d.comb += [
            up.eq(total[low] & ~total[low + 1] & self.load),
            down.eq(total[low + 1] & self.load),
        ]
        high = previous[low:]
        counts = place(m, "counts", Counts(len(high)), value=high)
        flips = (counts.up & up.replicate(len(high))) | (counts.down & down.replicate(len(high)))
        return Cat(total[:low], high ^ flips)

    def _sum(self, m: Module, name: str, addends: list[Addend]) -> Addend:
        if len(addends) == 1:
            return addends[0]
        tables = sum(a.tables for a in addends)
        operands = [o for a in addends for o in self._operands(a)]
        total = Signal(self._shape(tables), name=name)
        m.d.comb += total.eq(sum_of(m, f"{name}_fa", operands, len(total)))
        return Addend(total, Const(0, 1), tables)

    def _operands(self, addend: Addend) -> list[HeapOperand]:
        operands = [HeapOperand(addend.value, arrival=READ_ARRIVAL)]
        if not isinstance(addend.carry, Const):
            operands.append(HeapOperand(addend.carry, carry_weight(self.config), READ_ARRIVAL))
        return operands

    def _added(self, m: Module, addends: list[Addend], previous: Signal) -> Value:
        """Return the new total, by a tree of carry-propagate adders and a last one.

        An adder has a carry input, so L reads need L - 1 adders and leave one carry for the adder
        of the accumulator.
        """
        config = self.config
        levels = (len(addends) - 1).bit_length()
        # The first register follows the fetch, the others are at equal distances in the tree.
        registers = Counter(
            stage * levels // config.pipeline.reduce for stage in range(config.pipeline.reduce)
        )
        for level in range(levels + 1):
            for stage in range(registers[level]):
                addends = self._registered(m, addends, f"{level}_{stage}")
            merged = []
            for i in range(0, len(addends) - 1, 2):
                a, b = addends[i : i + 2]
                tables = a.tables + b.tables
                # One more bit, for the missing carry.
                total = Signal(self._shape(tables), name=f"sum_{level}_{i // 2}")
                m.d.comb += total.eq(add(a.value, b.value, a.carry))
                merged.append(Addend(total, b.carry, tables))
            addends = merged + addends[len(addends) & ~1 :]
        (psum,) = addends
        if config.planes > 1:
            total = Signal(shape_of(config.addend), name="corrected")
            m.d.comb += total.eq(add(psum.value, self.correction, psum.carry))
            return accumulate(m, previous, total, config.clamp)
        return accumulate(m, previous, psum.value, config.clamp, psum.carry)

    def _shape(self, tables: int) -> Shape:
        """Return the shape of a sum of reads, signed."""
        return shape_of(self.config.digit_sum(tables * self.config.array.group_size))

    def _registered(self, m: Module, addends: list[Addend], name: int | str) -> list[Addend]:
        registered = []
        for i, addend in enumerate(addends):
            value = Signal(addend.value.shape(), name=f"addend_{name}_{i}", reset_less=True)
            carry = addend.carry
            with m.If(self.run):
                m.d.sync += value.eq(addend.value)
                if not isinstance(carry, Const):
                    carry = Signal(name=f"addend_carry_{name}_{i}", reset_less=True)
                    m.d.sync += carry.eq(addend.carry)
            registered.append(Addend(value, carry, addend.tables))
        return registered
