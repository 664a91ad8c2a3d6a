# SPDX-License-Identifier: Apache-2.0
"""Sequencer of loads: it requests the rows of A, W and column records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hwgen.core.post.records import RECORD_BYTES
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.hdl.streams import transfers

from .formats import by_format, format_of
from .job import post_field
from .loops import BlockSteps

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

ACT, WGT, COLUMNS = 0, 1, 2
"""Operands whose rows are loaded."""


def row_layout(address_width: int, length_width: int, format_bits: int) -> data.StructLayout:
    """Return the payload of a row to load.

    ``operand`` is `ACT`, `WGT` or `COLUMNS`; ``format``, where cores have several, is the index of
    the row's; ``final`` marks the last row of its block.
    """
    formats = {"format": format_bits} if format_bits else {}
    return data.StructLayout(
        {"address": address_width, "bytes": length_width, "operand": 2, **formats,
         "final": 1}
    )  # fmt: skip


class AddressPart(NamedTuple):
    """A part of the address of blocks: its register, first value, step, and when it changes."""

    register: Signal
    first: ValueLike
    step: ValueLike
    moves: ValueLike
    wraps: ValueLike


class Loader(Block):
    """Requests the rows of each block that a job needs, in the order of its steps.

    A block of A comes first, then that of W, then the parameters of the columns of a new block of
    C; each waits until half of its buffer is free, or both halves for a block that claims both.

    Parameters
    ----------
    config : GemmStreamConfig
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    job : In(stream)
        Descriptor of the job to load.
    alone : In(1)
        No earlier job is unfinished.
    free, claim : In(3), Out(3)
        The next block's part of a buffer is free; it is claimed: of A, W, parameters.
    whole : Out(2)
        Blocks of A, of W, of this job claim both halves of their buffer.
    row : Out(stream)
        A row (`row_layout`).
    starved : Out(1)
        A block waits for its buffer.
    """

    resettable = True

    def __init__(self, config: GemmStreamConfig, job: data.StructLayout) -> None:
        self.config, self.job_layout = config, job
        layout = row_layout(config.memory.address_width, config.length_width, config.format_bits)
        super().__init__(
            "engine_loader",
            {
                "job": In(stream.Signature(job.size)),
                "alone": In(1),
                "free": In(3),
                "claim": Out(3),
                "whole": Out(2),
                "row": Out(stream.Signature(layout)),
                "starved": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        job, request = self.job_layout(self.job.payload), self.row.payload
        steps = BlockSteps(m, job)
        starts = self._block_addresses(m, job, steps)
        columns = post_field(job, "columns") & self.config.post.columns
        needs = Cat(steps.loads_a, steps.loads_w, steps.first & columns)
        done = Signal(3)  # blocks of this step that are requested
        left = needs & ~done
        row = Signal(len(request.address), name="row_address", reset_less=True)
        rows = Signal(len(job.m), name="rows_left", reset_less=True)
        size = Signal(self.config.length_width, name="row_bytes", reset_less=True)
        stride = Signal(32, reset_less=True)
        operand = Signal(2, name="operand", reset_less=True)
        accepted = Signal()
        m.d.comb += [
            accepted.eq(transfers(self.row)),
            request.address.eq(row),
            request.bytes.eq(size),
            request.operand.eq(operand),
            request.final.eq(rows == 1),
            self.whole.eq(Cat(job.a_whole, job.w_whole)),
        ]
        if len(self.config.formats) > 1:
            m.d.comb += request.format.eq(format_of(job, len(self.config.formats)))
        with m.FSM():
            with m.State("IDLE"), m.If(self.job.valid & (self.alone | ~job.after)):
                steps.begin()
                for value, first, *_ in starts.values():
                    m.d.sync += value.eq(first)
                m.next = "BLOCK"
            with m.State("BLOCK"):
                # Operands that the block needs are checked in order; the first one left is loaded.
                for index in (COLUMNS, WGT, ACT):
                    with m.If(left[index]):
                        m.d.sync += [
                            operand.eq(index),
                            row.eq(self._first_row(index, starts)),
                            rows.eq(self._rows(index, steps)),
                            size.eq(self._row_bytes(index, steps, job)),
                            stride.eq(0 if index == COLUMNS else job[f"{'aw'[index]}_stride"]),
                        ]
                next_operand = Mux(left[ACT], ACT, Mux(left[WGT], WGT, COLUMNS))
                with m.If(~left.any()):
                    m.d.sync += done.eq(0)
                    self._advance(m, steps, starts)
                    m.next = "BLOCK"
                    with m.If(steps.last):
                        m.d.comb += self.job.ready.eq(1)
                        m.next = "IDLE"
                with m.Elif(self.free.bit_select(next_operand, 1)):
                    m.d.comb += self.claim.eq(1 << next_operand)
                    m.d.sync += done.eq(done | (1 << next_operand))
                    m.next = "ROWS"
                with m.Else():
                    m.d.comb += self.starved.eq(1)
            with m.State("ROWS"):
                m.d.comb += self.row.valid.eq(1)
                with m.If(accepted):
                    m.d.sync += [row.eq(row + stride), rows.eq(rows - 1)]
                    with m.If(request.final):
                        m.next = "BLOCK"

    def _block_addresses(
        self, m: Module, job: data.View, steps: BlockSteps
    ) -> dict[str, AddressPart]:
        """Return the parts of block addresses by name; a part moves along an axis of a block."""
        config = self.config
        image = config.loop_nest.image
        column_bytes = config.loop_nest.weight_beats * config.weight_beat
        moves: dict[str, tuple[ValueLike, ...]] = {
            "a_m": (job.a_address, job.a_m_step, steps.m_moves, steps.m.last)
        }
        if config.in_blocks:  # rows of W are its columns
            moves["w_n"] = (job.w_address, job.w_k_step, steps.n_moves, steps.n.last)
            if config.goes_on:  # a block may have a part of the reduction
                number = format_of(job, len(config.formats))
                for name, tile_bytes in (
                    ("a_k", [each.a_tile_bytes for each in config.formats]),
                    ("w_k", [each.w_tile_bytes for each in config.formats]),
                ):
                    part = job.kbt * by_format(number, tile_bytes)
                    moves[name] = (0, part, 1, steps.k.last)
        else:
            moves |= {
                "a_k": (0, job.kb * config.activation_bytes, 1, steps.k.last),
                "w_k": (job.w_address, job.w_k_step, 1, steps.k.last),
                "w_n": (
                    0,
                    job.nbt * column_bytes if image else job.nb * config.weight_bytes,
                    steps.n_moves,
                    steps.n.last,
                ),
            }
        moves["p_n"] = (job.p_address, job.nb * RECORD_BYTES, steps.n_moves, steps.n.last)
        width = len(self.row.payload.address)
        return {
            name: AddressPart(Signal(width, name=name, reset_less=True), *move)
            for name, move in moves.items()
        }

    def _advance(self, m: Module, steps: BlockSteps, starts: dict[str, AddressPart]) -> None:
        steps.advance()
        for value, first, step, moves, wraps in starts.values():
            with m.If(moves):
                m.d.sync += value.eq(Mux(wraps, first, value + step))

    def _first_row(self, index: int, starts: dict[str, AddressPart]) -> Value:
        names = {ACT: ("a_m", "a_k"), WGT: ("w_k", "w_n"), COLUMNS: ("p_n",)}[index]
        parts = [starts[name].register for name in names if name in starts]
        return sum(parts[1:], parts[0])

    def _rows(self, index: int, steps: BlockSteps) -> ValueLike:
        if index == ACT:
            return steps.m.size
        if index == WGT:
            if self.config.loop_nest.weight_columns:
                return steps.n.size
            return steps.k.tiles if self.config.loop_nest.image else steps.k.size
        return 1

    def _row_bytes(self, index: int, steps: BlockSteps, job: data.View) -> Value:
        config = self.config
        number = format_of(job, len(config.formats))
        if index == ACT:
            if config.in_blocks:
                tile_bytes = [each.a_tile_bytes for each in config.formats]
                return steps.k.tiles * by_format(number, tile_bytes)
            return steps.k.size * config.activation_bytes
        if index == WGT and config.loop_nest.weight_columns:
            tile_bytes = [each.w_tile_bytes for each in config.formats]
            return steps.k.tiles * by_format(number, tile_bytes)
        if index == COLUMNS:
            return steps.n.size * RECORD_BYTES
        if config.loop_nest.image:
            return steps.n.tiles * (config.loop_nest.weight_beats * config.weight_beat)
        return steps.n.size * config.weight_bytes
