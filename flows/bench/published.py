# SPDX-License-Identifier: Apache-2.0
"""A re-creation, for comparison only, of the published ternary-LUT datapath.

The architecture is that of the open generator of "Ternary-LUT hardware generation and exploration"
(arXiv 2604.25183), written anew from a description: its computation, registers and widths.  Nothing
here is its authors' code, and nothing here is used by ``hwgen``.

Integers: tables whose entries are sums of a head of two activations and a tail of the others, as
many adders as the original instantiates; a register after each table; then everything is 32 bits
wide: multiplexers with a default of zero, negation as inversion and an adder, a balanced sum over
the tables, an accumulator with an enable, cleared only by reset.

Floating point: the same tables from floating-point adders with a register each, multiplexers, the
sign by an exclusive or, a serial chain of adders with a register each over the tables, and
activations and keys delayed, table by table, to meet the chain.

Where the description leaves a choice, the smaller one is taken: multiplexers select by a decoded
index, and floating-point tables leave out the adders whose operand is zero and the copies that
synthesis removes in the integer tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib.wiring import In, Member, Out

from hwgen.formats import FloatFormat, IntegerFormat, entries, index_width
from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.hdl.hierarchy import Block, place

WIDE = 32
"""Bits of everything after the multiplexers of an integer datapath."""


@dataclass(frozen=True)
class Shape:
    """Parameters of the datapath.

    Parameters
    ----------
    group_size, tables, fetch_ports : int
        As in a configuration of the family `ternary_lut`.
    activation : IntegerFormat or FloatFormat
        Of two's complement or floating point.
    """

    group_size: int
    tables: int
    fetch_ports: int
    activation: IntegerFormat | FloatFormat

    @property
    def entries(self) -> int:
        """Entries of a table."""
        return entries(self.group_size)

    @property
    def entry_width(self) -> int:
        """Bits of an entry."""
        return self.activation.width + (0 if self.activation.is_float else self.group_size - 1)

    @property
    def group_width(self) -> int:
        """Bits of the activations of a table."""
        return self.group_size * self.activation.width

    @property
    def table_width(self) -> int:
        """Bits of the entries of a table."""
        return self.entries * self.entry_width

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
        return max(1, self.group_size - 1) if self.activation.is_float else 1

    @property
    def chain_latency(self) -> int:
        """Cycles from the keys, and the entries of the first table, to the sum of a column."""
        return self.tables - 1 if self.activation.is_float else 0


class Table(Block):
    """Entries of one group, registered.

    Rows are numbered with the first weight most significant and the digits +, 0, - in that order:
    a row is a head, one of ``a0 + a1, a0, a0 - a1, a1``, plus a row of the tail.  The tail is
    built from the last activation upward, each level from the one before plus, without and minus
    the next.

    Members
    -------
    x : In
        Activations, the first weight's in the least significant bits.
    entries : Out
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__("table", {"x": In(shape.group_width), "entries": Out(shape.table_width)})
        self.shape = shape


class IntegerTable(Table):
    """Integer sums; a level of the tail other than the last exists thrice, once for each use."""

    def build(self, m: Module) -> None:
        shape, width = self.shape, self.shape.activation.width
        a = [self.x.word_select(i, width).as_signed() for i in range(shape.group_size)]

        def summed(name: str, value: Value) -> Value:
            total = Signal(signed(shape.entry_width), name=name)
            m.d.comb += total.eq(value)
            return total

        rows: list[Value] = [a[0]]
        if shape.group_size > 1:
            rows = [summed("head_0", a[0] + a[1]), a[0], summed("head_2", a[0] - a[1]), a[1]]
        if shape.group_size > 2:
            head = rows
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
            register = Signal(signed(shape.entry_width), name=f"entry_{i}", reset_less=True)
            m.d.sync += register.eq(row)
            m.d.comb += self.entries.word_select(i, shape.entry_width).eq(register)


class FloatTable(Table):
    """Floating-point adders with a register each."""

    def build(self, m: Module) -> None:
        shape, width = self.shape, self.shape.activation.width
        zero, add = Const(0, width), float_adder(m, shape)
        delayed: dict[tuple[int, int], Value] = {}  # an activation, some cycles later

        def activation(i: int, cycles: int) -> Value:
            if cycles == 0:
                return self.x.word_select(i, width)
            if (i, cycles) not in delayed:
                delayed[i, cycles] = registered(m, f"x{i}_{cycles}", activation(i, cycles - 1))
            return delayed[i, cycles]

        def summed(name: str, x: Value, y: Value) -> Value:
            if x is zero or y is zero:
                return registered(m, name, y if x is zero else x)
            return registered(m, name, add(name, x, y))

        def head(cycles: int) -> list[Value]:
            """Return the head, at least `cycles` after the registers of its adders."""
            first, second = activation(0, 0), activation(1, 0)
            plus = summed("head_plus", first, second)
            minus = summed("head_minus", first, negated(second))
            for cycle in range(1, cycles):
                plus = registered(m, f"head_plus_{cycle}", plus)
                minus = registered(m, f"head_minus_{cycle}", minus)
            return [plus, activation(0, cycles), minus, activation(1, cycles)]

        if shape.group_size == 1:
            rows: list[Value] = [activation(0, 1)]
        elif shape.group_size == 2:
            rows = head(1)
        else:
            # The last level of the tail is ready one cycle before the rows.
            last = activation(shape.group_size - 1, 1)
            tail = [last, zero, negated(last)]
            for cycle, level in enumerate(range(shape.group_size - 3, 0, -1), 1):
                x, name = activation(level + 1, cycle), f"tail_{level}"
                tail = [
                    *(summed(f"{name}_{i}_p", v, x) for i, v in enumerate(tail)),
                    *(
                        v if v is zero else registered(m, f"{name}_{i}_0", v)
                        for i, v in enumerate(tail)
                    ),
                    *(summed(f"{name}_{i}_n", v, negated(x)) for i, v in enumerate(tail)),
                ]
            rows = [
                summed(f"row_{i}_{j}", h, t)
                for i, h in enumerate(head(shape.table_latency - 1))
                for j, t in enumerate(tail)
            ]
            copied = tail[: shape.entries - len(rows)]
            rows += [registered(m, f"row_4_{j}", t) for j, t in enumerate(copied)]
        m.d.comb += self.entries.eq(Cat(*rows))


class Column(Block):
    """Multiplexers, signs, the sum over the tables, and an accumulator.

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
        members: dict[str, Member] = {
            "reset": In(1),
            "enable": In(1),
            "entries": In(shape.tables * shape.table_width),
            "keys": In(shape.tables * shape.key_width),
            "total": Out(shape.total_width),
        }
        super().__init__("column", members)
        self.shape = shape

    def build(self, m: Module) -> None:
        read = [self.read(m, table) for table in range(self.shape.tables)]
        if self.shape.activation.is_float:
            add = float_adder(m, self.shape)
            terms = [Cat(value[:-1], value[-1] ^ sign) for value, sign in read]
            chain: Value = terms[0]
            for t, term in enumerate(terms[1:], 1):
                chain = registered(m, f"chain_{t}", add(f"add_{t}", chain, term))
            total = add("accumulate", self.total, chain)
        else:
            wide = [signal(m, signed(WIDE), f"wide_{t}", v) for t, (v, _) in enumerate(read)]
            sums: list[Value] = [
                signal(m, WIDE, f"term_{t}", Mux(sign, ~wide[t] + 1, wide[t]))
                for t, (_, sign) in enumerate(read)
            ]
            level = 0
            while len(sums) > 1:
                merged = [
                    signal(m, WIDE, f"sum_{level}_{i // 2}", sums[i] + sums[i + 1])
                    for i in range(0, len(sums) - 1, 2)
                ]
                sums, level = merged + sums[len(sums) & ~1 :], level + 1
            total = self.total + sums[0]
        with m.If(self.reset):
            m.d.sync += self.total.eq(0)
        with m.Elif(self.enable):
            m.d.sync += self.total.eq(total)

    def read(self, m: Module, table: int) -> tuple[Value, Value]:
        """Return the entry of a table that its key selects, zero if none, and the sign."""
        shape, width = self.shape, self.shape.entry_width
        key = self.keys.word_select(table, shape.key_width)
        value = Signal(signed(width), name=f"value_{table}")
        with m.Switch(key[:-1]):
            for e in range(shape.entries):
                with m.Case(e):
                    m.d.comb += value.eq(self.entries.word_select(table * shape.entries + e, width))
            with m.Default():
                m.d.comb += value.eq(0)
        return value, key[-1]


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
            value = registered(m, f"delay_{cycle}", value)
        m.d.comb += self.o.eq(value)


class Published(Block):
    """The datapath: tables, delays of the floating-point one, columns.

    Members
    -------
    reset, enable : In(1)
        Clear the accumulators; add to them.  `enable` belongs to the sums, that is,
        ``shape.chain_latency`` cycles after the keys.
    x : In
        Activations, the first table's in the least significant bits.
    keys : In
        Of a column together, the first table's in the least significant bits;
        ``shape.table_latency`` cycles after their activations.
    totals : Out
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__(
            "published",
            {
                "reset": In(1),
                "enable": In(1),
                "x": In(shape.tables * shape.group_width),
                "keys": In(shape.fetch_ports * shape.tables * shape.key_width),
                "totals": Out(shape.fetch_ports * shape.total_width),
            },
        )
        self.shape = shape

    def build(self, m: Module) -> None:
        shape, key = self.shape, self.shape.key_width
        table = FloatTable(shape) if shape.activation.is_float else IntegerTable(shape)
        column = Column(shape)
        stored = Signal(shape.tables * shape.table_width, name="entries")
        # keys[t]: those of table t, a column after the other
        keys: list[Value] = [
            Cat(self.keys.word_select(p * shape.tables + t, key) for p in range(shape.fetch_ports))
            for t in range(shape.tables)
        ]
        for t in range(shape.tables):
            x: Value = self.x.word_select(t, shape.group_width)
            # The first two meet in the first adder; each further one a cycle later.
            if shape.activation.is_float and t > 1:
                x = delayed_by(m, f"x_{t}", x, t - 1)
                keys[t] = delayed_by(m, f"keys_{t}", keys[t], t - 1)
            place(m, f"table_{t}", table, x=x, entries=stored.word_select(t, shape.table_width))
        for p in range(shape.fetch_ports):
            place(
                m,
                f"column_{p}",
                column,
                reset=self.reset,
                enable=self.enable,
                entries=stored,
                keys=Cat(of_table.word_select(p, key) for of_table in keys),
                total=self.totals.word_select(p, shape.total_width),
            )


def float_adder(m: Module, shape: Shape) -> Callable[[str, Value, Value], Value]:
    """Return a function that places a floating-point adder and returns its result."""
    assert shape.activation.is_float
    block = FloatAdder(shape.activation)

    def add(name: str, x: Value, y: Value) -> Value:
        total = Signal(shape.activation.width, name=f"{name}_sum")
        place(m, name, block, a=x, b=y, o=total)
        return total

    return add


def signal(m: Module, form: ShapeLike, name: str, value: Value) -> Value:
    """Return a named signal of a value."""
    result = Signal(form, name=name)
    m.d.comb += result.eq(value)
    return result


def registered(m: Module, name: str, value: Value) -> Value:
    """Return a value one cycle later."""
    register = Signal(len(value), name=name, reset_less=True)
    m.d.sync += register.eq(value)
    return register


def delayed_by(m: Module, name: str, value: Value, cycles: int) -> Value:
    """Return a value some cycles later, by a block."""
    late = Signal(len(value), name=f"{name}_late")
    place(m, f"delay_{name}", Delay(len(value), cycles), i=value, o=late)
    return late


def negated(value: Value) -> Value:
    """Return a floating-point number with the other sign."""
    return Cat(value[:-1], ~value[-1])
