# SPDX-License-Identifier: Apache-2.0
"""The front of the core: it takes queries and keys, and gives scores.

With a second place for queries (`array.buffers: double`) the queries of the next job are taken
while the keys of this one go past, and take their places in the cycle behind its last key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed

from hwgen.families.attention.formats import QUERY_SCALE, SCALE
from hwgen.families.attention.params import COMMAND
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.arithmetic.pipeline import delayed, named
from rtl_templates.hdl.hierarchy import place

from .aligned import take_vectors
from .parts import Keys, last_of, take
from .scores import ScoreRow

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig


class Scores(NamedTuple):
    """What the front gives, row by row.

    Parameters
    ----------
    scores, seen : list of Value
        Scores of a key, and whether the row looks at it.
    scales : list of Value
        Scales of the rows.
    """

    scores: list[Value]
    seen: list[Value]
    scales: list[Value]


class Front:
    """Takes queries and keys.

    Parameters
    ----------
    m : Module
        Of the core.
    core : AttentionCore
    keys : Keys
        What it drives.
    """

    def __init__(self, m: Module, core: Any, keys: Keys) -> None:
        self.m, self.core, self.keys = m, core, keys
        self.config: AttentionConfig = core.config
        self.streaming = Signal(name="streaming")
        self.loads, self.ends_row = Signal(name="loads"), Signal(name="ends_row")
        self.row = Signal(range(self.config.array.rows), name="row")
        self.count = Signal(range(self.config.max_keys + 1), name="key_count")
        self.loaded = Signal(name="loaded")  # the next job's queries are there
        self.starts = Signal(name="starts")

    def scores(self, may_end: Value) -> Scores:
        """Take queries and keys; a key ends only if it may."""
        m, config, keys = self.m, self.config, self.keys
        streaming, loads, ends_row, count = self.streaming, self.loads, self.ends_row, self.count
        step = Signal(range(config.steps), name="step")
        ends_step = named(m, "ends_step", step == config.steps - 1)
        job = self._job()
        query, query_valid, exponent = self._queries()
        scale, scale_valid = take(m, self.core, "query_scale", ends_row)
        scale = self._row_scale(scale, exponent)
        may_load = ~self.loaded if config.doubled else ~streaming
        ends_load = self._load_step() if config.doubled else ends_step
        m.d.comb += [
            loads.eq(may_load & job["valid"] & job["some"] & query_valid & scale_valid),
            ends_row.eq(loads & ends_load),
        ]

        takes = Signal(name="takes")  # a beat of a key, or the time of one
        brings = named(m, "brings", takes & ~keys.none)
        if config.floating:
            ready = named(m, "brings_last", keys.ends & ~keys.none)
            held = take_vectors(m, self.core, "key", brings, ready, 2)
            key, key_valid = held.beat, held.valid
            keys.scales["key_scale"] = held.scale
        else:
            key, key_valid = take(m, self.core, "key", brings)
            ready = named(m, "brings_last", keys.ends & ~keys.none)
        keys.taken = ready
        scales_there: Value = may_end
        if config.floating:
            keys.scales["value_scale"] = keys.value_scale
            scales_there = scales_there & (keys.value_there | keys.none)
        if config.scaled_keys:
            for name in ("key_scale", "value_scale"):
                keys.scales[name], valid = take(m, self.core, name, ready)
                scales_there = scales_there & (valid | keys.none)
        m.d.comb += [
            takes.eq(streaming & (key_valid | keys.none) & (~ends_step | scales_there)),
            keys.ends.eq(takes & ends_step),
            keys.first.eq(count == 0),
            keys.last.eq(keys.none | (count == job["keys"] - 1)),
        ]
        with m.If(takes if config.doubled else loads | takes):
            m.d.sync += step.eq(Mux(ends_step, 0, step + 1))
        if not config.doubled:
            self._start()
        with m.If(keys.ends):
            m.d.sync += count.eq(count + 1)
            with m.If(keys.last):
                m.d.sync += streaming.eq(0)
        if config.doubled:  # a job starts in the cycle in which the last one ends
            self._start()
        return self._rows((step == 0, takes, brings), query, key, scale, job)

    def _queries(self) -> tuple[Value, Value, Value]:
        """Take queries; return a beat, whether it is there, and their exponent."""
        if not self.config.floating:
            return (*take(self.m, self.core, "query", self.loads), Const(0, 1))
        held = take_vectors(self.m, self.core, "query", self.loads, self.ends_row, 2)
        return held.beat, held.valid, held.scale

    def _row_scale(self, scale: Value, exponent: Value) -> Value:
        """Return what is kept of a row's scale."""
        config = self.config
        if not config.floating:
            return scale[: QUERY_SCALE.width]
        shift = Signal(shape_of(config.row_shift), name="row_shift")
        given = scale[SCALE.width : QUERY_SCALE.width]
        self.m.d.comb += shift.eq(given + config.align_shift - exponent[:-1])
        return Cat(scale[: SCALE.width], shift, exponent[-1])

    def _start(self) -> None:
        with self.m.If(self.starts):
            self.m.d.sync += [self.streaming.eq(1), self.count.eq(0)]

    def _load_step(self) -> Value:
        """Count the beats of a row of queries; return whether it is the last."""
        return last_of(self.m, self.config.steps, "load_step", "ends_load", self.loads)

    def _job(self) -> dict[str, Value]:
        """Follow a command while its queries come in; return the job."""
        m, config = self.m, self.config
        row, ends_row = self.row, self.ends_row
        complete = Signal(name="complete") if config.doubled else self.starts
        command, valid = take(m, self.core, "command", complete)
        word = {name: command.word_select(i, 32) for i, name in enumerate(COMMAND)}
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
        """Keep what is said of the next job until it starts."""
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
        taking: tuple[Value, Value, Value],
        query: Value,
        key: Value,
        scale: Value,
        job: dict[str, Value],
    ) -> Scores:
        """Place the rows of queries, a cycle behind the beats that they take."""
        m, config = self.m, self.config
        begins, takes, brings = taking
        dot, rows = config.pipeline.dot, config.array.rows
        query_now, key_now = (
            Signal(len(value), name=f"{name}_now", reset_less=True)
            for name, value in (("query", query), ("key", key))
        )
        m.d.sync += [query_now.eq(query), key_now.eq(Mux(brings, key, 0))]
        row_now = delayed(m, "row_now", self.row, 1)
        load_now = delayed(m, "load_now", self.loads, 1, token=True)
        turn = delayed(m, "turn", takes, 1, token=True)
        clear = delayed(m, "clear", takes & begins, 1 + dot)
        # Scales are looked at behind the rows, and may not change before the job there has passed.
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
        found = Scores([], [], [])
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
                bound=self.ends_row & (self.row == r),
                first=job["first"],
                last=job["last"],
                key=number,
                none=self.keys.none,
                score=score,
                seen=sees,
                **swaps,
            )
            kept = Signal(config.row_scale_bits, name=f"scale_{r}", reset_less=True)
            waits = kept
            if config.doubled:
                waits = Signal(config.row_scale_bits, name=f"next_scale_{r}", reset_less=True)
                with m.If(late_swap):
                    m.d.sync += kept.eq(waits)
            with m.If(late_set & (late_row == r)):
                m.d.sync += waits.eq(late_scale)
            found.scores.append(score)
            found.seen.append(sees)
            found.scales.append(kept)
        return found
