# SPDX-License-Identifier: Apache-2.0
"""Cores of the systolic family: an array, its sequencer and its stream ports.

No combinational path leads from an input port to an output port: inputs end in register slices,
the output starts in one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from rtl_templates.hierarchy import Block, place
from rtl_templates.shell import stream_members
from rtl_templates.stream import StreamBuffer, StreamFifo

from .array import OutputStationaryArray, StationaryArray
from .pe import accumulate

if TYPE_CHECKING:
    from hwgen.families.systolic import SystolicConfig


class Core(wiring.Component):
    """What the cores share: the ports that the configuration describes, and their buffers.

    Members
    -------
    act, wgt : In(stream)
        Beats as the configuration's ports describe them.
    out : Out(stream)
        Result beats.
    """

    def __init__(self, config: SystolicConfig) -> None:
        self.config = config
        super().__init__(stream_members(config.ports))

    def _take(self, m: Module, port: Any, ready: Value) -> tuple[Value, Value, Value]:
        """Buffer an input port; return its data, last and valid, which `ready` takes."""
        beats = getattr(self, port.name)
        width = port.lanes * port.lane_width
        payload = Cat(beats.payload.data[:width], *([beats.payload.last] if port.last else []))
        head, valid = (
            Signal(len(payload), name=f"{port.name}_head"),
            Signal(name=f"{port.name}_valid"),
        )
        place(
            m,
            f"{port.name}_buffer",
            StreamBuffer(len(payload)),
            i_data=payload,
            i_valid=beats.valid,
            i_ready=beats.ready,
            o_data=head,
            o_valid=valid,
            o_ready=ready,
        )
        return head[:width], head[width:].any() if port.last else valid, valid

    def _give(
        self, m: Module, values: Value, last: Value, push: Value, *, depth: int
    ) -> tuple[Value, Value]:
        """Buffer the output port; return its ready and whether a beat leaves it."""
        port = self.config.output_port
        width = self.config.result.width
        payload = Cat(values, last)
        block = StreamBuffer(len(payload)) if depth == 2 else StreamFifo(len(payload), depth)
        head, ready = Signal(len(payload), name="out_head"), Signal(name="out_ready")
        place(
            m,
            "out_buffer",
            block,
            i_data=payload,
            i_valid=push,
            i_ready=ready,
            o_data=head,
            o_valid=self.out.valid,
            o_ready=self.out.ready,
        )
        lanes = []
        for lane in range(port.lanes):
            value = head.word_select(lane, width)
            if self.config.result.signed:
                value = value.as_signed()
            wide = Signal(signed(port.lane_width), name=f"lane_{lane}")
            m.d.comb += wide.eq(value)
            lanes.append(wide)
        m.d.comb += [self.out.payload.data.eq(Cat(*lanes)), self.out.payload.last.eq(head[-1])]
        return ready, self.out.valid & self.out.ready


class OutputStationaryCore(Core):
    """Tile jobs of any K; results of a tile drain while the next one streams in.

    A *slot* enters row 0 of the array in every cycle of `run`: a beat, or a bubble with zero
    operands.  The first slot after the end of a reduction clears the accumulators and drains
    them, row after row; it is the first beat of the next tile or, when none is there, a bubble.
    The drain occupies the column bus for `rows` cycles, so drains start at least that far apart.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, rows = self.config, self.config.array.rows
        run, fire = Signal(name="run"), Signal(name="fire")
        x, last, x_valid = self._take(m, config.row_port, fire)
        y, _, y_valid = self._take(m, config.column_port, fire)

        starting = Signal(init=1)  # the next beat is the first of a tile
        finished = Signal()  # a tile waits for its drain
        draining = Signal(range(rows + 1))  # rows that have not drained yet
        drain, bus_free = Signal(name="drain"), Signal(name="bus_free")
        m.d.comb += [
            bus_free.eq(draining <= 1),
            fire.eq(run & x_valid & y_valid & ~(starting & finished & ~bus_free)),
            drain.eq(finished & bus_free),
        ]
        with m.If(run):
            with m.If(fire):
                m.d.sync += starting.eq(last)
            m.d.sync += finished.eq((finished & ~drain) | (fire & last))
            with m.If(drain):
                m.d.sync += draining.eq(rows)
            with m.Elif(draining != 0):
                m.d.sync += draining.eq(draining - 1)

        results = Signal(config.array.cols * config.result.width)
        place(
            m,
            "array",
            OutputStationaryArray(config),
            run=run,
            x=Mux(fire, x, 0),
            y=y,
            clear=(starting & fire) | drain,
            drain=drain,
            out=results,
        )

        # A row drains only into a reserved entry of the output buffer, so nothing behind the
        # array's edge ever stops.
        depth = 2 + config.drain_latency
        credits = Signal(range(depth + 1), init=depth)
        drains, room, commit = (Signal(name=name) for name in ("drains", "room", "commit"))
        last_row = commit & (draining == 2) if rows > 1 else commit
        push: Value = Cat(commit, last_row)
        for stage in range(1 + config.drain_latency):
            register = Signal(2, name=f"push_{stage}")
            m.d.sync += register.eq(push)
            push = register
        _, popped = self._give(m, results, push[1], push[0], depth=depth)
        m.d.comb += [
            drains.eq(drain | (draining > 1)),  # the step puts a row on its way
            room.eq((credits != 0) | popped),
            run.eq(~drains | room),
            commit.eq(drains & room),
        ]
        m.d.sync += credits.eq(credits + popped - commit)
        return m


class StationaryCore(Core):
    """Passes of any length; the next tile loads in the shadow of the current one.

    Everything advances together while `run` is high, which is while the output buffer has room.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, rows = self.config, self.config.array.rows
        run, fire, load = (Signal(name=name) for name in ("run", "fire", "load"))
        x, x_last, x_valid = self._take(m, config.row_port, fire)
        y, y_last, y_valid = self._take(m, config.column_port, load)

        loaded = Signal()  # the shadow holds a whole tile ...
        ends = Signal()  # ... which ends the reduction
        position = Signal(rows, init=1)  # row that loads next, one hot
        passing = Signal()  # a pass is under way ...
        ending = Signal()  # ... that ends the reduction
        begins = Signal(init=1)  # the next pass begins a reduction
        swap, closes = Signal(name="swap"), Signal(name="closes")
        m.d.comb += [
            swap.eq(x_valid & loaded & ~passing),
            fire.eq(run & x_valid & (passing | loaded)),
            load.eq(run & y_valid & (~loaded | swap)),
            closes.eq(Mux(swap, ends, ending)),
        ]
        with m.If(run):
            with m.If(fire):
                m.d.sync += passing.eq(~x_last)
            with m.If(swap):
                m.d.sync += [loaded.eq(0), ending.eq(ends)]
            with m.If(fire & x_last):
                m.d.sync += begins.eq(closes)
            with m.If(load):
                m.d.sync += position.eq(Cat(position[-1], position[:-1]))
                with m.If(position[-1]):
                    m.d.sync += [loaded.eq(1), ends.eq(y_last)]

        psums = Signal(config.array.cols * config.partial_sum(rows).width)
        place(
            m,
            "array",
            StationaryArray(config),
            run=run,
            x=Mux(fire, x, 0),
            swap=swap,
            load=Mux(load, position, 0),
            y=y,
            out=psums,
        )

        # The beat's flags travel beside it: {valid, first tile, last tile, end of pass}.
        flags = Cat(fire, begins, closes, x_last)
        line = Signal(4 * config.psum_latency)
        with m.If(run):
            m.d.sync += line.eq(Cat(flags, line))
        valid, starts, final, ends_pass = line[-4:]

        results = Signal(config.array.cols * config.result.width)
        done = Signal(2)
        place(
            m,
            "accumulators",
            Accumulators(config),
            run=run,
            valid=valid,
            starts=starts,
            closes=final,
            ends=ends_pass,
            psums=psums,
            results=results,
            done=done,
        )
        ready, _ = self._give(m, results, done[1], done[0] & run, depth=2)
        m.d.comb += run.eq(ready | ~done[0])
        return m


class Accumulators(Block):
    """Accumulates the partial sums of a pass, row by row, over the passes of a reduction.

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

    def __init__(self, config: SystolicConfig) -> None:
        cols = config.array.cols
        self.psum = config.partial_sum(config.array.rows)
        super().__init__(
            "accumulators",
            {
                "run": In(1),
                "valid": In(1),
                "starts": In(1),
                "closes": In(1),
                "ends": In(1),
                "psums": In(cols * self.psum.width),
                "results": Out(cols * config.result.width),
                "done": Out(2),
            },
        )
        self.config = config

    def build(self, m: Module) -> None:
        config, width = self.config, self.config.result.width
        cols, depth = config.array.cols, config.array.accumulator_depth
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
        where = Signal(range(depth), name="address_reg", reset_less=True)
        totals = Signal(cols * width, reset_less=True)
        with m.If(self.run):
            m.d.sync += [
                psums.eq(self.psums),
                valid.eq(self.valid),
                starts.eq(self.starts),
                closes.eq(self.closes),
                ends.eq(self.ends),
                where.eq(address),
            ]

        stored = Signal(cols * width)
        if depth == 1:
            m.d.comb += stored.eq(totals)
        else:
            m.submodules.rows = rows = memory.Memory(shape=cols * width, depth=depth, init=[])
            read = rows.read_port()
            write = rows.write_port()
            m.d.comb += [
                read.addr.eq(address),
                read.en.eq(self.run),
                write.addr.eq(where),
                write.en.eq(self.run & valid & ~closes),
                stored.eq(read.data),
            ]
            if config.array.rows == 1:
                # Only here can a pass be as short as one cycle, so that the row before, still on
                # its way to the memory, is this very row.
                again = Signal()
                with m.If(self.run):
                    m.d.sync += again.eq(valid & (where == address))
                with m.If(again):
                    m.d.comb += stored.eq(totals)

        # Stage 2: the new total, which is also the output.
        kept = Signal(cols * width)
        m.d.comb += kept.eq(Mux(starts, 0, stored))
        sums = []
        for c in range(cols):
            old, psum = kept.word_select(c, width), psums.word_select(c, self.psum.width)
            if config.result.signed:
                old = old.as_signed()
            if self.psum.signed:
                psum = psum.as_signed()
            sums.append(accumulate(m, old, psum, config)[:width])
        if depth > 1:
            m.d.comb += write.data.eq(Cat(*sums))
        with m.If(self.run):
            with m.If(valid):
                m.d.sync += totals.eq(Cat(*sums))
            m.d.sync += self.done.eq(Cat(valid & closes, ends))
        m.d.comb += self.results.eq(totals)
