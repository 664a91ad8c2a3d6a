# SPDX-License-Identifier: Apache-2.0
"""Addresses of requests: they are those of the rows that the registers of a job describe.

The checkers go through the rows by repeated addition, as the registers are documented.  No row
begins below the first one, nor after the last one of the last block: strides are not negative.  So
all of them lie in the region from the first row to the end of that last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data

from flows.formal.checker import Checker, Port
from rtl_templates.gemm_stream.job import post_field


class RowWalkChecker(Checker):
    """The pieces of a walk are the rows of its region, each byte once and in order.

    Parameters
    ----------
    ports : mapping
    pieces : bool
        Whether rows are cut.
    pages : bool
        Whether rows may lie in pages; then only walks without them are followed.
    """

    def __init__(self, ports: Mapping[str, Port], *, pieces: bool, pages: bool) -> None:
        self.pieces, self.pages = pieces, pages
        width, bits = ports["region_address"].width, ports["region_rows"].width
        probes = {
            **{f"{name}_address": (f"{name}_address", width) for name in ("block", "row")},
            **{f"{name}_left": (f"{name}_left", bits) for name in ("rows", "blocks")},
            **({"entry_waits": ("entry_ready", 1)} if pages else {}),
            **({"bytes_left": ("bytes_left", bits)} if pieces else {}),
        }
        super().__init__(ports, probes)

    def check(self, m: Module) -> None:
        """State where pieces lie."""
        probe = self.probed
        address, size = self["region_address"], self["region_bytes"]
        rows, blocks = self["region_rows"], self["region_blocks"]
        stride, step = self["region_stride"], self["region_step"]
        width = len(address)
        walks = Signal(name="walks")  # from `begin` to the last piece
        row, block, at = (Signal(width, name=name) for name in ("row", "block", "at"))
        rows_left, blocks_left = Signal.like(rows), Signal.like(blocks)
        left = Signal.like(size)  # bytes of the row from the piece on
        begin, valid = self["begin"], self["o_valid"]
        moves = valid & self["o_ready"]
        last_row, last_block = rows_left == 1, blocks_left == 1
        ends, last = self["o_ends"], self["o_last"]
        starts = begin & ~self["paged"] if self.pages else begin
        with m.If(starts):
            m.d.sync += [
                *(each.eq(address) for each in (row, block, at)),
                walks.eq(1), rows_left.eq(rows), blocks_left.eq(blocks), left.eq(size),
            ]  # fmt: skip
        with m.Elif(begin):
            m.d.sync += walks.eq(0)
        with m.Elif(moves & walks):
            m.d.sync += [left.eq(left - self["o_bytes"]), at.eq(at + self["o_bytes"])]
            with m.If(ends):
                next_row = Mux(last_row, block + step, row + stride)[:width]
                m.d.sync += [
                    rows_left.eq(Mux(last_row, rows, rows_left - 1)),
                    left.eq(size), row.eq(next_row), at.eq(next_row),
                ]  # fmt: skip
                with m.If(last_row):
                    m.d.sync += [blocks_left.eq(blocks_left - 1), block.eq(next_row)]
                with m.If(last_row & last_block):
                    m.d.sync += walks.eq(0)
        self._assume(m, walks, begin, last)
        self.require(
            "address of a piece", ~(walks & valid) | (self["o_address"] == at),
            "a row begins a stride after the one before, a piece where the one before ends",
        )  # fmt: skip
        self.require(
            "bytes of a piece",
            ~(walks & valid)
            | ((self["o_bytes"] != 0) & Mux(ends, self["o_bytes"] == left, self["o_bytes"] < left)),
            "the pieces of a row have its bytes, no more and no less",
        )  # fmt: skip
        self.require(
            "last piece", ~(walks & valid) | (last == (ends & last_row & last_block)),
            "the walk ends with its last row",
        )  # fmt: skip
        self.require(
            "walk", (valid == walks) if not self.pages else ~walks | valid,
            "there are pieces until the last one, and none later",
        )  # fmt: skip
        self.require(
            "lemma walk",
            ~walks
            | (
                valid
                & self._filled
                & (~probe["entry_waits"] if self.pages else 1)
                & (probe["rows_left"] == rows_left)
                & (probe["blocks_left"] == blocks_left)
                & ((probe["bytes_left"] if self.pieces else self["o_bytes"]) == left)
                & (probe["row_address"] == row)
                & (probe["block_address"] == block)
                & (left != 0) & (rows_left != 0) & (blocks_left != 0)
            ),
            "registers follow the rows",
        )  # fmt: skip
        self.cover(
            "the last of two blocks of two rows",
            walks & valid & last & (rows == 2) & (blocks == 2), "a whole walk",
        )  # fmt: skip

    @property
    def _filled(self) -> Value:
        return Cat(self[f"region_{name}"].any() for name in ("bytes", "rows", "blocks")).all()

    def _assume(self, m: Module, walks: Value, begin: Value, last: Value) -> None:
        """Assume that the region is none that is empty, and does not change."""
        names = ("address", "bytes", "rows", "blocks", "stride", "step")
        region = Cat(self[f"region_{name}"] for name in names)
        before = Signal.like(region, name="region_before")
        m.d.sync += before.eq(region)
        self.assume(
            "region", ~walks | (region == before), "it does not change until its last row has left"
        )
        filled = self._filled
        self.assume("not empty", ~begin | filled, "it has bytes, rows and blocks")
        self.assume("begin", ~(begin & walks), "none begins before the last one has left")
        if self.pages:
            self.assume("no pages", ~(begin | walks) | ~self["paged"], "rows lie in no pages")


class _Axis:
    """Blocks of results along M or N: what is left, in elements and in tiles.

    Attributes
    ----------
    left, tiles : Signal
    last, size : Value
        Whether the block at hand is the last one; its elements.
    """

    def __init__(self, name: str, job: Any) -> None:
        self.all = job[name], job[f"{name}t"]
        self.block = job[f"{name}b"], job[f"{name}bt"]
        self.left, self.tiles = (
            Signal(len(each), name=f"{name}_{part}")
            for each, part in zip(self.all, ("left", "tiles"), strict=True)
        )
        self.last = self.tiles <= self.block[1]
        self.size = Mux(self.last, self.left, self.block[0])

    def begin(self, m: Module) -> None:
        """Go to the first block."""
        m.d.sync += [self.left.eq(self.all[0]), self.tiles.eq(self.all[1])]

    def advance(self, m: Module) -> None:
        """Go to the next block, from the last one to the first."""
        for left, whole, block in zip((self.left, self.tiles), self.all, self.block, strict=True):
            m.d.sync += left.eq(Mux(self.last, whole, left - block))


class ResultRowChecker(Checker):
    """The rows that are written are those of the blocks of a job's result, each once.

    Parameters
    ----------
    ports : mapping
    layout : StructLayout
        Of a job's descriptor.
    """

    def __init__(self, ports: Mapping[str, Port], layout: data.StructLayout) -> None:
        self.layout = layout
        width, bits = ports["row_address"].width, layout["m"].width
        probes = {
            "state": ("fsm_state", 3),
            "row": ("row", width),
            "column": ("column", width),
            "rows_left": ("rows_left", bits),
            **{f"{axis}_left": (f"{axis}_left", bits) for axis in ("m", "mt", "n", "nt")},
        }
        super().__init__(ports, probes)

    def check(self, m: Module) -> None:
        """State which rows are requested."""
        job = self.layout(self["job_data"])
        size = post_field(job, "size")
        width = len(self["row_address"])
        axes = _Axis("m", job), _Axis("n", job)
        down, across = axes
        works = Signal(name="works")  # from the begin of a job to the end of its last block
        base, column, start = (Signal(width, name=name) for name in ("base", "column", "start"))
        rows = Signal(len(down.left), name="rows")  # of the block that were not requested
        begun = Signal(name="begun")  # the block has requested a row
        valid, leaves = self["row_valid"], self["block_leave"]
        accepted = valid & self["row_ready"]
        now, to_come = Signal.like(start, name="this_row"), Signal.like(rows, name="rows_to_come")
        m.d.comb += [
            now.eq(Mux(begun, start, base + column)),
            to_come.eq(Mux(begun, rows, down.size)),
        ]
        down_moves, across_moves = job.m_inner | across.last, ~job.m_inner | down.last
        last = down.last & across.last
        waits = Signal(name="waits_for_end")  # all blocks have left
        with m.If(self["job_valid"] & ~works & ~waits):
            m.d.sync += [works.eq(1), base.eq(job.c_address), column.eq(0), begun.eq(0)]
            for axis in axes:
                axis.begin(m)
        with m.Elif(works & leaves):
            m.d.sync += [begun.eq(0), works.eq(~last), waits.eq(last)]
            with m.If(down_moves):
                m.d.sync += base.eq(Mux(down.last, job.c_address, base + job.c_m_step))
                down.advance(m)
            with m.If(across_moves):
                m.d.sync += column.eq(Mux(across.last, 0, column + (job.nb << size)))
                across.advance(m)
        with m.Elif(works & accepted):
            m.d.sync += [begun.eq(1), start.eq(now + job.c_stride), rows.eq(to_come - 1)]
        with m.If(self["job_ready"]):
            m.d.sync += waits.eq(0)
        pending = Signal(name="job_pending")
        before = Signal.like(self["job_data"], name="job_before")
        m.d.sync += [
            pending.eq(self["job_valid"] & ~self["job_ready"]), before.eq(self["job_data"])
        ]  # fmt: skip
        self.assume(
            "job", ~pending | (self["job_valid"] & (self["job_data"] == before)),
            "a job does not change until it is done",
        )  # fmt: skip
        self.require(
            "address of a row", ~valid | (self["row_address"] == now),
            "a row begins a stride after the one before, a block a step of blocks",
        )  # fmt: skip
        self.require(
            "bytes of a row",
            ~valid | (self["row_bytes"] == (across.size << size)[: len(self["row_bytes"])]),
            "a row has the bytes of the block's columns",
        )  # fmt: skip
        self.require(
            "rows of jobs only", ~valid | (works & (~begun | (rows != 0))),
            "no row is requested that is none of the block",
        )  # fmt: skip
        self.require(
            "all rows", ~leaves | (works & begun & (rows == 0)),
            "a block leaves its buffer when all of its rows are requested",
        )  # fmt: skip
        self.require(
            "end of a job", ~self["job_ready"] | (waits & self["idle"]),
            "a job is done when all blocks have left and all writes are answered",
        )  # fmt: skip
        quiet = Signal(4, name="quiet_cycles")
        waits_for = (valid & ~self["row_ready"]) | (self["o_valid"] & ~self["o_ready"])
        waits_for = waits_for | ~self["block_full"] | ~self["records_full"]
        waits_for = waits_for | (waits & ~self["idle"])
        moves = accepted | self["block_read"] | leaves | self["job_ready"]
        with m.If(~self["job_valid"] | waits_for | moves):
            m.d.sync += quiet.eq(0)
        with m.Elif(quiet != 15):
            m.d.sync += quiet.eq(quiet + 1)
        self.require(
            "goes on", quiet <= 2,
            "with a job, complete blocks and a memory that accepts, there is a row or a word every"
            " three cycles",
        )  # fmt: skip
        probe, idle, flush = self.probed, 0, 4
        state = probe["state"]
        self.require(
            "lemma state",
            (state <= flush) & (works == ((state != idle) & (state != flush)))
            & (waits == (state == flush))
            & ((state == idle) | self["job_valid"]),
            "the state follows the job",
        )  # fmt: skip
        self.require(
            "lemma cycles", quiet <= Mux(state == idle, 0, Mux(state == 1, 1, 2)),
            "no state but two in a row moves nothing",
        )  # fmt: skip
        writes, words = state == 2, state == 3
        self.require(
            "lemma rows",
            ~works
            | (
                (probe["row"] == base) & (probe["column"] == column)
                & (probe["m_left"] == down.left) & (probe["mt_left"] == down.tiles)
                & (probe["n_left"] == across.left) & (probe["nt_left"] == across.tiles)
                & (~(writes | words) | (self["row_address"] == Mux(words, start, now)))
                & (~writes | (probe["rows_left"] == to_come))
                & (~writes | ~begun | (rows != 0))
                & (~words | (begun & (probe["rows_left"] == (rows + 1)[: len(rows)])))
                & ((state != 1) | ~begun)
            ),
            "registers follow the rows",
        )  # fmt: skip
        self.cover("the last of two blocks", leaves & last & (job.nb < job.n), "a whole job")
