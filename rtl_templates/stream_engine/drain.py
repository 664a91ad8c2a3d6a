# SPDX-License-Identifier: Apache-2.0
"""From beats of results to requests of the writer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hwgen.core.schedule.memory import SIZE_BITS
from hwgen.families.stream_engine.params import ROWS_AHEAD
from rtl_templates.axi.bursts import request_stream
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.streams import AnyStream, Stream, fields, new_stream, transfers
from rtl_templates.stream.stream import StreamFifo, buffered, word_layout

from .job import Region, is_used, region_of
from .walk import RowWalk

if TYPE_CHECKING:
    from hwgen.families.stream_engine.params import StreamEngineConfig


class StreamDrain(Block):
    """Requests the writes of rows of results, each with its tail, and counts their beats.

    Parameters
    ----------
    config : StreamEngineConfig
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    job : In(stream)
        Descriptor of the job whose rows are requested.
    request : Out(stream)
        Requests for the writer.
    i : In(stream)
        Beats of results: ``data``, and ``last``, 1 where the port has no ``tlast``.
    o : Out(stream)
        The same as words (`rtl_templates.stream.stream.word_layout`): ``count`` of their bytes
        belong to the request, ``last`` ends it.
    offset : Out
        Index of the request's first byte in a beat of memory.
    written : In(1)
        A request is in memory.
    finished : Out(1)
        It was the last one of its job.
    mismatch : Out(1)
        A job has no results, or the core's do not end with it.
    """

    resettable = True

    def __init__(self, config: StreamEngineConfig, job: data.StructLayout) -> None:
        self.config, self.job_layout = config, job
        self.beat_bytes = config.results[0].beat_bytes
        self.tail = config.results[0].tail_bytes
        width = 8 * self.beat_bytes
        super().__init__(
            "stream_drain",
            {
                "job": In(stream.Signature(job.size)),
                "request": Out(request_stream(config.memory.address_width, SIZE_BITS)),
                "i": In(stream.Signature(data.StructLayout({"data": width, "last": 1}))),
                "o": Out(stream.Signature(word_layout(width, self.beat_bytes))),
                "offset": Out(range(max(2, config.memory_bytes))),
                "written": In(1),
                "finished": Out(1),
                "mismatch": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        layout = {"address": self.config.memory.address_width, "bytes": SIZE_BITS, "final": 1}
        request, ready = new_stream("new", data.StructLayout(layout)), Signal(3, name="ready")
        empty = self._request_rows(m, Stream(request.payload, request.valid, ready.all()))
        accepted, row = request.valid & ready.all(), request.payload
        place(
            m, "requests", StreamFifo(self.width("request"), ROWS_AHEAD),
            i=Stream(fields(address=row.address, bytes=row.bytes), accepted, ready[0]),
            o=self.request,
        )  # fmt: skip
        final = buffered(
            m, "ends", Stream(row.final, accepted, ready[1]),
            partial(StreamFifo, depth=4 * ROWS_AHEAD),
        )  # fmt: skip
        m.d.comb += [final.ready.eq(self.written), self.finished.eq(self.written & final.payload)]
        offset_bits = len(self.offset)
        piece = fields(offset=row.address[:offset_bits], bytes=row.bytes, final=row.final)
        pieces = buffered(
            m, "pieces", Stream(piece, accepted, ready[2]), partial(StreamFifo, depth=ROWS_AHEAD)
        )
        ends = self._count(m, pieces)
        m.d.comb += self.mismatch.eq(empty | (ends & ~self.i.payload.last))

    def _request_rows(self, m: Module, request: AnyStream) -> Value:
        """Request rows, and their tails; return whether a job has none."""
        job, out = self.job_layout(self.job.payload), self.config.results[0].name
        begin, walk = Signal(name="begin"), RowWalk(self.config.memory.address_width, 0)
        regions: list[tuple[str, Region]] = [("row", region_of(job, out))]
        if self.tail:
            tail = regions[0][1]._replace(
                address=job.tail_address, bytes=job.tail_bytes,
                stride=job.tail_stride, step=job.tail_step,
            )  # fmt: skip
            regions.append(("tail", tail))
        walks = [
            place(m, f"{name}s", walk, begin=begin, region=region).o for name, region in regions
        ]
        tailed = job.tail_bytes.any() if self.tail else Const(0, 1)
        second = Signal(name="second")  # the tail of the row is next
        chosen = Mux(second, 1, 0)
        row, tail = walks[0].payload, walks[-1].payload
        last = Mux(second, tail.last, row.last)
        none = Signal(name="no_results")
        m.d.comb += [
            request.payload.address.eq(Mux(second, tail.address, row.address)),
            request.payload.bytes.eq(Mux(second, tail.bytes, row.bytes)),
            request.payload.final.eq(last & (second | ~tailed)),
        ]
        with m.FSM():
            with m.State("IDLE"), m.If(self.job.valid):
                m.d.comb += [begin.eq(is_used(job, out)), none.eq(~is_used(job, out))]
                with m.If(begin):
                    m.next = "ROWS"
            with m.State("ROWS"):
                m.d.comb += request.valid.eq(1)
                with m.If(request.ready):
                    for i, each in enumerate(walks):
                        m.d.comb += each.ready.eq(chosen == i)
                    m.d.sync += second.eq(tailed & ~second)
                    with m.If(request.payload.final):
                        m.d.comb += self.job.ready.eq(1)
                        m.next = "IDLE"
        return none

    def _count(self, m: Module, pieces: AnyStream) -> Value:
        """Count the beats of each request; return whether a beat is the last one of a job."""
        size, piece, word = self.beat_bytes, pieces.payload, self.o.payload
        last, ends = Signal(name="beat_ends"), Signal(name="job_ends")
        midway = Signal(name="midway")
        rest = Signal(SIZE_BITS, name="bytes_rest", reset_less=True)
        left = Signal(SIZE_BITS, name="bytes_left")
        moves = Signal(name="beat_moves")
        m.d.comb += [
            moves.eq(transfers(self.i)),
            pieces.ready.eq(moves & last),
            left.eq(Mux(midway, rest, piece.bytes)),
            last.eq(left <= size),
            word.data.eq(self.i.payload.data),
            word.count.eq(Mux(last, left, size)),
            word.last.eq(last),
            self.offset.eq(piece.offset if self.config.memory_bytes > 1 else 0),
            self.o.valid.eq(self.i.valid & pieces.valid),
            self.i.ready.eq(self.o.ready & pieces.valid),
            ends.eq(moves & last & piece.final),
        ]
        with m.If(moves):
            m.d.sync += [midway.eq(~last), rest.eq(left - size)]
        return ends
