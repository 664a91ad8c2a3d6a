# SPDX-License-Identifier: Apache-2.0
"""The sequencer of loads: which bursts are read for which port, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.hierarchy import Block, place

from .job import is_used, place_of
from .walk import RowWalk

if TYPE_CHECKING:
    from hwgen.families.stream_engine import StreamEngineConfig


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
        For each port: a beat has left its buffer.
    address, bytes, port, ends, last, valid, ready : stream out
        A burst for a port; it ends a row; it is the job's last one for this port.
    """

    resettable = True

    def __init__(self, config: StreamEngineConfig, job: Any) -> None:
        self.config, self.job_layout = config, job
        self.count = len(config.operands)
        self.walk = RowWalk(config.memory.address_width, config.longest_burst * config.memory_bytes)
        super().__init__(
            "stream_loader",
            {
                "job": In(job.size),
                "job_valid": In(1),
                "job_done": Out(1),
                "alone": In(1),
                "popped": In(self.count),
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
        takes, able, alive = (Signal(count, name=name) for name in ("takes", "able", "alive"))
        fields = ("address", "bytes", "ends", "last")
        offers: dict[str, list[Signal]] = {name: [] for name in fields}
        beats = []
        for i, port in enumerate(self.config.operands):
            offer = {
                name: Signal(self.walk.width(f"o_{name}"), name=f"{port.name}_{name}")
                for name in fields
            }
            place(
                m, f"{port.name}_rows", self.walk, begin=begin & is_used(job, port.name),
                **place_of(job, port.name), **{f"o_{name}": each for name, each in offer.items()},
                o_valid=alive[i], o_ready=takes[i],
            )  # fmt: skip
            for name, each in offer.items():
                offers[name].append(each)
            beats.append(self._beats(m, port.name, offer))
            m.d.comb += able[i].eq(alive[i] & self._room(m, port.name, i, takes[i], beats[-1]))
        with m.FSM():
            with m.State("IDLE"), m.If(self.job_valid & (self.alone | ~job.after)):
                m.d.comb += begin.eq(1)
                m.next = "READ"
            with m.State("READ"), m.If(~alive.any()):
                m.d.comb += self.job_done.eq(1)
                m.next = "IDLE"
        chosen = self._chosen(m, able)
        free = ~self.valid | self.ready
        m.d.comb += takes.eq(Mux(free & able.any(), 1 << chosen, 0))
        held = {name: Signal(self.width(name), name=f"{name}_held", reset_less=True)
                for name in (*fields, "port")}  # fmt: skip
        with m.If(free):
            m.d.sync += [self.valid.eq(able.any()), held["port"].eq(chosen)]
            m.d.sync += [held[name].eq(Array(offers[name])[chosen]) for name in fields]
        m.d.comb += [getattr(self, name).eq(value) for name, value in held.items()]

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

    def _room(self, m: Module, name: str, i: int, takes: Value, beats: Value) -> Value:
        """Count the free places of a port's buffer; return whether the longest burst has room."""
        depth = self.config.buffers.port_beats
        free = Signal(range(depth + 1), name=f"{name}_free", init=depth)
        m.d.sync += free.eq(free + self.popped[i] - Mux(takes, beats, 0))
        return free >= self.config.longest_burst

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
