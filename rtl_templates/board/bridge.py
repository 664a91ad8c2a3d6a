# SPDX-License-Identifier: Apache-2.0
"""The bridge between a serial port and the streams of a core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hwgen.board.protocol import MOST_PORTS, VERSION, Code, Identity, Operation
from rtl_templates.board.beats import BeatsFromBytes, BytesFromBeats
from rtl_templates.board.replay_buffer import ReplayBuffer
from rtl_templates.board.requests import RequestParser
from rtl_templates.board.responses import ResponseSender

RESET_CYCLES = 15
"""Cycles for which a request resets the core."""

MOST_BUFFER = 1 << 15
"""Bytes of the largest buffer: its level is a word of 16 bits."""


@dataclass(frozen=True)
class BridgeParams:
    """Parameters of a bridge.

    Parameters
    ----------
    digest : bytes
        Of the configuration.
    inputs : tuple of (int, bool)
        Bytes of a beat of each input port, and whether it has ``tlast``.
    output : int
        Bytes of a beat of the output port.
    buffer_bytes : int
        Bytes of the buffer of each port, a power of two.
    silence_cycles : int
        Cycles without a byte after which a request that has begun is forgotten.
    """

    digest: bytes
    inputs: tuple[tuple[int, bool], ...]
    output: int
    buffer_bytes: int
    silence_cycles: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.inputs) <= MOST_PORTS:
            raise ValueError(f"a bridge has 1..{MOST_PORTS} input ports, not {len(self.inputs)}")
        size = self.buffer_bytes
        if not 2 <= size <= MOST_BUFFER or size & (size - 1):
            raise ValueError(f"a buffer has a power of two of bytes, at most {MOST_BUFFER}")

    @property
    def identity(self) -> Identity:
        """Identity that the bridge states."""
        beats = (*(beat for beat, _ in self.inputs), self.output)
        return Identity(VERSION, self.digest, self.buffer_bytes, beats)


class Bridge(wiring.Component):
    """Serves requests of a host: writes beats into input streams, reads beats of results.

    Parameters
    ----------
    params : BridgeParams

    Attributes
    ----------
    rx_data, rx_valid, rx_error : Signal
        From a `rtl_templates.board.uart.Receiver`.
    tx_data, tx_valid, tx_ready : Signal
        To a transmitter.
    in0_data, in0_last, in0_valid, in0_ready, in1_data, ... : Signal
        Beats for the input ports of the core.
    out_data, out_valid, out_ready : Signal
        Beats of results.
    core_reset : Signal
        Resets the core.
    connected : Signal
        Whether a host has been here since the reset.
    """

    def __init__(self, params: BridgeParams) -> None:
        members: dict[str, Any] = {
            "rx_data": In(8), "rx_valid": In(1), "rx_error": In(1),
            "tx_data": Out(8), "tx_valid": Out(1), "tx_ready": In(1),
            "out_data": In(8 * params.output), "out_valid": In(1), "out_ready": Out(1),
            "core_reset": Out(1), "connected": Out(1),
        }  # fmt: skip
        for port, (beat_bytes, _) in enumerate(params.inputs):
            members |= {
                f"in{port}_data": Out(8 * beat_bytes), f"in{port}_last": Out(1),
                f"in{port}_valid": Out(1), f"in{port}_ready": In(1),
            }  # fmt: skip
        super().__init__(members)
        self._params = params

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        self._parser = RequestParser(self._params.silence_cycles)
        self._sender = ResponseSender()
        m.submodules.requests, m.submodules.responses = self._parser, self._sender
        m.d.comb += [
            self._parser.data.eq(self.rx_data),
            self._parser.valid.eq(self.rx_valid),
            self.tx_data.eq(self._sender.data),
            self.tx_valid.eq(self._sender.valid),
            self._sender.ready.eq(self.tx_ready),
        ]
        self._reset(m)
        self._streams(m)
        self._requests(m)
        self._payloads(m)
        self._counters(m)
        return m

    def _reset(self, m: Module) -> None:
        """Hold the reset of streams and core after power-up and after a request for it."""
        self._hold = hold = Signal(range(RESET_CYCLES + 1), init=RESET_CYCLES)
        m.d.comb += self.core_reset.eq(hold != 0)
        with m.If(hold != 0):
            m.d.sync += hold.eq(hold - 1)

    def _streams(self, m: Module) -> None:
        """Add buffers, and what joins and cuts beats."""
        params, parser = self._params, self._parser
        resets = ResetInserter(self.core_reset)
        writes = parser.head[4:] == Operation.WRITE
        self._commit = Signal(name="commit")
        self._undo = Signal(name="undo")
        self._full = Signal(name="full")
        self._inputs = []
        occupied = []
        with m.If(parser.begin):
            m.d.sync += self._full.eq(0)
        for port, (beat_bytes, marked) in enumerate(params.inputs):
            buffer = ReplayBuffer(9 if marked else 8, params.buffer_bytes)
            beats = BeatsFromBytes(beat_bytes)
            m.submodules[f"buffer{port}"] = resets(buffer)
            m.submodules[f"beats{port}"] = resets(beats)
            mark = parser.final & parser.head[3]
            m.d.comb += [
                buffer.write_data.eq(Cat(parser.data, mark)),
                buffer.write.eq(parser.payload & writes & (parser.head[:3] == port)),
                buffer.write_commit.eq(self._commit & (parser.head[:3] == port)),
                buffer.write_undo.eq(self._undo),
                buffer.read_commit.eq(1),
                buffer.read.eq(beats.byte_ready),
                beats.byte.eq(buffer.read_data[:8]),
                beats.mark.eq(buffer.read_data[8] if marked else 0),
                beats.byte_valid.eq(buffer.valid),
                getattr(self, f"in{port}_data").eq(beats.data),
                getattr(self, f"in{port}_last").eq(beats.last),
                getattr(self, f"in{port}_valid").eq(beats.valid),
                beats.ready.eq(getattr(self, f"in{port}_ready")),
            ]
            with m.If(buffer.write & (buffer.free == 0)):
                m.d.sync += self._full.eq(1)
            self._inputs.append(buffer)
            occupied += [buffer.level != 0, beats.valid]
        self._results = results = ReplayBuffer(8, params.buffer_bytes)
        cut = BytesFromBeats(params.output)
        m.submodules.results, m.submodules.cut = resets(results), resets(cut)
        m.d.comb += [
            cut.data.eq(self.out_data),
            cut.valid.eq(self.out_valid),
            self.out_ready.eq(cut.ready),
            cut.byte_ready.eq(results.free != 0),
            results.write_data.eq(cut.byte),
            results.write.eq(cut.byte_valid),
            results.write_commit.eq(1),
        ]
        self._busy = Cat(*occupied, results.level != 0, cut.byte_valid).any()

    def _requests(self, m: Module) -> None:
        """Serve a request when it is complete, unless a response is being sent."""
        parser, sender, results = self._parser, self._sender, self._results
        operation, port = parser.head[4:], parser.head[:3]
        seen = Signal()
        last_sequence = Signal(8)
        serve = Signal()
        answer = Signal()
        self._operation = Signal(4, name="operation")
        self._port = Signal(3, name="port")
        self._overrun = Signal(name="overrun")
        again = seen & (parser.sequence == last_sequence)
        self._count = Signal(8, name="count")
        self._read_count = Signal(8, name="read_count")
        # The response begins a cycle later, when buffers show what was done.
        m.d.comb += [
            serve.eq(parser.done & ~sender.busy & ~answer),
            self._overrun.eq(parser.done & (sender.busy | answer)),
            self._undo.eq(parser.wrong | parser.silence | (parser.done & ~self._commit)),
            sender.start.eq(answer),
        ]
        m.d.sync += answer.eq(serve)
        lengths = Array(
            [0, len(self._params.identity.encode()), 0, 7 + 2 * len(self._inputs), 4, 0]
        )
        code = Signal(8)
        with m.If(serve):
            m.d.comb += code.eq(Code.UNKNOWN)
            m.d.sync += [self._operation.eq(operation), self._port.eq(port)]
            m.d.sync += [sender.code.eq(code), sender.sequence.eq(parser.sequence)]
            m.d.sync += self._count.eq(0)
            with m.Switch(operation):
                with m.Case(Operation.IDENTIFY, Operation.STATUS):
                    m.d.comb += code.eq(Code.OK)
                    m.d.sync += self._count.eq(lengths[operation])
                with m.Case(Operation.RESET):
                    m.d.comb += code.eq(Code.OK)
                    m.d.sync += [self._hold.eq(RESET_CYCLES), seen.eq(0), self.connected.eq(1)]
                with m.Case(Operation.WRITE), m.If(port < len(self._inputs)):
                    m.d.comb += code.eq(Code.OK)
                    m.d.sync += self._count.eq(lengths[operation])
                    with m.If(~again & self._full):
                        m.d.comb += code.eq(Code.FULL)
                    with m.Elif(~again):
                        m.d.comb += [self._commit.eq(1), results.read_commit.eq(1)]
                        m.d.sync += [seen.eq(1), last_sequence.eq(parser.sequence)]
                with m.Case(Operation.READ), m.If(parser.length == 1):
                    m.d.comb += code.eq(Code.OK)
                    with m.If(again):
                        m.d.comb += results.read_undo.eq(1)
                        m.d.sync += self._count.eq(self._read_count)
                    with m.Else():
                        fewer = Mux(results.level < parser.first, results.level, parser.first)
                        m.d.comb += results.read_commit.eq(1)
                        m.d.sync += [seen.eq(1), last_sequence.eq(parser.sequence)]
                        m.d.sync += [self._count.eq(fewer), self._read_count.eq(fewer)]
        m.d.comb += sender.length.eq(self._count)

    def _payloads(self, m: Module) -> None:
        """Choose the bytes of a response."""
        sender, results = self._sender, self._results
        index = Signal(8)
        with m.If(sender.start):
            m.d.sync += index.eq(0)
        with m.Elif(sender.advance):
            m.d.sync += index.eq(index + 1)
        # Levels are latched: their two bytes belong together.
        levels = [Signal(16, name=f"level{n}") for n in range(1 + len(self._inputs))]
        with m.If(sender.start):
            m.d.sync += [
                level.eq(value)
                for level, value in zip(
                    levels, [results.level, *(buffer.free for buffer in self._inputs)], strict=True
                )
            ]
        self._values = [Signal(8, name=name) for name in _COUNTERS]
        free = Array(levels[1:])[self._port]
        status = [self._busy, *self._values, *(b for level in levels for b in _halves(level))]
        identity = [Const(byte, 8) for byte in self._params.identity.encode()]
        with m.Switch(self._operation):
            with m.Case(Operation.IDENTIFY):
                _select(m, sender.payload, index, identity)
            with m.Case(Operation.STATUS):
                _select(m, sender.payload, index, status)
            with m.Case(Operation.WRITE):
                _select(m, sender.payload, index, [*_halves(levels[0]), *_halves(free)])
            with m.Case(Operation.READ):
                m.d.comb += [
                    sender.payload.eq(results.read_data),
                    results.read.eq(sender.advance),
                ]

    def _counters(self, m: Module) -> None:
        """Count what goes wrong."""
        events = (self._parser.wrong, self._overrun, self.rx_error, self._parser.silence)
        for value, event in zip(self._values, events, strict=True):
            with m.If(self.core_reset):
                m.d.sync += value.eq(0)
            with m.Elif(event & (value != 0xFF)):
                m.d.sync += value.eq(value + 1)


_COUNTERS = ("crc_errors", "overruns", "framing_errors", "silences")


def _halves(word: Signal) -> list[Any]:
    return [word[:8], word[8:]]


def _select(m: Module, target: Signal, index: Signal, values: Sequence[Any]) -> None:
    with m.Switch(index):
        for number, value in enumerate(values):
            with m.Case(number):
                m.d.comb += target.eq(value)
