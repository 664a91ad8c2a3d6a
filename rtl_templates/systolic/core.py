# SPDX-License-Identifier: Apache-2.0
"""Cores of the systolic family: an array, its sequencer and its stream ports.

No combinational path leads from an input port to an output port: inputs end in register slices,
the output starts in one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from rtl_templates.arithmetic.integer.accumulators import Accumulators
from rtl_templates.arithmetic.integer.digit_accumulator import SignConstant, final_add_row
from rtl_templates.arithmetic.integer.final_addition import final_add_stream
from rtl_templates.hdl.core import StreamCore
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.stream.stream import StreamBuffer, StreamFifo

from .array import OutputStationaryArray, StationaryArray

if TYPE_CHECKING:
    from collections.abc import Callable

    from hwgen.arithmetic.digit_sums import DigitAccumulation


class OutputStationaryCore(StreamCore):
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
        x, last, x_valid = self.take(m, config.row_port, fire)
        y, _, y_valid = self.take(m, config.column_port, fire)

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

        results: Value = Signal(config.array.cols * config.held_width, name="results")
        self.array(m, fire, starting, drain, run=run, x=x, y=y, out=results)

        # A row drains only into a reserved entry of a buffer, so nothing behind the array's edge
        # ever stops.
        depth = config.geometry.drain_entries
        credits = Signal(range(depth + 1), init=depth)
        drains, room, commit = (Signal(name=name) for name in ("drains", "room", "commit"))
        last_row = commit & (draining == 2) if rows > 1 else commit
        popped = self._give_rows(m, results, Cat(commit, last_row), fire, starting, run & drain)
        m.d.comb += [
            drains.eq(drain | (draining > 1)),  # the step puts a row on its way
            room.eq((credits != 0) | popped),
            run.eq(~drains | room),
            commit.eq(drains & room),
        ]
        m.d.sync += credits.eq(credits + popped - commit)
        return m

    def array(self, m: Module, fire: Value, starting: Value, drain: Value, **ports: Value) -> None:
        """Place the array.

        Parameters
        ----------
        m : Module
        fire, starting, drain : Value
            There is a beat; the next is the first of a tile; the one before drains.
        **ports : Value
            Ports ``run``, ``x``, ``y`` and ``out``.
        """
        on = {"on": fire} if self.config.digits else {}
        place(
            m, "array", OutputStationaryArray(self.config), clear=(starting & fire) | drain,
            drain=drain, **{**ports, "x": Mux(fire, ports["x"], 0)}, **on,
        )  # fmt: skip

    def put_together(self, m: Module, held: Value, sign_constant: Value) -> Value:
        """Return the results of a row of accumulators."""
        if not self.config.digits:
            return held
        return final_add_row(m, held, sign_constant, self.config.final_addition)

    def _give_rows(
        self, m: Module, results: Value, push: Value, fire: Value, starting: Value, drain: Value
    ) -> Value:
        """Give the rows that drain: `push` says that there is one, and that it is the last.

        Returns whether one leaves the buffer, so that its entry is free again.
        """
        config = self.config
        in_steps, depth = config.geometry.in_steps, config.geometry.drain_entries
        for stage in range(config.geometry.drain_stages):
            register = Signal(2, name=f"push_{stage}")
            m.d.sync += register.eq(push)
            push = register
        if config.geometry.digits and not in_steps:
            leaving = Signal.like(results, name="leaving", reset_less=True)
            m.d.sync += leaving.eq(results)
            results = leaving
        buffer = StreamBuffer if depth == 2 else partial(StreamFifo, depth=depth)
        sign_constant: Value = Const(0, 0)
        if config.digits:
            sign_constant = self._sign_constant(
                m, fire, starting, drain, config.digits, config.geometry.drain_stages
            )
        if in_steps:
            # Registers behind the buffer wait for each other: they need no entries.
            return self._added_up(m, results, sign_constant, push, buffer)
        results = self.put_together(m, results, sign_constant)
        _, popped = self.give(m, results, push[1], push[0], buffer)
        return popped

    def _added_up(
        self,
        m: Module,
        held: Value,
        sign_constant: Value,
        push: Value,
        buffer: Callable[[int], Block],
    ) -> Value:
        """Buffer rows, and the port behind the steps by which carries are added.

        Returns whether a row leaves the buffer.
        """
        payload = Signal(len(held) + len(sign_constant) + 1, name="leaving")
        valid, ready = Signal(name="leaving_valid"), Signal(name="leaving_ready")
        place(
            m, "leaving_buffer", buffer(len(payload)),
            i_data=Cat(held, sign_constant, push[1]), i_valid=push[0],
            i_ready=Signal(name="leaving_room"),  # an entry is reserved
            o_data=payload, o_valid=valid, o_ready=ready,
        )  # fmt: skip
        values, ends, row_valid, row_ready = final_add_stream(
            m,
            self.config.final_addition,
            payload[: len(held)],
            payload[len(held) : -1],
            payload[-1],
            valid,
            ready,
        )
        room, _ = self.give(m, values, ends, row_valid)
        m.d.comb += row_ready.eq(room)
        return valid & ready

    def _sign_constant(
        self, m: Module, fire: Value, starting: Value, drain: Value, digits: DigitAccumulation,
        stages: int,
    ) -> Value:  # fmt: skip
        """Return the sign constant of the row that is so many registers behind the array."""
        grown, kept = (Signal(digits.width, name=name) for name in ("grown", "kept"))
        place(m, "excess", SignConstant(digits), add=fire, clear=starting, o=grown)
        of_row: Value = Mux(drain, grown, kept)
        m.d.sync += kept.eq(of_row)
        for stage in range(stages):
            register = Signal(digits.width, name=f"excess_{stage}", reset_less=True)
            m.d.sync += register.eq(of_row)
            of_row = register
        return of_row


class StationaryCore(StreamCore):
    """Passes of any length; the next tile loads in the shadow of the current one.

    Everything advances together while `run` is high, which is while the output buffer has room.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, rows = self.config, self.config.array.rows
        run, fire, load = (Signal(name=name) for name in ("run", "fire", "load"))
        x, x_last, x_valid = self.take(m, config.row_port, fire)
        y, y_last, y_valid = self.take(m, config.column_port, load)

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

        psums = self.partial_sums(m, run, swap, Mux(load, position, 0), fire, x, y)

        # The beat's flags travel beside it: {valid, first tile, last tile, end of pass}.
        self._accumulate(m, run, Cat(fire, begins, closes, x_last), psums)
        return m

    def partial_sums(
        self, m: Module, run: Value, swap: Value, load: Value, fire: Value, x: Value, y: Value
    ) -> Value:
        """Place the array; return its sums, ``config.psum_latency`` slots behind the beats.

        Parameters
        ----------
        m : Module
        run, swap : Value
            Advance; the shadow becomes active.
        load : Value
            Row whose shadow loads, one hot.
        fire, x, y : Value
            There is a beat of the row operand; the beats.
        """
        config = self.config
        psums = Signal(config.array.cols * config.psum_width(config.array.rows), name="psums")
        place(
            m,
            "array",
            StationaryArray(config),
            run=run,
            x=Mux(fire, x, 0),
            swap=swap,
            load=load,
            y=y,
            out=psums,
        )
        return psums

    def accumulators(self) -> Accumulators:
        """Return what accumulates partial sums."""
        config, rows = self.config, self.config.array.rows
        return Accumulators(
            config,
            config.partial_sum(rows),
            config.array.cols,
            config.array.accumulator_depth,
            # A pass takes at least `rows` cycles: the next tile loads in its shadow.
            single_cycle_passes=rows == 1,
        )

    def put_together(self, m: Module, held: Value) -> Value:
        """Return the results of a row of totals."""
        return held

    def _accumulate(self, m: Module, run: Signal, flags: Value, psums: Value) -> None:
        """Add partial sums up over the tiles of a reduction, and give the results."""
        config = self.config
        line = Signal(4 * config.psum_latency)
        with m.If(run):
            m.d.sync += line.eq(Cat(flags, line))
        valid, starts, final, ends_pass = line[-4:]

        results = Signal(config.array.cols * config.held_width)
        done = Signal(2)
        place(
            m,
            "accumulators",
            self.accumulators(),
            run=run,
            valid=valid,
            starts=starts,
            closes=final,
            ends=ends_pass,
            psums=psums,
            results=results,
            done=done,
        )
        ready, _ = self.give(m, self.put_together(m, results), done[1], done[0] & run)
        m.d.comb += run.eq(ready | ~done[0])
