# SPDX-License-Identifier: Apache-2.0
"""Sequencer of results: blocks of C leave their buffer row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hwgen.core.memories import Ram
from rtl_templates.axi.bursts import request_stream
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.hdl.memory import place_ram
from rtl_templates.hdl.streams import transfers
from rtl_templates.stream.stream import word_layout

from .buffer import HalfTokens
from .collect import BlockRead
from .job import post_field
from .loops import BlockSteps

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig


class ResultDrain(Block):
    """Reads complete blocks of C and requests the writes of their rows.

    Parameters
    ----------
    config : GemmStreamConfig
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    job : In(stream)
        Descriptor of the job whose results leave.
    block : In(BlockRead)
        The buffer of results.
    records : In(RecordRead)
        The buffer of column records; its records arrive with the data.
    row : Out(stream)
        A row of results in memory (`rtl_templates.axi.bursts.request_stream`).
    o : Out(stream)
        Words of `post_lanes` accumulators.
    idle : In(1)
        All writes have been answered.
    """

    resettable = True

    def __init__(self, config: GemmStreamConfig, job: data.StructLayout) -> None:
        self.config, self.job_layout = config, job
        lanes, width = config.post_lanes, config.result.width
        super().__init__(
            "engine_drain",
            {
                "job": In(stream.Signature(job.size)),
                "block": In(BlockRead(config.out_depth, config.n_lanes * width)),
                "records": In(RecordRead(config.column_groups)),
                "row": Out(request_stream(config.memory.address_width, config.length_width)),
                "o": Out(stream.Signature(word_layout(lanes * width, lanes))),
                "idle": In(1),
            },
        )

    def build(self, m: Module) -> None:
        config, lanes = self.config, self.config.post_lanes
        parts = config.n_lanes // lanes
        job = self.job_layout(self.job.payload)
        steps = BlockSteps(m, job, reduction=False)
        size = post_field(job, "size")
        columns = post_field(job, "columns") & config.post.columns
        step, finished = Signal(name="step"), Signal(name="finished")
        row, column = (
            Signal(config.memory.address_width, name=name, reset_less=True)
            for name in ("row", "column")  # where the row of blocks begins, and the block in it
        )
        row_start = Signal(config.memory.address_width, name="this_row", reset_less=True)
        rows = Signal(len(job.m), name="rows_left", reset_less=True)
        left = Signal(len(job.n), name="columns_left", reset_less=True)
        part = Signal(range(parts), name="part")
        beat = Signal.like(self.block.address, name="beat", init=0)
        group = Signal.like(self.records.address, name="group", init=0)
        ends = Signal(name="row_ends")
        m.d.comb += [
            self.row.payload.address.eq(row_start),
            self.row.payload.bytes.eq(steps.n.size << size),
            self.block.address.eq(beat),
            self.records.address.eq(group),
            self.block.read.eq(step),
            ends.eq(left <= lanes),
        ]
        with m.FSM():
            with m.State("IDLE"), m.If(self.job.valid):
                steps.begin()
                m.d.sync += [row.eq(job.c_address), column.eq(0)]
                m.next = "WAIT"
            with m.State("WAIT"):
                m.d.sync += [
                    row_start.eq(row + column),
                    rows.eq(steps.m.size),
                    beat.eq(0),
                    part.eq(0),
                ]
                with m.If(self.block.full & (self.records.full | ~columns)):
                    m.next = "ROW"
            with m.State("ROW"):
                m.d.comb += self.row.valid.eq(1)
                m.d.sync += [left.eq(steps.n.size), group.eq(0)]
                with m.If(self.row.ready):
                    m.d.sync += row_start.eq(row_start + job.c_stride)
                    m.next = "WORDS"
            with m.State("WORDS"):
                m.d.comb += step.eq(~self.o.valid | self.o.ready)
                with m.If(step):
                    m.d.sync += [left.eq(left - lanes), group.eq(group + 1)]
                    with m.If(ends | (part == parts - 1)):
                        m.d.sync += [part.eq(0), beat.eq(beat + 1)]
                    with m.Else():
                        m.d.sync += part.eq(part + 1)
                    with m.If(ends):
                        m.d.sync += rows.eq(rows - 1)
                        m.next = "ROW"
                        with m.If(rows == 1):
                            m.d.comb += finished.eq(1)
                            steps.advance()
                            for value, first, move, moves, wraps in (
                                (row, job.c_address, job.c_m_step, steps.m_moves, steps.m.last),
                                (column, 0, job.nb << size, steps.n_moves, steps.n.last),
                            ):
                                with m.If(moves):
                                    m.d.sync += value.eq(Mux(wraps, first, value + move))
                            m.next = "WAIT"
                            with m.If(steps.last):
                                m.next = "FLUSH"
            with m.State("FLUSH"), m.If(self.idle):
                m.d.comb += self.job.ready.eq(1)
                m.next = "IDLE"
        popped, releasing = transfers(self.o), Signal(name="releasing")
        m.d.comb += [
            self.block.leave.eq(finished),
            self.block.release.eq(releasing & popped),
            self.records.release.eq(finished & columns),
        ]
        m.d.sync += releasing.eq(finished | (releasing & ~popped))
        self._push_words(m, step, ends, left, part)

    def _push_words(self, m: Module, step: Value, ends: Value, left: Value, part: Signal) -> None:
        """Push the accumulators that were read a cycle before, `part` of a beat at a time."""
        lanes = self.config.post_lanes
        parts = self.config.n_lanes // lanes
        part_of_beat = Signal(range(parts), name="part_of_beat", reset_less=True)
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [
                self.o.valid.eq(step),
                self.o.payload.last.eq(ends),
                self.o.payload.count.eq(Mux(ends, left, lanes)),
                part_of_beat.eq(part),
            ]
        width = lanes * self.config.result.width
        beat = self.block.data
        m.d.comb += self.o.payload.data.eq(
            beat.word_select(part_of_beat, width) if parts > 1 else beat
        )


class RecordRead(wiring.Signature):
    """Signature of the read port of the buffer of column records, seen from the buffer.

    Parameters
    ----------
    groups : int
        Groups of `post_lanes` columns of a block.

    Members
    -------
    full : Out(1)
        A block of records is complete.
    release : In(1)
        It is not needed any more.
    address : In
        Group of columns.
    """

    def __init__(self, groups: int) -> None:
        super().__init__({"full": Out(1), "release": In(1), "address": In(range(max(2, groups)))})


class ColumnBuffer(Block):
    """Double buffer of column records, as `OperandBuffer` is of operands.

    Parameters
    ----------
    config : GemmStreamConfig

    Members
    -------
    free : Out(1)
        There is a half for the next block.
    claim : In(1)
        The next block claims it.
    i : In(stream), always ready
        Words of records: ``data``, and ``last`` of the block.
    records : Out(RecordRead)
    read : In(1)
        Read the records of the group.
    data : Out
        The records, one cycle later.
    """

    resettable = True

    def __init__(self, config: GemmStreamConfig) -> None:
        self.config = config
        shape = config.buffer_shapes["columns"]
        self.word, self.depth = shape.width, shape.words // 2  # of each half
        words = data.StructLayout({"data": self.word, "last": 1})
        super().__init__(
            shape.module,
            {
                "free": Out(1),
                "claim": In(1),
                "i": In(stream.Signature(words, always_ready=True)),
                "records": Out(RecordRead(config.column_groups)),
                "read": In(1),
                "data": Out(self.word // config.record_groups),
            },
        )

    def build(self, m: Module) -> None:
        groups, depth = self.config.record_groups, self.depth
        filled = Signal()
        release = self.records.release
        m.d.comb += filled.eq(self.i.valid & self.i.payload.last)
        tokens = HalfTokens(m, "halves", claim=self.claim, fill=filled, release=release)
        m.d.comb += [self.free.eq(tokens.free), self.records.full.eq(tokens.full)]
        halves = Signal(2)  # that is written, that is read
        address = Signal(range(depth + 1))
        with m.If(self.i.valid):
            m.d.sync += address.eq(Mux(self.i.payload.last, 0, address + 1))
        m.d.sync += halves.eq(halves ^ filled ^ (release << 1))
        select = (groups - 1).bit_length()
        record = Signal(range(groups), reset_less=True)
        (read,), write = place_ram(m, "columns", Ram(2 * depth, self.word, halves=True))
        m.d.comb += [
            write.addr.eq(address + Mux(halves[0], depth, 0)),
            write.data.eq(self.i.payload.data),
            write.en.eq(self.i.valid),
            read.addr.eq((self.records.address >> select) + Mux(halves[1], depth, 0)),
            read.en.eq(self.read),
        ]
        with m.If(self.read):
            m.d.sync += record.eq(self.records.address[:select])
        width = len(self.data)
        m.d.comb += self.data.eq(read.data.word_select(record, width) if select else read.data)
