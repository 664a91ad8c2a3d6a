# SPDX-License-Identifier: Apache-2.0
"""A memory of rows of totals, for accumulators that serve several groups of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.core.memories import Ram
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.hdl.memory import place_ram

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig


class Rows(Block):
    """Gives the old totals of the beat that is being added, and takes the new ones.

    Members
    -------
    run : In(1)
        Advance.
    fire, ends : In(1)
        A beat leaves the key register; it is the last of its pass.
    write : In(1)
        Take `next` as the new totals.
    next : In
        A row of totals.
    stored : Out
        The old totals.
    again : Out(1)
        The row was written in the cycle before, so `stored` is out of date.
    """

    resettable = True

    def __init__(self, config: TernaryLutConfig) -> None:
        width = config.array.fetch_ports * config.total_width
        super().__init__(
            "rows",
            {
                "run": In(1),
                "fire": In(1),
                "ends": In(1),
                "write": In(1),
                "next": In(width),
                "stored": Out(width),
                "again": Out(1),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        depth = self.config.array.accumulator_depth
        (read,), write = place_ram(m, "rows", Ram(depth, len(self.next)))

        # The row of the beat in the key register, and of those on their way to the accumulators.
        address = Signal(range(depth), name="where")
        following = Signal(range(depth))
        last = self.ends | (address == depth - 1)
        m.d.comb += following.eq(Mux(self.fire, Mux(last, 0, address + 1), address))
        m.d.sync += address.eq(following)
        coming: Value = following
        for stage in range(self.config.reduce_latency):
            behind = Signal(range(depth), name=f"where_{stage}", reset_less=True)
            coming = Mux(self.run, address, behind)
            m.d.sync += behind.eq(coming)
            address = behind
        for stage in range(self.config.pipeline.accumulate):
            behind = Signal(range(depth), name=f"added_{stage}", reset_less=True)
            with m.If(self.run):
                m.d.sync += behind.eq(address)
            address = behind

        # Read a cycle ahead, again and again while the beat waits.
        m.d.comb += [
            read.addr.eq(coming),
            read.en.eq(1),
            write.addr.eq(address),
            write.data.eq(self.next),
            write.en.eq(self.write),
            self.stored.eq(read.data),
        ]
        m.d.sync += self.again.eq(self.write & (address == coming))
