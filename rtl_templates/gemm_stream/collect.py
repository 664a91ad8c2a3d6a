# SPDX-License-Identifier: Apache-2.0
"""The buffer of C: partial sums of the cores are added up in it, and totals leave it.

Cores that sum blocks give totals, which it keeps as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.core.memories import Ram
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.hdl.memory import place_ram

from .buffer import Tokens
from .loops import AddressLoops, BlockSteps

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig


class ResultBuffer(Block):
    """Two halves: one collects a block of C while the other is drained.

    Parameters
    ----------
    config : GemmStreamConfig
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    job, job_valid, job_done
        Descriptor of the job whose sums come, from the queue.
    i_data, i_valid, i_ready : stream in
        Beats of partial sums, in the order of the cores.
    full : Out(1)
        A block is complete.
    address, read : In
        A beat of it, in rows of the block; `read` looks it up.
    data : Out
        The beat, one cycle later.
    leave, free : In(1)
        The last beat of the block is looked up; it has been taken.  The port that looks beats up
        is also that of the sums, so the half stays the reader's until then.
    blocked : Out(1)
        A block of C waits for its half.
    """

    resettable = True

    def __init__(self, config: GemmStreamConfig, job: Any) -> None:
        self.config, self.job_layout = config, job
        shape = config.buffer_shapes["results"]
        beat, self.depth = shape.width, shape.words  # of each half
        super().__init__(
            shape.module,
            {
                "job": In(job.size),
                "job_valid": In(1),
                "job_done": Out(1),
                "i_data": In(beat),
                "i_valid": In(1),
                "i_ready": Out(1),
                "full": Out(1),
                "address": In(range(max(2, self.depth))),
                "read": In(1),
                "data": Out(beat),
                "leave": In(1),
                "free": In(1),
                "blocked": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        nest, depth = self.config.loop_nest, self.depth
        job = self.job_layout(self.job)
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
        take, ends, half = Signal(), Signal(), Signal()
        filled = Signal()
        tokens = Tokens(m, "halves", take=take, fill=filled, free=self.free, leave=self.leave)
        m.d.comb += self.full.eq(tokens.full)
        with m.FSM():
            with m.State("IDLE"), m.If(self.job_valid):
                steps.begin()
                m.next = "WAIT"
            with m.State("WAIT"):
                addresses.begin(0)
                # One cycle at least between blocks: what is written can then be read.
                with m.If(~begins | tokens.room):
                    m.d.comb += take.eq(begins)
                    m.next = "WALK"
                with m.Else():
                    m.d.comb += self.blocked.eq(1)
            with m.State("WALK"):
                m.d.comb += self.i_ready.eq(1)
                with m.If(self.i_valid):
                    addresses.advance()
                    with m.If(addresses.last):
                        steps.advance()
                        m.d.comb += ends.eq(completes)
                        m.next = "WAIT"
                        with m.If(steps.last):
                            m.d.comb += self.job_done.eq(1)
                            m.next = "IDLE"

        self._accumulate(m, addresses.address, begins, half, ends, filled)

    def _accumulate(
        self, m: Module, address: Value, begins: Value, half: Signal, ends: Value, filled: Signal
    ) -> None:
        """Add beats of sums to what the half of the buffer holds, from which rows are read."""
        config, depth = self.config, self.depth
        # A beat is read with its address and written, added up, a cycle later.
        sums, first = Signal(len(self.i_data), reset_less=True), Signal(name="begins")
        write_address, write_half = (
            Signal(range(max(2, depth)), reset_less=True),
            Signal(name="which_half"),
        )
        writes = Signal()
        accepted = Signal()
        m.d.comb += accepted.eq(self.i_ready & self.i_valid)
        m.d.sync += [
            sums.eq(self.i_data),
            write_address.eq(address),
            write_half.eq(half),
            first.eq(begins),
            writes.eq(accepted),
            filled.eq(ends),
        ]
        with m.If(ends):
            m.d.sync += half.eq(~half)
        drained, drained_half = Signal(name="drained"), Signal()
        with m.If(self.leave):
            m.d.sync += drained.eq(~drained)
        with m.If(self.read):
            m.d.sync += drained_half.eq(drained)

        width = config.result.width
        stored = []
        for h in range(2):
            (read,), write = place_ram(m, f"results_{h}", Ram(depth, len(self.i_data)))
            collects = half == h
            if config.in_blocks:  # the cores have summed the whole reduction
                m.d.comb += [
                    read.addr.eq(self.address),
                    read.en.eq(self.read & (drained == h)),
                    write.addr.eq(write_address),
                    write.en.eq(writes & (write_half == h)),
                    write.data.eq(sums),
                ]
                stored.append(read.data)
                continue
            m.d.comb += [
                read.addr.eq(Mux(collects & accepted, address, self.address)),
                read.en.eq(Mux(collects & accepted, 1, self.read & (drained == h))),
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
        m.d.comb += self.data.eq(Mux(drained_half, stored[1], stored[0]))
