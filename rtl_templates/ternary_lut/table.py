# SPDX-License-Identifier: Apache-2.0
"""Building tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from hwgen.formats import TERNARY, IntegerFormat, enclosing_format, parent_pattern
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.hdl.hierarchy import Block

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig

Pattern = tuple[int, ...]
"""The digits by which the activations of a group are multiplied."""


class Table(Block):
    """The stored sums of one group of activations, in registers.

    Every sum of several activations is the sum or difference of two parts, one adder each.

    Members
    -------
    step : In(1)
        Advance the registers, ``pipeline.table`` of them.
    x : In
        The activations, first weight's in the least significant bits.
    entries : Out
        The entries in the order of ``config.stored_patterns``; of the baselines the activation,
        for `select` with its inverse.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        super().__init__("table", table_members(config))
        self.config = config

    def build(self, m: Module) -> None:
        config, mu = self.config, self.config.array.group_size
        shape = shape_of(config.activation)
        values: dict[Pattern, Value] = {}
        for i in range(mu):
            x = Signal(shape, name=f"x_{i}")
            m.d.comb += x.eq(self.x.word_select(i, shape.width))
            values[tuple(int(i == j) for j in range(mu))] = x
        levels = self._levels()
        stages, done = config.pipeline.table, 0
        for stage in range(stages):
            last = len(levels) * (stage + 1) // stages
            for level in levels[done:last]:
                for pattern in level:
                    values[pattern] = self._sum(m, pattern, values)
            done = last
            parities: dict[Pattern, Value] = {}
            for pattern, value in values.items():
                stored = Signal(
                    value.shape(), name=f"{pattern_name(pattern)}_s{stage}", reset_less=True
                )
                # Entries of the same activations have the same least significant bit.
                parity = parities.setdefault(tuple(map(abs, pattern)), stored[0])
                with m.If(self.step):
                    m.d.sync += stored.eq(value)
                joined = Cat(parity, stored[1:])
                values[pattern] = joined.as_signed() if value.shape().signed else joined
        out = []
        for number, pattern in enumerate(config.stored_patterns):
            entry = Signal(shape_of(config.entry), name=f"entry_{number}")
            m.d.comb += entry.eq(values[pattern])
            out.append(entry)
        if config.array.method == "select":
            out.append(~out[0])
        m.d.comb += self.entries.eq(Cat(*out))

    def _sum(self, m: Module, pattern: Pattern, values: dict[Pattern, Value]) -> Value:
        first, second, sign = self._parts(pattern)
        fmt = self._format(pattern)
        total = Signal(shape_of(fmt), name=f"{pattern_name(pattern)}_sum")
        x, y = values[first], values[second]
        m.d.comb += total.eq(x + y if sign > 0 else x - y)
        return total

    def _levels(self) -> list[list[Pattern]]:
        """Return the sums of several activations, each level made of those before it."""
        depths: dict[Pattern, int] = {}

        def depth(pattern: Pattern) -> int:
            if sum(map(bool, pattern)) == 1:
                return 0
            if pattern not in depths:
                first, second, _ = self._parts(pattern)
                depths[pattern] = 1 + max(depth(first), depth(second))
            return depths[pattern]

        deepest = max(map(depth, self.config.stored_patterns))
        return [[p for p, d in depths.items() if d == level + 1] for level in range(deepest)]

    def _parts(self, pattern: Pattern) -> tuple[Pattern, Pattern, int]:
        """Return the two parts of a sum, and 1 if they are added, -1 if subtracted."""
        if self.config.digit is TERNARY:
            _, split = parent_pattern(pattern)
        else:
            places = [i for i, digit in enumerate(pattern) if digit]
            split = places[(len(places) + 1) // 2]
        sign = pattern[split]
        first = tuple(digit if i < split else 0 for i, digit in enumerate(pattern))
        second = tuple(sign * digit if i >= split else 0 for i, digit in enumerate(pattern))
        return first, second, sign

    def _format(self, pattern: Pattern) -> IntegerFormat:
        """Return the narrowest format of a sum."""
        a = self.config.activation
        ends = [sorted((digit * a.min, digit * a.max)) for digit in pattern]
        return enclosing_format(sum(low for low, _ in ends), sum(high for _, high in ends))


def table_members(config: TernaryLutConfig) -> dict[str, Member]:
    """Return the members of a `Table`."""
    x = config.array.group_size * config.activation.width
    return {"step": In(1), "x": In(x), "entries": Out(config.table_width)}


def pattern_name(pattern: Pattern) -> str:
    """Return a name for the signals of a pattern."""
    return "t_" + "".join("n0p"[digit + 1] for digit in pattern)
