# SPDX-License-Identifier: Apache-2.0
"""The sequencer of loads: which bursts are read for which port, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.families.stream_engine.params import TABLE_BEATS
from hwgen.families.stream_engine.registers import ENTRY_BITS, ENTRY_BYTES, SIZE_BITS, STRIDE_BITS
from rtl_templates.hdl.hierarchy import Block, place

from .job import is_used, pages_of, place_of
from .walk import RowWalk

if TYPE_CHECKING:
    from hwgen.families.stream_engine.params import StreamEngineConfig


class StreamLoader(Block):
    """Requests the rows of all ports, burst by burst, the ports in turn.

    A port asks for a burst when its buffer has room for the longest one, what is on its way
    included; so whatever is read can be taken at once.

    Parameters
    ----------
    config : StreamEngineConfig
    job : StructLayout
        Layout of a job's descriptor.

    Members
    -------
    job, job_valid, job_done
        Descriptor of the job to load, from the queue.
    alone : In(1)
        No earlier job is unfinished.
    popped : In
        For each port, and for each table: a beat has left its buffer.
    PORT_entry, PORT_entry_valid, PORT_entry_ready : streams in
        The table of each port whose rows may lie in pages.
    address, bytes, port, ends, last, valid, ready : stream out
        A burst for a port, or behind the ports for a table; it ends a row; it is the job's last one
        for this port.
    """

    resettable = True

    def __init__(self, config: StreamEngineConfig, job: Any) -> None:
        self.config, self.job_layout = config, job
        self.count = len(config.operands) + len(config.tables)
        address, width = config.memory.address_width, config.memory_bytes
        piece = config.longest_burst * width
        self.walk, self.paged = (RowWalk(address, piece, unit) for unit in (0, width))
        self.table = RowWalk(address, width)
        entries: dict[str, Any] = {}
        for port in config.tables:
            entries |= {
                f"{port.name}_entry": In(ENTRY_BITS),
                f"{port.name}_entry_valid": In(1),
                f"{port.name}_entry_ready": Out(1),
            }
        super().__init__(
            "stream_loader",
            {
                "job": In(job.size),
                "job_valid": In(1),
                "job_done": Out(1),
                "alone": In(1),
                "popped": In(self.count),
                **entries,
                "address": Out(config.memory.address_width),
                "bytes": Out(self.walk.piece_bits),
                "port": Out(range(max(2, self.count))),
                "ends": Out(1),
                "last": Out(1),
                "valid": Out(1),
                "ready": In(1),
            },
        )

    def build(self, m: Module) -> None:
        job = self.job_layout(self.job)
        begin, count = Signal(name="begin"), self.count
        self.takes, able, alive = (Signal(count, name=n) for n in ("takes", "able", "alive"))
        self.begin, self.alive = begin, alive
        self.pending: list[Value] = [alive.any()]
        fields = ("address", "bytes", "ends", "last")
        offers: dict[str, list[Signal]] = {name: [] for name in fields}
        beats, longest = [], self.config.longest_burst
        for i, port in enumerate((*self.config.operands, *self.config.tables)):
            of_table = i >= len(self.config.operands)
            name = f"{port.name}_table" if of_table else port.name
            offer = (self._entries if of_table else self._rows)(m, i, port.name, job)
            for key in fields:
                offers[key].append(offer[key])
            beats.append(self._beats(m, name, offer))
            depth = TABLE_BEATS if of_table else self.config.buffers.port_beats
            room = self._room(m, name, i, beats[-1], 1 if of_table else longest, depth)
            m.d.comb += able[i].eq(alive[i] & room)
        with m.FSM():
            with m.State("IDLE"), m.If(self.job_valid & (self.alone | ~job.after)):
                m.d.comb += begin.eq(1)
                m.next = "READ"
            with m.State("READ"), m.If(~Cat(*self.pending).any()):
                m.d.comb += self.job_done.eq(1)
                m.next = "IDLE"
        chosen = self._chosen(m, able)
        free = ~self.valid | self.ready
        m.d.comb += self.takes.eq(Mux(free & able.any(), 1 << chosen, 0))
        held = {name: Signal(self.width(name), name=f"{name}_held", reset_less=True)
                for name in (*fields, "port")}  # fmt: skip
        with m.If(free):
            m.d.sync += [self.valid.eq(able.any()), held["port"].eq(chosen)]
            m.d.sync += [held[name].eq(Array(offers[name])[chosen]) for name in fields]
        m.d.comb += [getattr(self, name).eq(value) for name, value in held.items()]

    def _offer(self, walk: RowWalk, name: str) -> dict[str, Signal]:
        fields = ("address", "bytes", "ends", "last")
        return {key: Signal(walk.width(f"o_{key}"), name=f"{name}_{key}") for key in fields}

    def _rows(self, m: Module, i: int, name: str, job: Any) -> dict[str, Signal]:
        """Walk through the rows of a port; return the burst that is next."""
        pages = pages_of(job, name)
        walk = self.walk if pages is None else self.paged
        offer, of_pages = self._offer(walk, name), {}
        if pages is not None:
            pending = Signal(name=f"{name}_pending")
            self.pending.append(pending)
            entry = {key: getattr(self, f"{name}_{key}")
                     for key in ("entry", "entry_valid", "entry_ready")}  # fmt: skip
            of_pages = {"paged": pages["table"].any(), "skip": pages["skip"],
                        "last": pages["last"], "pending": pending, **entry}  # fmt: skip
        place(
            m, f"{name}_rows", walk, begin=self.begin & is_used(job, name), **place_of(job, name),
            **of_pages, **{f"o_{key}": each for key, each in offer.items()},
            o_valid=self.alive[i], o_ready=self.takes[i],
        )  # fmt: skip
        return offer

    def _entries(self, m: Module, i: int, name: str, job: Any) -> dict[str, Signal]:
        """Do the same with the table of a port, beat by beat."""
        pages = pages_of(job, name)
        assert pages is not None
        skipped = ENTRY_BYTES.bit_length() - 1
        offer = self._offer(self.table, f"{name}_table")
        place(
            m, f"{name}_table_rows", self.table,
            begin=self.begin & is_used(job, name) & pages["table"].any(),
            address=Cat(Const(0, skipped), pages["table"][skipped:]),
            bytes=Cat(Const(0, skipped), place_of(job, name)["blocks"])[:SIZE_BITS],
            rows=Const(1, SIZE_BITS), blocks=Const(1, SIZE_BITS),
            stride=Const(0, STRIDE_BITS), step=Const(0, STRIDE_BITS),
            **{f"o_{key}": each for key, each in offer.items()},
            o_valid=self.alive[i], o_ready=self.takes[i],
        )  # fmt: skip
        return offer

    def _beats(self, m: Module, name: str, offer: dict[str, Signal]) -> Signal:
        """Return the beats that a burst touches."""
        size = (self.config.memory_bytes - 1).bit_length()
        burst = (self.config.longest_burst * self.config.memory_bytes).bit_length() - 1
        first, final = offer["address"][:burst], Signal(burst + 1, name=f"{name}_final")
        found = Signal(range(self.config.longest_burst + 1), name=f"{name}_beats")
        m.d.comb += [
            final.eq(first + offer["bytes"] - 1),
            found.eq(final[size:] - first[size:] + 1),
        ]
        return found

    def _room(self, m: Module, name: str, i: int, beats: Value, longest: int, depth: int) -> Value:
        """Count the free places of a port's buffer; return whether the longest burst has room."""
        free = Signal(range(depth + 1), name=f"{name}_free", init=depth)
        m.d.sync += free.eq(free + self.popped[i] - Mux(self.takes[i], beats, 0))
        return free >= longest

    def _chosen(self, m: Module, able: Signal) -> Value:
        """Return which port is next: the first one behind the last, among those that ask."""
        if self.count == 1:
            return Const(0, 1)
        behind = Signal(self.count, name="behind_last")
        chosen = Signal(range(self.count), name="chosen")
        turn = Mux((able & behind).any(), able & behind, able)
        first: Value = Const(0, 1)
        for i in reversed(range(self.count)):
            first = Mux(turn[i], i, first)
        m.d.comb += chosen.eq(first)
        with m.If((~self.valid | self.ready) & able.any()):
            m.d.sync += behind.eq(Cat(chosen < i for i in range(self.count)))
        return chosen
