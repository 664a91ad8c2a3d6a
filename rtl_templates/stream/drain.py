# SPDX-License-Identifier: Apache-2.0
"""Drain of the results of many rows to one output."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux
from amaranth.lib.wiring import In, Out

from rtl_templates.hdl.hierarchy import Block


class ColumnDrain(Block):
    """Foot of a column: the accumulator of the row that drains, zero if none does.

    An AND-OR over the rows is smaller and faster than a bus that passes from PE to PE.

    Members
    -------
    totals : In
        Accumulators of the rows.
    drain : In(rows)
        The row that drains, one hot.
    out : Out
        Its accumulator.
    """

    def __init__(self, width: int, rows: int) -> None:
        super().__init__(
            f"drain_x{rows}",
            {"totals": In(width * rows), "drain": In(rows), "out": Out(width)},
        )
        self.data_width, self.rows = width, rows

    def build(self, m: Module) -> None:
        selected = [
            Mux(self.drain[row], self.totals.word_select(row, self.data_width), 0)
            for row in range(self.rows)
        ]
        while len(selected) > 1:
            pairs = zip(selected[::2], [*selected[1::2], Const(0, 1)], strict=False)
            selected = [first | second for first, second in pairs]
        m.d.comb += self.out.eq(selected[0])
