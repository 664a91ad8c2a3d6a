# SPDX-License-Identifier: Apache-2.0
"""Requests out of bytes: `hwgen.board.protocol` as hardware."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import crc, wiring
from amaranth.lib.wiring import In, Out

from hwgen.board.protocol import REQUEST

CRC = crc.catalog.CRC16_IBM_3740
"""CRC-16 of polynomial 0x1021, begun at 0xFFFF."""


class _State(IntEnum):
    """Meaning of the next byte."""

    START = 0
    HEAD = 1
    SEQUENCE = 2
    LENGTH = 3
    PAYLOAD = 4
    CRC_HIGH = 5
    CRC_LOW = 6


class RequestParser(wiring.Component):
    """Finds requests in the bytes of a serial port.

    The payload goes out byte by byte before it is known whether the CRC is right.

    Parameters
    ----------
    silence_cycles : int
        Cycles without a byte after which a request that has begun is forgotten.

    Attributes
    ----------
    data, valid : Signal
        A byte, in the one cycle in which it is valid.
    head, sequence, length : Signal
        Of the request under way, or that has just ended.
    payload : Signal
        Whether `data` is a byte of the payload, in the cycle in which it is valid.
    final : Signal
        Whether that byte is the payload's last.
    first : Signal
        The first byte of a payload that has come.
    begin : Signal
        In one cycle: the header has come.
    done, wrong, silence : Signal
        In one cycle: a request is complete; its CRC was wrong; it ended in the middle.
    """

    def __init__(self, silence_cycles: int) -> None:
        super().__init__(
            {
                "data": In(8),
                "valid": In(1),
                "head": Out(8),
                "sequence": Out(8),
                "length": Out(8),
                "first": Out(8),
                "payload": Out(1),
                "final": Out(1),
                "begin": Out(1),
                "done": Out(1),
                "wrong": Out(1),
                "silence": Out(1),
            }
        )
        self._silence_cycles = silence_cycles

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.checksum = processor = CRC(data_width=8).create()
        state = Signal(_State)
        left = Signal(8)
        checked = Signal()
        silent = Signal(range(self._silence_cycles + 1))
        m.d.comb += [
            processor.data.eq(self.data),
            processor.valid.eq(self.valid),
            processor.start.eq(state == _State.HEAD),
            self.final.eq(left == 1),
            self.payload.eq(self.valid & (state == _State.PAYLOAD)),
            self.begin.eq(self.valid & (state == _State.LENGTH)),
            # The CRC over a request and its CRC is known a cycle after its last byte.
            self.done.eq(checked & processor.match_detected),
            self.wrong.eq(checked & ~processor.match_detected),
        ]
        m.d.sync += checked.eq(self.valid & (state == _State.CRC_LOW))
        with m.If(self.valid), m.Switch(state):
            with m.Case(_State.START), m.If(self.data == REQUEST):
                m.d.sync += state.eq(_State.HEAD)
            with m.Case(_State.HEAD):
                m.d.sync += [self.head.eq(self.data), state.eq(_State.SEQUENCE)]
            with m.Case(_State.SEQUENCE):
                m.d.sync += [self.sequence.eq(self.data), state.eq(_State.LENGTH)]
            with m.Case(_State.LENGTH):
                m.d.sync += [self.length.eq(self.data), left.eq(self.data)]
                m.d.sync += state.eq(_State.PAYLOAD)
                with m.If(self.data == 0):
                    m.d.sync += state.eq(_State.CRC_HIGH)
            with m.Case(_State.PAYLOAD):
                m.d.sync += left.eq(left - 1)
                with m.If(left == self.length):
                    m.d.sync += self.first.eq(self.data)
                with m.If(self.final):
                    m.d.sync += state.eq(_State.CRC_HIGH)
            with m.Case(_State.CRC_HIGH):
                m.d.sync += state.eq(_State.CRC_LOW)
            with m.Case(_State.CRC_LOW):
                m.d.sync += state.eq(_State.START)
        with m.If(self.valid | (state == _State.START)):
            m.d.sync += silent.eq(0)
        with m.Elif(silent == self._silence_cycles):
            m.d.comb += self.silence.eq(1)
            m.d.sync += state.eq(_State.START)
        with m.Else():
            m.d.sync += silent.eq(silent + 1)
        return m
