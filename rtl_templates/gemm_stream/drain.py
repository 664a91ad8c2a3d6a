# SPDX-License-Identifier: Apache-2.0
"""The sequencer of results: blocks of C leave their buffer row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.core.memories import Ram
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.memory import place_ram
from rtl_templates.stream.stream import StreamFifo

from .buffer import Tokens
from .job import post_field
from .loops import BlockSteps

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig


class ResultDrain(Block):
    """Reads complete blocks of C and announces their rows to the writer.

    Parameters
    ----------
    config : GemmStreamConfig
    job : StructLayout
        Layout of a job's descriptor.
    length_width : int
        Bits of the length of a row in bytes.

    Members
    -------
    job, job_valid, job_done
        Descriptor of the job whose results leave, from the queue.
    full, leave, free, address, read, data
        Of `ResultBuffer`.
    columns_full, columns_free, columns_address, columns_read
        The same of `ColumnBuffer`; its records come beside the data.
    row_address, row_bytes, row_valid, row_ready : stream out
        A row of results in memory.
    o_data, o_count, o_last, o_valid, o_ready : stream out
        `post_lanes` accumulators, how many of them there are, the last of the row.
    idle : In(1)
        Everything that was written has arrived in memory.
    """

    resettable = True

    def __init__(self, config: GemmStreamConfig, job: Any, length_width: int) -> None:
        self.config, self.job_layout = config, job
        lanes, width = config.post_lanes, config.result.width
        super().__init__(
            "engine_drain",
            {
                "job": In(job.size),
                "job_valid": In(1),
                "job_done": Out(1),
                "full": In(1),
                "leave": Out(1),
                "free": Out(1),
                "address": Out(range(max(2, config.out_depth))),
                "read": Out(1),
                "data": In(config.n_lanes * width),
                "columns_full": In(1),
                "columns_free": Out(1),
                "columns_address": Out(range(max(2, config.column_groups))),
                "row_address": Out(config.memory.address_width),
                "row_bytes": Out(length_width),
                "row_valid": Out(1),
                "row_ready": In(1),
                "o_data": Out(lanes * width),
                "o_count": Out(range(lanes + 1)),
                "o_last": Out(1),
                "o_valid": Out(1),
                "o_ready": In(1),
                "idle": In(1),
            },
        )

    def build(self, m: Module) -> None:
        config, lanes = self.config, self.config.post_lanes
        parts = config.n_lanes // lanes
        job = self.job_layout(self.job)
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
        beat = Signal.like(self.address, name="beat", init=0)
        group = Signal.like(self.columns_address, name="group", init=0)
        ends = Signal(name="row_ends")
        m.d.comb += [
            self.row_address.eq(row_start),
            self.row_bytes.eq(steps.n.size << size),
            self.address.eq(beat),
            self.columns_address.eq(group),
            self.read.eq(step),
            ends.eq(left <= lanes),
        ]
        with m.FSM():
            with m.State("IDLE"), m.If(self.job_valid):
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
                with m.If(self.full & (self.columns_full | ~columns)):
                    m.next = "ROW"
            with m.State("ROW"):
                m.d.comb += self.row_valid.eq(1)
                m.d.sync += [left.eq(steps.n.size), group.eq(0)]
                with m.If(self.row_ready):
                    m.d.sync += row_start.eq(row_start + job.c_stride)
                    m.next = "WORDS"
            with m.State("WORDS"):
                m.d.comb += step.eq(~self.o_valid | self.o_ready)
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
                m.d.comb += self.job_done.eq(1)
                m.next = "IDLE"
        taken, freeing = self.o_valid & self.o_ready, Signal(name="freeing")
        m.d.comb += [
            self.leave.eq(finished),
            self.free.eq(freeing & taken),
            self.columns_free.eq(finished & columns),
        ]
        m.d.sync += freeing.eq(finished | (freeing & ~taken))
        self._give(m, step, ends, left, part)

    def _give(self, m: Module, step: Value, ends: Value, left: Value, part: Signal) -> None:
        """Give the accumulators that were read a cycle before, `part` of a beat at a time."""
        lanes = self.config.post_lanes
        parts = self.config.n_lanes // lanes
        chosen = Signal(range(parts), name="chosen", reset_less=True)
        with m.If(~self.o_valid | self.o_ready):
            m.d.sync += [
                self.o_valid.eq(step),
                self.o_last.eq(ends),
                self.o_count.eq(Mux(ends, left, lanes)),
                chosen.eq(part),
            ]
        width = lanes * self.config.result.width
        m.d.comb += self.o_data.eq(self.data.word_select(chosen, width) if parts > 1 else self.data)


class ColumnBuffer(Block):
    """Two halves of column records, as `OperandBuffer` has them of operands.

    Parameters
    ----------
    config : GemmStreamConfig
    rows_in_flight : int
        Blocks of records that are on their way at most.

    Members
    -------
    take, room
        A half is taken for the next block; there is one.
    i_data, i_last, i_valid : In
        A word of records; it is the last of its block.
    full, free, address, read, data
        A block is there; it is not needed any more; the records of a group of `post_lanes`
        columns are looked up, and come one cycle later.
    """

    resettable = True

    def __init__(self, config: GemmStreamConfig) -> None:
        self.config = config
        shape = config.buffer_shapes["columns"]
        self.word, self.depth = shape.width, shape.words // 2  # of each half
        super().__init__(
            shape.module,
            {
                "take": In(1),
                "room": Out(1),
                "i_data": In(self.word),
                "i_last": In(1),
                "i_valid": In(1),
                "full": Out(1),
                "free": In(1),
                "address": In(range(max(2, config.column_groups))),
                "read": In(1),
                "data": Out(self.word // config.record_groups),
            },
        )

    def build(self, m: Module) -> None:
        groups, depth = self.config.record_groups, self.depth
        filled = Signal()
        m.d.comb += filled.eq(self.i_valid & self.i_last)
        tokens = Tokens(m, "halves", take=self.take, fill=filled, free=self.free)
        m.d.comb += [self.room.eq(tokens.room), self.full.eq(tokens.full)]
        halves = Signal(2)  # that is written, that is read
        address = Signal(range(depth + 1))
        with m.If(self.i_valid):
            m.d.sync += address.eq(Mux(self.i_last, 0, address + 1))
        m.d.sync += halves.eq(halves ^ filled ^ (self.free << 1))
        select = (groups - 1).bit_length()
        chosen = Signal(range(groups), reset_less=True)
        (read,), write = place_ram(m, "columns", Ram(2 * depth, self.word, halves=True))
        m.d.comb += [
            write.addr.eq(address + Mux(halves[0], depth, 0)),
            write.data.eq(self.i_data),
            write.en.eq(self.i_valid),
            read.addr.eq((self.address >> select) + Mux(halves[1], depth, 0)),
            read.en.eq(self.read),
        ]
        with m.If(self.read):
            m.d.sync += chosen.eq(self.address[:select])
        width = len(self.data)
        m.d.comb += self.data.eq(read.data.word_select(chosen, width) if select else read.data)


def offsets(m: Module, row: Any, *, push: Any, pop: Any, depth: int, ready: Any) -> Signal:
    """Queue the offsets of rows in their first beat from announcement to the row's last word.

    Parameters
    ----------
    m : Module
    row : Value
        Low bits of the address of a row.
    push, pop : Value
        A row is announced; the last word of the oldest one has gone.
    depth : int
        Rows at once.
    ready : Signal
        Driven: there is room for another one.

    Returns
    -------
    Signal
        Of the oldest row.
    """
    head = Signal(len(row), name="row_offset")
    place(
        m, "offsets", StreamFifo(len(row), depth),
        i_data=row, i_valid=push, i_ready=ready,
        o_data=head, o_valid=Signal(name="offset_there"), o_ready=pop,
    )  # fmt: skip
    return head
