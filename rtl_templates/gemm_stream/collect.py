# SPDX-License-Identifier: Apache-2.0
"""Buffer of C: it accumulates partial sums of the cores, and rows of totals are read from it.

Cores that sum blocks deliver totals, which it stores unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hwgen.core.memories import Ram
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.hdl.memory import place_ram

from .buffer import HalfTokens
from .loops import AddressLoops, BlockSteps

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig


class BlockRead(wiring.Signature):
    """Signature of the read port of a buffer of C, seen from the buffer.

    Parameters
    ----------
    depth, width : int
        Beats of a block, and bits of a beat.

    Members
    -------
    full : Out(1)
        A block is complete.
    address, read : In
        A beat of the block, in rows; read it.
    data : Out
        The beat, one cycle later.
    leave, release : In(1)
        The last beat of the block is read; it has left.  The reader's port is also that of the
        sums, so the half stays the reader's until then.
    """

    def __init__(self, depth: int, width: int) -> None:
        super().__init__(
            {
                "full": Out(1),
                "address": In(range(max(2, depth))),
                "read": In(1),
                "data": Out(width),
                "leave": In(1),
                "release": In(1),
            }
        )


class ResultBuffer(Block):
    """Double buffer: one half collects a block of C while the other is drained.

    Parameters
    ----------
    config : GemmStreamConfig
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    job : In(stream)
        Descriptor of the job whose sums arrive.
    i : In(stream)
        Beats of partial sums, in the order of the cores.
    block : Out(BlockRead)
        Read port.
    blocked : Out(1)
        A block of C waits for its half.
    """

    resettable = True

    def __init__(self, config: GemmStreamConfig, job: data.StructLayout) -> None:
        self.config, self.job_layout = config, job
        shape = config.buffer_shapes["results"]
        beat, self.depth = shape.width, shape.words  # of each half
        super().__init__(
            shape.module,
            {
                "job": In(stream.Signature(job.size)),
                "i": In(stream.Signature(beat)),
                "block": Out(BlockRead(self.depth, beat)),
                "blocked": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        nest, depth = self.config.loop_nest, self.depth
        job = self.job_layout(self.job.payload)
        totals = self.config.in_blocks
        steps = BlockSteps(m, job, reduction=not totals)
        begins, completes = (Const(1), Const(1)) if totals else (steps.first, steps.k.last)
        counts = steps.counts(nest)
        pitch = counts["column_tiles"]
        strides = {
            "nothing": 0,
            "beat": 1,
            "result_row": pitch,
            "result_tile": pitch * nest.m_lanes,
        }
        addresses = AddressLoops(m, nest.out, counts, strides, (depth - 1).bit_length() + 1)
        claim, ends, half = Signal(), Signal(), Signal()
        filled = Signal()
        tokens = HalfTokens(
            m, "halves", claim=claim, fill=filled, release=self.block.release,
            leave=self.block.leave,
        )  # fmt: skip
        m.d.comb += self.block.full.eq(tokens.full)
        with m.FSM():
            with m.State("IDLE"), m.If(self.job.valid):
                steps.begin()
                m.next = "WAIT"
            with m.State("WAIT"):
                addresses.begin(0)
                # One cycle at least between blocks: what is written can then be read.
                with m.If(~begins | tokens.free):
                    m.d.comb += claim.eq(begins)
                    m.next = "WALK"
                with m.Else():
                    m.d.comb += self.blocked.eq(1)
            with m.State("WALK"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    addresses.advance()
                    with m.If(addresses.last):
                        steps.advance()
                        m.d.comb += ends.eq(completes)
                        m.next = "WAIT"
                        with m.If(steps.last):
                            m.d.comb += self.job.ready.eq(1)
                            m.next = "IDLE"

        self._accumulate(m, addresses.address, begins, half, ends, filled)

    def _accumulate(
        self, m: Module, address: Value, begins: Value, half: Signal, ends: Value, filled: Signal
    ) -> None:
        """Add beats of sums to the contents of the half of the buffer, from which rows are read."""
        config, depth, block = self.config, self.depth, self.block
        # A beat is read with its address and written, added up, a cycle later.
        sums, first = Signal(len(self.i.payload), reset_less=True), Signal(name="begins")
        write_address, write_half = (
            Signal(range(max(2, depth)), reset_less=True),
            Signal(name="which_half"),
        )
        writes = Signal()
        accepted = Signal()
        m.d.comb += accepted.eq(self.i.ready & self.i.valid)
        m.d.sync += [
            sums.eq(self.i.payload),
            write_address.eq(address),
            write_half.eq(half),
            first.eq(begins),
            writes.eq(accepted),
            filled.eq(ends),
        ]
        with m.If(ends):
            m.d.sync += half.eq(~half)
        drained, drained_half = Signal(name="drained"), Signal()
        with m.If(block.leave):
            m.d.sync += drained.eq(~drained)
        with m.If(block.read):
            m.d.sync += drained_half.eq(drained)

        width = config.result.width
        stored = []
        for h in range(2):
            (read,), write = place_ram(m, f"results_{h}", Ram(depth, len(self.i.payload)))
            collects = half == h
            if config.in_blocks:  # the cores have summed the whole reduction
                m.d.comb += [
                    read.addr.eq(block.address),
                    read.en.eq(block.read & (drained == h)),
                    write.addr.eq(write_address),
                    write.en.eq(writes & (write_half == h)),
                    write.data.eq(sums),
                ]
                stored.append(read.data)
                continue
            m.d.comb += [
                read.addr.eq(Mux(collects & accepted, address, block.address)),
                read.en.eq(Mux(collects & accepted, 1, block.read & (drained == h))),
                write.addr.eq(write_address),
                write.en.eq(writes & (write_half == h)),
            ]
            totals = [
                (Mux(first, 0, read.data.word_select(i, width)) + sums.word_select(i, width))[
                    :width
                ]
                for i in range(config.n_lanes)
            ]
            m.d.comb += write.data.eq(Cat(*totals))
            stored.append(read.data)
        m.d.comb += block.data.eq(Mux(drained_half, stored[1], stored[0]))
