# SPDX-License-Identifier: Apache-2.0
"""From beats of the memory to beats of a port of the core."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hwgen.families.stream_engine.params import WORDS_AHEAD
from rtl_templates.axi.gather import Gather
from rtl_templates.axi.reader import beat_layout
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.streams import AnyStream, Stream, fields, new_stream, transfers
from rtl_templates.stream.stream import StreamFifo, StreamStore, buffered

if TYPE_CHECKING:
    from hwgen.core.port import StreamPort
    from hwgen.families.stream_engine.params import StreamEngineConfig


def feed_layout(data_width: int) -> data.StructLayout:
    """Return the payload of beats of memory for a port.

    They are those of `rtl_templates.axi.reader.beat_layout`, but ``ends`` marks the end of a row,
    ``last`` the job's last beat for the port.
    """
    beat = beat_layout(data_width).members
    names = {name: beat[name] for name in ("data", "first", "count")}
    return data.StructLayout({**names, "ends": 1, "last": 1})


class PortFeed(Block):
    """Buffers beats of memory and repacks them as beats of a port; each row starts a new beat.

    Parameters
    ----------
    config : StreamEngineConfig
    port : StreamPort
    depth : int
        Beats of memory that fit.

    Members
    -------
    i : In(stream), always ready
        Beats (`feed_layout`).  There is always space, since nothing is read without.
    popped : Out(1)
        A beat has left the buffer.
    o : Out(stream)
        Beats of the port: ``data``, with zeros after the end of a row; ``ends``, whether it ends
        the row.
    delivered : Out(1)
        The core accepts a job's last beat.
    """

    resettable = True

    def __init__(self, config: StreamEngineConfig, port: StreamPort, depth: int) -> None:
        self.config, self.port, self.depth = config, port, depth
        self.beats = config.word_beats(port)
        width = config.memory.data_width
        self.gather = Gather(width, 1, 8, self.beats * port.beat_bytes, counted=True)
        beats = data.StructLayout({"data": port.data_width, "ends": 1})
        super().__init__(
            f"stream_feed_{width}_{depth}_{port.beat_bytes}",
            {
                "i": In(stream.Signature(feed_layout(width), always_ready=True)),
                "popped": Out(1),
                "o": Out(stream.Signature(beats)),
                "delivered": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        depth = self.depth - 1  # the oldest beat is in a register
        beat = new_stream("beat", self.payload("i"))
        place(
            m, "beats", StreamStore(self.width("i"), depth),
            i=Stream(self.i.payload, self.i.valid, Signal(name="beats_ready")),
            o=Stream(beat.payload, beat.valid, self.popped),
        )  # fmt: skip
        # A beat may make two words, and one may be in the gatherer.
        level = Signal(range(WORDS_AHEAD + 1), name="words")
        allowed, ready = Signal(name="allowed"), Signal(name="gather_ready")
        source = beat.payload
        payload = fields(data=source.data, first=source.first, count=source.count, last=source.ends)
        word = place(m, "gather", self.gather, i=Stream(payload, allowed, ready)).o
        m.d.comb += [
            allowed.eq(beat.valid & (level + word.valid <= WORDS_AHEAD - 2)),
            self.popped.eq(allowed & ready),
        ]
        popped = self._split(m, word)
        m.d.sync += level.eq(level + word.valid - popped)
        row = Stream(source.last, self.popped & source.ends, Signal(name="rows_ready"))
        job_ends = buffered(m, "row_ends", row, partial(StreamFifo, depth=2 * WORDS_AHEAD))
        ends = self.o.payload.ends
        m.d.comb += [
            job_ends.ready.eq(transfers(self.o) & ends),
            self.delivered.eq(transfers(self.o) & ends & job_ends.payload),
        ]

    def _split(self, m: Module, word: AnyStream) -> Value:
        """Queue words and split them into beats; return whether a word has left."""
        head, popped = new_stream("word_head", word.payload.shape()), Signal(name="word_popped")
        place(
            m, "words", StreamFifo(len(word.payload.as_value()), WORDS_AHEAD),
            i=Stream(word.payload, word.valid, Signal(name="words_ready")),
            o=Stream(head.payload, self.o.valid, popped),
        )  # fmt: skip
        size, beat = self.port.beat_bytes, self.o.payload
        final = Signal(name="final_beat")
        m.d.comb += [
            beat.ends.eq(head.payload.last & final),
            popped.eq(transfers(self.o) & final),
        ]
        if self.beats == 1:
            m.d.comb += [final.eq(1), beat.data.eq(head.payload.data)]
            return popped
        index = Signal(range(self.beats), name="index")
        reached = Signal(range(self.beats * size + 1), name="reached", init=size)
        m.d.comb += [
            final.eq(head.payload.count <= reached),
            beat.data.eq(head.payload.data.word_select(index, 8 * size)),
        ]
        with m.If(transfers(self.o)):
            with m.If(final):
                m.d.sync += [index.eq(0), reached.eq(size)]
            with m.Else():
                m.d.sync += [index.eq(index + 1), reached.eq(reached + size)]
        return popped
