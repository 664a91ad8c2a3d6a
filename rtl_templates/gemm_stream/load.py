# SPDX-License-Identifier: Apache-2.0
"""The sequencer of loads: which rows of A, W and column records are read, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.core.post.records import RECORD_BYTES
from rtl_templates.hdl.hierarchy import Block

from .formats import by_format, format_bits, format_of
from .job import post_field
from .loops import BlockSteps

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig

ACT, WGT, COLUMNS = 0, 1, 2
"""What a row is of."""


class Loader(Block):
    """Requests the rows of each block that a job needs, in the order of its steps.

    A block of A comes first, then that of W, then the parameters of the columns of a new block
    of C; each waits until half of its buffer
    is free, or all of it for a block that is to take all.

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
        Descriptor of the job to load, from the queue.
    alone : In(1)
        No earlier job is unfinished.
    room, take : In(3), Out(3)
        The next block's part of a buffer is free; it is taken: of A, W, parameters.
    whole : Out(2)
        Blocks of A, of W, of this job take all of their buffer.
    address, bytes, what, final, valid, ready : stream out
        A row: `what` it is of, and whether it is the `final` one of its block.
    format : Out
        Of cores that take several: the number of the row's.
    starved : Out(1)
        A block waits for its buffer.
    """

    resettable = True

    def __init__(self, config: GemmStreamConfig, job: Any, length_width: int) -> None:
        self.config, self.job_layout, self.length_width = config, job, length_width
        super().__init__(
            "engine_loader",
            {
                "job": In(job.size),
                "job_valid": In(1),
                "job_done": Out(1),
                "alone": In(1),
                "room": In(3),
                "take": Out(3),
                "whole": Out(2),
                "address": Out(config.memory.address_width),
                "bytes": Out(length_width),
                "what": Out(2),
                **({"format": Out(bits)} if (bits := format_bits(config)) else {}),
                "final": Out(1),
                "valid": Out(1),
                "ready": In(1),
                "starved": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        job = self.job_layout(self.job)
        steps = BlockSteps(m, job)
        places = self._places(m, job, steps)
        columns = post_field(job, "columns") & self.config.post.columns
        needs = Cat(steps.loads_a, steps.loads_w, steps.first & columns)
        done = Signal(3)  # blocks of this step that are requested
        left = needs & ~done
        row = Signal(len(self.address), name="row_address", reset_less=True)
        rows = Signal(len(job.m), name="rows_left", reset_less=True)
        size = Signal(self.length_width, name="row_bytes", reset_less=True)
        stride = Signal(32, reset_less=True)
        operand = Signal(2, name="what_now", reset_less=True)
        accepted = Signal()
        m.d.comb += [
            accepted.eq(self.valid & self.ready),
            self.address.eq(row),
            self.bytes.eq(size),
            self.what.eq(operand),
            self.final.eq(rows == 1),
            self.whole.eq(Cat(job.a_whole, job.w_whole)),
        ]
        if "format" in self.members:
            m.d.comb += self.format.eq(format_of(self.config, job))
        with m.FSM():
            with m.State("IDLE"), m.If(self.job_valid & (self.alone | ~job.after)):
                steps.begin()
                for value, first, *_ in places.values():
                    m.d.sync += value.eq(first)
                m.next = "BLOCK"
            with m.State("BLOCK"):
                # What a block needs is looked up in order; the first that is left goes.
                for index in (COLUMNS, WGT, ACT):
                    with m.If(left[index]):
                        m.d.sync += [
                            operand.eq(index),
                            row.eq(self._first_row(index, places)),
                            rows.eq(self._rows(index, steps)),
                            size.eq(self._row_bytes(index, steps, job)),
                            stride.eq(0 if index == COLUMNS else job[f"{'aw'[index]}_stride"]),
                        ]
                chosen = Mux(left[ACT], ACT, Mux(left[WGT], WGT, COLUMNS))
                with m.If(~left.any()):
                    m.d.sync += done.eq(0)
                    self._advance(m, steps, places)
                    m.next = "BLOCK"
                    with m.If(steps.last):
                        m.d.comb += self.job_done.eq(1)
                        m.next = "IDLE"
                with m.Elif(self.room.bit_select(chosen, 1)):
                    m.d.comb += self.take.eq(1 << chosen)
                    m.d.sync += done.eq(done | (1 << chosen))
                    m.next = "ROWS"
                with m.Else():
                    m.d.comb += self.starved.eq(1)
            with m.State("ROWS"):
                m.d.comb += self.valid.eq(1)
                with m.If(accepted):
                    m.d.sync += [row.eq(row + stride), rows.eq(rows - 1)]
                    with m.If(self.final):
                        m.next = "BLOCK"

    def _places(self, m: Module, job: Any, steps: BlockSteps) -> dict[str, tuple[Any, ...]]:
        """Return registers of where blocks begin: name to (register, start, step, moves, wraps).

        The place of a block is the sum of a part that moves along each of its axes.
        """
        config = self.config
        image = config.loop_nest.image
        column_bytes = config.loop_nest.weight_beats * config.weight_beat
        moves = {"a_m": (job.a_address, job.a_m_step, steps.m_moves, steps.m.last)}
        if config.in_blocks:  # rows of W are its columns
            moves["w_n"] = (job.w_address, job.w_k_step, steps.n_moves, steps.n.last)
            if config.goes_on:  # a block may have a part of the reduction
                number = format_of(config, job)
                for name, fact in (
                    ("a_k", lambda each: each.a_tile_bytes), ("w_k", lambda each: each.w_tile_bytes)
                ):  # fmt: skip
                    part = job.kbt * by_format(config, number, fact)
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
        return {
            name: (Signal(len(self.address), name=name, reset_less=True), *move)
            for name, move in moves.items()
        }

    def _advance(self, m: Module, steps: BlockSteps, places: dict[str, tuple[Any, ...]]) -> None:
        steps.advance()
        for value, first, step, moves, wraps in places.values():
            with m.If(moves):
                m.d.sync += value.eq(Mux(wraps, first, value + step))

    def _first_row(self, index: int, places: dict[str, tuple[Any, ...]]) -> Value:
        names = {ACT: ("a_m", "a_k"), WGT: ("w_k", "w_n"), COLUMNS: ("p_n",)}[index]
        parts = [places[name][0] for name in names if name in places]
        return sum(parts[1:], parts[0])

    def _rows(self, index: int, steps: BlockSteps) -> Any:
        if index == ACT:
            return steps.m.size
        if index == WGT:
            if self.config.loop_nest.weight_columns:
                return steps.n.size
            return steps.k.tiles if self.config.loop_nest.image else steps.k.size
        return 1

    def _row_bytes(self, index: int, steps: BlockSteps, job: Any) -> Any:
        config = self.config
        number = format_of(config, job)
        if index == ACT:
            if config.in_blocks:
                return steps.k.tiles * by_format(config, number, lambda each: each.a_tile_bytes)
            return steps.k.size * config.activation_bytes
        if index == WGT and config.loop_nest.weight_columns:
            return steps.k.tiles * by_format(config, number, lambda each: each.w_tile_bytes)
        if index == COLUMNS:
            return steps.n.size * RECORD_BYTES
        if config.loop_nest.image:
            return steps.n.tiles * (config.loop_nest.weight_beats * config.weight_beat)
        return steps.n.size * config.weight_bytes
