# SPDX-License-Identifier: Apache-2.0
"""The core of the family `attention`: who takes which beat when.

Three parts follow each other, and nothing in them ever stops on the way:

- the front takes a job's queries, then its keys, a beat a cycle; a key's last beat waits until the
  queue of weights has room for it, and that of a job until the sums of the job before have left;
- scores pass the softmax units, which put a key's weights into the queue;
- the back takes a beat of values a cycle for the weights at the head of the queue, and behind a
  job's last value gives its results, a beat a cycle as long as the queue of results has room.

So the next job's queries come in while results leave, and with `array.buffers: double` both while
keys and values of another job go past.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring

from hwgen.formats import FloatFormat, Format, IntegerFormat
from rtl_templates.arithmetic.pipeline import delayed, named
from rtl_templates.arithmetic.registry import for_format
from rtl_templates.hdl.hierarchy import place
from rtl_templates.hdl.shell import stream_members

from .back import Back
from .float_unit import FloatSoftmaxUnit
from .front import Front, Scores
from .parts import Choice, Keys
from .unit import SoftmaxUnit

if TYPE_CHECKING:
    from hwgen.families.attention.params import AttentionConfig

_SOFTMAX_UNITS: Mapping[type[Format], type[SoftmaxUnit]] = {
    IntegerFormat: SoftmaxUnit,
    FloatFormat: FloatSoftmaxUnit,
}


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
        keys = Keys(self.config)
        room, free = Signal(name="room_for_weights"), Signal(name="sums_free")
        scores = Front(m, self, keys).scores(room & (~keys.last | free))
        weights, put, sums = self._softmax(m, keys, scores)
        Back(m, self, keys).results(weights, put, sums, room, free)
        return m

    def _softmax(self, m: Module, keys: Keys, rows_of: Scores) -> tuple[Value, Value, Value]:
        """Pass scores through the units; return weights, when they are there, and sums."""
        config = self.config
        scores, seen, scales = rows_of
        units, phases, latency = config.units, config.phases, config.unit_latency
        until_done = config.score_latency - (phases > 1)
        done = delayed(m, "key_done", keys.ends, until_done, token=True)
        flags = Cat(keys.first, keys.last, keys.none)
        of_key = {"flags": flags, **keys.scales}
        held = {
            name: delayed(m, f"{name}_on_way", value, until_done) for name, value in of_key.items()
        }
        rows = Cat(*(Cat(score, sees) for score, sees in zip(scores, seen, strict=True)))
        waiting, phase = rows, done
        if phases > 1:
            for name, value in held.items():
                held[name] = Signal(len(value), name=f"{name}_held", reset_less=True)
                with m.If(done):
                    m.d.sync += held[name].eq(value)
            waiting = Signal(len(rows), name="waiting", reset_less=True)
            size = units * (config.score.width + 1)
            m.d.sync += waiting.eq(Mux(done, rows, waiting[size:]))
            phase = Signal(phases, name="phase")
            m.d.sync += phase.eq(Cat(done, phase))
        on = named(m, "units_on", phase.any())
        first, last, _ = held["flags"]

        until_sum = latency - config.scaled_keys
        block = for_format(_SOFTMAX_UNITS, config.query)(config)
        lanes, sums = [], []
        extra = {}
        if config.floating:
            extra = {name: held[name] for name in ("key_scale", "value_scale")}
        elif config.scaled_keys:
            extra = {
                "key_scale": held["key_scale"],
                "value_scale": delayed(m, "value_scale_late", held["value_scale"], latency - 1),
            }
        for u in range(units):
            score = waiting.word_select(u, config.score.width + 1)
            scale: Value = scales[u]
            if phases > 1:
                of_phase = Cat(*(scales[p * units + u] for p in range(phases)))
                scale = Signal(config.row_scale_bits, name=f"scale_of_unit_{u}")
                chosen = Choice(config.row_scale_bits, phases)
                place(m, f"scales_{u}", chosen, totals=of_phase, drain=phase, out=scale)
            weight, total = (
                Signal(config.weight_width, name=f"weight_{u}"),
                Signal(config.kept_bits, name=f"sum_{u}"),
            )
            rise = Signal(range(config.clears), name=f"rise_{u}")
            clears = Signal(name=f"clears_{u}")
            place(
                m, f"unit_{u}", block, on=on, score=score[:-1], seen=score[-1], scale=scale,
                first=first, weight=weight, rise=rise, clears=clears, sum=total, **extra,
            )  # fmt: skip
            lanes.append(Cat(weight, rise, clears))
            sums.append(total)

        row_sums = Signal(config.array.rows * config.kept_bits, name="row_sums", reset_less=True)
        keeps = delayed(m, "keeps", on & last, until_sum, token=True)
        with m.If(keeps):
            m.d.sync += row_sums.eq(Cat(row_sums, *sums)[len(Cat(*sums)) :])
        now = gathered = Cat(*lanes)
        if phases > 1:
            before = Signal((phases - 1) * len(now), name="weights_before", reset_less=True)
            m.d.sync += before.eq(Cat(before, now)[len(now) :])
            gathered = Cat(before, now)
        flags = delayed(m, "flags_late", held["flags"], latency)
        put = delayed(m, "put", phase[-1], latency, token=True)
        return Cat(gathered, flags[1:]), put, row_sums
