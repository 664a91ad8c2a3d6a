# SPDX-License-Identifier: Apache-2.0
"""The back of the core: it weighs values, adds them up, and gives results.

With a second place for sums (`array.buffers: double`) those of a job move there with its last
value, and leave while the next job's values are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from hwgen.formats import FloatFormat, Format, IntegerFormat
from rtl_templates.arithmetic.pipeline import delayed, named
from rtl_templates.arithmetic.registry import for_format
from rtl_templates.hdl.hierarchy import place
from rtl_templates.stream.stream import StreamBuffer, StreamFifo

from .aligned import take_vectors
from .divide import Divider
from .float_divide import FloatDivider
from .parts import Choice, Keys, last_of, take
from .values import ValueRow

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig

_DIVIDERS: Mapping[type[Format], type[Divider]] = {
    IntegerFormat: Divider,
    FloatFormat: FloatDivider,
}


class Back:
    """Takes values and gives results.

    Parameters
    ----------
    m : Module
        Of the core.
    core : AttentionCore
    keys : Keys
        What the front says.
    """

    def __init__(self, m: Module, core: Any, keys: Keys) -> None:
        self.m, self.core, self.keys = m, core, keys
        config: AttentionConfig = core.config
        self.config = config
        self.lane = config.weight_width + len(Signal(range(config.clears))) + 1
        self.gives, self.adds = Signal(name="gives"), Signal(name="adds")
        self.giving = Signal(name="giving")
        self.late = int(config.floating)
        self.credit = Signal(range(config.results_ahead + 1), name="results_ahead")
        self.rows = Signal(range(config.array.rows + 1), name="rows_left_behind", reset_less=True)

    def results(self, weights: Value, put: Value, sums: Value, room: Signal, free: Signal) -> None:
        """Take values for weights that are put, say what there is room for, and give results.

        Parameters
        ----------
        weights, put : Value
            Weights of a key, of all rows, and whether there are some.
        sums : Value
            Sums of weights of the rows.
        room, free : Signal
            Driven: there is room for the weights of a key, and for the sums of a job.
        """
        m, config, keys = self.m, self.config, self.keys
        gives, adds, giving, rows = self.gives, self.adds, self.giving, self.rows
        head, there, taken = self._queue(weights, put)
        last, none = head[-2], head[-1]
        ahead = Signal(range(config.weights_ahead + 1), name="keys_ahead")
        m.d.sync += ahead.eq(ahead + keys.ends - taken)
        m.d.comb += room.eq(ahead != config.weights_ahead)

        step = Signal(range(config.steps), name="value_step")
        row = Signal(range(config.array.rows), name="result_row")
        ends_step = named(m, "value_ends", step == config.steps - 1)
        value, value_valid = self._values(adds & ~none, taken & ~none)
        ends_result, given_rows = ends_step, rows
        if config.doubled:
            ends_result, given_rows = self._result_step(), Signal.like(rows, name="rows_given")
        last_row = named(m, "last_result_row", row == given_rows - 1)
        busy = Signal(name="sums_busy")
        ends_job = named(m, "ends_job", taken & last)
        ends_results = named(m, "ends_results", gives & ends_result & last_row)
        blocked: Value = giving
        if config.doubled:
            blocked = named(m, "results_stay", giving & last & ends_step)
        m.d.comb += [
            adds.eq(there & ~blocked & (value_valid | none)),
            taken.eq(adds & ends_step),
            gives.eq(giving & (self.credit != config.results_ahead)),
            free.eq(~busy),
        ]
        with m.If(adds if config.doubled else adds | gives):
            m.d.sync += step.eq(Mux(ends_step, 0, step + 1))
        with m.If(gives & ends_result):
            m.d.sync += row.eq(Mux(last_row, 0, row + 1))
        with m.If(keys.ends & keys.last):
            m.d.sync += [busy.eq(1), rows.eq(keys.rows)]
        with m.If(ends_job):
            m.d.sync += giving.eq(rows != 0)
            if config.doubled:
                m.d.sync += [busy.eq(0), given_rows.eq(rows)]
            else:
                with m.If(rows == 0):
                    m.d.sync += busy.eq(0)
        with m.If(ends_results):
            m.d.sync += giving.eq(0)
            if not config.doubled:
                m.d.sync += busy.eq(0)

        added: Value = Signal(len(value), name="value_now")
        m.d.comb += added.eq(Mux(adds & ~none, value, 0))
        # Values that were aligned are registered in front of the multipliers.
        added = delayed(m, "value_aligned", added, self.late)
        head = delayed(m, "weights_aligned", head, self.late)
        if config.doubled:
            totals, sum_of_row = self._moved(head, added, sums, ends_job, gives & ends_result)
        else:
            totals, sum_of_row = self._chosen(head, added, sums, row)
        self._divided(totals, sum_of_row, ends_results)

    def _values(self, ready: Value, ends: Value) -> tuple[Value, Value]:
        """Take values; return a beat of them, and whether it is there."""
        m, keys = self.m, self.keys
        if not self.config.floating:
            return take(m, self.core, "value", ready)
        ahead = self.config.weights_ahead + 2
        held = take_vectors(m, self.core, "value", ready, ends, ahead, keys.taken)
        m.d.comb += [keys.value_scale.eq(held.early), keys.value_there.eq(held.early_valid)]
        return held.beat, held.valid

    def _queue(self, weights: Value, put: Value) -> tuple[Value, Value, Signal]:
        """Return the weights at the head of their queue, whether they are there, when taken."""
        head, there, taken = (
            Signal(len(weights), name="weights_head"),
            Signal(name="weights_there"),
            Signal(name="weights_taken"),
        )
        place(
            self.m,
            "weights",
            StreamFifo(len(weights), self.config.weights_ahead),
            i_data=weights,
            i_valid=put,
            i_ready=Signal(name="weights_ready"),
            o_data=head,
            o_valid=there,
            o_ready=taken,
        )
        return head, there, taken

    def _result_step(self) -> Value:
        """Count the beats of a row of results; return whether it is the last."""
        return last_of(self.m, self.config.steps, "result_step", "result_ends", self.gives)

    def _chosen(self, head: Value, added: Value, sums: Value, row: Value) -> tuple[Value, Value]:
        """Add values in the rows; return the sums of the row that gives, and of its weights."""
        m, config = self.m, self.config
        adds, gives = (
            delayed(m, name, value, self.late, token=True)
            for name, value in (("adds_aligned", self.adds), ("gives_aligned", self.gives))
        )
        rows, lanes, width = config.array.rows, config.array.lanes, config.total.width
        totals: list[Value] = []
        block = ValueRow(config)
        for r in range(rows):
            of_row = head.word_select(r, self.lane)
            total = Signal(lanes * width, name=f"total_{r}")
            place(
                m,
                f"values_{r}",
                block,
                advance=adds | gives,
                v=added,
                weight=of_row[: config.weight_width],
                rise=Mux(gives, 0, of_row[config.weight_width : -1]),
                clears=of_row[-1] & ~gives,
                head=total,
            )
            totals.append(total)
        given = delayed(m, "given_row", Cat(*(row == r for r in range(rows))), 1 + self.late)
        selected = Signal(len(totals[0]), name="selected")
        column = Choice(width, rows)
        for i in range(lanes):
            place(
                m, f"select_{i}", column,
                totals=Cat(*(total.word_select(i, width) for total in totals)), drain=given,
                out=selected.word_select(i, width),
            )  # fmt: skip
        weights = Signal(config.kept_bits, name="selected_sum")
        choice = Choice(config.kept_bits, rows)
        place(m, "select_sum", choice, totals=sums, drain=given, out=weights)
        return selected, weights

    def _moved(
        self, head: Value, added: Value, sums: Value, ends_job: Value, ends_row: Value
    ) -> tuple[Value, Value]:
        """Add values in the rows, behind which sums that are done move up from row to row.

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
        moves = delayed(m, "moves_up", self.gives, 1 + self.late, token=True)
        moves_row = delayed(m, "moves_row_up", ends_row, 1 + self.late, token=True)
        adds = delayed(m, "adds_aligned", self.adds, self.late, token=True)
        totals: list[Value] = [Signal(beat, name=f"total_{r}") for r in range(rows)]
        block = ValueRow(config)
        for r in range(rows):
            of_row = head.word_select(r, self.lane)
            place(
                m,
                f"values_{r}",
                block,
                advance=adds,
                v=added,
                weight=of_row[: config.weight_width],
                rise=of_row[config.weight_width : -1],
                clears=of_row[-1],
                copy=copies,
                move=moves,
                behind=totals[r + 1] if r + 1 < rows else Const(0, beat),
                head=totals[r],
            )
        waiting = Signal(len(sums), name="sums_given", reset_less=True)
        with m.If(copies):
            m.d.sync += waiting.eq(sums)
        with m.Elif(moves_row):
            m.d.sync += waiting.eq(waiting[config.kept_bits :])
        return totals[0], waiting[: config.kept_bits]

    def _divided(self, totals: Value, weights: Value, last: Value) -> None:
        """Divide the row that is given and pass it to the output port."""
        m, config, gives = self.m, self.config, self.gives
        lanes = config.array.lanes
        results = Signal(lanes * config.output.width, name="results")
        divider = for_format(_DIVIDERS, config.query)(config)
        place(m, "divider", divider, totals=totals, weights=weights, o=results)
        put = delayed(m, "results_put", gives, config.divide_latency, token=True)
        ends = delayed(m, "results_end", last, config.divide_latency)
        waiting = Signal(len(results) + 1, name="waiting_results")
        valid, ready = Signal(name="results_valid"), Signal(name="results_ready")
        place(
            m,
            "results",
            StreamFifo(len(waiting), config.results_ahead),
            i_data=Cat(results, ends),
            i_valid=put,
            i_ready=Signal(name="results_room"),
            o_data=waiting,
            o_valid=valid,
            o_ready=ready,
        )
        m.d.sync += self.credit.eq(self.credit + gives - (valid & ready))
        head = Signal(len(waiting), name="out_head")
        out = self.core.out
        place(
            m,
            "out_buffer",
            StreamBuffer(len(waiting)),
            i_data=waiting,
            i_valid=valid,
            i_ready=ready,
            o_data=head,
            o_valid=out.valid,
            o_ready=out.ready,
        )
        port = config.ports[-1]
        values = []
        for i in range(lanes):
            result = head.word_select(i, config.output.width)
            wide = Signal(port.lane_width, name=f"out_{i}")
            sign = config.output.signed and not config.floating
            m.d.comb += wide.eq(result.as_signed() if sign else result)
            values.append(wide)
        m.d.comb += [out.payload.data.eq(Cat(*values)), out.payload.last.eq(head[-1])]
