# SPDX-License-Identifier: Apache-2.0
"""Core of the family `attention`.

Three stages follow each other, and none stalls between its registers:

- the front pops a job's queries, then its keys, a beat a cycle; a key's last beat waits until the
  queue of weights has space for it, and that of a job until the sums of the job before have left;
- scores pass the softmax units, which push a key's weights into the queue;
- the back pops a beat of values a cycle for the weights at the head of the queue, and after a
  job's last value pushes its results, a beat a cycle as long as the queue of results has space.

The next job's queries are loaded while results leave, and with `array.buffers: double` both while
keys and values of another job stream.
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
from .keys import Choice, Keys
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
        space, free = Signal(name="weights_space"), Signal(name="sums_free")
        scores = Front(m, self, keys).scores(space & (~keys.last | free))
        weights, push, sums = self._softmax(m, keys, scores)
        Back(m, self, keys).results(weights, push, sums, space, free)
        return m

    def _softmax(self, m: Module, keys: Keys, rows_of: Scores) -> tuple[Value, Value, Value]:
        """Pass scores through the units; return weights, whether they are valid, and sums."""
        config = self.config
        scores, seen, scales = rows_of
        units, phases, latency = config.units, config.phases, config.unit_latency
        until_done = config.score_latency - (phases > 1)
        done = delayed(m, "key_done", keys.ends, until_done, token=True)
        flags = Cat(keys.first, keys.last, keys.none)
        of_key = {"flags": flags, **keys.scales}
        late = {
            name: delayed(m, f"{name}_delayed", value, until_done) for name, value in of_key.items()
        }
        rows = Cat(*(Cat(score, sees) for score, sees in zip(scores, seen, strict=True)))
        waiting, phase = rows, done
        if phases > 1:
            for name, value in late.items():
                late[name] = Signal(len(value), name=f"{name}_of_key", reset_less=True)
                with m.If(done):
                    m.d.sync += late[name].eq(value)
            waiting = Signal(len(rows), name="waiting", reset_less=True)
            size = units * (config.score.width + 1)
            m.d.sync += waiting.eq(Mux(done, rows, waiting[size:]))
            phase = Signal(phases, name="phase")
            m.d.sync += phase.eq(Cat(done, phase))
        on = named(m, "units_on", phase.any())
        first, last, _ = late["flags"]

        until_sum = latency - config.scaled_keys
        block = for_format(_SOFTMAX_UNITS, config.query)(config)
        lanes, sums = [], []
        extra = {}
        if config.floating:
            extra = {name: late[name] for name in ("key_scale", "value_scale")}
        elif config.scaled_keys:
            extra = {
                "key_scale": late["key_scale"],
                "value_scale": delayed(m, "value_scale_late", late["value_scale"], latency - 1),
            }
        for u in range(units):
            score = waiting.word_select(u, config.score.width + 1)
            scale: Value = scales[u]
            if phases > 1:
                of_phase = Cat(*(scales[p * units + u] for p in range(phases)))
                choice = Choice(config.row_scale_bits, phases)
                scale = place(m, f"scales_{u}", choice, totals=of_phase, drain=phase).out
            unit = place(
                m, f"unit_{u}", block, on=on, score=score[:-1], seen=score[-1], scale=scale,
                first=first, **extra,
            )  # fmt: skip
            lanes.append(Cat(unit.weight, unit.rise, unit.clears))
            sums.append(unit.sum)

        row_sums = Signal(config.array.rows * config.state_bits, name="row_sums", reset_less=True)
        store = delayed(m, "store_sums", on & last, until_sum, token=True)
        with m.If(store):
            m.d.sync += row_sums.eq(Cat(row_sums, *sums)[len(Cat(*sums)) :])
        now = gathered = Cat(*lanes)
        if phases > 1:
            before = Signal((phases - 1) * len(now), name="weights_before", reset_less=True)
            m.d.sync += before.eq(Cat(before, now)[len(now) :])
            gathered = Cat(before, now)
        flags = delayed(m, "flags_late", late["flags"], latency)
        push = delayed(m, "push", phase[-1], latency, token=True)
        return Cat(gathered, flags[1:]), push, row_sums
