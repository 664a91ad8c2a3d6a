# SPDX-License-Identifier: Apache-2.0
"""The core of the spatial families with serial PEs: a digit a cycle, those that are zero left out.

A beat of either input is a group of four terms for each lane of a PE, and stands in a *slot* of a
queue from which all rows read.  A tile is streamed once for each digit of A, a *pass*, the most
significant first.  Encoders go from slot to slot on their own; a slot is filled again when
all of them have finished it.  The first slot of a pass is opened to them when nothing of the pass
before is left, and that of a tile when all results have left the accumulators.  So what says where
a sum begins, and is shifted, is the same for all PEs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.digits import digit_count
from hwgen.arithmetic.sparse_digits import FINAL_STEPS
from hwgen.core.params.spatial_timing import serial_lead
from rtl_templates.arithmetic.integer.serial_pe import SerialFinalAdder
from rtl_templates.hdl.core import StreamCore
from rtl_templates.hdl.hierarchy import Block, Placed, place
from rtl_templates.hdl.streams import AnyStream, Stream, fields, transfers
from rtl_templates.stream.drain import ColumnDrain
from rtl_templates.stream.stream import StreamSlice, buffered

from .serial_row import SerialRow, SerialSignConstant, Window

if TYPE_CHECKING:
    from hwgen.arithmetic.sparse_digits import SerialSum
    from hwgen.core.params.spatial import SpatialConfig


class Slots(Block):
    """Slots of the queue: those that take beats, those that are open, starts of passes and tiles.

    Members
    -------
    act, wgt : In(stream)
        The input ports; of their payload only ``last`` of `act`.
    act_fill, wgt_fill : Out(queue)
        The slot that takes the port's beat, if there is one.
    weight : Out(digits)
        One-hot: the digit that the next beat of A is there for.
    open : Out(queue)
        Slots whose digits may be given.
    finished : In(queue)
        Nothing is left of the slot behind this cycle, if it is open.
    pass_near, tile_near : Out(1)
        In the next cycle the first slot of a pass is open; of a tile.
    pass_starts, tile_starts : Out(1)
        The same, a cycle later.
    ended : Out(1)
        Nothing is left of the tile behind this cycle.
    gone : In(1)
        The last row of results has left the array.
    """

    resettable = True

    def __init__(self, config: SpatialConfig) -> None:
        queue, passes = config.array.queue, digit_count(config.activation)
        super().__init__(
            "slots",
            {
                "act": In(stream.Signature(data.StructLayout({"last": 1}))),
                "act_fill": Out(queue),
                "wgt": In(stream.Signature(0)),
                "wgt_fill": Out(queue),
                "weight": Out(passes, init=1 << (passes - 1)),
                "open": Out(queue),
                "finished": In(queue),
                **{
                    name: Out(1)
                    for name in ("pass_near", "tile_near", "pass_starts", "tile_starts", "ended")
                },
                "gone": In(1),
            },
        )
        self.queue = queue

    def build(self, m: Module) -> None:
        queue = self.queue
        done = Signal(queue)
        m.d.comb += done.eq(self.open & self.finished)
        act_full, act_after = self._fill(m, "act", self.act, self.act_fill, done)
        wgt_full, wgt_after = self._fill(m, "wgt", self.wgt, self.wgt_fill, done)
        act_last = self.act.payload.last

        starting = Signal(init=1)  # the next beat of A is the first of a pass
        with m.If(transfers(self.act)):
            m.d.sync += starting.eq(act_last)
            if len(self.weight) > 1:
                with m.If(act_last):
                    m.d.sync += self.weight.eq(self.weight.rotate_right(1))
        # What is known of the beat in a slot: it is the first of a pass, of a tile, the last.
        of_pass, of_tile, ends_tile = (
            Signal(queue, name=name, reset_less=True)
            for name in ("of_pass", "of_tile", "ends_tile")
        )
        for slot, fill in enumerate(self.act_fill):
            with m.If(fill):
                m.d.sync += [
                    of_pass[slot].eq(starting),
                    of_tile[slot].eq(self.weight[-1]),
                    ends_tile[slot].eq(act_last & self.weight[0]),
                ]
        oldest = Signal(queue, init=1)
        waiting = Signal()  # results are to leave
        opens, starts = Signal(queue), Signal(queue)
        m.d.comb += [
            # The first of a pass waits until it is the oldest, and that of a tile for the results;
            # the others are open as soon as they are there.
            starts.eq(
                act_full & wgt_full & of_pass & oldest & ~self.open
                & ~(of_tile & waiting.replicate(queue))
            ),
            opens.eq(
                act_after & wgt_after & ~(self.act_fill & starting.replicate(queue))
                & ~(~self.act_fill & of_pass)
            ),
            self.pass_near.eq(starts.any()),
            self.tile_near.eq((starts & of_tile).any()),
            self.ended.eq((done & ends_tile).any()),
        ]  # fmt: skip
        m.d.sync += [
            self.open.eq((self.open & ~done) | opens | starts),
            self.pass_starts.eq(self.pass_near),
            self.tile_starts.eq(self.tile_near),
            waiting.eq((waiting & ~self.gone) | self.ended),
        ]
        if queue > 1:
            with m.If(done.any()):
                m.d.sync += oldest.eq(oldest.rotate_left(1))

    def _fill(
        self, m: Module, name: str, beats: AnyStream, fill: Signal, done: Value
    ) -> tuple[Value, Value]:
        """Return the slots that have a beat of an input port, in this cycle and after it."""
        full, after = (Signal(self.queue, name=f"{name}_{x}") for x in ("full", "after"))
        next_slot = Signal(self.queue, name=f"{name}_next_slot", init=1)
        m.d.comb += [
            fill.eq(next_slot & ~full),
            beats.ready.eq(fill.any()),
            after.eq((full & ~done) | (fill & beats.valid.replicate(self.queue))),
        ]
        m.d.sync += full.eq(after)
        if self.queue > 1:
            with m.If(transfers(beats)):
                m.d.sync += next_slot.eq(next_slot.rotate_left(1))
        return full, after


class SerialCore(StreamCore):
    """Tile jobs of any K, a beat taken as many cycles as its densest group has digits."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config = self.config
        serial_sum: SerialSum = config.serial
        slots = Slots(config)
        finished, gone = Signal(config.array.queue, name="finished"), Signal(name="gone")
        queue = place(
            m, "slots", slots, finished=finished, gone=gone,
            act=Stream(fields(last=self.act.payload.last), self.act.valid, self.act.ready),
            wgt=Stream(Const(0, 0), self.wgt.valid, self.wgt.ready),
        )  # fmt: skip
        totals = self._rows(m, serial_sum, queue, finished)

        in_flight = Signal(serial_lead(config.pipeline.pe))  # until results are in the accumulators
        leaving = Signal(config.rows)  # the row that leaves, one hot
        ready = Signal(name="ready")
        m.d.sync += in_flight.eq(Cat(queue.ended, in_flight))
        m.d.comb += gone.eq(leaving[-1] & ready)
        with m.If(ready | ~leaving.any()):
            m.d.sync += leaving.eq(Cat(in_flight[-1], leaving))
        foot = ColumnDrain(serial_sum.register_bits, config.rows)
        row = Signal(config.cols * serial_sum.register_bits, name="row")
        for col in range(config.cols):
            lanes = Cat(*(total.word_select(col, serial_sum.register_bits) for total in totals))
            out = row.word_select(col, serial_sum.register_bits)
            place(m, f"drain_{col}", foot, totals=lanes, drain=leaving, out=out)
        sign_constant = place(
            m, "sign_constant", SerialSignConstant(config, serial_sum),
            pass_starts=queue.pass_near, tile_starts=queue.tile_near,
        ).o  # fmt: skip
        payload = fields(data=Cat(row, sign_constant), last=leaving[-1])
        rows = Stream(payload, leaving.any(), ready)
        self.push_output(m, self._final_add(m, serial_sum, rows), StreamSlice)
        return m

    def _rows(
        self, m: Module, serial_sum: SerialSum, queue: Placed, finished: Signal
    ) -> list[Value]:
        """Place the rows and the columns of W, and return the accumulators of each row."""
        config = self.config
        window, row = Window(config), SerialRow(config, serial_sum)
        words = self.wgt.payload.data
        columns = [
            place(
                m, f"window_{col}", window, fill=queue.wgt_fill,
                i=words.word_select(col, window.width("i")),
            ).o
            for col in range(config.cols)
        ]  # fmt: skip
        rows = [
            place(
                m, f"row_{r}", row, fill=queue.act_fill, w=Cat(*columns),
                x=self.act.payload.data.word_select(r, row.width("x")),
                weight=queue.weight, open=queue.open,
                pass_starts=queue.pass_starts, tile_starts=queue.tile_starts,
            )
            for r in range(config.rows)
        ]  # fmt: skip
        of_rows = zip(*(each.finished for each in rows), strict=True)
        m.d.comb += finished.eq(Cat(Cat(*bits).all() for bits in of_rows))
        return [each.total for each in rows]

    def _final_add(self, m: Module, serial_sum: SerialSum, rows: AnyStream) -> AnyStream:
        """Return the stream of results from that of accumulators and their sign constants."""
        cols = self.config.cols
        for number in range(FINAL_STEPS):
            drained = buffered(m, f"final_add_slice_{number}", rows, StreamSlice)
            words = drained.payload.data
            step = SerialFinalAdder(serial_sum, number)
            constant = {} if number else {"sign_constant": words[cols * serial_sum.register_bits :]}
            sums = [
                place(
                    m, f"final_add_{number}_{col}", step, **constant,
                    i=words.word_select(col, step.width("i")),
                ).o
                for col in range(cols)
            ]  # fmt: skip
            payload = fields(data=Cat(*sums), last=drained.payload.last)
            rows = Stream(payload, drained.valid, drained.ready)
        return rows
