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

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.digits import digit_count
from hwgen.arithmetic.sparse_digits import FINAL_STEPS
from hwgen.families.spatial.timing import serial_lead
from rtl_templates.arithmetic.integer.serial_pe import SerialFinalAdder
from rtl_templates.hdl.core import StreamCore
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.stream.drain import ColumnDrain
from rtl_templates.stream.stream import StreamSlice

from .serial_row import SerialRow, SerialSignConstant, Window

if TYPE_CHECKING:
    from hwgen.arithmetic.sparse_digits import SerialSum
    from hwgen.families.spatial.params import SpatialConfig

SAME_FOR_ALL = ("weight", "open", "pass_starts", "tile_starts")
"""Outputs of `Slots` that go to every row."""


class Slots(Block):
    """Which slots of the queue take beats, which are open, and where passes and tiles begin.

    Members
    -------
    act_valid, act_ready, act_last, wgt_valid, wgt_ready : In, Out
        Of the input ports.
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
        ports = {}
        for port in ("act", "wgt"):
            ports[f"{port}_valid"], ports[f"{port}_ready"] = In(1), Out(1)
            ports[f"{port}_fill"] = Out(queue)
        super().__init__(
            "slots",
            {
                **ports,
                "act_last": In(1),
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
        act_full, act_after = self._port(m, "act", done)
        wgt_full, wgt_after = self._port(m, "wgt", done)

        starting = Signal(init=1)  # the next beat of A is the first of a pass
        with m.If(self.act_valid & self.act_ready):
            m.d.sync += starting.eq(self.act_last)
            if len(self.weight) > 1:
                with m.If(self.act_last):
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
                    ends_tile[slot].eq(self.act_last & self.weight[0]),
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

    def _port(self, m: Module, name: str, done: Value) -> tuple[Value, Value]:
        """Return which slots hold a beat of an input port, now and behind this cycle."""
        valid, ready, fill = (getattr(self, f"{name}_{x}") for x in ("valid", "ready", "fill"))
        full, after = (Signal(self.queue, name=f"{name}_{x}") for x in ("full", "after"))
        turn = Signal(self.queue, name=f"{name}_turn", init=1)
        m.d.comb += [
            fill.eq(turn & ~full),
            ready.eq(fill.any()),
            after.eq((full & ~done) | (fill & valid.replicate(self.queue))),
        ]
        m.d.sync += full.eq(after)
        if self.queue > 1:
            with m.If(valid & ready):
                m.d.sync += turn.eq(turn.rotate_left(1))
        return full, after


class SerialCore(StreamCore):
    """Tile jobs of any K, a beat taken as many cycles as its densest group has digits."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config = self.config
        serial_sum: SerialSum = config.serial
        slots = Slots(config)
        signals = {name: Signal(member.shape, name=name) for name, member in slots.members.items()}
        m.d.comb += [
            *(
                target.eq(source)
                for port, beats in (("act", self.act), ("wgt", self.wgt))
                for target, source in (
                    (signals[f"{port}_valid"], beats.valid),
                    (beats.ready, signals[f"{port}_ready"]),
                )
            ),
            signals["act_last"].eq(self.act.payload.last),
        ]
        place(m, "slots", slots, **signals)
        totals = self._rows(m, serial_sum, signals)

        under_way = Signal(serial_lead(config.pipeline.pe))  # until results are in the accumulators
        leaving = Signal(config.rows)  # the row that leaves, one hot
        ready = Signal(name="ready")
        m.d.sync += under_way.eq(Cat(signals["ended"], under_way))
        m.d.comb += signals["gone"].eq(leaving[-1] & ready)
        with m.If(ready | ~leaving.any()):
            m.d.sync += leaving.eq(Cat(under_way[-1], leaving))
        foot = ColumnDrain(serial_sum.held, config.rows)
        held = Signal(config.cols * serial_sum.held)
        for col in range(config.cols):
            lanes = Cat(*(total.word_select(col, serial_sum.held) for total in totals))
            out = held.word_select(col, serial_sum.held)
            place(m, f"drain_{col}", foot, totals=lanes, drain=leaving, out=out)
        sign_constant = Signal(serial_sum.width, name="too_much")
        place(
            m,
            "excess",
            SerialSignConstant(config, serial_sum),
            o=sign_constant,
            pass_starts=signals["pass_near"],
            tile_starts=signals["tile_near"],
        )
        values, ends, push, taken = self._added_up(
            m, serial_sum, held, sign_constant, leaving[-1], leaving.any(), ready
        )
        room, _ = self.give(m, values, ends, push, StreamSlice)
        m.d.comb += taken.eq(room)
        return m

    def _rows(self, m: Module, serial_sum: SerialSum, signals: dict[str, Signal]) -> list[Value]:
        """Place the rows and the columns of W, and return the accumulators of each row."""
        config = self.config
        window, row = Window(config), SerialRow(config, serial_sum)
        columns = [Signal(window.width("o"), name=f"w_{col}") for col in range(config.cols)]
        for col, factors in enumerate(columns):
            place(
                m,
                f"window_{col}",
                window,
                fill=signals["wgt_fill"],
                o=factors,
                i=self.wgt.payload.data.word_select(col, window.width("i")),
            )
        finished, totals = [], []
        for r in range(config.rows):
            finished.append(Signal(config.array.queue, name=f"finished_{r}"))
            totals.append(Signal(row.width("total"), name=f"total_{r}"))
            place(
                m, f"row_{r}", row, fill=signals["act_fill"], finished=finished[-1],
                w=Cat(*columns), total=totals[-1],
                x=self.act.payload.data.word_select(r, row.width("x")),
                **{name: signals[name] for name in SAME_FOR_ALL},
            )  # fmt: skip
        m.d.comb += signals["finished"].eq(
            Cat(Cat(*bits).all() for bits in zip(*finished, strict=True))
        )
        return totals

    def _added_up(
        self,
        m: Module,
        serial_sum: SerialSum,
        held: Value,
        sign_constant: Value,
        last: Value,
        push: Value,
        ready: Signal,
    ) -> tuple[Value, Value, Value, Signal]:
        """Return the stream of results: values, last, valid, and its ready, to be driven."""
        cols, value = self.config.cols, Cat(held, sign_constant)
        for number in range(FINAL_STEPS):
            payload = Signal(len(value) + 1, name=f"leaving_{number}")
            valid, taken = Signal(name=f"leaving_{number}_valid"), Signal(name=f"taken_{number}")
            place(
                m, f"leaving_slice_{number}", StreamSlice(len(payload)),
                i_data=Cat(value, last), i_valid=push, i_ready=ready,
                o_data=payload, o_valid=valid, o_ready=taken,
            )  # fmt: skip
            step = SerialFinalAdder(serial_sum, number)
            constant = {} if number else {"excess": payload[len(held) : -1]}
            results = Signal(cols * step.width("o"), name=f"resolved_{number}")
            for col in range(cols):
                place(
                    m,
                    f"resolve_{number}_{col}",
                    step,
                    **constant,
                    i=payload.word_select(col, step.width("i")),
                    o=results.word_select(col, step.width("o")),
                )
            value, last, push, ready = results, payload[-1], valid, taken
        return value, last, push, ready
