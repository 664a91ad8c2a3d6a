# SPDX-License-Identifier: Apache-2.0
"""Sequencer of loads: it requests the bursts of all ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hwgen.core.schedule.memory import SIZE_BITS
from hwgen.families.stream_engine.params import TABLE_BEATS
from hwgen.families.stream_engine.registers import ENTRY_BITS, ENTRY_BYTES, STRIDE_BITS
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.streams import Fields, Stream, new_stream

from .job import Region, is_used, pages_of, region_of
from .walk import RowWalk

if TYPE_CHECKING:
    from hwgen.families.stream_engine.params import StreamEngineConfig


def burst_layout(config: StreamEngineConfig) -> data.StructLayout:
    """Return the payload of bursts to load.

    ``port`` is the index of an operand or, after the operands, of a table; ``ends`` marks the last
    burst of a row, ``last`` the job's last one for the port.
    """
    count = len(config.operands) + len(config.tables)
    return data.StructLayout(
        {
            "address": config.memory.address_width,
            "bytes": (config.longest_burst * config.memory_bytes).bit_length(),
            "port": (max(2, count) - 1).bit_length(),
            "ends": 1,
            "last": 1,
        }
    )


class StreamLoader(Block):
    """Requests the rows of all ports, burst by burst, the ports in turn.

    A port requests a burst when its buffer has space for the longest one, requested bursts
    included; so read data can be stored at once.

    Parameters
    ----------
    config : StreamEngineConfig
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    job : In(stream)
        Descriptor of the job to load.
    alone : In(1)
        No earlier job is unfinished.
    popped : In
        For each port, and for each table: a beat has left its buffer.
    PORT_entry : In(stream)
        Entries of the table of each port whose rows may lie in pages.
    burst : Out(stream)
        Bursts (`burst_layout`).
    """

    resettable = True

    def __init__(self, config: StreamEngineConfig, job: data.StructLayout) -> None:
        self.config, self.job_layout = config, job
        self.count = len(config.operands) + len(config.tables)
        address, width = config.memory.address_width, config.memory_bytes
        piece = config.longest_burst * width
        self.walk, self.paged = (RowWalk(address, piece, unit) for unit in (0, width))
        self.table = RowWalk(address, width)
        entries = {f"{port.name}_entry": In(stream.Signature(ENTRY_BITS)) for port in config.tables}
        super().__init__(
            "stream_loader",
            {
                "job": In(stream.Signature(job.size)),
                "alone": In(1),
                "popped": In(self.count),
                **entries,
                "burst": Out(stream.Signature(burst_layout(config))),
            },
        )

    def build(self, m: Module) -> None:
        job, burst = self.job_layout(self.job.payload), self.burst
        begin, count = Signal(name="begin"), self.count
        self.grants, able, alive = (Signal(count, name=n) for n in ("grants", "able", "alive"))
        self.begin, self.alive = begin, alive
        self.pending: list[Value] = [alive.any()]
        names = ("address", "bytes", "ends", "last")
        offers: list[Fields] = []
        longest = self.config.longest_burst
        for i, port in enumerate((*self.config.operands, *self.config.tables)):
            of_table = i >= len(self.config.operands)
            name = f"{port.name}_table" if of_table else port.name
            offers.append((self._entries if of_table else self._rows)(m, i, port.name, job))
            beats = self._beats(m, name, offers[-1])
            depth = TABLE_BEATS if of_table else self.config.buffers.port_beats
            space = self._space(m, name, i, beats, 1 if of_table else longest, depth)
            m.d.comb += able[i].eq(alive[i] & space)
        with m.FSM():
            with m.State("IDLE"), m.If(self.job.valid & (self.alone | ~job.after)):
                m.d.comb += begin.eq(1)
                m.next = "READ"
            with m.State("READ"), m.If(~Cat(*self.pending).any()):
                m.d.comb += self.job.ready.eq(1)
                m.next = "IDLE"
        free = ~burst.valid | burst.ready
        chosen, waits = self._chosen(m, able, free)
        m.d.comb += self.grants.eq(Mux(free & waits, 1 << chosen, 0))
        registers = {
            name: Signal.like(getattr(burst.payload, name), name=f"{name}_reg", reset_less=True)
            for name in (*names, "port")
        }
        with m.If(free):
            m.d.sync += [burst.valid.eq(waits), registers["port"].eq(chosen)]
            m.d.sync += [
                registers[name].eq(Array(getattr(offer, name) for offer in offers)[chosen])
                for name in names
            ]
        m.d.comb += [getattr(burst.payload, name).eq(value) for name, value in registers.items()]

    def _rows(self, m: Module, i: int, name: str, job: data.View) -> Fields:
        """Walk through the rows of a port; return the next burst."""
        pages = pages_of(job, name)
        walk, of_pages = self.walk, {}
        if pages is not None:
            walk, pending = self.paged, Signal(name=f"{name}_pending")
            self.pending.append(pending)
            of_pages = {
                "paged": pages.table.any(), "skip": pages.skip, "last": pages.last,
                "pending": pending, "entry": getattr(self, f"{name}_entry"),
            }  # fmt: skip
        begin = self.begin & is_used(job, name)
        return self._walk(m, i, name, walk, begin, region_of(job, name), **of_pages)

    def _entries(self, m: Module, i: int, name: str, job: data.View) -> Fields:
        """Walk through the table of a port, beat by beat; return the next burst."""
        pages = pages_of(job, name)
        assert pages is not None
        skipped = ENTRY_BYTES.bit_length() - 1
        region = Region(
            address=Cat(Const(0, skipped), pages.table[skipped:]),
            bytes=Cat(Const(0, skipped), region_of(job, name).blocks)[:SIZE_BITS],
            rows=Const(1, SIZE_BITS), blocks=Const(1, SIZE_BITS),
            stride=Const(0, STRIDE_BITS), step=Const(0, STRIDE_BITS),
        )  # fmt: skip
        begin = self.begin & is_used(job, name) & pages.table.any()
        return self._walk(m, i, f"{name}_table", self.table, begin, region)

    def _walk(
        self, m: Module, i: int, name: str, walk: RowWalk, begin: Value, region: Region,
        **pages: Any,
    ) -> Fields:  # fmt: skip
        offer = new_stream(name, walk.payload("o")).payload
        burst = Stream(offer, self.alive[i], self.grants[i])
        place(m, f"{name}_rows", walk, begin=begin, region=region, o=burst, **pages)
        return offer

    def _beats(self, m: Module, name: str, offer: Fields) -> Signal:
        """Return the beats that a burst touches."""
        size = (self.config.memory_bytes - 1).bit_length()
        burst = (self.config.longest_burst * self.config.memory_bytes).bit_length() - 1
        first, final = offer.address[:burst], Signal(burst + 1, name=f"{name}_final")
        touched = Signal(range(self.config.longest_burst + 1), name=f"{name}_beats")
        m.d.comb += [
            final.eq(first + offer.bytes - 1),
            touched.eq(final[size:] - first[size:] + 1),
        ]
        return touched

    def _space(self, m: Module, name: str, i: int, beats: Value, longest: int, depth: int) -> Value:
        """Count the free entries of a port's buffer; return whether the longest burst fits."""
        free = Signal(range(depth + 1), name=f"{name}_free", init=depth)
        m.d.sync += free.eq(free + self.popped[i] - Mux(self.grants[i], beats, 0))
        return free >= longest

    def _chosen(self, m: Module, able: Signal, free: Value) -> tuple[Value, Value]:
        """Return the next port, the first after the last of those that request; whether one does.

        With registers at the memory port a port is chosen in one cycle and served in the next.
        """
        if self.count == 1:
            return Const(0, 1), able.any()
        after_last = Signal(self.count, name="after_last")
        chosen = Signal(range(self.count), name="chosen")
        asking: Value = able
        served, waits, moves = chosen, able.any(), free
        if self.config.memory.registered:
            served, waits = Signal.like(chosen, name="served"), Signal(name="burst_waits")
            asking = Signal(self.count, name="asking")
            # Whether there is space for what the port that is served asks for next is not known.
            m.d.comb += asking.eq(able & ~Mux(waits, 1 << served, 0))
            moves = free | ~waits
            with m.If(moves):
                m.d.sync += [waits.eq(asking.any()), served.eq(chosen)]
        candidates = Mux((asking & after_last).any(), asking & after_last, asking)
        first: Value = Const(0, 1)
        for i in reversed(range(self.count)):
            first = Mux(candidates[i], i, first)
        m.d.comb += chosen.eq(first)
        with m.If(moves & asking.any()):
            m.d.sync += after_last.eq(Cat(chosen < i for i in range(self.count)))
        return served, waits
