# SPDX-License-Identifier: Apache-2.0
"""Requests out of datagrams, and responses into them: `hwgen.board.datagrams` as hardware."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from hwgen.board.datagrams import HEADER_BYTES, MAGIC, MOST_BYTES
from hwgen.board.protocol import OVERHEAD, REQUEST

WORDS = -(-MOST_BYTES // 4)
"""Words of the longest datagram."""

ANSWER_CYCLES = 63
"""Cycles after the last byte of a request in which the response to it begins, if there is one."""

_HEADER_WORDS = HEADER_BYTES // 4


class DatagramPort(wiring.Component):
    """Receives requests and sends responses, a datagram for each.

    A datagram is dropped if it is none of the format, comes late or twice, or while another is
    served.  What is received is decided on when it has ended, for its checksum is known then.

    Parameters
    ----------
    port : int
        UDP port that responses come from.

    Attributes
    ----------
    source_data, source_last_be, source_error, source_last, source_valid, source_ready : Signal
        Words of a datagram, the first byte in the lowest bits; the mark of the last byte in the
        last word, and whether the checksum of the Ethernet frame is wrong.
    source_ip, source_port, source_length : Signal
        Its sender, and its bytes, while its words come.
    sink_data, sink_last_be, sink_last, sink_valid, sink_ready : Signal
        Words of a datagram to send.
    sink_ip, sink_port, sink_length : Signal
        Its receiver, and its bytes.
    sink_source_port : Signal
        UDP port of this station.
    data, valid : Signal
        A byte of a request, in the one cycle in which it is valid.
    error : Signal
        In one cycle: a datagram was dropped.
    tx_data, tx_valid, tx_ready : Signal
        Bytes of a response.
    """

    def __init__(self, port: int) -> None:
        super().__init__({
            "source_data": In(32), "source_last_be": In(4), "source_error": In(4),
            "source_last": In(1), "source_valid": In(1), "source_ready": Out(1),
            "source_ip": In(32), "source_port": In(16), "source_length": In(16),
            "sink_data": Out(32), "sink_last_be": Out(4), "sink_last": Out(1),
            "sink_valid": Out(1), "sink_ready": In(1), "sink_ip": Out(32), "sink_port": Out(16),
            "sink_length": Out(16), "sink_source_port": Out(16),
            "data": Out(8), "valid": Out(1), "error": Out(1),
            "tx_data": In(8), "tx_valid": In(1), "tx_ready": Out(1),
        })  # fmt: skip
        self._port = port

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # A response is put where the request was, which has been read by then.
        m.submodules.store = store = memory.Memory(shape=32, depth=WORDS, init=[])
        self._write, self._read = store.write_port(), store.read_port()
        self._bytes = Signal(range(MOST_BYTES + 1), name="frame_bytes")
        self._number = Signal(32, name="number")
        self._latest = Signal(32, name="latest")
        self._sender = Signal(48, name="sender")
        self._from = Signal(48, name="from")
        self._sound = Signal(name="sound")
        self._dropped = Signal(name="dropped")
        self._empty = Signal(name="empty")
        m.d.comb += [
            self.source_ready.eq(1),
            self.tx_ready.eq(1),
            self.sink_source_port.eq(self._port),
            Cat(self.sink_ip, self.sink_port).eq(self._from),
        ]
        self._listening, self._ended = Signal(name="listening"), Signal(name="ended")
        self._receive(m)
        with m.FSM():
            with m.State("LISTEN"):
                m.d.comb += self._listening.eq(1)
                with m.If(self._ended):
                    m.next = "DECIDE"
            self._decide(m)
            self._forward(m)
            with m.State("COLLECT"):
                self._collect(m)
            with m.State("SEND"):
                self._send(m)
        return m

    def _receive(self, m: Module) -> None:
        """Store a datagram that begins while the port listens."""
        begins, skipped, skipping = Signal(init=1), Signal(), Signal()
        at = Signal(range(WORDS + 1))
        broken, good = Signal(), Signal()
        word, length = self.source_data, self.source_length
        m.d.comb += [
            skipping.eq(Mux(begins, ~self._listening, skipped)),
            good.eq(~broken & ~self.source_error.any() & (begins | self._sound)),
            self._ended.eq(self.source_valid & self.source_last & ~skipping),
            self.error.eq(self._dropped | (self.source_valid & self.source_last & skipping)),
        ]
        with m.Switch(at):
            with m.Case(0):
                m.d.comb += broken.eq(word != int.from_bytes(MAGIC, "little"))
            with m.Case(2):
                m.d.comb += broken.eq(word != ~self._number)
            with m.Case(_HEADER_WORDS):  # a question for the last number has no frame
                matching = word[24:] + (HEADER_BYTES + OVERHEAD) == length
                m.d.comb += broken.eq((self._number != 0) & ~((word[:8] == REQUEST) & matching))
            with m.Case(WORDS):
                m.d.comb += broken.eq(1)
        with m.If(self.source_valid):
            m.d.sync += [begins.eq(self.source_last), skipped.eq(skipping)]
        with m.If(self.source_valid & ~skipping):
            m.d.comb += [
                self._write.addr.eq(at),
                self._write.data.eq(word),
                self._write.en.eq(at != WORDS),
            ]
            # One that is shorter than a frame, or than it says, lacks words that could be wrong.
            short = (at <= _HEADER_WORDS) | (at != (length - 1)[2:])
            m.d.sync += self._sound.eq(good & ~(self.source_last & short))
            m.d.sync += at.eq(Mux(self.source_last, 0, Mux(at == WORDS, WORDS, at + 1)))
            with m.If(at == 1):
                m.d.sync += self._number.eq(word)
            with m.If(self.source_last):
                m.d.sync += self._bytes.eq(length - HEADER_BYTES)
                m.d.sync += self._from.eq(Cat(self.source_ip, self.source_port))

    def _decide(self, m: Module) -> None:
        """Decide what becomes of a datagram."""
        ahead = Signal(32)
        m.d.comb += ahead.eq(self._number - self._latest)
        with m.State("DECIDE"):
            later = (ahead != 0) & ~ahead[31]
            again = (ahead == 0) & (self._sender == self._from)
            m.d.sync += self._empty.eq(self._number == 0)
            with m.If(self._sound & (self._number == 0)):
                m.d.sync += [self._number.eq(self._latest), self._bytes.eq(OVERHEAD)]
                m.next = "SEND"
            with m.Elif(self._sound & (later | again)):
                m.d.sync += [self._latest.eq(self._number), self._sender.eq(self._from)]
                m.next = "FORWARD"
            with m.Else():
                m.d.comb += self._dropped.eq(1)
                m.next = "LISTEN"

    def _forward(self, m: Module) -> None:
        """Pass the bytes of a request on, one in two cycles."""
        position, fetched = Signal(range(MOST_BYTES + 1)), Signal()
        with m.State("FORWARD"):
            m.d.comb += [
                self._read.addr.eq(position[2:] + _HEADER_WORDS),
                self.data.eq(self._read.data.word_select(position[:2], 8)),
                self.valid.eq(fetched),
            ]
            m.d.sync += fetched.eq(~fetched)
            with m.If(fetched):
                m.d.sync += position.eq(position + 1)
                with m.If(position == self._bytes - 1):
                    m.d.sync += position.eq(0)
                    m.next = "COLLECT"

    def _collect(self, m: Module) -> None:
        """Store the bytes of a response; a broken request has none."""
        position, idle = Signal(range(MOST_BYTES + 1)), Signal(range(ANSWER_CYCLES + 1))
        former = Signal(24)
        word = [former[8 * byte : 8 * byte + 8] for byte in range(3)]
        whole = Signal(32)
        with m.Switch(position[:2]):
            for byte in range(4):
                with m.Case(byte):
                    m.d.comb += whole.eq(Cat(*word[:byte], self.tx_data))
        m.d.comb += [
            self._write.addr.eq(position[2:] + _HEADER_WORDS),
            self._write.data.eq(whole),
            self._write.en.eq(self.tx_valid),
        ]
        m.d.sync += idle.eq(idle + 1)
        with m.If(self.tx_valid):
            m.d.sync += [idle.eq(0), position.eq(position + 1), former.eq(whole)]
            with m.If(position == 3):
                m.d.sync += self._bytes.eq(self.tx_data + OVERHEAD)
            with m.If((position > 3) & (position == self._bytes - 1)):
                m.d.sync += position.eq(0)
                m.next = "SEND"
        with m.Elif(idle == ANSWER_CYCLES):
            m.d.sync += [idle.eq(0), position.eq(0)]
            m.next = "LISTEN"

    def _send(self, m: Module) -> None:
        """Send a response, or the last number."""
        at, following = Signal(range(WORDS + 1)), Signal(range(WORDS + 1))
        begun = Signal()
        last_byte = Signal(range(MOST_BYTES + 1))
        header = (int.from_bytes(MAGIC, "little"), self._number, ~self._number)
        m.d.comb += [
            last_byte.eq(self._bytes + (HEADER_BYTES - 1)),
            self.sink_length.eq(self._bytes + HEADER_BYTES),
            self.sink_last.eq(at == last_byte[2:]),
            self.sink_last_be.eq(Mux(self.sink_last, Const(1, 4) << last_byte[:2], 0)),
        ]
        with m.Switch(at):
            for number, value in enumerate(header):
                with m.Case(number):
                    m.d.comb += self.sink_data.eq(value)
            with m.Default():
                m.d.comb += self.sink_data.eq(Mux(self._empty, 0, self._read.data))
        m.d.comb += [self.sink_valid.eq(begun), following.eq(at)]
        m.d.sync += begun.eq(1)
        with m.If(begun & self.sink_ready):
            m.d.comb += following.eq(at + 1)
            with m.If(self.sink_last):
                m.d.comb += following.eq(0)
                m.d.sync += begun.eq(0)
                m.next = "LISTEN"
        m.d.comb += self._read.addr.eq(following)
        m.d.sync += at.eq(following)
