# SPDX-License-Identifier: Apache-2.0
"""The core of the family `attention`: who takes which beat when.

Three parts follow each other, and nothing in them ever stops on the way:

- the front takes a job's queries, then its keys, a beat a cycle; a key's last beat waits until the
  queue of weights has room for it, and that of a job until the sums of the job before have left;
- scores pass the softmax units, which put a key's weights into the queue;
- the back takes a beat of values a cycle for the weights at the head of the queue, and behind a
  job's last value gives its results, a beat a cycle as long as the queue of results has room.

So the next job's queries come in while results leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring

from hwgen.families.attention import COMMAND, QUERY_SCALE
from rtl_templates.arithmetic.pipeline import named
from rtl_templates.drain import ColumnDrain
from rtl_templates.hierarchy import place
from rtl_templates.shell import stream_members
from rtl_templates.stream import StreamBuffer, StreamFifo

from .delay import delayed
from .divide import Divider
from .scores import ScoreRow
from .unit import SoftmaxUnit
from .values import ValueRow

if TYPE_CHECKING:
    from hwgen.families.attention import AttentionConfig


class Keys:
    """Signals of the front that the other parts look at.

    Parameters
    ----------
    ends : Signal
        A key's last beat is taken.
    first, last, none : Signal
        It is the first, the last key of a job; it is no key at all, of a job without keys.
    scales : dict
        Scales of the key and of its value.
    rows : Signal
        Rows of the job.
    """

    def __init__(self, config: AttentionConfig) -> None:
        self.ends = Signal(name="key_ends")
        self.first, self.last = Signal(name="key_first"), Signal(name="key_last")
        self.none = Signal(name="key_none")
        self.scales: dict[str, Value] = {}
        self.rows = Signal(range(config.array.rows + 1), name="job_rows")


class AttentionCore(wiring.Component):
    """Attention of rows of queries, one job after the other.

    Members
    -------
    command, query, query_scale, key, value, key_scale, value_scale : In(stream)
        Beats as the configuration's ports describe them; the last two only with scales.
    out : Out(stream)
        Beats of results.
    """

    def __init__(self, config: AttentionConfig) -> None:
        self.config: Any = config
        super().__init__(stream_members(config.ports))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config = self.config
        keys = Keys(config)
        room, free = Signal(name="room_for_weights"), Signal(name="sums_free")
        scores, seen, scales = self._front(m, keys, room & (~keys.last | free))
        weights, put, sums = self._softmax(m, keys, scores, seen, scales)
        self._back(m, keys, weights, put, sums, room, free)
        return m

    def _take(self, m: Module, name: str, ready: Value) -> tuple[Value, Value]:
        """Buffer an input port; return what it holds and whether it holds something."""
        port = next(port for port in self.config.ports if port.name == name)
        beats = getattr(self, name)
        width = port.lanes * port.lane_width
        head, valid = Signal(width, name=f"{name}_head"), Signal(name=f"{name}_valid")
        place(
            m,
            f"{name}_buffer",
            StreamBuffer(width),
            i_data=beats.payload.data[:width],
            i_valid=beats.valid,
            i_ready=beats.ready,
            o_data=head,
            o_valid=valid,
            o_ready=ready,
        )
        return head, valid

    # -- queries and keys --------------------------------------------------------------------

    def _front(
        self, m: Module, keys: Keys, may_end: Value
    ) -> tuple[list[Value], list[Value], list[Value]]:
        """Take queries and keys; return scores, which are seen, and scales, a row each."""
        config = self.config
        streaming = Signal()
        loads, row = Signal(name="loads"), Signal(range(config.array.rows), name="row")
        ends_row, step = Signal(name="ends_row"), Signal(range(config.steps), name="step")
        ends_step = named(m, "ends_step", step == config.steps - 1)
        starts, job = self._job(m, streaming, loads, ends_row, row, keys)
        query, query_valid = self._take(m, "query", loads)
        scale, scale_valid = self._take(m, "query_scale", ends_row)
        m.d.comb += [
            loads.eq(~streaming & job["valid"] & job["some"] & query_valid & scale_valid),
            ends_row.eq(loads & ends_step),
        ]

        count = Signal(range(config.max_keys + 1), name="key_count")
        takes = Signal(name="takes")  # a beat of a key, or the time of one
        brings = named(m, "brings", takes & ~keys.none)
        key, key_valid = self._take(m, "key", brings)
        there: Value = key_valid
        ready = named(m, "brings_last", keys.ends & ~keys.none)
        scales_there: Value = may_end
        if config.scaled_keys:
            for name in ("key_scale", "value_scale"):
                keys.scales[name], valid = self._take(m, name, ready)
                scales_there = scales_there & (valid | keys.none)
        m.d.comb += [
            takes.eq(streaming & (there | keys.none) & (~ends_step | scales_there)),
            keys.ends.eq(takes & ends_step),
            keys.first.eq(count == 0),
            keys.last.eq(keys.none | (count == job["keys"] - 1)),
        ]
        with m.If(loads | takes):
            m.d.sync += step.eq(Mux(ends_step, 0, step + 1))
        with m.If(starts):
            m.d.sync += [streaming.eq(1), count.eq(0)]
        with m.If(keys.ends):
            m.d.sync += count.eq(count + 1)
            with m.If(keys.last):
                m.d.sync += streaming.eq(0)
        loading, taking = (loads, ends_row, row), (step == 0, takes, brings)
        return self._rows(m, keys, count, loading, taking, query, key, scale, job)

    def _job(
        self,
        m: Module,
        streaming: Value,
        loads: Value,
        ends_row: Value,
        row: Signal,
        keys: Keys,
    ) -> tuple[Value, dict[str, Value]]:
        """Follow a command while its queries come in; return when its keys start, and the job."""
        config = self.config
        starts = Signal(name="starts")
        command, valid = self._take(m, "command", starts)
        word = {name: command.word_select(i, 32) for i, name in enumerate(COMMAND)}
        rows, bound = config.array.rows, signed(config.bound_bits)
        wanted = named(m, "wanted", word["queries"])
        queries = Signal(range(rows + 1), name="queries")
        member = Signal(range(rows), name="member")
        m.d.comb += queries.eq(Mux(wanted > rows, rows, wanted))
        last_row = named(m, "last_row", ends_row & (row == queries - 1))
        m.d.comb += starts.eq(~streaming & valid & ((queries == 0) | last_row))
        next_token = named(m, "next_token", member == (word["group"] - 1)[: len(member)])
        bounds: dict[str, Value] = {}
        for i, name in enumerate(("first", "last")):
            moved = Signal(bound, name=f"{name}_moved", reset_less=True)
            now = Signal(bound, name=f"{name}_now")
            m.d.comb += now.eq(Mux(row == 0, word[name].as_signed(), moved))
            with m.If(ends_row):
                m.d.sync += moved.eq(now + (next_token & word["moves"][i]))
            bounds[name] = now
        with m.If(ends_row):
            m.d.sync += [
                row.eq(Mux(last_row, 0, row + 1)),
                member.eq(Mux(last_row | next_token, 0, member + 1)),
            ]
        count = Signal(range(config.max_keys + 1), name="job_keys", reset_less=True)
        with m.If(starts):
            m.d.sync += [
                count.eq(word["keys"]),
                keys.none.eq(word["keys"][: len(count)] == 0),
                keys.rows.eq(queries),
            ]
        return starts, {"valid": valid, "some": queries != 0, "keys": count, **bounds}

    def _rows(
        self,
        m: Module,
        keys: Keys,
        count: Value,
        loading: tuple[Value, Value, Value],
        taking: tuple[Value, Value, Value],
        query: Value,
        key: Value,
        scale: Value,
        job: dict[str, Value],
    ) -> tuple[list[Value], list[Value], list[Value]]:
        """Place the rows of queries, a cycle behind the beats that they take."""
        config = self.config
        (loads, ends_row, row), (begins, takes, brings) = loading, taking
        dot = config.pipeline.dot
        rows = config.array.rows
        query_now, key_now = (
            Signal(len(value), name=f"{name}_now", reset_less=True)
            for name, value in (("query", query), ("key", key))
        )
        m.d.sync += [query_now.eq(query), key_now.eq(Mux(brings, key, 0))]
        row_now = delayed(m, "row_now", row, 1)
        load_now = delayed(m, "load_now", loads, 1, reset=True)
        turn = delayed(m, "turn", takes, 1, reset=True)
        clear = delayed(m, "clear", takes & begins, 1 + dot)
        # Scales are looked at behind the rows, and may not change before the job there has passed.
        late = config.score_latency + config.phases - 2
        late_row, late_scale = (
            delayed(m, name, value, late)
            for name, value in (("scale_row", row), ("scale_value", scale[: QUERY_SCALE.width]))
        )
        late_set = delayed(m, "scale_set", ends_row, late, reset=True)
        block = ScoreRow(config)
        number = Signal(signed(config.bound_bits), name="key_number")
        m.d.comb += number.eq(count)
        scores, seen, scales = [], [], []
        for r in range(rows):
            score = Signal(config.score.width, name=f"score_{r}")
            sees = Signal(name=f"sees_{r}")
            place(
                m,
                f"row_{r}",
                block,
                load=load_now & (row_now == r),
                q=query_now,
                advance=turn,
                k=key_now,
                clear=clear,
                bound=ends_row & (row == r),
                first=job["first"],
                last=job["last"],
                key=number,
                none=keys.none,
                score=score,
                seen=sees,
            )
            kept = Signal(QUERY_SCALE.width, name=f"scale_{r}", reset_less=True)
            with m.If(late_set & (late_row == r)):
                m.d.sync += kept.eq(late_scale)
            scores.append(score)
            seen.append(sees)
            scales.append(kept)
        return scores, seen, scales

    # -- weights -----------------------------------------------------------------------------

    def _softmax(
        self,
        m: Module,
        keys: Keys,
        scores: list[Value],
        seen: list[Value],
        scales: list[Value],
    ) -> tuple[Value, Value, Value]:
        """Pass scores through the units; return weights, when they are there, and sums."""
        config = self.config
        units, phases, latency = config.units, config.phases, config.unit_latency
        done = delayed(m, "key_done", keys.ends, config.score_latency - 1, reset=True)
        flags = Cat(keys.first, keys.last, keys.none)
        of_key = {"flags": flags, **keys.scales}
        held = {}
        for name, value in of_key.items():
            value = delayed(m, f"{name}_on_way", value, config.score_latency - 1)
            held[name] = Signal(len(value), name=f"{name}_held", reset_less=True)
            with m.If(done):
                m.d.sync += held[name].eq(value)
        waiting = Signal(len(scores) * (config.score.width + 1), name="waiting", reset_less=True)
        rows = Cat(*(Cat(score, sees) for score, sees in zip(scores, seen, strict=True)))
        size = units * (config.score.width + 1)
        m.d.sync += waiting.eq(Mux(done, rows, waiting[size:]))
        phase = Signal(phases, name="phase")
        m.d.sync += phase.eq(Cat(done, phase))
        on = named(m, "units_on", phase.any())
        first, last, _ = held["flags"]

        until_sum = latency - config.scaled_keys
        block = SoftmaxUnit(config)
        lanes, sums = [], []
        extra = {}
        if config.scaled_keys:
            extra = {
                "key_scale": held["key_scale"],
                "value_scale": delayed(m, "value_scale_late", held["value_scale"], latency - 1),
            }
        for u in range(units):
            score = waiting.word_select(u, config.score.width + 1)
            scale: Value = scales[u]
            if phases > 1:
                of_phase = Cat(*(scales[p * units + u] for p in range(phases)))
                scale = Signal(QUERY_SCALE.width, name=f"scale_of_unit_{u}")
                chosen = _Choice(QUERY_SCALE.width, phases)
                place(m, f"scales_{u}", chosen, totals=of_phase, drain=phase, out=scale)
            weight, total = (
                Signal(config.weight_width, name=f"weight_{u}"),
                Signal(config.sum_bits, name=f"sum_{u}"),
            )
            rise = Signal(range(config.clears), name=f"rise_{u}")
            clears = Signal(name=f"clears_{u}")
            place(
                m, f"unit_{u}", block, on=on, score=score[:-1], seen=score[-1], scale=scale,
                first=first, weight=weight, rise=rise, clears=clears, sum=total, **extra,
            )  # fmt: skip
            lanes.append(Cat(weight, rise, clears))
            sums.append(total)

        row_sums = Signal(config.array.rows * config.sum_bits, name="row_sums", reset_less=True)
        keeps = delayed(m, "keeps", on & last, until_sum, reset=True)
        with m.If(keeps):
            m.d.sync += row_sums.eq(Cat(row_sums, *sums)[len(Cat(*sums)) :])
        now = gathered = Cat(*lanes)
        if phases > 1:
            before = Signal((phases - 1) * len(now), name="weights_before", reset_less=True)
            m.d.sync += before.eq(Cat(before, now)[len(now) :])
            gathered = Cat(before, now)
        flags = delayed(m, "flags_late", held["flags"], latency)
        put = delayed(m, "put", phase[-1], latency, reset=True)
        return Cat(gathered, flags[1:]), put, row_sums

    # -- values and results ------------------------------------------------------------------

    def _back(
        self,
        m: Module,
        keys: Keys,
        weights: Value,
        put: Value,
        sums: Value,
        room: Signal,
        free: Signal,
    ) -> None:
        """Take values and give results."""
        config = self.config
        lane = config.weight_width + len(Signal(range(config.clears))) + 1
        head, there, taken = (
            Signal(len(weights), name="weights_head"),
            Signal(name="weights_there"),
            Signal(name="weights_taken"),
        )
        place(
            m,
            "weights",
            StreamFifo(len(weights), config.weights_ahead),
            i_data=weights,
            i_valid=put,
            i_ready=Signal(name="weights_ready"),
            o_data=head,
            o_valid=there,
            o_ready=taken,
        )
        last, none = head[-2], head[-1]
        ahead = Signal(range(config.weights_ahead + 1), name="keys_ahead")
        m.d.sync += ahead.eq(ahead + keys.ends - taken)
        m.d.comb += room.eq(ahead != config.weights_ahead)

        gives, adds = Signal(name="gives"), Signal(name="adds")
        giving, step = Signal(name="giving"), Signal(range(config.steps), name="value_step")
        row = Signal(range(config.array.rows), name="result_row")
        ends_step = named(m, "value_ends", step == config.steps - 1)
        rows = Signal(range(config.array.rows + 1), name="rows_left_behind", reset_less=True)
        value, value_valid = self._take(m, "value", adds & ~none)
        credit = Signal(range(config.results_ahead + 1), name="results_ahead")
        last_row = named(m, "last_result_row", row == rows - 1)
        busy = Signal(name="sums_busy")
        ends_job = named(m, "ends_job", taken & last)
        ends_results = named(m, "ends_results", gives & ends_step & last_row)
        m.d.comb += [
            adds.eq(there & ~giving & (value_valid | none)),
            taken.eq(adds & ends_step),
            gives.eq(giving & (credit != config.results_ahead)),
            free.eq(~busy),
        ]
        with m.If(adds | gives):
            m.d.sync += step.eq(Mux(ends_step, 0, step + 1))
        with m.If(gives & ends_step):
            m.d.sync += row.eq(Mux(last_row, 0, row + 1))
        with m.If(keys.ends & keys.last):
            m.d.sync += [busy.eq(1), rows.eq(keys.rows)]
        with m.If(ends_job):
            m.d.sync += giving.eq(rows != 0)
            with m.If(rows == 0):
                m.d.sync += busy.eq(0)
        with m.If(ends_results):
            m.d.sync += [giving.eq(0), busy.eq(0)]

        added = Signal(len(value), name="value_now")
        m.d.comb += added.eq(Mux(adds & ~none, value, 0))
        totals = []
        block = ValueRow(config)
        for r in range(config.array.rows):
            of_row = head.word_select(r, lane)
            total = Signal(config.array.lanes * config.total.width, name=f"total_{r}")
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
        given = Cat(*(row == r for r in range(config.array.rows)))
        given = delayed(m, "given_row", given, 1)
        self._results(m, totals, sums, given, gives, ends_results, credit)

    def _results(
        self,
        m: Module,
        totals: list[Value],
        sums: Value,
        row: Value,
        gives: Value,
        last: Value,
        credit: Signal,
    ) -> None:
        """Divide the row that is given and pass it to the output port."""
        config = self.config
        rows, lanes = config.array.rows, config.array.lanes
        selected = Signal(len(totals[0]), name="selected")
        width = config.total.width
        column = _Choice(width, rows)
        for i in range(lanes):
            place(
                m, f"select_{i}", column,
                totals=Cat(*(total.word_select(i, width) for total in totals)), drain=row,
                out=selected.word_select(i, width),
            )  # fmt: skip
        weights = Signal(config.sum_bits, name="selected_sum")
        place(m, "select_sum", _Choice(config.sum_bits, rows), totals=sums, drain=row, out=weights)
        results = Signal(lanes * config.output.width, name="results")
        place(m, "divider", Divider(config), totals=selected, weights=weights, o=results)
        put = delayed(m, "results_put", gives, config.divide_latency, reset=True)
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
        m.d.sync += credit.eq(credit + gives - (valid & ready))
        head = Signal(len(waiting), name="out_head")
        place(
            m,
            "out_buffer",
            StreamBuffer(len(waiting)),
            i_data=waiting,
            i_valid=valid,
            i_ready=ready,
            o_data=head,
            o_valid=self.out.valid,
            o_ready=self.out.ready,
        )
        port = config.ports[-1]
        values = []
        for i in range(lanes):
            result = head.word_select(i, config.output.width)
            wide = Signal(port.lane_width, name=f"out_{i}")
            m.d.comb += wide.eq(result.as_signed() if config.output.signed else result)
            values.append(wide)
        m.d.comb += [self.out.payload.data.eq(Cat(*values)), self.out.payload.last.eq(head[-1])]


class _Choice(ColumnDrain):
    """`ColumnDrain`, of which a core has several of different widths."""

    def __init__(self, width: int, rows: int) -> None:
        super().__init__(width, rows)
        self.module_name = f"choice_{width}_x{rows}"
