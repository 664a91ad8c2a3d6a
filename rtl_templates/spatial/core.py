# SPDX-License-Identifier: Apache-2.0
"""The core of the spatial families: rows of PEs, the sequencer, and the way out.

A *slot* is a cycle in which the array takes a beat of both inputs, or none.  The slot after
the last beat of a tile is its drain, be it a beat of the next tile or none: row 0 leaves its
accumulators for the output, the other rows for registers, out of which they follow.  So nothing
behind the edges ever stops, and the accumulators are free again at once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.arithmetic.integer.digit_accumulator import SignConstant
from rtl_templates.arithmetic.integer.final_addition import final_add_stream
from rtl_templates.hdl.core import StreamCore
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.streams import AnyStream, Stream, fields
from rtl_templates.stream.drain import ColumnDrain
from rtl_templates.stream.stream import StreamSlice, buffered

from .pe import Edge, operand_width, plus_ones_width
from .pe_table import integer_pe

if TYPE_CHECKING:
    from hwgen.core.params.spatial import SpatialConfig


class SpatialRow(Block):
    """A row of PEs with its edge.

    Members
    -------
    on, x : In
        As of `Edge`.
    w : In
        The weights of a beat, a cycle later.
    clear : In(1)
        The beat is the first of a tile.
    total : Out
        The accumulators of the row.
    """

    def __init__(self, config: SpatialConfig) -> None:
        super().__init__(
            "row",
            {
                "on": In(1),
                "x": In(config.depth * config.activation.width),
                "w": In(config.cols * config.depth * config.weight.width),
                "clear": In(1),
                "total": Out(config.cols * config.accumulator_bits),
            },
        )
        self.config = config

    def pe(self) -> Block:
        """Return the processing element."""
        return integer_pe(self.config)

    def build(self, m: Module) -> None:
        config = self.config
        operand = Signal(config.depth * operand_width(config))
        extra = (
            {"plus_ones": Signal(plus_ones_width(config), name="plus_ones")}
            if config.digits
            else {}
        )
        place(m, "edge", Edge(config), on=self.on, x=self.x, operand=operand, **extra)
        clear: Value = self.clear
        for stage in range(config.lead):
            register = Signal(name=f"clear_{stage}", reset_less=True)
            m.d.sync += register.eq(clear)
            clear = register
        pe = self.pe()
        for col in range(config.cols):
            place(
                m,
                f"col_{col}",
                pe,
                x=operand,
                w=self.w.word_select(col, pe.width("w")),
                clear=clear,
                total=self.total.word_select(col, config.accumulator_bits),
                **extra,
            )


class ResultRegister(Block):
    """Register of the accumulators of a row, from its drain until they leave.

    Members
    -------
    load : In(1)
        Load the accumulators.
    i, o : In, Out
    """

    def __init__(self, width: int) -> None:
        super().__init__(
            f"result_register_{width}", {"load": In(1), "i": In(width), "o": Out(width)}
        )

    def build(self, m: Module) -> None:
        accumulators = Signal(len(self.i), reset_less=True)
        with m.If(self.load):
            m.d.sync += accumulators.eq(self.i)
        m.d.comb += self.o.eq(accumulators)


class Array(Block):
    """The rows of PEs.

    Members
    -------
    on, clear : In(1)
        There is a beat; it is the first of a tile.
    x, w : In
        The beat.
    load : In(1)
        The drain has reached the accumulators.
    leaves : In(rows)
        The row that leaves, one hot.
    out : Out
        What it holds.
    """

    tokens: ClassVar[tuple[str, ...]] = ("on", "clear")

    def __init__(self, config: SpatialConfig) -> None:
        act, wgt, _ = config.core_ports
        super().__init__(
            "array",
            {
                **{name: In(1) for name in self.tokens},
                "x": In(act.lanes * act.lane_width),
                "w": In(wgt.lanes * wgt.lane_width),
                "load": In(1),
                "leaves": In(config.rows),
                "out": Out(prod(config.drain_lanes)),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config, (lanes, width) = self.config, self.config.drain_lanes
        place_row, register = self.rows(m), ResultRegister(lanes * width)
        totals: list[Value] = []
        for r in range(config.rows):
            total = Signal(lanes * width, name=f"total_{r}")
            place_row(r, total)
            if r:
                total = place(m, f"register_{r}", register, load=self.load, i=total).o
            totals.append(total)
        foot = ColumnDrain(width, config.rows)
        for col in range(lanes):
            of_rows = Cat(*(total.word_select(col, width) for total in totals))
            out = self.out.word_select(col, width)
            place(m, f"drain_{col}", foot, totals=of_rows, drain=self.leaves, out=out)

    def row(self) -> SpatialRow:
        """Return a row of PEs."""
        return SpatialRow(self.config)

    def rows(self, m: Module) -> Callable[[int, Value], None]:
        """Place what all rows share; return what places the row of a number with its total."""
        w = Signal(len(self.w), name="w_edge", reset_less=True)
        m.d.sync += w.eq(self.w)
        row = self.row()

        def place_row(r: int, total: Value) -> None:
            place(
                m, f"row_{r}", row, on=self.on, clear=self.clear, w=w, total=total,
                x=self.x.word_select(r, row.width("x")),
            )  # fmt: skip

        return place_row


class SpatialCore(StreamCore):
    """Tile jobs of any K; results of a tile leave while the next one streams in."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, rows = self.config, self.config.rows
        act, wgt, _ = config.core_ports
        fire = Signal(name="fire")
        popped = self.pops(m, fire)
        x, w = self.pop_input(m, act, popped), self.pop_input(m, wgt, popped)
        last = x.payload.last

        starting = Signal(init=1)  # the next beat is the first of a tile
        finished = Signal()  # a tile waits for its drain
        in_flight = Signal(config.lead)  # drains between here and the accumulators
        waiting = Signal(rows - 1)  # the row that leaves its register next, one hot
        drain, free, ready = (Signal(name=name) for name in ("drain", "free", "ready"))
        arrives = in_flight[-1]
        m.d.comb += [
            # Nothing in flight leaves after the output became ready, so it stays ready.
            free.eq(ready & ~in_flight.any() & ~waiting.any()),
            drain.eq(finished & free),
            fire.eq(x.valid & w.valid & (~finished | free)),
        ]
        with m.If(popped):
            m.d.sync += starting.eq(last)
        m.d.sync += [
            finished.eq((finished & ~drain) | (popped & last)),
            in_flight.eq(Cat(drain, in_flight)),
        ]
        if rows > 1:
            with m.If(arrives | ready):
                m.d.sync += waiting.eq(Cat(arrives, waiting))

        leaves = Cat(arrives, waiting)
        totals = Signal(prod(config.drain_lanes))
        leaving = {"load": arrives, "leaves": leaves, "out": totals}
        self.array(m, fire, starting, x.payload.data, w.payload.data, leaving)
        rows = Stream(fields(data=totals, last=leaves[-1]), leaves.any(), ready)
        self.push_output(m, self.results(m, fire, starting, drain, rows))
        return m

    def pops(self, m: Module, fire: Value) -> Value:
        """Return whether a beat leaves its buffer, for `fire`, a slot of it."""
        return fire

    def array(
        self, m: Module, fire: Value, starting: Value, x: Value, w: Value, leaving: dict[str, Value]
    ) -> None:
        """Place the array.

        Parameters
        ----------
        m : Module
        fire, starting : Value
            There is a beat; the next is the first of a tile.
        x, w : Value
            The beat.
        leaving : dict
            Ports ``load``, ``leaves`` and ``out`` of the array.
        """
        place(m, "array", Array(self.config), on=fire, clear=starting & fire, x=x, w=w, **leaving)

    def results(
        self, m: Module, fire: Value, starting: Value, drain: Value, rows: Stream
    ) -> AnyStream:
        """Return the stream of results from that of rows of accumulators.

        Parameters
        ----------
        m : Module
        fire, starting, drain : Value
            There is a beat; it is the first of a tile; a tile's drain begins.
        rows : Stream
            ``data``, accumulators, and ``last``, whether they are the last row of a tile.

        Returns
        -------
        stream
            ``data`` and ``last`` of results.
        """
        if not self.config.digits:
            return rows
        block = SignConstant(self.config.digits)
        sign_constant = place(m, "sign_constant", block, add=fire, clear=starting).o
        of_tile = Signal.like(sign_constant, name="tile_sign_constant", reset_less=True)
        with m.If(drain):
            m.d.sync += of_tile.eq(sign_constant)
        drained = self.registered(m, rows)
        payload = fields(
            data=drained.payload.data, sign_constant=of_tile, last=drained.payload.last
        )
        source = Stream(payload, drained.valid, drained.ready)
        return final_add_stream(m, self.config.final_addition, source)

    def registered(self, m: Module, rows: Stream) -> AnyStream:
        """Return rows of accumulators after a register that may stall."""
        return buffered(m, "drain_slice", rows, StreamSlice)
