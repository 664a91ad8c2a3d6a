# SPDX-License-Identifier: Apache-2.0
"""From beats of the memory to beats of a port of the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.families.stream_engine.params import WORDS_AHEAD
from rtl_templates.axi.gather import Gather
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.stream.stream import StreamFifo, StreamStore

if TYPE_CHECKING:
    from hwgen.families.stream_engine.params import StreamEngineConfig


class PortFeed(Block):
    """Beats of the memory wait here, and leave as beats of a port; each row begins with a new one.

    Parameters
    ----------
    config : StreamEngineConfig
    port : StreamPort
    depth : int
        Beats of the memory that wait here.

    Members
    -------
    i_data, i_first, i_count, i_ends, i_last, i_valid : In
        A beat as the reader gives it; it ends a row; it is the job's last one for this port.  There
        is always room, since nothing is read without.
    popped : Out(1)
        A beat has left the buffer.
    o_data, o_ends, o_valid, o_ready : stream out
        A beat of the port, zeros behind the end of a row; it ends the row.
    delivered : Out(1)
        The core takes a job's last beat.
    """

    resettable = True

    def __init__(self, config: StreamEngineConfig, port: Any, depth: int) -> None:
        self.config, self.port, self.depth = config, port, depth
        self.beats = config.word_beats(port)
        self.gather = Gather(
            config.memory.data_width, 1, 8, self.beats * port.beat_bytes, counted=True
        )
        super().__init__(
            f"stream_feed_{config.memory.data_width}_{depth}_{port.beat_bytes}",
            {
                **{name: In(self.gather.width(name)) for name in ("i_data", "i_first", "i_count")},
                "i_ends": In(1),
                "i_last": In(1),
                "i_valid": In(1),
                "popped": Out(1),
                "o_data": Out(port.data_width),
                "o_ends": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
                "delivered": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        beat = Cat(self.i_data, self.i_first, self.i_count, self.i_ends, self.i_last)
        held, there = Signal(len(beat), name="held"), Signal(name="beat_there")
        depth = self.depth - 1  # the oldest beat has a place of its own
        place(
            m, "beats", StreamStore(len(beat), depth),
            i_data=beat, i_valid=self.i_valid, i_ready=Signal(name="beat_room"),
            o_data=held, o_valid=there, o_ready=self.popped,
            level=Signal(range(depth + 2), name="beats_level"),
        )  # fmt: skip
        data, first, count = (self.gather.width(name) for name in ("i_data", "i_first", "i_count"))
        word = {
            name: Signal(self.gather.width(f"o_{name}"), name=f"word_{name}")
            for name in ("data", "last", "valid", "count")
        }
        # A beat may give two words, and one may be on its way.
        level = Signal(range(WORDS_AHEAD + 1), name="words")
        allowed, ready = Signal(name="allowed"), Signal(name="gather_ready")
        m.d.comb += [
            allowed.eq(there & (level + word["valid"] <= WORDS_AHEAD - 2)),
            self.popped.eq(allowed & ready),
        ]
        place(
            m, "gather", self.gather,
            i_data=held[:data], i_first=held[data : data + first],
            i_count=held[data + first : data + first + count], i_last=held[-2],
            i_valid=allowed, i_ready=ready, **{f"o_{name}": s for name, s in word.items()},
        )  # fmt: skip
        taken = self._cut(m, word)
        m.d.sync += level.eq(level + word["valid"] - taken)
        last = Signal(name="job_ends")
        place(
            m, "row_kinds", StreamFifo(1, 2 * WORDS_AHEAD),
            i_data=held[-1], i_valid=self.popped & held[-2], i_ready=Signal(name="kind_room"),
            o_data=last, o_valid=Signal(name="kind_there"),
            o_ready=self.o_valid & self.o_ready & self.o_ends,
        )  # fmt: skip
        m.d.comb += self.delivered.eq(self.o_valid & self.o_ready & self.o_ends & last)

    def _cut(self, m: Module, word: dict[str, Signal]) -> Value:
        """Queue words and give their beats; return whether a word has left."""
        entry = Cat(word["data"], word["count"], word["last"])
        head, taken = Signal(len(entry), name="head"), Signal(name="word_taken")
        place(
            m, "words", StreamFifo(len(entry), WORDS_AHEAD),
            i_data=entry, i_valid=word["valid"], i_ready=Signal(name="word_room"),
            o_data=head, o_valid=self.o_valid, o_ready=taken,
        )  # fmt: skip
        size, bits = self.port.beat_bytes, len(word["data"])
        count, last, final = head[bits:-1], head[-1], Signal(name="final_beat")
        m.d.comb += [self.o_ends.eq(last & final), taken.eq(self.o_valid & self.o_ready & final)]
        if self.beats == 1:
            m.d.comb += [final.eq(1), self.o_data.eq(head[:bits])]
            return taken
        index = Signal(range(self.beats), name="index")
        reached = Signal(range(self.beats * size + 1), name="reached", init=size)
        m.d.comb += [
            final.eq(count <= reached),
            self.o_data.eq(head[:bits].word_select(index, 8 * size)),
        ]
        with m.If(self.o_valid & self.o_ready):
            with m.If(final):
                m.d.sync += [index.eq(0), reached.eq(size)]
            with m.Else():
                m.d.sync += [index.eq(index + 1), reached.eq(reached + size)]
        return taken
