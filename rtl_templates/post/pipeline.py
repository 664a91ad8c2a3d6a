# SPDX-License-Identifier: Apache-2.0
"""Post-processing of a stream of accumulators."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hwgen.core.post import RECORD_BYTES, REGISTERS, SETTINGS_BITS, PostFeatures
from hwgen.core.post.features import Stages
from hwgen.core.post.fields import field_bits, first_fields, later_fields
from rtl_templates.arithmetic.pipeline import Pipeline
from rtl_templates.arithmetic.registry import arithmetic
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.streams import Stream
from rtl_templates.stream.stream import StreamBuffer, word_layout

OFFSETS = {
    field.name: 32 * number + field.offset
    for number, register in enumerate(REGISTERS)
    for field in register.fields
}
"""First bit of each setting."""


class Post(Block):
    """Accumulators in, results out: a word of lanes a cycle; see `hwgen.core.post`.

    Settings and records are delayed with their word, so both may change with every word.  The
    input's ready depends on registers only.

    Parameters
    ----------
    features : PostFeatures
        What it can do.
    lanes : int

    Members
    -------
    settings : In(224)
        The registers of `hwgen.core.post.REGISTERS`, the first in the least significant bits;
        fields that the features do not use are ignored.
    i : In(stream)
        Words: ``data``, the accumulators; ``count``, how many lanes are valid; ``last``, whether
        the word ends a row; ``records``, the column records of the lanes, if the features have
        them.
    o : Out(stream)
        Words (`rtl_templates.stream.stream.word_layout`), registers; each result is in the low
        bits of its lane: integers sign-extended, others followed by undefined bits.

    Attributes
    ----------
    latency : int
        Cycles from a word's handshake to the first cycle in which its results are valid.
    """

    resettable = True

    def __init__(self, features: PostFeatures, lanes: int) -> None:
        records = {"records": 8 * RECORD_BYTES * lanes} if features.columns else {}
        words = word_layout(lanes * features.accumulator.width, lanes)
        super().__init__(
            f"post_{lanes}",
            {
                "settings": In(SETTINGS_BITS),
                "i": In(stream.Signature(data.StructLayout({**records, **words.members}))),
                "o": Out(stream.Signature(word_layout(lanes * features.lane_width, lanes))),
            },
        )
        self.features, self.lanes = features, lanes
        self.latency = features.latency

    def build(self, m: Module) -> None:
        features, stages = self.features, Stages(self.features)
        run, ready = Signal(name="run"), Signal(name="ready")
        valid = Signal(stages.results)
        m.d.comb += [run.eq(ready | ~valid[-1]), self.i.ready.eq(run)]
        with m.If(run):
            m.d.sync += valid.eq(Cat(self.i.valid, valid))

        fields = {
            name: self.settings[OFFSETS[name] : OFFSETS[name] + bits]
            for name, bits in field_bits(features).items()
        }
        ages = later_fields(features)
        common: dict[str, Value] = {name: fields[name] for name in first_fields(features)}
        ages |= dict.fromkeys(("count", "last"), stages.results)
        fields |= {"count": self.i.payload.count, "last": self.i.payload.last}
        delayed = {name: fields[name] for name in ages}
        pipe = Pipeline(m, [str(i) for i in range(1, stages.results + 1)], run)
        for stage in range(1, stages.results + 1):
            delayed = dict(zip(delayed, pipe.cut(str(stage), **delayed), strict=True))
            common |= {name: value for name, value in delayed.items() if ages[name] == stage}
            delayed = {n: value for n, value in delayed.items() if ages[n] > stage}

        words = common.pop("count"), common.pop("last")
        block = arithmetic(features.accumulator).post_lane(features)
        results = Signal(self.lanes * features.lane_width)
        width = features.accumulator.width
        for lane in range(self.lanes):
            records = (
                {"record": self.i.payload.records[128 * lane : 128 * lane + 128]}
                if features.columns
                else {}
            )
            place(
                m,
                f"lane_{lane}",
                block,
                run=run,
                acc=self.i.payload.data[lane * width : (lane + 1) * width],
                **records,
                **common,
                o=results[lane * features.lane_width : (lane + 1) * features.lane_width],
            )
        head = Cat(results, *words)
        place(m, "buffer", StreamBuffer(len(head)), i=Stream(head, valid[-1], ready), o=self.o)
