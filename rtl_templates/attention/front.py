# SPDX-License-Identifier: Apache-2.0
"""Front of the core: from queries and keys to scores.

With a second register for queries (`array.buffers: double`) the queries of the next job are loaded
while the keys of this one stream, and become active in the cycle after its last key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring

from hwgen.families.attention.formats import QUERY_SCALE, SCALE
from hwgen.families.attention.params import COMMAND
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.arithmetic.pipeline import delayed, named
from rtl_templates.hdl.hierarchy import place

from .aligned import pop_vectors
from .keys import Keys, last_of, pop_input
from .scores import ScoreRow

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig


class Scores(NamedTuple):
    """Results of the front, row by row.

    Parameters
    ----------
    scores, seen : list of Value
        Scores of a key, and whether the key is in the row's range.
    scales : list of Value
        Scales of the rows.
    """

    scores: list[Value]
    seen: list[Value]
    scales: list[Value]


class Front:
    """Loads queries and streams keys.

    Parameters
    ----------
    m : Module
        Of the core.
    core : AttentionCore
    keys : Keys
        Signals that it drives.
    """

    def __init__(self, m: Module, core: wiring.Component, keys: Keys) -> None:
        self.m, self.core, self.keys = m, core, keys
        self.config: AttentionConfig = core.config
        self.streaming = Signal(name="streaming")
        self.loads, self.ends_row = Signal(name="loads"), Signal(name="ends_row")
        self.row = Signal(range(self.config.array.rows), name="row")
        self.count = Signal(range(self.config.max_keys + 1), name="key_count")
        self.loaded = Signal(name="loaded")  # the next job's queries are complete
        self.starts = Signal(name="starts")

    def scores(self, may_end: Value) -> Scores:
        """Load queries and stream keys; a key ends only if it may."""
        m, config, keys = self.m, self.config, self.keys
        streaming, loads, ends_row, count = self.streaming, self.loads, self.ends_row, self.count
        step = Signal(range(config.steps), name="step")
        ends_step = named(m, "ends_step", step == config.steps - 1)
        job = self._job()
        query, query_valid, exponent = self._queries()
        scales = pop_input(m, self.core, "query_scale", ends_row)
        scale = self._row_scale(scales.payload, exponent)
        may_load = ~self.loaded if config.doubled else ~streaming
        ends_load = self._load_step() if config.doubled else ends_step
        m.d.comb += [
            loads.eq(may_load & job["valid"] & job["some"] & query_valid & scales.valid),
            ends_row.eq(loads & ends_load),
        ]

        pops = Signal(name="pops")  # a beat of a key, or the cycle of one
        with_key = named(m, "with_key", pops & ~keys.none)
        if config.floating:
            pop_last = named(m, "pop_last", keys.ends & ~keys.none)
            vector = pop_vectors(m, self.core, "key", with_key, pop_last, 2)
            key, key_valid = vector.beat, vector.valid
            keys.scales["key_scale"] = vector.scale
        else:
            beats = pop_input(m, self.core, "key", with_key)
            key, key_valid = beats.payload, beats.valid
            pop_last = named(m, "pop_last", keys.ends & ~keys.none)
        keys.pop_scales = pop_last
        scales_valid: Value = may_end
        if config.floating:
            keys.scales["value_scale"] = keys.value_scale
            scales_valid = scales_valid & (keys.value_scale_valid | keys.none)
        if config.scaled_keys:
            for name in ("key_scale", "value_scale"):
                of_key = pop_input(m, self.core, name, pop_last)
                keys.scales[name] = of_key.payload
                scales_valid = scales_valid & (of_key.valid | keys.none)
        m.d.comb += [
            pops.eq(streaming & (key_valid | keys.none) & (~ends_step | scales_valid)),
            keys.ends.eq(pops & ends_step),
            keys.first.eq(count == 0),
            keys.last.eq(keys.none | (count == job["keys"] - 1)),
        ]
        with m.If(pops if config.doubled else loads | pops):
            m.d.sync += step.eq(Mux(ends_step, 0, step + 1))
        if not config.doubled:
            self._start()
        with m.If(keys.ends):
            m.d.sync += count.eq(count + 1)
            with m.If(keys.last):
                m.d.sync += streaming.eq(0)
        if config.doubled:  # a job starts in the cycle in which the last one ends
            self._start()
        return self._rows((step == 0, pops, with_key), query, key, scale, job)

    def _queries(self) -> tuple[Value, Value, Value]:
        """Pop queries; return a beat, whether it is valid, and their exponent."""
        if not self.config.floating:
            beats = pop_input(self.m, self.core, "query", self.loads)
            return beats.payload, beats.valid, Const(0, 1)
        vector = pop_vectors(self.m, self.core, "query", self.loads, self.ends_row, 2)
        return vector.beat, vector.valid, vector.scale

    def _row_scale(self, scale: Value, exponent: Value) -> Value:
        """Return the stored part of a row's scale."""
        config = self.config
        if not config.floating:
            return scale[: QUERY_SCALE.width]
        shift = Signal(shape_of(config.row_shift), name="row_shift")
        of_query = scale[SCALE.width : QUERY_SCALE.width]
        self.m.d.comb += shift.eq(of_query + config.align_shift - exponent[:-1])
        return Cat(scale[: SCALE.width], shift, exponent[-1])

    def _start(self) -> None:
        with self.m.If(self.starts):
            self.m.d.sync += [self.streaming.eq(1), self.count.eq(0)]

    def _load_step(self) -> Value:
        """Count the beats of a row of queries; return whether it is the last."""
        return last_of(self.m, self.config.steps, "load_step", "ends_load", self.loads)

    def _job(self) -> dict[str, Value]:
        """Follow a command while its queries are loaded; return the job."""
        m, config = self.m, self.config
        row, ends_row = self.row, self.ends_row
        complete = Signal(name="complete") if config.doubled else self.starts
        command = pop_input(m, self.core, "command", complete)
        valid = command.valid
        word = {name: command.payload.word_select(i, 32) for i, name in enumerate(COMMAND)}
        rows, bound = config.array.rows, signed(config.bound_bits)
        wanted = named(m, "wanted", word["queries"])
        queries = Signal(range(rows + 1), name="queries")
        member = Signal(range(rows), name="member")
        m.d.comb += queries.eq(Mux(wanted > rows, rows, wanted))
        last_row = named(m, "last_row", ends_row & (row == queries - 1))
        busy = self.loaded if config.doubled else self.streaming
        m.d.comb += complete.eq(~busy & valid & ((queries == 0) | last_row))
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
        none = word["keys"][: len(count)] == 0
        if config.doubled:
            self._wait(complete, (word["keys"], count), (none, self.keys.none), (queries, None))
        else:
            with m.If(complete):
                m.d.sync += [
                    count.eq(word["keys"]),
                    self.keys.none.eq(none),
                    self.keys.rows.eq(queries),
                ]
        return {"valid": valid, "some": queries != 0, "keys": count, **bounds}

    def _wait(self, complete: Value, *fields: tuple[Value, Signal | None]) -> None:
        """Store the fields of the next job until it starts."""
        m, keys = self.m, self.keys
        m.d.comb += self.starts.eq(self.loaded & (~self.streaming | (keys.ends & keys.last)))
        for value, signal in fields:
            target = keys.rows if signal is None else signal
            waits = Signal(len(target), name=f"next_{target.name}", reset_less=True)
            with m.If(complete):
                m.d.sync += waits.eq(value)
            with m.If(self.starts):
                m.d.sync += target.eq(waits)
        with m.If(complete):
            m.d.sync += self.loaded.eq(1)
        with m.If(self.starts):
            m.d.sync += self.loaded.eq(0)

    def _rows(
        self,
        control: tuple[Value, Value, Value],
        query: Value,
        key: Value,
        scale: Value,
        job: dict[str, Value],
    ) -> Scores:
        """Place the rows of queries, a cycle after the beats."""
        m, config = self.m, self.config
        begins, pops, with_key = control
        dot, rows = config.pipeline.dot, config.array.rows
        query_now, key_now = (
            Signal(len(value), name=f"{name}_now", reset_less=True)
            for name, value in (("query", query), ("key", key))
        )
        m.d.sync += [query_now.eq(query), key_now.eq(Mux(with_key, key, 0))]
        row_now = delayed(m, "row_now", self.row, 1)
        load_now = delayed(m, "load_now", self.loads, 1, token=True)
        advance = delayed(m, "advance", pops, 1, token=True)
        clear = delayed(m, "clear", pops & begins, 1 + dot)
        # Scales are read after the rows, and may not change before the job there has passed.
        late = config.score_latency + config.phases - 2
        late_row, late_scale = (
            delayed(m, name, value, late)
            for name, value in (
                ("scale_row", self.row),
                ("scale_value", scale),
            )
        )
        late_set = delayed(m, "scale_set", self.ends_row, late, token=True)
        swaps: dict[str, Value] = {}
        if config.doubled:
            late_swap = delayed(m, "scale_swap", self.starts, late + 1, token=True)
            swap = delayed(m, "swap", self.starts, 1, token=True)
            swaps = {"starts": self.starts, "swap": swap}
        block = ScoreRow(config)
        number = Signal(signed(config.bound_bits), name="key_number")
        m.d.comb += number.eq(self.count)
        results = Scores([], [], [])
        for r in range(rows):
            placed = place(
                m, f"row_{r}", block, load=load_now & (row_now == r), q=query_now,
                advance=advance, k=key_now, clear=clear,
                bound=self.ends_row & (self.row == r), first=job["first"], last=job["last"],
                key=number, none=self.keys.none, **swaps,
            )  # fmt: skip
            active = Signal(config.row_scale_bits, name=f"scale_{r}", reset_less=True)
            loaded = active
            if config.doubled:
                loaded = Signal(config.row_scale_bits, name=f"next_scale_{r}", reset_less=True)
                with m.If(late_swap):
                    m.d.sync += active.eq(loaded)
            with m.If(late_set & (late_row == r)):
                m.d.sync += loaded.eq(late_scale)
            results.scores.append(placed.score)
            results.seen.append(placed.seen)
            results.scales.append(active)
        return results
