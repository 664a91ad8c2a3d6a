# SPDX-License-Identifier: Apache-2.0
"""Accumulation of partial sums, one after the other or in a memory of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.core.memories import Ram
from rtl_templates.arithmetic.integer.multiply import accumulate
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.hdl.memory import place_ram

if TYPE_CHECKING:
    from hwgen.core.params.product import IntegerProductConfig
    from hwgen.formats import IntegerFormat


class Accumulators(Block):
    """Accumulates the partial sums of a pass, row by row, over the passes of a reduction.

    Parameters
    ----------
    config : IntegerProductConfig
        Gives the format of the totals and what they do on overflow.
    psum : IntegerFormat
        Format of a partial sum.
    columns : int
        Partial sums in a row.
    depth : int
        Longest pass that can be accumulated, in rows.
    single_cycle_passes : bool
        Whether a pass of one row can be followed by the next in the next cycle.

    Members
    -------
    run : In(1)
        Advance.
    valid, starts, closes, ends : In(1)
        There is a row of partial sums; it begins a reduction; it ends it; it ends the pass.
    psums : In
        One row of partial sums.
    results : Out
        One row of totals, two cycles later.
    done : Out(2)
        `results` is a finished row; it is the last of its pass.
    """

    resettable = True

    def __init__(
        self,
        config: IntegerProductConfig,
        psum: IntegerFormat,
        columns: int,
        depth: int,
        *,
        single_cycle_passes: bool,
    ) -> None:
        self.config: Any = config
        self.psum, self.columns, self.depth = psum, columns, depth
        self.single_cycle_passes = single_cycle_passes
        psum_bits, total_bits = self.widths()
        super().__init__(
            "accumulators",
            {
                "run": In(1),
                "valid": In(1),
                "starts": In(1),
                "closes": In(1),
                "ends": In(1),
                "psums": In(columns * psum_bits),
                "results": Out(columns * total_bits),
                "done": Out(2),
            },
        )

    def widths(self) -> tuple[int, int]:
        """Return the bits of a partial sum, and of a total."""
        return self.psum.width, self.config.result.width

    def added(self, m: Module, column: int, old: Value, psum: Value) -> Value:
        """Return the next total of a column."""
        config = self.config
        if config.result.signed:
            old = old.as_signed()
        if self.psum.signed:
            psum = psum.as_signed()
        return accumulate(m, old, psum, config.clamp)[: self.widths()[1]]

    def build(self, m: Module) -> None:
        psum_width, width = self.widths()
        cols, depth = self.columns, self.depth
        address = Signal(range(depth))
        with m.If(self.run & self.valid):
            with m.If(self.ends | (address == depth - 1)):
                m.d.sync += address.eq(0)
            with m.Else():
                m.d.sync += address.eq(address + 1)

        # Stage 1: the row of psums, while its old total is read.
        psums = Signal(len(self.psums), name="psums_reg", reset_less=True)
        valid, starts, closes, ends = (
            Signal(name=f"{name}_reg") for name in ("valid", "starts", "closes", "ends")
        )
        write_address = Signal(range(depth), name="address_reg", reset_less=True)
        totals = Signal(cols * width, reset_less=True)
        with m.If(self.run):
            m.d.sync += [
                psums.eq(self.psums),
                valid.eq(self.valid),
                starts.eq(self.starts),
                closes.eq(self.closes),
                ends.eq(self.ends),
                write_address.eq(address),
            ]

        stored = Signal(cols * width)
        if depth == 1:
            m.d.comb += stored.eq(totals)
        else:
            (read,), write = place_ram(m, "rows", Ram(depth, cols * width))
            m.d.comb += [
                read.addr.eq(address),
                read.en.eq(self.run),
                write.addr.eq(write_address),
                write.en.eq(self.run & valid & ~closes),
                stored.eq(read.data),
            ]
            if self.single_cycle_passes:
                # Only here can a pass be as short as one cycle, so that the row before, still on
                # its way to the memory, is this very row.
                again = Signal()
                with m.If(self.run):
                    m.d.sync += again.eq(valid & (write_address == address))
                with m.If(again):
                    m.d.comb += stored.eq(totals)

        # Stage 2: the new total, which is also the output.
        previous = Signal(cols * width)
        m.d.comb += previous.eq(Mux(starts, 0, stored))
        sums = []
        for c in range(cols):
            old, psum = previous.word_select(c, width), psums.word_select(c, psum_width)
            sums.append(self.added(m, c, old, psum))
        if depth > 1:
            m.d.comb += write.data.eq(Cat(*sums))
        with m.If(self.run):
            with m.If(valid):
                m.d.sync += totals.eq(Cat(*sums))
            m.d.sync += self.done.eq(Cat(valid & closes, ends))
        m.d.comb += self.results.eq(totals)
