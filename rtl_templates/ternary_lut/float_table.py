# SPDX-License-Identifier: Apache-2.0
"""Building tables of sums of floating-point numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Module, Signal, Value

from hwgen.formats import parent_pattern, stored_patterns
from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.hdl.hierarchy import Block, place

from .table import Pattern, pattern_name, table_members

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig


class FloatTable(Block):
    """The rounded sums of one group of activations, in registers; see `Table` for the members.

    An entry is its parent plus or minus one activation, as in a table of integers.  The registers
    before the last lie within the adders; what needs fewer adders is delayed alike.
    """

    def __init__(self, config: TernaryLutConfig) -> None:
        super().__init__("table", table_members(config))
        self.config = config

    def build(self, m: Module) -> None:
        fmt, mu = self.config.activation, self.config.array.group_size
        inner = self.config.pipeline.table - 1
        # Registers behind x of what has 1, 2, ... non-zero weights, spread evenly over the adders.
        latency = [0, *(inner * adders // max(1, mu - 1) for adders in range(mu))]
        delayed: dict[tuple[Pattern, int], Value] = {}  # a pattern's value so many registers behind
        for depth, patterns in enumerate(levels(mu)):
            before, ready = latency[max(0, depth - 1)], latency[depth]
            adder = FloatAdder(fmt, ready - before, enabled=True)
            for pattern in patterns:
                name = pattern_name(pattern)
                parent, last = parent_pattern(pattern)
                value = Signal(fmt.width, name=name)
                if depth == 1:
                    m.d.comb += value.eq(self.x.word_select(last, fmt.width))
                else:
                    x = delayed[tuple(int(i == last) for i in range(mu)), before]
                    sign = x[-1] if pattern[last] > 0 else ~x[-1]
                    place(
                        m,
                        f"add_{name}",
                        adder,
                        a=delayed[parent, before],
                        b=Cat(x[:-1], sign),
                        o=value,
                        **({"run": self.step} if adder.enabled else {}),
                    )
                delayed[pattern, ready] = value
                for stage in range(ready, inner + 1):
                    held = Signal(fmt.width, name=f"{name}_s{stage}", reset_less=True)
                    with m.If(self.step):
                        m.d.sync += held.eq(delayed[pattern, stage])
                    delayed[pattern, stage + 1] = held
        stored = (delayed[pattern, inner + 1] for pattern in stored_patterns(mu))
        m.d.comb += self.entries.eq(Cat(stored))


def levels(mu: int) -> list[list[Pattern]]:
    """Return at d the stored patterns with d non-zero weights, one adder behind those at d - 1."""
    return [[p for p in stored_patterns(mu) if sum(map(bool, p)) == d] for d in range(mu + 1)]
