# SPDX-License-Identifier: Apache-2.0
"""From beats of results to requests of the writer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.families.stream_engine.params import ROWS_AHEAD
from hwgen.families.stream_engine.registers import SIZE_BITS
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.stream.stream import StreamFifo

from .job import is_used, place_of
from .walk import RowWalk

if TYPE_CHECKING:
    from hwgen.families.stream_engine.params import StreamEngineConfig


class StreamDrain(Block):
    """Announces rows of results, each with what follows it, and counts off their beats.

    Parameters
    ----------
    config : StreamEngineConfig
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    job, job_valid, job_done
        Descriptor of the job whose rows are announced, from the queue.
    address, bytes, valid, ready : stream out
        A request for the writer.
    i_data, i_last, i_valid, i_ready : stream in
        Beats of results; `i_last` is 1 where the port has no ``tlast``.
    o_data, o_count, o_last, offset, o_valid, o_ready : stream out
        The same with the bytes that belong to the request, whether it ends with them, and where in
        a beat of the memory it begins.
    written : In(1)
        A request is in memory.
    finished : Out(1)
        It was the last one of its job.
    mismatch : Out(1)
        A job has no results, or the core's do not end with it.
    """

    resettable = True

    def __init__(self, config: StreamEngineConfig, job: Any) -> None:
        self.config, self.job_layout = config, job
        self.beat_bytes = config.results[0].beat_bytes
        self.tail = config.results[0].tail_bytes
        super().__init__(
            "stream_drain",
            {
                "job": In(job.size),
                "job_valid": In(1),
                "job_done": Out(1),
                "address": Out(config.memory.address_width),
                "bytes": Out(SIZE_BITS),
                "valid": Out(1),
                "ready": In(1),
                "i_data": In(8 * self.beat_bytes),
                "i_last": In(1),
                "i_valid": In(1),
                "i_ready": Out(1),
                "o_data": Out(8 * self.beat_bytes),
                "o_count": Out(range(self.beat_bytes + 1)),
                "o_last": Out(1),
                "offset": Out(range(max(2, config.memory_bytes))),
                "o_valid": Out(1),
                "o_ready": In(1),
                "written": In(1),
                "finished": Out(1),
                "mismatch": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        width = self.config.memory.address_width
        request = {
            "address": Signal(width, name="new_address"),
            "bytes": Signal(SIZE_BITS, name="new_bytes"),
            "final": Signal(name="new_final"),
        }
        offered, room = Signal(name="offered"), Signal(3, name="room")
        empty = self._announce(m, request, offered, room.all())
        accepted = offered & room.all()
        place(
            m, "requests", StreamFifo(width + SIZE_BITS, ROWS_AHEAD),
            i_data=Cat(request["address"], request["bytes"]), i_valid=accepted, i_ready=room[0],
            o_data=Cat(self.address, self.bytes), o_valid=self.valid, o_ready=self.ready,
        )  # fmt: skip
        final, ends = Signal(name="written_final"), Signal(name="requests_end")
        place(
            m, "ends", StreamFifo(1, 4 * ROWS_AHEAD),
            i_data=request["final"], i_valid=accepted, i_ready=room[1],
            o_data=final, o_valid=Signal(name="end_there"), o_ready=self.written,
        )  # fmt: skip
        m.d.comb += self.finished.eq(self.written & final)
        self._count(m, request, accepted, room[2], ends)
        m.d.comb += self.mismatch.eq(empty | (ends & ~self.i_last))

    def _announce(
        self, m: Module, request: dict[str, Signal], offered: Signal, room: Value
    ) -> Value:
        """Walk through rows, and what follows them; return whether a job has none."""
        job, out = self.job_layout(self.job), self.config.results[0].name
        begin, walk = Signal(name="begin"), RowWalk(self.config.memory.address_width, 0)
        kinds = [("row", place_of(job, out))]
        if self.tail:
            place_ = place_of(job, out)
            place_ |= {name: getattr(job, f"tail_{name}") for name in ("address", "bytes")}
            kinds.append(("tail", {**place_, "stride": job.tail_stride, "step": job.tail_step}))
        offers, takes = [], []
        for name, where in kinds:
            offer = {
                key: Signal(walk.width(f"o_{key}"), name=f"{name}_{key}")
                for key in ("address", "bytes", "ends", "last", "valid")
            }
            takes.append(Signal(name=f"{name}_taken"))
            place(m, f"{name}s", walk, begin=begin, **where, o_ready=takes[-1],
                  **{f"o_{key}": each for key, each in offer.items()})  # fmt: skip
            offers.append(offer)
        tailed = job.tail_bytes.any() if self.tail else Const(0, 1)
        second = Signal(name="second")  # what follows the row is next
        chosen = Mux(second, 1, 0)
        row = offers[0]
        tail = offers[-1]
        last = Mux(second, tail["last"], row["last"])
        none = Signal(name="no_results")
        m.d.comb += [
            request["address"].eq(Mux(second, tail["address"], row["address"])),
            request["bytes"].eq(Mux(second, tail["bytes"], row["bytes"])),
            request["final"].eq(last & (second | ~tailed)),
        ]
        with m.FSM():
            with m.State("IDLE"), m.If(self.job_valid):
                m.d.comb += [begin.eq(is_used(job, out)), none.eq(~is_used(job, out))]
                with m.If(begin):
                    m.next = "ROWS"
            with m.State("ROWS"):
                m.d.comb += offered.eq(1)
                with m.If(room):
                    for i, take in enumerate(takes):
                        m.d.comb += take.eq(chosen == i)
                    m.d.sync += second.eq(tailed & ~second)
                    with m.If(request["final"]):
                        m.d.comb += self.job_done.eq(1)
                        m.next = "IDLE"
        return none

    def _count(
        self, m: Module, request: dict[str, Signal], accepted: Value, room: Signal, ends: Signal
    ) -> None:
        """Give each request the beats that it takes; `ends` is driven: the last one of a job."""
        size = self.beat_bytes
        where = len(self.offset)
        entry = Cat(request["address"][:where], request["bytes"], request["final"])
        head, there = Signal(len(entry), name="piece"), Signal(name="piece_there")
        taken, last = Signal(name="beat_taken"), Signal(name="beat_ends")
        place(
            m, "pieces", StreamFifo(len(entry), ROWS_AHEAD),
            i_data=entry, i_valid=accepted, i_ready=room,
            o_data=head, o_valid=there, o_ready=taken & last,
        )  # fmt: skip
        midway, kept = Signal(name="midway"), Signal(SIZE_BITS, name="bytes_kept", reset_less=True)
        left = Signal(SIZE_BITS, name="bytes_left")
        m.d.comb += [
            left.eq(Mux(midway, kept, head[where : where + SIZE_BITS])),
            last.eq(left <= size),
            self.o_data.eq(self.i_data),
            self.o_count.eq(Mux(last, left, size)),
            self.o_last.eq(last),
            self.offset.eq(head[:where] if self.config.memory_bytes > 1 else 0),
            self.o_valid.eq(self.i_valid & there),
            self.i_ready.eq(self.o_ready & there),
            taken.eq(self.i_valid & self.i_ready),
            ends.eq(taken & last & head[-1]),
        ]
        with m.If(taken):
            m.d.sync += [midway.eq(~last), kept.eq(left - size)]
