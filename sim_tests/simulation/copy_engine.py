# SPDX-License-Identifier: Apache-2.0
"""A small engine that copies memory, to try the simulation of memory engines on.

Registers, 32 bits each: SOURCE, TARGET (two each, low word first), BYTES, START (write: begin;
read: bit 0 busy, bit 1 an error), CLEAR (write: interrupt low), MODE (bits 7..0: index in `MODES`;
bits 15..8: strobes that are low).  Addresses and BYTES are multiples of a beat.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring

from hwgen.core.bus import BusPort
from rtl_templates.axi.bus import fixed_fields
from rtl_templates.axi.channels import channels_of
from rtl_templates.axi.reader import BurstReader
from rtl_templates.hdl.hierarchy import place
from rtl_templates.hdl.shell import bus_members
from rtl_templates.hdl.streams import Stream, fields, new_stream

DATA_WIDTH, ADDRESS_WIDTH, BURST = 64, 40, 8

BUSES = (
    BusPort("axi4", "mem", DATA_WIDTH, ADDRESS_WIDTH),
    BusPort("axi_lite", "control", 32, 12),
    BusPort("output", "interrupt"),
)

SOURCE, TARGET, BYTES, START, CLEAR, MODE = 0x00, 0x08, 0x10, 0x14, 0x18, 0x1C

MODES = ("plain", "data_first", "boundary", "wlast", "unstable", "silent", "size", "fixed", "falls")
"""Data before its address, which is legal; and what is not: bursts that cross 4 KiB, no last beat,
data that changes while it waits, no answer on the register bus, narrow beats, bursts to one
address, a valid that falls."""


class CopyEngine(wiring.Component):
    """Reads ahead in bursts and writes one burst after the other."""

    def __init__(self) -> None:
        super().__init__(bus_members(BUSES))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        registers = [Signal(32, name=f"register_{i}") for i in range(8)]
        source, target = (Cat(registers[i : i + 2])[:ADDRESS_WIDTH] for i in (0, 2))
        option = registers[MODE // 4]
        mode = {name: option[:8] == i for i, name in enumerate(MODES)}
        busy, failed, start = Signal(), Signal(), Signal()
        self._control(m, registers, Cat(busy, failed), start, mode["silent"])

        mem, size = self.mem, (DATA_WIDTH // 8).bit_length() - 1
        overridden = (mem.awsize, mem.awburst)
        m.d.comb += fixed_fields(_Without(mem, overridden), DATA_WIDTH)
        m.d.comb += [
            mem.awsize.eq(size - mode["size"]),
            mem.awburst.eq(~mode["fixed"]),
        ]
        request, error = Signal(), Signal()
        valid, pop = Signal(), Signal()
        accepted = Signal()
        block, channels = BurstReader(DATA_WIDTH, ADDRESS_WIDTH, BURST, 4, 32), channels_of(mem)
        beat = new_stream("beat", block.payload("o")).payload
        place(
            m, "reader", block, ar=channels.ar, r=channels.r, stop=Const(0, 1), error=error,
            i=Stream(fields(address=source, bytes=registers[BYTES // 4]), request, accepted),
            o=Stream(beat, valid, pop),
        )  # fmt: skip

        address, left, beats = Signal(ADDRESS_WIDTH), Signal(32), Signal(range(BURST + 1))
        room = Mux(mode["boundary"], BURST, BURST - address[size:][: BURST.bit_length() - 1])
        count = Mux(left < room, left, room)
        late, late_address, late_length = Signal(), Signal(ADDRESS_WIDTH), Signal(8)
        waits = Signal(8)
        m.d.sync += waits.eq(waits + 1)
        m.d.comb += [
            mem.awaddr.eq(Mux(late, late_address, address)),
            mem.awlen.eq(Mux(late, late_length, count - 1)),
            mem.wdata.eq(beat.data ^ Mux(mode["unstable"], waits, 0)),
            mem.wstrb.eq(~option[8:16]),
            mem.wlast.eq((beats == 1) & ~mode["wlast"]),
        ]
        with m.If(error):
            m.d.sync += failed.eq(1)
        with m.If(request & accepted):
            m.d.sync += request.eq(0)
        with m.FSM():
            with m.State("IDLE"), m.If(start):
                m.d.sync += [
                    busy.eq(1),
                    failed.eq(0),
                    request.eq(1),
                    address.eq(target),
                    left.eq(registers[BYTES // 4] >> size),
                ]
                m.next = "ADDRESS"
            with m.State("ADDRESS"):
                m.d.comb += mem.awvalid.eq(~(mode["falls"] & waits[0]) & ~mode["data_first"])
                with m.If(mode["data_first"] | mem.awvalid & mem.awready):
                    m.d.sync += [
                        late_address.eq(address),
                        late_length.eq(count - 1),
                        beats.eq(count),
                        left.eq(left - count),
                        address.eq(address + (count << size)),
                    ]
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += [mem.wvalid.eq(valid), pop.eq(mem.wready)]
                with m.If(mem.wvalid & mem.wready):
                    m.d.sync += beats.eq(beats - 1)
                    with m.If(beats == 1):
                        m.d.sync += late.eq(mode["data_first"])
                        m.next = "RESPONSE"
            with m.State("RESPONSE"):
                m.d.comb += [mem.bready.eq(1), mem.awvalid.eq(late)]
                with m.If(mem.awready):
                    m.d.sync += late.eq(0)
                with m.If(mem.bvalid):
                    with m.If(mem.bresp[1]):
                        m.d.sync += failed.eq(1)
                    m.next = "ADDRESS"
                    with m.If(left == 0):
                        m.d.sync += [busy.eq(0), self.interrupt.eq(1)]
                        m.next = "IDLE"
        with m.If(self._clear):
            m.d.sync += self.interrupt.eq(0)
        return m

    def _control(
        self, m: Module, registers: list[Signal], status: Any, start: Signal, silent: Any
    ) -> None:
        bus = self.control
        legal_write, legal_read = bus.awaddr < 0x20, bus.araddr < 0x20
        write = bus.awvalid & bus.wvalid & ~bus.bvalid & ~silent
        read = bus.arvalid & ~bus.rvalid & ~silent
        self._clear = Signal(name="clear")
        m.d.comb += [bus.awready.eq(write), bus.wready.eq(write), bus.arready.eq(read)]
        with m.If(bus.bready):
            m.d.sync += bus.bvalid.eq(0)
        with m.If(bus.rready):
            m.d.sync += bus.rvalid.eq(0)
        with m.If(write):
            m.d.sync += [bus.bvalid.eq(1), bus.bresp.eq(Mux(legal_write, 0, 2))]
            with m.If(legal_write), m.Switch(bus.awaddr[2:5]):
                for i, register in enumerate(registers):
                    with m.Case(i):
                        m.d.sync += register.eq(bus.wdata)
                        if 4 * i == START:
                            m.d.comb += start.eq(1)
                        if 4 * i == CLEAR:
                            m.d.comb += self._clear.eq(1)
        with m.If(read):
            m.d.sync += [bus.rvalid.eq(1), bus.rresp.eq(Mux(legal_read, 0, 2))]
            with m.Switch(bus.araddr[2:5]):
                for i, register in enumerate(registers):
                    with m.Case(i):
                        m.d.sync += bus.rdata.eq(status if 4 * i == START else register)


class _Without:
    """A bus some of whose signals lead nowhere."""

    def __init__(self, bus: Any, hidden: tuple[Signal, ...]) -> None:
        self._bus, self._hidden = bus, hidden

    def __getattr__(self, name: str) -> Any:
        signal = getattr(self._bus, name)
        return Signal(len(signal)) if any(signal is other for other in self._hidden) else signal
