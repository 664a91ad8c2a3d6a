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
from rtl_templates.hdl.streams import AnyStream, Stream, fields, transfers
from rtl_templates.stream.stream import StreamBuffer, StreamFifo, buffered

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
        x = self.pop_input(m, config.row_port, fire)
        y = self.pop_input(m, config.column_port, fire)
        last = x.payload.last

        starting = Signal(init=1)  # the next beat is the first of a tile
        finished = Signal()  # a tile waits for its drain
        draining = Signal(range(rows + 1))  # rows that have not drained yet
        drain, bus_free = Signal(name="drain"), Signal(name="bus_free")
        m.d.comb += [
            bus_free.eq(draining <= 1),
            fire.eq(run & x.valid & y.valid & ~(starting & finished & ~bus_free)),
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

        results: Value = Signal(config.array.cols * config.accumulator_bits, name="results")
        self.array(
            m, fire, starting, drain, run=run, x=x.payload.data, y=y.payload.data, out=results
        )

        # A row drains only into a reserved entry of a buffer, so nothing behind the array's edge
        # ever stops.
        depth = config.geometry.drain_entries
        credits = Signal(range(depth + 1), init=depth)
        drains, space, commit = (Signal(name=name) for name in ("drains", "space", "commit"))
        last_row = commit & (draining == 2) if rows > 1 else commit
        popped = self._push_rows(m, results, Cat(commit, last_row), fire, starting, run & drain)
        m.d.comb += [
            drains.eq(drain | (draining > 1)),  # the step puts a row on its way
            space.eq((credits != 0) | popped),
            run.eq(~drains | space),
            commit.eq(drains & space),
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

    def final_add(self, m: Module, totals: Value, sign_constant: Value) -> Value:
        """Return the results of a row of accumulators."""
        if not self.config.digits:
            return totals
        return final_add_row(m, totals, sign_constant, self.config.final_addition)

    def _push_rows(
        self, m: Module, results: Value, push: Value, fire: Value, starting: Value, drain: Value
    ) -> Value:
        """Push the rows that drain; return whether one leaves the buffer and frees its entry.

        Parameters
        ----------
        m : Module
        results : Value
            A row of accumulators.
        push : Value
            Whether there is a row, and whether it is the last of its tile.
        fire, starting, drain : Value
            As of `array`.
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
            return self._push_final_sums(m, results, sign_constant, push, buffer)
        results = self.final_add(m, results, sign_constant)
        # An entry is reserved: the buffer is ready.
        ready = Signal(name="out_ready")
        rows = Stream(fields(data=results, last=push[1]), push[0], ready)
        return self.push_output(m, rows, buffer)

    def _push_final_sums(
        self,
        m: Module,
        totals: Value,
        sign_constant: Value,
        push: Value,
        buffer: Callable[[int], Block],
    ) -> Value:
        """Push rows through a buffer and the steps of their carry-propagate addition.

        Returns whether a row leaves the first buffer.
        """
        payload = fields(data=totals, sign_constant=sign_constant, last=push[1])
        # An entry is reserved: the buffer is ready.
        source = Stream(payload, push[0], Signal(name="drain_ready"))
        rows = buffered(m, "drain_buffer", source, buffer)
        self.push_output(m, self.final_sums(m, rows))
        return transfers(rows)

    def final_sums(self, m: Module, rows: AnyStream) -> AnyStream:
        """Return rows of results after the steps of their carry-propagate addition."""
        return final_add_stream(m, self.config.final_addition, rows)

    def _sign_constant(
        self, m: Module, fire: Value, starting: Value, drain: Value, digits: DigitAccumulation,
        stages: int,
    ) -> Value:  # fmt: skip
        """Return the sign constant of the row that is `stages` registers after the array."""
        current = place(m, "sign_constant", SignConstant(digits), add=fire, clear=starting).o
        drained = Signal(digits.width, name="drained_sign_constant")
        of_row: Value = Mux(drain, current, drained)
        m.d.sync += drained.eq(of_row)
        for stage in range(stages):
            register = Signal(digits.width, name=f"sign_constant_{stage}", reset_less=True)
            m.d.sync += register.eq(of_row)
            of_row = register
        return of_row


class StationaryCore(StreamCore):
    """Passes of any length; the next tile loads in the shadow of the current one.

    Everything advances together while `run` is high, which is while the output buffer has space.
    """

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, rows = self.config, self.config.array.rows
        run, fire, load = (Signal(name=name) for name in ("run", "fire", "load"))
        x = self.pop_input(m, config.row_port, fire)
        y = self.pop_input(m, config.column_port, load)

        loaded = Signal()  # the shadow holds a whole tile ...
        ends = Signal()  # ... which ends the reduction
        position = Signal(rows, init=1)  # row that loads next, one hot
        passing = Signal()  # a pass is under way ...
        ending = Signal()  # ... that ends the reduction
        begins = Signal(init=1)  # the next pass begins a reduction
        swap, closes = Signal(name="swap"), Signal(name="closes")
        m.d.comb += [
            swap.eq(x.valid & loaded & ~passing),
            fire.eq(run & x.valid & (passing | loaded)),
            load.eq(run & y.valid & (~loaded | swap)),
            closes.eq(Mux(swap, ends, ending)),
        ]
        with m.If(run):
            with m.If(fire):
                m.d.sync += passing.eq(~x.payload.last)
            with m.If(swap):
                m.d.sync += [loaded.eq(0), ending.eq(ends)]
            with m.If(fire & x.payload.last):
                m.d.sync += begins.eq(closes)
            with m.If(load):
                m.d.sync += position.eq(Cat(position[-1], position[:-1]))
                with m.If(position[-1]):
                    m.d.sync += [loaded.eq(1), ends.eq(y.payload.last)]

        load_row = Mux(load, position, 0)
        operands = x.payload.data, y.payload.data
        psums = self.partial_sums(m, run, swap, load_row, fire, *operands)

        # The beat's flags travel beside it: {valid, first tile, last tile, end of pass}.
        self._accumulate(m, run, Cat(fire, begins, closes, x.payload.last), psums)
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
        x = Mux(fire, x, 0)
        return place(m, "array", StationaryArray(self.config), run=run, x=x, swap=swap, load=load,
                     y=y).out  # fmt: skip

    def accumulators(self) -> Accumulators:
        """Return the accumulators of partial sums."""
        config, rows = self.config, self.config.array.rows
        return Accumulators(
            config,
            config.partial_sum(rows),
            config.array.cols,
            config.array.accumulator_depth,
            # A pass takes at least `rows` cycles: the next tile loads in its shadow.
            single_cycle_passes=rows == 1,
        )

    def round_totals(self, m: Module, totals: Value) -> Value:
        """Return the results of a row of totals."""
        return totals

    def _accumulate(self, m: Module, run: Signal, flags: Value, psums: Value) -> None:
        """Add partial sums up over the tiles of a reduction, and give the results."""
        config = self.config
        line = Signal(4 * config.psum_latency)
        with m.If(run):
            m.d.sync += line.eq(Cat(flags, line))
        valid, starts, final, ends_pass = line[-4:]

        rows = place(
            m, "accumulators", self.accumulators(), run=run, valid=valid, starts=starts,
            closes=final, ends=ends_pass, psums=psums,
        )  # fmt: skip
        payload = fields(data=self.round_totals(m, rows.results), last=rows.done[1])
        ready = Signal(name="out_ready")
        self.push_output(m, Stream(payload, rows.done[0] & run, ready))
        m.d.comb += run.eq(ready | ~rows.done[0])
