# SPDX-License-Identifier: Apache-2.0
"""Building tables, and reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from hwgen.numerics import enclosing_format, entries, index_width, stored_patterns
from rtl_templates.arithmetic.integer import shape_of
from rtl_templates.hierarchy import Block, place

if TYPE_CHECKING:
    from hwgen.families.ternary_lut import TernaryLutConfig

Pattern = tuple[int, ...]


class Table(Block):
    """The stored sums of one group of activations, in registers.

    Every entry with several non-zero weights is its parent, the entry without the last of them,
    plus or minus one activation: one adder an entry, ``entries - group_size`` in all, at most
    ``group_size - 1`` in a row.

    Members
    -------
    step : In(1)
        Advance the registers, ``pipeline.table`` of them.
    x : In
        The activations, first weight's in the least significant bits.
    entries : Out
        The entries in the order of `stored_patterns`.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        mu = config.array.group_size
        super().__init__(
            "table",
            {
                "step": In(1),
                "x": In(mu * config.activation.width),
                "entries": Out(entries(mu) * config.entry.width),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config, mu = self.config, self.config.array.group_size
        shape = shape_of(config.activation)
        values: dict[Pattern, Value] = {}
        # Level d: the patterns with d non-zero weights, each one adder behind level d - 1.
        levels = [[p for p in stored_patterns(mu) if sum(map(bool, p)) == d] for d in range(mu + 1)]
        for pattern in levels[1]:
            x = Signal(shape, name=f"x_{pattern.index(1)}")
            m.d.comb += x.eq(self.x.word_select(pattern.index(1), shape.width))
            values[pattern] = x
        stages, done = config.pipeline.table, 1
        for stage in range(stages):
            last = 1 + (mu - 1) * (stage + 1) // stages
            for level in levels[done + 1 : last + 1]:
                for pattern in level:
                    values[pattern] = self._sum(m, pattern, values)
            done = last
            for pattern, value in values.items():
                held = Signal(value.shape(), name=f"{_name(pattern)}_s{stage}", reset_less=True)
                with m.If(self.step):
                    m.d.sync += held.eq(value)
                values[pattern] = held
        out = []
        for number, pattern in enumerate(stored_patterns(mu)):
            entry = Signal(shape_of(config.entry), name=f"entry_{number}")
            m.d.comb += entry.eq(values[pattern])
            out.append(entry)
        m.d.comb += self.entries.eq(Cat(*out))

    def _sum(self, m: Module, pattern: Pattern, values: dict[Pattern, Value]) -> Value:
        a = self.config.activation
        last = max(i for i, weight in enumerate(pattern) if weight)
        parent = tuple(weight if i < last else 0 for i, weight in enumerate(pattern))
        x = values[tuple(int(i == last) for i in range(len(pattern)))]
        ends = [sorted((w * a.min, w * a.max)) for w in pattern]
        fmt = enclosing_format(sum(low for low, _ in ends), sum(high for _, high in ends))
        total = Signal(shape_of(fmt), name=f"{_name(pattern)}_sum")
        m.d.comb += total.eq(values[parent] + x if pattern[last] > 0 else values[parent] - x)
        return total


def _name(pattern: Pattern) -> str:
    return "t_" + "".join("n0p"[weight + 1] for weight in pattern)


class Fetch(Block):
    """One read of a table: the entry that a key selects, its bits inverted for a negative one.

    The inverse is one too small; whoever adds it adds the sign as a carry.

    Members
    -------
    entries : In
        A table.
    key : In
        Sign above index.
    value : Out
        Signed.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        mu = config.array.group_size
        super().__init__(
            "fetch",
            {
                "entries": In(entries(mu) * config.entry.width),
                "key": In(config.key_width),
                "value": Out(value_width(config)),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config, mu = self.config, self.config.array.group_size
        count, width = entries(mu), config.entry.width
        rows: list[Value] = [self.entries.word_select(i, width) for i in range(count)]
        selected = _multiplexer([*rows, Const(0, width)], self.key[: index_width(mu)])
        sign = self.key[-1]
        top = [] if config.entry.signed else [Const(0, 1)]
        wide = Cat(selected, *top)
        m.d.comb += self.value.eq(wide ^ sign.replicate(len(wide)))


def value_width(config: TernaryLutConfig) -> int:
    """Return the bits of a fetched value, which is signed."""
    if config.array.method == "multiply":
        return config.product.width
    return config.entry.width + (not config.entry.signed)


def _multiplexer(values: list[Value], index: Value) -> Value:
    """Return ``values[index]``; an index beyond the values does not occur."""
    for bit in index:
        pairs = range(0, len(values), 2)
        values = [
            Mux(bit, values[i + 1], values[i]) if i + 1 < len(values) else values[i] for i in pairs
        ]
    return values[0]


class Products(Block):
    """The `multiply` baseline: activations in registers, a multiplier for each column.

    Members
    -------
    As of `Bank`; a key is a weight.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        super().__init__("products", bank_members(config))
        self.config = config

    def build(self, m: Module) -> None:
        config = self.config
        x: Value = Signal(shape_of(config.activation), name="x_in")
        m.d.comb += x.eq(self.x)
        for stage in range(config.pipeline.table):
            held = Signal(x.shape(), name=f"x_s{stage}", reset_less=True)
            with m.If(self.step):
                m.d.sync += held.eq(x)
            x = held
        width = value_width(config)
        for port in range(config.array.fetch_ports):
            weight = self.keys.word_select(port, 2).as_signed()
            m.d.comb += self.values.word_select(port, width).eq(x * weight)


def bank_members(config: TernaryLutConfig) -> dict[str, Member]:
    """Return the members of a `Bank`."""
    ports = config.array.fetch_ports
    return {
        "step": In(1),
        "x": In(config.array.group_size * config.activation.width),
        "keys": In(ports * config.key_width),
        "values": Out(ports * value_width(config)),
    }


class Bank(Block):
    """A table and its reads, one for each column.

    Members
    -------
    step : In(1)
        Advance the table.
    x : In
        Activations of the group.
    keys : In
        One key a column.
    values : Out
        One value a column.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        super().__init__("bank", bank_members(config))
        self.config = config

    def build(self, m: Module) -> None:
        config = self.config
        held = Signal(entries(config.array.group_size) * config.entry.width, name="table_entries")
        place(m, "table", Table(config), step=self.step, x=self.x, entries=held)
        fetch = Fetch(config)
        for port in range(config.array.fetch_ports):
            place(
                m,
                f"fetch_{port}",
                fetch,
                entries=held,
                key=self.keys.word_select(port, config.key_width),
                value=self.values.word_select(port, value_width(config)),
            )
