# SPDX-License-Identifier: Apache-2.0
"""Building tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from hwgen.numerics import enclosing_format, parent_pattern, stored_patterns
from rtl_templates.arithmetic.integer import shape_of
from rtl_templates.hierarchy import Block

from .fetch import table_width

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
        The entries in the order of `stored_patterns`; of the baselines the activation, for
        `select` with its inverse.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        super().__init__("table", table_members(config))
        self.config = config

    def build(self, m: Module) -> None:
        config, mu = self.config, self.config.array.group_size
        shape = shape_of(config.activation)
        values: dict[Pattern, Value] = {}
        by_depth = levels(mu)
        for pattern in by_depth[1]:
            x = Signal(shape, name=f"x_{pattern.index(1)}")
            m.d.comb += x.eq(self.x.word_select(pattern.index(1), shape.width))
            values[pattern] = x
        stages, done = config.pipeline.table, 1
        for stage in range(stages):
            last = 1 + (mu - 1) * (stage + 1) // stages
            for level in by_depth[done + 1 : last + 1]:
                for pattern in level:
                    values[pattern] = self._sum(m, pattern, values)
            done = last
            for pattern, value in values.items():
                held = Signal(
                    value.shape(), name=f"{pattern_name(pattern)}_s{stage}", reset_less=True
                )
                with m.If(self.step):
                    m.d.sync += held.eq(value)
                values[pattern] = held
        out = []
        for number, pattern in enumerate(stored_patterns(mu)):
            entry = Signal(shape_of(config.entry), name=f"entry_{number}")
            m.d.comb += entry.eq(values[pattern])
            out.append(entry)
        if config.array.method == "select":
            out.append(~out[0])
        m.d.comb += self.entries.eq(Cat(*out))

    def _sum(self, m: Module, pattern: Pattern, values: dict[Pattern, Value]) -> Value:
        a = self.config.activation
        parent, last = parent_pattern(pattern)
        x = values[tuple(int(i == last) for i in range(len(pattern)))]
        ends = [sorted((w * a.min, w * a.max)) for w in pattern]
        fmt = enclosing_format(sum(low for low, _ in ends), sum(high for _, high in ends))
        total = Signal(shape_of(fmt), name=f"{pattern_name(pattern)}_sum")
        m.d.comb += total.eq(values[parent] + x if pattern[last] > 0 else values[parent] - x)
        return total


def table_members(config: TernaryLutConfig) -> dict[str, Member]:
    """Return the members of a `Table`."""
    x = config.array.group_size * config.activation.width
    return {"step": In(1), "x": In(x), "entries": Out(table_width(config))}


def levels(mu: int) -> list[list[Pattern]]:
    """Return at d the stored patterns with d non-zero weights, one adder behind those at d - 1."""
    return [[p for p in stored_patterns(mu) if sum(map(bool, p)) == d] for d in range(mu + 1)]


def pattern_name(pattern: Pattern) -> str:
    """Return a name for the signals of a pattern."""
    return "t_" + "".join("n0p"[weight + 1] for weight in pattern)
