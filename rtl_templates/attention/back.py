# SPDX-License-Identifier: Apache-2.0
"""Back of the core: weighted sums of values, and their division.

With a second register for sums (`array.buffers: double`) those of a job move there with its last
value, and leave while the next job's values are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring

from hwgen.formats import FloatFormat, Format, IntegerFormat
from rtl_templates.arithmetic.pipeline import delayed, named
from rtl_templates.arithmetic.registry import for_format
from rtl_templates.hdl.hierarchy import place
from rtl_templates.hdl.streams import Stream, fields, new_stream, transfers
from rtl_templates.stream.stream import StreamBuffer, StreamFifo, buffered

from .aligned import pop_vectors
from .divide import Divider
from .float_divide import FloatDivider
from .keys import Choice, Keys, last_of, pop_input
from .values import ValueRow

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig


_DIVIDERS: Mapping[type[Format], type[Divider]] = {
    IntegerFormat: Divider,
    FloatFormat: FloatDivider,
}


class Back:
    """Pops values and pushes results.

    Parameters
    ----------
    m : Module
        Of the core.
    core : AttentionCore
    keys : Keys
        Signals of the front.
    """

    def __init__(self, m: Module, core: wiring.Component, keys: Keys) -> None:
        self.m, self.core, self.keys = m, core, keys
        config: AttentionConfig = core.config
        self.config = config
        self.lane = config.weight_width + len(Signal(range(config.clears))) + 1
        self.pushes, self.adds = Signal(name="pushes"), Signal(name="adds")
        self.draining = Signal(name="draining")
        self.late = int(config.floating)
        self.credit = Signal(range(config.results_ahead + 1), name="results_ahead")
        self.rows = Signal(range(config.array.rows + 1), name="sum_rows", reset_less=True)

    def results(
        self, weights: Value, push: Value, sums: Value, space: Signal, free: Signal
    ) -> None:
        """Add values with their weights, and push results.

        Parameters
        ----------
        weights, push : Value
            Weights of a key, of all rows, and whether they are valid.
        sums : Value
            Sums of weights of the rows.
        space, free : Signal
            Driven: there is space for the weights of a key, and for the sums of a job.
        """
        m, config, keys = self.m, self.config, self.keys
        pushes, adds, draining, rows = self.pushes, self.adds, self.draining, self.rows
        # The number of keys ahead is limited: the queue is always ready.
        source = Stream(weights, push, Signal(name="weights_ready"))
        queue = buffered(m, "weights", source, partial(StreamFifo, depth=config.weights_ahead))
        head, popped = queue.payload, queue.ready
        last, none = head[-2], head[-1]
        ahead = Signal(range(config.weights_ahead + 1), name="keys_ahead")
        m.d.sync += ahead.eq(ahead + keys.ends - popped)
        m.d.comb += space.eq(ahead != config.weights_ahead)

        step = Signal(range(config.steps), name="value_step")
        row = Signal(range(config.array.rows), name="result_row")
        ends_step = named(m, "value_ends", step == config.steps - 1)
        value, value_valid = self._values(adds & ~none, popped & ~none)
        ends_result, result_rows = ends_step, rows
        if config.doubled:
            ends_result, result_rows = self._result_step(), Signal.like(rows, name="result_rows")
        last_row = named(m, "last_result_row", row == result_rows - 1)
        busy = Signal(name="sums_busy")
        ends_job = named(m, "ends_job", popped & last)
        ends_results = named(m, "ends_results", pushes & ends_result & last_row)
        blocked: Value = draining
        if config.doubled:
            blocked = named(m, "results_stay", draining & last & ends_step)
        m.d.comb += [
            adds.eq(queue.valid & ~blocked & (value_valid | none)),
            popped.eq(adds & ends_step),
            pushes.eq(draining & (self.credit != config.results_ahead)),
            free.eq(~busy),
        ]
        with m.If(adds if config.doubled else adds | pushes):
            m.d.sync += step.eq(Mux(ends_step, 0, step + 1))
        with m.If(pushes & ends_result):
            m.d.sync += row.eq(Mux(last_row, 0, row + 1))
        with m.If(keys.ends & keys.last):
            m.d.sync += [busy.eq(1), rows.eq(keys.rows)]
        with m.If(ends_job):
            m.d.sync += draining.eq(rows != 0)
            if config.doubled:
                m.d.sync += [busy.eq(0), result_rows.eq(rows)]
            else:
                with m.If(rows == 0):
                    m.d.sync += busy.eq(0)
        with m.If(ends_results):
            m.d.sync += draining.eq(0)
            if not config.doubled:
                m.d.sync += busy.eq(0)

        added: Value = Signal(len(value), name="value_now")
        m.d.comb += added.eq(Mux(adds & ~none, value, 0))
        # Aligned values are registered before the multipliers.
        added = delayed(m, "value_aligned", added, self.late)
        head = delayed(m, "weights_aligned", head, self.late)
        if config.doubled:
            totals, sum_of_row = self._moved(head, added, sums, ends_job, pushes & ends_result)
        else:
            totals, sum_of_row = self._chosen(head, added, sums, row)
        self._divided(totals, sum_of_row, ends_results)

    def _values(self, pop: Value, ends: Value) -> tuple[Value, Value]:
        """Pop values; return a beat of them, and whether it is valid."""
        m, keys = self.m, self.keys
        if not self.config.floating:
            beats = pop_input(m, self.core, "value", pop)
            return beats.payload, beats.valid
        ahead = self.config.weights_ahead + 2
        vector = pop_vectors(m, self.core, "value", pop, ends, ahead, keys.pop_scales)
        m.d.comb += [
            keys.value_scale.eq(vector.early),
            keys.value_scale_valid.eq(vector.early_valid),
        ]
        return vector.beat, vector.valid

    def _result_step(self) -> Value:
        """Count the beats of a row of results; return whether it is the last."""
        return last_of(self.m, self.config.steps, "result_step", "result_ends", self.pushes)

    def _chosen(self, head: Value, added: Value, sums: Value, row: Value) -> tuple[Value, Value]:
        """Add values in the rows; return the sums of the row that drains, and of its weights."""
        m, config = self.m, self.config
        adds, pushes = (
            delayed(m, name, value, self.late, token=True)
            for name, value in (("adds_aligned", self.adds), ("pushes_aligned", self.pushes))
        )
        rows, lanes, width = config.array.rows, config.array.lanes, config.total.width
        totals: list[Value] = []
        block = ValueRow(config)
        for r in range(rows):
            of_row = head.word_select(r, self.lane)
            placed = place(
                m, f"values_{r}", block, advance=adds | pushes, v=added,
                weight=of_row[: config.weight_width],
                rise=Mux(pushes, 0, of_row[config.weight_width : -1]),
                clears=of_row[-1] & ~pushes,
            )  # fmt: skip
            totals.append(placed.head)
        drained = delayed(m, "drained_row", Cat(*(row == r for r in range(rows))), 1 + self.late)
        column = Choice(width, rows)
        selected = [
            place(
                m, f"select_{i}", column,
                totals=Cat(*(total.word_select(i, width) for total in totals)), drain=drained,
            ).out
            for i in range(lanes)
        ]  # fmt: skip
        choice = Choice(config.state_bits, rows)
        return Cat(*selected), place(m, "select_sum", choice, totals=sums, drain=drained).out

    def _moved(
        self, head: Value, added: Value, sums: Value, ends_job: Value, ends_row: Value
    ) -> tuple[Value, Value]:
        """Add values in the rows; finished sums shift from row to row in a second register.

        Returns
        -------
        totals : Value
            The sums of the first row, a beat of them.
        weights : Value
            The sum of its weights.
        """
        m, config = self.m, self.config
        rows, beat = config.array.rows, config.array.lanes * config.total.width
        copies = delayed(m, "copies", ends_job, 1 + self.late, token=True)
        moves = delayed(m, "moves_up", self.pushes, 1 + self.late, token=True)
        moves_row = delayed(m, "moves_row_up", ends_row, 1 + self.late, token=True)
        adds = delayed(m, "adds_aligned", self.adds, self.late, token=True)
        totals: list[Value] = [Signal(beat, name=f"total_{r}") for r in range(rows)]
        block = ValueRow(config)
        for r in range(rows):
            of_row = head.word_select(r, self.lane)
            place(
                m, f"values_{r}", block, advance=adds, v=added,
                weight=of_row[: config.weight_width], rise=of_row[config.weight_width : -1],
                clears=of_row[-1], copy=copies, shift=moves,
                next_row=totals[r + 1] if r + 1 < rows else Const(0, beat), head=totals[r],
            )  # fmt: skip
        waiting = Signal(len(sums), name="drained_sums", reset_less=True)
        with m.If(copies):
            m.d.sync += waiting.eq(sums)
        with m.Elif(moves_row):
            m.d.sync += waiting.eq(waiting[config.state_bits :])
        return totals[0], waiting[: config.state_bits]

    def _divided(self, totals: Value, weights: Value, last: Value) -> None:
        """Divide the row that drains and push it to the output port."""
        m, config = self.m, self.config
        lanes, out = config.array.lanes, self.core.out
        divider = for_format(_DIVIDERS, config.query)(config)
        results = place(m, "divider", divider, totals=totals, weights=weights).o
        push = delayed(m, "results_push", self.pushes, config.divide_latency, token=True)
        ends = delayed(m, "results_end", last, config.divide_latency)
        # The number of results ahead is limited: the queue is always ready.
        source = Stream(fields(data=results, last=ends), push, Signal(name="results_ready"))
        queue = buffered(m, "results", source, partial(StreamFifo, depth=config.results_ahead))
        m.d.sync += self.credit.eq(self.credit + self.pushes - transfers(queue))
        head = new_stream("head", queue.payload.shape()).payload
        buffer = StreamBuffer(len(head.as_value()))
        place(m, "out_buffer", buffer, i=queue, o=Stream(head, out.valid, out.ready))
        port = config.ports[-1]
        values = []
        for i in range(lanes):
            result = head.data.word_select(i, config.output.width)
            wide = Signal(port.lane_width, name=f"out_{i}")
            sign = config.output.signed and not config.floating
            m.d.comb += wide.eq(result.as_signed() if sign else result)
            values.append(wide)
        m.d.comb += [out.payload.data.eq(Cat(*values)), out.payload.last.eq(head.last)]
