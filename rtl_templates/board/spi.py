# SPDX-License-Identifier: Apache-2.0
"""A port on a serial peripheral bus: the host clocks it, in mode 0 or 3, the upper bit first."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

LEAST_CLOCKS = 8
"""Clock cycles of a bit at least: an edge of `sck` reaches `miso` in less than half of them."""

FILLER = 0x00
"""Byte for the host where there is none: it begins no frame."""


class SpiPort(wiring.Component):
    """Receives and sends bytes, one in each direction for eight bits of the host's clock.

    Attributes
    ----------
    cs, sck, mosi, miso : Signal
        The pins; `cs` is active low.
    data, valid : Signal
        A byte from the host, in the one cycle in which it is valid.
    error : Signal
        In one cycle: `cs` rose in the middle of a byte, which was dropped.
    tx_data, tx_valid, tx_ready : Signal
        A byte for the host. It is accepted when its first bit has been read; `FILLER` is sent
        where none is valid.
    """

    def __init__(self) -> None:
        super().__init__({
            "cs": In(1), "sck": In(1), "mosi": In(1), "miso": Out(1),
            "data": Out(8), "valid": Out(1), "error": Out(1),
            "tx_data": In(8), "tx_valid": In(1), "tx_ready": Out(1),
        })  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # Two registers against metastability; their values at power-up are those of an idle bus.
        first, second = Signal(3, init=0b001), Signal(3, init=0b001)
        idle, clock, level = second[0], second[1], second[2]
        before, was_idle = Signal(), Signal(init=1)
        m.d.sync += [
            first.eq(Cat(self.cs, self.sck, self.mosi)),
            second.eq(first),
            before.eq(clock),
            was_idle.eq(idle),
        ]
        rise, fall, load = Signal(), Signal(), Signal()
        count = Signal(3)
        shift = Signal(8, init=FILLER)
        mine = Signal()
        m.d.comb += [
            rise.eq(~idle & clock & ~before),
            fall.eq(~idle & ~clock & before),
            load.eq(idle | (fall & (count == 0))),
            self.error.eq(idle & ~was_idle & (count != 0)),
            self.tx_ready.eq(rise & (count == 0) & mine),
            self.miso.eq(shift[7]),
        ]
        m.d.sync += self.valid.eq(rise & (count == 7))
        with m.If(idle):
            m.d.sync += count.eq(0)
        with m.Elif(rise):
            m.d.sync += [count.eq(count + 1), self.data.eq(Cat(level, self.data[:7]))]
        with m.If(load):
            m.d.sync += [shift.eq(Mux(self.tx_valid, self.tx_data, FILLER)), mine.eq(self.tx_valid)]
        with m.Elif(fall):
            m.d.sync += shift.eq(shift << 1)
        return m
