# SPDX-License-Identifier: Apache-2.0
"""Post-processing behind a stream core: its results go through a `Post` to port ``out``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import wiring

from hwgen.core.post import RECORD, RECORD_BYTES, SETTINGS_BITS
from hwgen.core.post.beats import HEAD_BITS, WORD_BITS
from hwgen.core.post.fields import field_bits, first_fields, later_fields, record_fields
from rtl_templates.hdl.hierarchy import place
from rtl_templates.hdl.shell import stream_members
from rtl_templates.hdl.streams import Stream, fields, new_stream
from rtl_templates.stream.stream import StreamSlice, word_layout

from .pipeline import OFFSETS, Post

if TYPE_CHECKING:
    from hwgen.core.params.product import ProductConfig


def post_processed(config: ProductConfig, core: wiring.Component) -> wiring.Component:
    """Return a core with the post-processing that its configuration asks for, if any.

    Parameters
    ----------
    config : ProductConfig
    core : wiring.Component
        With the streams of ``config.core_ports``.
    """
    return core if config.post_features is None else PostProcessedCore(config, core)


class PostProcessedCore(wiring.Component):
    """A core with a `Post` between its accumulators and port ``out``.

    A beat of port ``post`` waits in a register and goes with as many beats of accumulators as it
    says.  Only what the hardware looks at is kept of it.

    Members
    -------
    As the configuration's ports describe them.
    """

    def __init__(self, config: ProductConfig, core: wiring.Component) -> None:
        self.config: Any = config
        self.core = core
        super().__init__(stream_members(config.ports))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, features = self.config, self.config.post_features
        m.submodules.core = core = self.core
        *inputs, accumulators = config.core_ports
        for port in inputs:
            wiring.connect(m, wiring.flipped(getattr(self, port.name)), getattr(core, port.name))

        pop, run = Signal(name="post_pop"), Signal(name="post_run")
        head, valid = self._head(m, pop)
        settings, records, repeat = self._fields(m, head)
        served = Signal(WORD_BITS, name="post_served")  # beats of results of the one that waits
        final, fire = Signal(name="post_final"), Signal(name="post_fire")
        m.d.comb += [
            final.eq(served == repeat),
            fire.eq(core.out.valid & valid & run),
            pop.eq(fire & final),
            core.out.ready.eq(valid & run),
        ]
        with m.If(pop):
            m.d.sync += served.eq(0)
        with m.Elif(fire):
            m.d.sync += served.eq(served + 1)

        width = config.result.width
        lanes = [
            core.out.payload.data.word_select(lane, accumulators.lane_width)[:width]
            for lane in range(accumulators.lanes)
        ]
        post = Post(features, accumulators.lanes)
        words = fields(
            **({"records": records} if features.columns else {}),
            data=Cat(*lanes),
            count=Const(0, post.width("i_count")),
            last=core.out.payload.last,
        )
        results = new_stream("results", word_layout(post.width("o_data"), accumulators.lanes))
        place(
            m,
            "post",
            post,
            settings=settings,
            i=Stream(words, core.out.valid & valid, run),
            o=Stream(results.payload, self.out.valid, self.out.ready),
        )
        out = config.ports[-1]
        data = Signal(out.data_width, name="out_data")
        values = results.payload.data
        lanes = [values.word_select(lane, features.lane_width) for lane in range(out.lanes)]
        m.d.comb += [
            data.eq(Cat(lane[: out.lane_width] for lane in lanes)),
            self.out.payload.data.eq(data),
            self.out.payload.last.eq(results.payload.last),
        ]
        return m

    def _used(self) -> list[tuple[int, int]]:
        """Return first bit and width of everything in a beat of ``post`` that is looked at."""
        features = self.config.post_features
        bits = field_bits(features)
        names = (*first_fields(features), *later_fields(features))
        fields = [(OFFSETS[name], bits[name]) for name in names]
        fields.append((SETTINGS_BITS, WORD_BITS))
        if features.columns:
            used_fields = record_fields(features)
            for record in range(self.config.columns_per_beat):
                start = HEAD_BITS + 8 * RECORD_BYTES * record
                fields += [(start + f.offset, f.bits) for f in RECORD if f.name in used_fields]
        return fields

    def _head(self, m: Module, pop: Value) -> tuple[Value, Value]:
        """Buffer port ``post``; return the oldest beat, and whether it is valid."""
        parts = [self.post.payload.data[start : start + bits] for start, bits in self._used()]
        used, valid = Signal(len(Cat(*parts)), name="post_used"), Signal(name="post_valid")
        place(
            m,
            "post_buffer",
            StreamSlice(len(used)),
            i=Stream(Cat(*parts), self.post.valid, self.post.ready),
            o=Stream(used, valid, pop),
        )
        # The beat again, with zeros in unused bits.
        head = Signal(len(self.post.payload.data), name="post_head")
        at = 0
        for start, bits in self._used():
            m.d.comb += head[start : start + bits].eq(used[at : at + bits])
            at += bits
        return head, valid

    def _fields(self, m: Module, head: Value) -> tuple[Value, Value, Value]:
        """Return the settings, the records of all lanes, and how often they are used again."""
        out = self.config.core_ports[-1]
        records = head[HEAD_BITS:]
        if self.config.columns_per_beat < out.lanes:  # one column for all lanes
            records = records.replicate(out.lanes)
        return head[:SETTINGS_BITS], records, head[SETTINGS_BITS:HEAD_BITS]
