# SPDX-License-Identifier: Apache-2.0
"""Application of a weight to its activation: one read of a table, a selection, or a product."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.formats import TERNARY
from rtl_templates.hdl.hierarchy import Block

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig


class _Reader(Block):
    """A read for one column.

    Members
    -------
    table : In
        What the table of the group holds, `table_width` bits.
    key : In
        The key.
    value : Out
        Signed.
    carry : Out(1)
        What the value is short of, worth ``1 << carry_weight(config)``.
    """

    def __init__(self, name: str, config: TernaryLutConfig) -> None:
        super().__init__(
            name,
            {
                "table": In(config.table_width),
                "key": In(config.key_width),
                "value": Out(value_width(config)),
                "carry": Out(1),
            },
        )
        self.config = config


class Fetch(_Reader):
    """The entry that a key selects, its bits inverted for a negative one.

    The inverse is one too small.  A number and its negative have the same least significant bit,
    so compressors, which take a carry anywhere, get that bit as it is and what is then missing in
    the bit above; a carry-propagate adder takes a carry at its end only.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        super().__init__("fetch", config)

    def build(self, m: Module) -> None:
        config = self.config
        selected = selected_entry(m, config, self.table, self.key)
        sign = self.key[-1]
        wide = Cat(selected, Const(0, len(self.value) - len(selected)))
        low = carry_weight(config)
        inverted = wide[low:] ^ sign.replicate(len(wide) - low)
        m.d.comb += [
            self.value.eq(Cat(wide[:low], inverted)),
            self.carry.eq(sign & ~wide[:low].any()),
        ]


class Select(_Reader):
    """The activation, its inverse or -1, all of them but the activation one too small."""

    def __init__(self, config: TernaryLutConfig) -> None:
        super().__init__("select", config)

    def build(self, m: Module) -> None:
        width = len(self.table) // 2
        missing = len(self.value) - width  # a sign for unsigned activations
        x = Cat(self.table[:width], Const(0, missing))
        inverse = Cat(self.table[width:], Const((1 << missing) - 1, missing))
        zero, negative = self.key
        positive = ~(zero | negative)
        # An and-or-invert gate a bit; the table holds both polarities for it.
        m.d.comb += [
            self.value.eq(
                ~((inverse & positive.replicate(len(x))) | (x & negative.replicate(len(x))))
            ),
            self.carry.eq(~positive),
        ]


class Multiply(_Reader):
    """The product of the activation and the weight, which the key is."""

    def __init__(self, config: TernaryLutConfig) -> None:
        super().__init__("multiply", config)

    def build(self, m: Module) -> None:
        x = self.table.as_signed() if self.config.entry.signed else self.table
        m.d.comb += self.value.eq(x * self.key.as_signed())


def reader(config: TernaryLutConfig) -> Block:
    """Return the block by which a column reads a table."""
    blocks: Mapping[str, Callable[[TernaryLutConfig], Block]] = {
        "lut": Fetch, "select": Select, "multiply": Multiply,
    }  # fmt: skip
    return blocks[config.array.method](config)


def value_width(config: TernaryLutConfig) -> int:
    """Return the bits of what a column reads, which is signed."""
    if config.array.method == "multiply":
        return config.product.width
    return config.entry.width + (not config.entry.signed)


def carry_weight(config: TernaryLutConfig) -> int:
    """Return the position of the bit that a reader's carry is worth."""
    return int(config.array.method == "lut" and config.array.reduction == "compressors")


def selected_entry(m: Module, config: TernaryLutConfig, table: Value, key: Value) -> Value:
    """Return the entry of a table at a key's index, zero for a group of zeros."""
    width = config.entry.width
    rows: list[Value] = [table.word_select(i, width) for i in range(len(config.stored_patterns))]
    index = key[: config.index_width]
    zero = [Const(0, width)] if config.digit is TERNARY else []
    if config.array.fetch == "one_hot" and len(index):
        most = len(rows) + len(zero) - 1
        hits = Signal(len(rows), name="hits")  # named, or the text would repeat them for each bit
        m.d.comb += hits.eq(Cat(_equals(index, i, most) for i in range(len(rows))))
        return _any([row & hit.replicate(width) for row, hit in zip(rows, hits, strict=True)])
    return _multiplexer([*rows, *zero], index)


def _equals(index: Value, number: int, most: int) -> Value:
    """Return whether `index`, which is at most `most`, is `number`.

    A zero of the number need not be looked at where a one would make it too large.
    """
    bits = (
        index[bit] if number >> bit & 1 else ~index[bit]
        for bit in range(len(index))
        if number >> bit & 1 or number + (1 << bit) <= most
    )
    return Cat(bits).all()


def _any(values: list[Value]) -> Value:
    """Return the or of all values, as a tree."""
    while len(values) > 1:
        pairs = [a | b for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(values) & ~1 :]
    return values[0]


def _multiplexer(values: list[Value], index: Value) -> Value:
    """Return ``values[index]``; an index beyond the values does not occur."""
    for bit in index:
        pairs = range(0, len(values), 2)
        values = [
            Mux(bit, values[i + 1], values[i]) if i + 1 < len(values) else values[i] for i in pairs
        ]
    return values[0]
