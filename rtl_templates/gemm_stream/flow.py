# SPDX-License-Identifier: Apache-2.0
"""Data flow of an engine, between its memory port and its job queue."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import Out

from hwgen.core.post.records import RECORD_BYTES
from hwgen.families.gemm_stream.params import ROWS_AHEAD
from rtl_templates.axi.gather import Gather
from rtl_templates.axi.job_flow import JobFlow
from rtl_templates.axi.reader import BurstReader
from rtl_templates.axi.scatter import Scatter
from rtl_templates.axi.writer import BurstWriter
from rtl_templates.hdl.hierarchy import Placed, place
from rtl_templates.hdl.streams import AnyStream, Stream, create, fields, transfers
from rtl_templates.post import Post
from rtl_templates.stream.stream import StreamFifo, buffered

from .buffer import OperandBuffer
from .collect import ResultBuffer
from .cores import CoreArray
from .drain import ColumnBuffer, RecordRead, ResultDrain
from .job import post_field
from .load import ACT, COLUMNS, WGT, Loader

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

CONSUMERS = ("load", "act", "wgt", "collect", "drain")
"""Consumers of the queue, in the order in which a job goes through them."""

EVENTS = ("load_waits", "compute_waits", "drain_waits", "reads", "writes")
"""Counted events: cycles without a free buffer for a load, without operands, without space for
results; beats on the memory port."""


class Flow(JobFlow):
    """Loads, cores and results; its reset ends all that is in progress.

    Parameters
    ----------
    config : GemmStreamConfig
    core : Component
        One core.
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    those of `JobFlow`
    read_error, write_error : Out(1)
        Pulses: an answer was an error.
    load_waits, compute_waits, drain_waits, reads, writes : Out(1)
        See `EVENTS`.
    """

    CONSUMERS = CONSUMERS

    def __init__(
        self, config: GemmStreamConfig, core: wiring.Component, job: data.StructLayout
    ) -> None:
        super().__init__("engine", config, job, ("read_error", "write_error", *EVENTS))
        self.core = core

    def build(self, m: Module) -> None:
        config, mem = self.config, self.mem
        free = Signal(3, name="free")  # halves of the buffers of A, W and column records
        loader = place(
            m, "loader", Loader(config, self.job_layout),
            job=self.load_job, alone=self.alone, free=free, starved=self.load_waits,
        )  # fmt: skip
        rows, words, reader_busy = self._read(m, loader.row)
        buffers = [
            place(
                m, f"{name}_buffer",
                OperandBuffer(config, name, config.rows_in_flight, self.job_layout),
                job=job, row=rows[operand], i=words[operand],
                claim=loader.claim[operand], whole=loader.whole[operand],
            )
            for operand, name, job in ((ACT, "act", self.act_job), (WGT, "wgt", self.wgt_job))
        ]  # fmt: skip
        act, wgt = buffers
        cores = place(m, "cores", CoreArray(config, self.core), act=act.o, wgt=wgt.o)
        results = place(
            m, "results", ResultBuffer(config, self.job_layout),
            job=self.collect_job, i=cores.out, blocked=self.drain_waits,
        )  # fmt: skip
        columns = None
        if config.post.columns:
            columns = place(
                m, "columns", ColumnBuffer(config), i=words[COLUMNS],
                claim=loader.claim[COLUMNS], read=results.block.read,
            )  # fmt: skip
            buffers.append(columns)
        writer_busy = self._write(m, results, columns)
        m.d.comb += [
            free.eq(Cat(each.free for each in buffers)),
            self.compute_waits.eq(act.starved | wgt.starved),
            self.reads.eq(transfers(mem.r)),
            self.writes.eq(transfers(mem.w)),
            self.busy.eq(reader_busy | writer_busy),
        ]

    # -- memory to buffers -----------------------------------------------------------------

    def _read(
        self, m: Module, row: AnyStream
    ) -> tuple[dict[int, Stream], dict[int, AnyStream], Value]:
        """Read rows; return the rows and the words for each buffer, and whether reads are busy."""
        config, memory, request = self.config, self.config.memory, row.payload
        # A row goes to the reader, to the queue of routes of its beats, and to its buffer.
        reader_ready, route_ready = Signal(name="reader_ready"), Signal(name="route_ready")
        rows = {
            operand: Stream(
                fields(final=request.final),
                row.valid & row.ready & (request.operand == operand),
                Signal(name=f"{name}_row_ready"),
            )
            for operand, name in ((ACT, "act"), (WGT, "wgt"))
        }
        buffer_ready = Signal(name="buffer_ready")
        m.d.comb += buffer_ready.eq(1)
        for operand, of_buffer in rows.items():
            with m.If(request.operand == operand):
                m.d.comb += buffer_ready.eq(of_buffer.ready)
        m.d.comb += row.ready.eq(reader_ready & route_ready & buffer_ready)
        reader = place(
            m, "reader",
            BurstReader(memory.data_width, memory.address_width, memory.max_burst,
                        memory.outstanding, config.length_width),
            i=Stream(
                fields(address=request.address, bytes=request.bytes),
                row.valid & route_ready & buffer_ready, reader_ready,
            ),
            ar=self.mem.ar, r=self.mem.r, stop=self.stop, error=self.read_error,
        )  # fmt: skip
        formats = {"format": request.format} if config.format_bits else {}
        route = buffered(
            m, "routes",
            Stream(fields(operand=request.operand, **formats), row.ready & row.valid, route_ready),
            partial(StreamFifo, depth=config.rows_in_flight),
        )  # fmt: skip
        beat, ready = reader.o, Signal(3, name="gather_ready")
        m.d.comb += [
            route.ready.eq(transfers(beat) & beat.payload.last),
            beat.ready.eq(route.valid & ready.bit_select(route.payload.operand, 1)),
        ]
        return rows, self._gathered(m, beat, route, ready), reader.busy

    def _gathered(
        self, m: Module, beat: AnyStream, route: AnyStream, ready: Signal
    ) -> dict[int, AnyStream]:
        """Pack beats into words; return the words of each operand."""
        config = self.config
        data_width = config.memory.data_width
        gathers: list[tuple[int, str, Gather, tuple[int | None, ...] | None]] = []
        for operand, name in ((ACT, "act"), (WGT, "wgt")):
            rows = getattr(config, f"{name}_rows")
            if rows.stored_bits:
                lengths = tuple(getattr(each, f"{name}_rows").word_bytes for each in config.formats)
                gather = Gather(data_width, 1, 8, max(lengths), lengths=lengths)
                gathers.append((operand, name, gather, None))
            else:
                gather = Gather(data_width, rows.item_bytes, rows.item_bits, rows.items)
                gathers.append((operand, name, gather, rows.order))
        if config.post.columns:
            lanes = config.post_lanes * config.record_groups
            gather = Gather(data_width, RECORD_BYTES, 8 * RECORD_BYTES, lanes)
            gathers.append((COLUMNS, "columns", gather, None))
        words: dict[int, AnyStream] = {}
        beat_valid = beat.valid & route.valid
        for operand, name, gather, order in gathers:
            formats = {"row_format": route.payload.format} if len(gather.lengths) > 1 else {}
            valid = beat_valid & (route.payload.operand == operand)
            source = Stream(beat.payload, valid, ready[operand])
            word = place(m, f"{name}_gather", gather, i=source, **formats).o
            if order is not None:
                bits = Signal(len(order), name=f"{name}_beats")
                chosen = (Const(0) if bit is None else word.payload.data[bit] for bit in order)
                m.d.comb += bits.eq(Cat(*chosen))
                word = Stream(fields(data=bits, last=word.payload.last), word.valid)
            words[operand] = word
        return words

    # -- results to memory -----------------------------------------------------------------

    def _write(self, m: Module, results: Placed, columns: Placed | None) -> Value:
        """Write the blocks of results; return whether writes are busy."""
        config, memory, lanes = self.config, self.config.memory, self.config.post_lanes
        records = create("records", Out(RecordRead(config.column_groups)))
        idle = Signal(name="idle")
        drain = place(
            m, "drain", ResultDrain(config, self.job_layout),
            job=self.drain_job, block=results.block, idle=idle,
            records=columns.records if columns else records,
        )  # fmt: skip
        word, job = drain.o, self.job_layout(self.drain_job.payload)
        if columns:
            item = word.payload
            with_records = fields(
                records=columns.data, data=item.data, count=item.count, last=item.last
            )
            word = Stream(with_records, word.valid, word.ready)
        done = place(m, "post", Post(config.post_features, lanes), settings=job.post, i=word).o

        # Rows are requested while earlier ones are still in post-processing.
        row, queue = drain.row, partial(StreamFifo, depth=ROWS_AHEAD)
        rows_ready, offsets_ready = Signal(name="rows_ready"), Signal(name="offsets_ready")
        m.d.comb += row.ready.eq(rows_ready & offsets_ready)
        pending = buffered(
            m, "rows", Stream(row.payload, row.valid & offsets_ready, rows_ready), queue
        )
        offset_bits = (config.memory_bytes - 1).bit_length()
        low_address = row.payload.address[:offset_bits]
        offset = buffered(
            m, "offsets", Stream(low_address, row.valid & row.ready, offsets_ready), queue
        )
        m.d.comb += offset.ready.eq(transfers(done) & done.payload.last)

        lane_bytes = len(done.payload.data) // lanes // 8
        beats = place(
            m, "scatter", Scatter(memory.data_width, lanes, lane_bytes), i=done,
            size=post_field(job, "size"), offset=offset.payload,
        ).o  # fmt: skip
        writer = place(
            m, "writer",
            BurstWriter(memory.data_width, memory.address_width, memory.max_burst,
                        memory.outstanding, config.length_width),
            i=pending, d=beats, aw=self.mem.aw, w=self.mem.w, b=self.mem.b,
            stop=self.stop, error=self.write_error,
        )  # fmt: skip
        m.d.comb += idle.eq(~(writer.busy | pending.valid))
        return writer.busy
