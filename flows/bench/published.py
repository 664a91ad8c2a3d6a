# SPDX-License-Identifier: Apache-2.0
"""A re-creation, for comparison only, of the published ternary-LUT datapath.

The architecture is that of the open generator of "Ternary-LUT hardware generation and exploration"
(arXiv 2604.25183), written anew from a description of it: what it computes, which registers it
has, and how wide it is.  Nothing here is its authors' code, and nothing here is used by ``hwgen``.

Integers: tables whose entries are sums of a head of two activations and a tail of the others, as
many adders as the original instantiates; a register behind each table; everything behind it 32
bits wide: multiplexers with a default of zero, negation as inversion and an adder, a balanced sum
over the tables, an accumulator with an enable, cleared only by reset.

Floating point: the same tables from floating-point adders with a register each, multiplexers, the
sign by an exclusive or, a serial chain of adders with a register each over the tables, and
activations and keys delayed, table by table, to meet the chain.

Where the description leaves a choice, the smaller one is taken: multiplexers are trees or
selections as measured (`READOUT`), and floating-point tables leave out the adders whose operand is
zero and the copies that synthesis removes in the integer tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.wiring import In, Member, Out

from hwgen.formats import FloatFormat, IntegerFormat, entries, index_width
from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.hdl.hierarchy import Block, place

WIDE = 32
"""Bits of everything behind the multiplexers of an integer datapath."""

Readout = Literal["case", "tree"]

READOUT: Readout = "case"
"""The smaller one."""


@dataclass(frozen=True)
class Shape:
    """What shapes the datapath.

    Parameters
    ----------
    group_size, tables, fetch_ports : int
        As in a configuration of the family `ternary_lut`.
    activation : IntegerFormat or FloatFormat
        Of two's complement or floating point.
    readout : {"case", "tree"}
        Whether a multiplexer selects by a decoded index or is a tree of two-input ones.
    """

    group_size: int
    tables: int
    fetch_ports: int
    activation: IntegerFormat | FloatFormat
    readout: Readout = READOUT

    @property
    def terms(self) -> int:
        """Terms of the reduction in one cycle."""
        return self.tables * self.group_size

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates in one cycle."""
        return self.terms * self.fetch_ports

    @property
    def entries(self) -> int:
        """Entries of a table."""
        return entries(self.group_size)

    @property
    def entry_width(self) -> int:
        """Bits of an entry."""
        if self.activation.is_float:
            return self.activation.width
        return self.activation.width + self.group_size - 1

    @property
    def key_width(self) -> int:
        """Bits of a key: sign above index."""
        return 1 + index_width(self.group_size)

    @property
    def total_width(self) -> int:
        """Bits of an accumulator."""
        return self.activation.width if self.activation.is_float else WIDE

    @property
    def table_latency(self) -> int:
        """Cycles from activations to entries."""
        floating = self.activation.is_float
        return max(1, self.group_size - 1) if floating else 1

    @property
    def chain_latency(self) -> int:
        """Cycles from the keys, and the entries of the first table, to the sum of a column."""
        floating = self.activation.is_float
        return self.tables - 1 if floating else 0


class IntegerTable(Block):
    """Entries of one group, behind a register.

    Rows are numbered with the first weight most significant and the digits +, 0, - in that order:
    a row is a head, one of ``a0 + a1, a0, a0 - a1, a1``, plus a row of the tail.  The tail is
    built from the last activation upward, each level from the one before plus, without and minus
    the next; a level other than the last is there three times, once for each use.

    Members
    -------
    x : In
        Activations, the first weight's in the least significant bits.
    entries : Out
    """

    def __init__(self, shape: Shape) -> None:
        x_width = shape.group_size * shape.activation.width
        super().__init__(
            "table", {"x": In(x_width), "entries": Out(shape.entries * shape.entry_width)}
        )
        self.shape = shape

    def build(self, m: Module) -> None:
        shape, width = self.shape, self.shape.activation.width
        a = [self.x.word_select(i, width).as_signed() for i in range(shape.group_size)]

        def summed(name: str, value: Value) -> Value:
            total = Signal(signed(shape.entry_width), name=name)
            m.d.comb += total.eq(value)
            return total

        rows: list[Value]
        if shape.group_size == 1:
            rows = [a[0]]
        else:
            head = [summed("head_0", a[0] + a[1]), a[0], summed("head_2", a[0] - a[1]), a[1]]
            rows = head
        if shape.group_size > 2:
            copies: list[list[Value]] = [[Const(0, signed(1))]] * 3
            for level in range(shape.group_size - 2, 0, -1):
                x = a[level + 1]
                copies = [
                    [
                        *(summed(f"t{level}_{c}_{i}_p", v + x) for i, v in enumerate(copies[0])),
                        *copies[1],
                        *(summed(f"t{level}_{c}_{i}_n", v - x) for i, v in enumerate(copies[2])),
                    ]
                    for c in range(3 if level > 1 else 1)
                ]
            (tail,) = copies
            rows = [
                summed(f"row_{i}_{j}", h + t)
                for i, h in enumerate(head)
                for j, t in enumerate(tail)
            ]
            rows += tail[: shape.entries - len(rows)]
        for i, row in enumerate(rows):
            held = Signal(signed(shape.entry_width), name=f"entry_{i}", reset_less=True)
            m.d.sync += held.eq(row)
            m.d.comb += self.entries.word_select(i, shape.entry_width).eq(held)


class IntegerColumn(Block):
    """Everything that a column has: multiplexers, negation, sum, accumulator.

    Members
    -------
    reset, enable : In(1)
        Clear the accumulator; add to it.
    entries : In
        All tables.
    keys : In
        One a table.
    total : Out
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__("column", column_members(shape))
        self.shape = shape

    def build(self, m: Module) -> None:
        shape = self.shape
        terms: list[Value] = []
        for t in range(shape.tables):
            value, sign = _read(m, shape, t, self.entries, self.keys)
            wide = Signal(signed(WIDE), name=f"wide_{t}")
            term = Signal(WIDE, name=f"term_{t}")
            m.d.comb += [wide.eq(value), term.eq(Mux(sign, ~wide + 1, wide))]
            terms.append(term)
        level = 0
        while len(terms) > 1:
            merged = []
            for i in range(0, len(terms) - 1, 2):
                total = Signal(WIDE, name=f"sum_{level}_{i // 2}")
                m.d.comb += total.eq(terms[i] + terms[i + 1])
                merged.append(total)
            terms = merged + terms[len(terms) & ~1 :]
            level += 1
        with m.If(self.reset):
            m.d.sync += self.total.eq(0)
        with m.Elif(self.enable):
            m.d.sync += self.total.eq(self.total + terms[0])


class FloatTable(Block):
    """Entries of one group by floating-point adders with a register each.

    Members
    -------
    As of `IntegerTable`.
    """

    def __init__(self, shape: Shape) -> None:
        x_width = shape.group_size * shape.activation.width
        super().__init__(
            "table", {"x": In(x_width), "entries": Out(shape.entries * shape.entry_width)}
        )
        self.shape = shape

    def build(self, m: Module) -> None:
        shape, width = self.shape, self.shape.activation.width
        latency, zero = shape.table_latency, Const(0, width)
        adder = FloatAdder(_float(shape))
        delayed: dict[tuple[int, int], Value] = {}  # an activation, some cycles later

        def activation(i: int, cycles: int) -> Value:
            if cycles == 0:
                return self.x.word_select(i, width)
            if (i, cycles) not in delayed:
                delayed[i, cycles] = held(f"x{i}_{cycles}", activation(i, cycles - 1))
            return delayed[i, cycles]

        def held(name: str, value: Value) -> Value:
            register = Signal(width, name=name, reset_less=True)
            m.d.sync += register.eq(value)
            return register

        def summed(name: str, x: Value, y: Value) -> Value:
            if x is zero or y is zero:
                return held(name, y if x is zero else x)
            total = Signal(width, name=f"{name}_sum")
            place(m, name, adder, a=x, b=y, o=total)
            return held(name, total)

        def head(cycles: int) -> list[Value]:
            """Return the head, `cycles` after its adders' registers at least one."""
            first, second = activation(0, 0), activation(1, 0)
            plus = summed("head_plus", first, second)
            minus = summed("head_minus", first, _negated(second))
            for cycle in range(1, cycles):
                plus = held(f"head_plus_{cycle}", plus)
                minus = held(f"head_minus_{cycle}", minus)
            return [plus, activation(0, cycles), minus, activation(1, cycles)]

        rows: list[Value]
        if shape.group_size == 1:
            rows = [activation(0, 1)]
        elif shape.group_size == 2:
            rows = head(1)
        else:
            # The last level of the tail is there one cycle before the rows.
            last = activation(shape.group_size - 1, 1)
            tail = [last, zero, _negated(last)]
            for cycle, level in enumerate(range(shape.group_size - 3, 0, -1), 1):
                x = activation(level + 1, cycle)
                name = f"tail_{level}"
                tail = [
                    *(summed(f"{name}_{i}_p", v, x) for i, v in enumerate(tail)),
                    *(v if v is zero else held(f"{name}_{i}_0", v) for i, v in enumerate(tail)),
                    *(summed(f"{name}_{i}_n", v, _negated(x)) for i, v in enumerate(tail)),
                ]
            heads = head(latency - 1)
            rows = [
                summed(f"row_{i}_{j}", h, t)
                for i, h in enumerate(heads)
                for j, t in enumerate(tail)
            ]
            copied = tail[: shape.entries - len(rows)]
            rows += [held(f"row_4_{j}", t) for j, t in enumerate(copied)]
        m.d.comb += self.entries.eq(Cat(*rows))


class FloatColumn(Block):
    """Multiplexers, signs, a chain of adders with a register each, and the accumulator.

    Members
    -------
    As of `IntegerColumn`.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__("column", column_members(shape))
        self.shape = shape

    def build(self, m: Module) -> None:
        shape, width = self.shape, self.shape.activation.width
        adder = FloatAdder(_float(shape))
        chain: Value = Const(0, width)
        for t in range(shape.tables):
            value, sign = _read(m, shape, t, self.entries, self.keys)
            term = Signal(width, name=f"term_{t}")
            m.d.comb += term.eq(Cat(value[:-1], value[-1] ^ sign))
            if t == 0:
                chain = term
                continue
            total = Signal(width, name=f"sum_{t}")
            link = Signal(width, name=f"chain_{t}", reset_less=True)
            place(m, f"add_{t}", adder, a=chain, b=term, o=total)
            m.d.sync += link.eq(total)
            chain = link
        total = Signal(width, name="accumulated")
        place(m, "accumulate", adder, a=self.total, b=chain, o=total)
        with m.If(self.reset):
            m.d.sync += self.total.eq(0)
        with m.Elif(self.enable):
            m.d.sync += self.total.eq(total)


class Delay(Block):
    """Registers in a row.

    Members
    -------
    i, o : In, Out
    """

    def __init__(self, width: int, cycles: int) -> None:
        super().__init__(f"delay_{width}_{cycles}", {"i": In(width), "o": Out(width)})
        self.cycles = cycles

    def build(self, m: Module) -> None:
        value: Value = self.i
        for cycle in range(self.cycles):
            held = Signal(len(value), name=f"held_{cycle}", reset_less=True)
            m.d.sync += held.eq(value)
            value = held
        m.d.comb += self.o.eq(value)


class Published(Block):
    """The datapath: tables, delays of the floating-point one, columns.

    Members
    -------
    reset, enable : In(1)
        Clear the accumulators; add to them.  `enable` belongs to the sums, that is,
        ``shape.chain_latency`` cycles behind the keys.
    x : In
        Activations, the first table's in the least significant bits.
    keys : In
        Of a column together, the first table's in the least significant bits;
        ``shape.table_latency`` cycles behind their activations.
    totals : Out
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(
            "published",
            {
                "reset": In(1),
                "enable": In(1),
                "x": In(shape.terms * shape.activation.width),
                "keys": In(shape.fetch_ports * shape.tables * shape.key_width),
                "totals": Out(shape.fetch_ports * shape.total_width),
            },
        )
        self.shape = shape

    def build(self, m: Module) -> None:
        shape, key = self.shape, self.shape.key_width
        floating = shape.activation.is_float
        table = FloatTable(shape) if floating else IntegerTable(shape)
        column = FloatColumn(shape) if floating else IntegerColumn(shape)
        group, depth = shape.group_size * shape.activation.width, shape.entries * shape.entry_width
        held = Signal(shape.tables * depth, name="entries")
        # keys[t]: those of table t, a column after the other
        keys = [
            Cat(self.keys.word_select(p * shape.tables + t, key) for p in range(shape.fetch_ports))
            for t in range(shape.tables)
        ]
        for t in range(shape.tables):
            x: Value = self.x.word_select(t, group)
            # The first two meet in the first adder; each further one a cycle later.
            if floating and t > 1:
                x = _delayed(m, f"x_{t}", x, t - 1)
                keys[t] = _delayed(m, f"keys_{t}", keys[t], t - 1)
            place(m, f"table_{t}", table, x=x, entries=held.word_select(t, depth))
        for p in range(shape.fetch_ports):
            place(
                m,
                f"column_{p}",
                column,
                reset=self.reset,
                enable=self.enable,
                entries=held,
                keys=Cat(of_table.word_select(p, key) for of_table in keys),
                total=self.totals.word_select(p, shape.total_width),
            )


def column_members(shape: Shape) -> dict[str, Member]:
    """Return the members of a column."""
    return {
        "reset": In(1),
        "enable": In(1),
        "entries": In(shape.tables * shape.entries * shape.entry_width),
        "keys": In(shape.tables * shape.key_width),
        "total": Out(shape.total_width),
    }


def _read(m: Module, shape: Shape, table: int, held: Value, keys: Value) -> tuple[Value, Value]:
    """Return the entry of a table that its key selects, zero if none, and the sign."""
    width, index_bits = shape.entry_width, shape.key_width - 1
    key = keys.word_select(table, shape.key_width)
    index = key[:index_bits]
    rows: Sequence[Value] = [
        held.word_select(table * shape.entries + e, width) for e in range(shape.entries)
    ]
    value = Signal(signed(width), name=f"value_{table}")
    if shape.readout == "case":
        with m.Switch(index):
            for e, row in enumerate(rows):
                with m.Case(e):
                    m.d.comb += value.eq(row)
            with m.Default():
                m.d.comb += value.eq(0)
    else:
        rows = [*rows, Const(0, width)]  # a larger index does not occur
        for bit in index:
            rows = [
                Mux(bit, rows[i + 1], rows[i]) if i + 1 < len(rows) else rows[i]
                for i in range(0, len(rows), 2)
            ]
        m.d.comb += value.eq(rows[0])
    return value, key[-1]


def _delayed(m: Module, name: str, value: Value, cycles: int) -> Value:
    late = Signal(len(value), name=f"{name}_late")
    place(m, f"delay_{name}", Delay(len(value), cycles), i=value, o=late)
    return late


def _negated(value: Value) -> Value:
    return Cat(value[:-1], ~value[-1])


def _float(shape: Shape) -> FloatFormat:
    assert shape.activation.is_float
    return shape.activation
