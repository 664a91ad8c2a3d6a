# SPDX-License-Identifier: Apache-2.0
"""Post-processing of a stream of accumulators."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.core.post import RECORD_BYTES, REGISTERS, SETTINGS_BITS, PostFeatures
from hwgen.core.post.fields import field_bits, first_fields, later_fields
from hwgen.core.post.stages import Stages
from rtl_templates.arithmetic.pipeline import Pipeline
from rtl_templates.arithmetic.registry import arithmetic
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.stream.stream import StreamBuffer

OFFSETS = {
    field.name: 32 * number + field.offset
    for number, register in enumerate(REGISTERS)
    for field in register.fields
}
"""First bit of each setting."""


class Post(Block):
    """Accumulators in, results out: a word of lanes a cycle; see `hwgen.core.post`.

    Settings and records travel with the word that they came with, so that both may change with
    every word.  `i_ready` depends on registers only.

    Parameters
    ----------
    features : PostFeatures
        What it can do.
    lanes : int

    Members
    -------
    settings : In(224)
        The registers of `hwgen.core.post.REGISTERS`, the first in the least significant bits;
        fields that the features have no use for are not looked at.
    i_records : In(lanes * 128)
        The column records of the lanes, if the features have them.
    i_data : In(lanes * accumulator bits)
    i_count, i_last : In
        Passed along: lanes that hold something, and whether the word ends a row.
    i_valid, i_ready : In(1), Out(1)
    o_data : Out(lanes * features.lane_width)
        The results, each in the low bits of its lane: integers sign-extended, others followed by
        bits without meaning.
    o_count, o_last, o_valid, o_ready : Out, Out, Out(1), In(1)
        All outputs are registers.

    Attributes
    ----------
    latency : int
        Cycles from a word's handshake to the first cycle in which its results are valid.
    """

    resettable = True

    def __init__(self, features: PostFeatures, lanes: int) -> None:
        count = In(lanes.bit_length())
        super().__init__(
            f"post_{lanes}",
            {
                "settings": In(SETTINGS_BITS),
                **({"i_records": In(8 * RECORD_BYTES * lanes)} if features.columns else {}),
                "i_data": In(lanes * features.accumulator.width),
                "i_count": count,
                "i_last": In(1),
                "i_valid": In(1),
                "i_ready": Out(1),
                "o_data": Out(lanes * features.lane_width),
                "o_count": count.flip(),
                "o_last": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
            },
        )
        self.features, self.lanes = features, lanes
        self.latency = features.latency

    def build(self, m: Module) -> None:
        features, stages = self.features, Stages(self.features)
        run, room = Signal(name="run"), Signal(name="room")
        valid = Signal(stages.results)
        m.d.comb += [run.eq(room | ~valid[-1]), self.i_ready.eq(run)]
        with m.If(run):
            m.d.sync += valid.eq(Cat(self.i_valid, valid))

        fields = {
            name: self.settings[OFFSETS[name] : OFFSETS[name] + bits]
            for name, bits in field_bits(features).items()
        }
        ages = later_fields(features)
        common: dict[str, Value] = {name: fields[name] for name in first_fields(features)}
        ages |= dict.fromkeys(("count", "last"), stages.results)
        fields |= {"count": self.i_count, "last": self.i_last}
        travelling = {name: fields[name] for name in ages}
        pipe = Pipeline(m, [str(i) for i in range(1, stages.results + 1)], run)
        for stage in range(1, stages.results + 1):
            travelling = dict(zip(travelling, pipe.cut(str(stage), **travelling), strict=True))
            common |= {name: value for name, value in travelling.items() if ages[name] == stage}
            travelling = {n: value for n, value in travelling.items() if ages[n] > stage}

        words = common.pop("count"), common.pop("last")
        block = arithmetic(features.accumulator).post_lane(features)
        results = Signal(self.lanes * features.lane_width)
        width = features.accumulator.width
        for lane in range(self.lanes):
            records = (
                {"record": self.i_records[128 * lane : 128 * lane + 128]}
                if features.columns
                else {}
            )
            place(
                m,
                f"lane_{lane}",
                block,
                run=run,
                acc=self.i_data[lane * width : (lane + 1) * width],
                **records,
                **common,
                o=results[lane * features.lane_width : (lane + 1) * features.lane_width],
            )
        head = Cat(results, *words)
        place(
            m,
            "buffer",
            StreamBuffer(len(head)),
            i_data=head,
            i_valid=valid[-1],
            i_ready=room,
            o_data=Cat(self.o_data, self.o_count, self.o_last),
            o_valid=self.o_valid,
            o_ready=self.o_ready,
        )
