# SPDX-License-Identifier: Apache-2.0
"""A serial port: eight data bits, no parity, one stop bit, rates up to a quarter of the clock."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

LEAST_CLOCKS = 4
"""Clock cycles of a bit at least: the middle of a bit is known to one of them."""


@dataclass(frozen=True)
class Rate:
    """Rate of a serial port.

    Parameters
    ----------
    clock_hz, baud : int
        Frequency of the clock, and bits a second.
    """

    clock_hz: int
    baud: int

    def __post_init__(self) -> None:
        if self.baud * LEAST_CLOCKS > self.clock_hz:
            needed = LEAST_CLOCKS * self.baud
            raise ValueError(f"{self.baud} baud need a clock of {needed} Hz or more")


class _Ticks:
    """Marks of the bits: fractions of a clock cycle are carried on, so that no error adds up."""

    def __init__(self, rate: Rate) -> None:
        common = gcd(rate.clock_hz, rate.baud)
        self.period, self.step = rate.clock_hz // common, rate.baud // common
        self.phase = Signal(range(self.period))
        self.tick = Signal()
        """Whether a bit ends with this cycle."""

    def advance(self, m: Module) -> None:
        """Let the phase go on by a clock cycle."""
        limit = self.period - self.step
        m.d.comb += self.tick.eq(self.phase >= limit)
        m.d.sync += self.phase.eq(self.phase + self.step)
        with m.If(self.tick):
            m.d.sync += self.phase.eq(self.phase - limit)


class Receiver(wiring.Component):
    """Receives bytes.

    Parameters
    ----------
    rate : Rate

    Attributes
    ----------
    rx : Signal
        The pin; 1 while nothing is sent.
    data, valid : Signal
        A byte, in the one cycle in which it is valid.
    error : Signal
        In one cycle: a byte had no stop bit, and was dropped.
    """

    def __init__(self, rate: Rate) -> None:
        super().__init__(
            {
                "rx": In(1),
                "data": Out(8),
                "valid": Out(1),
                "error": Out(1),
            }
        )
        self._ticks = _Ticks(rate)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        ticks = self._ticks
        # Two registers against metastability; their values at power-up are an idle line's.
        pin = Signal(2, init=0b11)
        m.d.sync += pin.eq((self.rx << 1) | pin[1])
        line = pin[0]
        ticks.advance(m)
        count = Signal(range(10))
        shift = Signal(8)
        m.d.comb += self.data.eq(shift)
        with m.FSM():
            with m.State("IDLE"):
                # Half a bit later is the middle of the start bit, which began up to a cycle ago.
                m.d.sync += [ticks.phase.eq(ticks.period // 2 + ticks.step), count.eq(0)]
                with m.If(~line):
                    m.next = "BITS"
            with m.State("BITS"), m.If(ticks.tick):
                m.d.sync += count.eq(count + 1)
                with m.If((count == 0) & line):  # a spike
                    m.next = "IDLE"
                with m.Elif(count == 9):
                    m.d.comb += [self.valid.eq(line), self.error.eq(~line)]
                    m.next = "IDLE"
                    with m.If(~line):
                        m.next = "BREAK"
                with m.Elif(count != 0):
                    m.d.sync += shift.eq((line << 7) | shift[1:])
            with m.State("BREAK"), m.If(line):
                m.next = "IDLE"
        return m


class Transmitter(wiring.Component):
    """Sends bytes.

    Parameters
    ----------
    rate : Rate

    Attributes
    ----------
    tx : Signal
        The pin; 1 while nothing is sent.
    data, valid, ready : Signal
        A byte is accepted in a cycle in which it is valid and the transmitter ready.
    """

    def __init__(self, rate: Rate) -> None:
        super().__init__(
            {
                "tx": Out(1, init=1),
                "data": In(8),
                "valid": In(1),
                "ready": Out(1),
            }
        )
        self._ticks = _Ticks(rate)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        ticks = self._ticks
        ticks.advance(m)
        left = Signal(range(11))
        shift = Signal(9, init=0x1FF)
        m.d.comb += self.ready.eq(left == 0)
        with m.If(self.ready):
            m.d.sync += [self.tx.eq(1), ticks.phase.eq(0)]
            with m.If(self.valid):
                m.d.sync += [self.tx.eq(0), shift.eq((1 << 8) | self.data), left.eq(10)]
        with m.Elif(ticks.tick):
            m.d.sync += [self.tx.eq(shift[0]), shift.eq((1 << 8) | shift[1:]), left.eq(left - 1)]
        return m
