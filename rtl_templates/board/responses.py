# SPDX-License-Identifier: Apache-2.0
"""Responses to bytes: `hwgen.board.protocol` as hardware."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hwgen.board.protocol import RESPONSE
from rtl_templates.board.requests import CRC


class ResponseSender(wiring.Component):
    """Sends responses.

    Attributes
    ----------
    start, busy : Signal
        A response begins in a cycle in which `start` is set; it is ignored while one is sent.
    code, sequence, length : Signal
        Of the response; they stay as they are while it is sent.
    payload, advance : Signal
        The next byte of the payload, and whether it is sent with this cycle.
    data, valid, ready : Signal
        Bytes for a serial port.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "start": In(1),
                "busy": Out(1),
                "code": In(8),
                "sequence": In(8),
                "length": In(8),
                "payload": In(8),
                "advance": Out(1),
                "data": Out(8),
                "valid": Out(1),
                "ready": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.checksum = processor = CRC(data_width=8).create()
        left = Signal(8)
        accepted = Signal()
        m.d.comb += [accepted.eq(self.valid & self.ready), processor.data.eq(self.data)]
        with m.FSM() as machine:
            m.d.comb += [
                self.busy.eq(~machine.ongoing("IDLE")),
                self.valid.eq(self.busy),
                processor.start.eq(machine.ongoing("START")),
            ]
            with m.State("IDLE"), m.If(self.start):
                m.next = "START"
            with m.State("START"):
                m.d.comb += self.data.eq(RESPONSE)
                with m.If(accepted):
                    m.next = "CODE"
            for state, value, following in (
                ("CODE", self.code, "SEQUENCE"),
                ("SEQUENCE", self.sequence, "LENGTH"),
            ):
                with m.State(state):
                    m.d.comb += [self.data.eq(value), processor.valid.eq(accepted)]
                    with m.If(accepted):
                        m.next = following
            with m.State("LENGTH"):
                m.d.comb += [self.data.eq(self.length), processor.valid.eq(accepted)]
                m.d.sync += left.eq(self.length)
                with m.If(accepted):
                    m.next = "PAYLOAD"
                    with m.If(self.length == 0):
                        m.next = "CRC HIGH"
            with m.State("PAYLOAD"):
                m.d.comb += [self.data.eq(self.payload), processor.valid.eq(accepted)]
                with m.If(accepted):
                    m.d.comb += self.advance.eq(1)
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 1):
                        m.next = "CRC HIGH"
            with m.State("CRC HIGH"):
                m.d.comb += self.data.eq(processor.crc[8:])
                with m.If(accepted):
                    m.next = "CRC LOW"
            with m.State("CRC LOW"):
                m.d.comb += self.data.eq(processor.crc[:8])
                with m.If(accepted):
                    m.next = "IDLE"
        return m
