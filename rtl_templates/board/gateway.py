# SPDX-License-Identifier: Apache-2.0
"""Commands of a host as accesses to the memory and the registers of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hwgen.board.memory_commands import WORD_BYTES, Command, Outcome
from hwgen.core.bus import CONTROL_ADDRESS_WIDTH, axi_lite_signals
from rtl_templates.axi.channels import MemorySignature
from rtl_templates.hdl.hierarchy import Block

if TYPE_CHECKING:
    from hwgen.core.params.memory_port import Memory

WORD = 8 * WORD_BYTES
"""Bits of a word."""


class ControlSignature(wiring.Signature):
    """Signature of an AXI4-Lite port, seen from the manager."""

    def __init__(self) -> None:
        flows = {"in": Out, "out": In}  # the description is that of a subordinate
        super().__init__(
            {
                name: flows[direction](bits)
                for name, direction, bits in axi_lite_signals(CONTROL_ADDRESS_WIDTH)
            }
        )


class MemoryGateway(Block):
    """Executes the commands of `hwgen.board.memory_commands`, one access after the other.

    An access to memory is a burst of one beat, whose strobes select the word.  Addresses beyond the
    bits of a port are answered with `Outcome.DECODE_ERROR`, and reads of them with 0.

    Parameters
    ----------
    memory : Memory
        The port to the memory.

    Members
    -------
    i, o : In(stream), Out(stream)
        Words of commands, and of answers.
    mem : Out(MemorySignature)
    control : Out(ControlSignature)
        The registers.
    memory_ready, interrupt : In(1)
        What `Command.STATE` reads.
    """

    resettable = True

    def __init__(self, memory: Memory) -> None:
        super().__init__(
            f"gateway_{memory.data_width}_{memory.address_width}",
            {
                "i": In(stream.Signature(WORD)), "o": Out(stream.Signature(WORD)),
                "mem": Out(MemorySignature(memory)), "control": Out(ControlSignature()),
                "memory_ready": In(1), "interrupt": In(1),
            },
        )  # fmt: skip
        self._width, self._address_width = memory.data_width, memory.address_width

    def build(self, m: Module) -> None:
        self._operation = Signal(8, name="operation")
        self._count = Signal(16, name="count")
        self._address = Signal(WORD, name="address")
        self._word = Signal(WORD, name="word")
        self._outcome = Signal(3, name="outcome")
        self._registers = Signal(name="registers")
        m.d.comb += self._registers.eq(self._operation[1])
        self._beyond = Signal(name="beyond")
        m.d.comb += self._beyond.eq(
            Mux(
                self._registers,
                self._address[CONTROL_ADDRESS_WIDTH:].any(),
                self._address[self._address_width :].any(),
            )
        )
        self._connect(m)
        with m.FSM():
            self._commands(m)
            self._writes(m)
            self._reads(m)
            self._answers(m)

    def _connect(self, m: Module) -> None:
        """Assign what does not depend on the state."""
        mem, control = self.mem, self.control
        bytes_of_beat = self._width // 8
        lanes = self._width // WORD
        self._lane = self._address[2 : bytes_of_beat.bit_length() - 1]
        beat = Cat(Const(0, bytes_of_beat.bit_length() - 1),
                   self._address[bytes_of_beat.bit_length() - 1 :])  # fmt: skip
        for channel in (mem.ar, mem.aw):
            m.d.comb += [channel.payload.addr.eq(beat), channel.payload.len.eq(0)]
        m.d.comb += [
            mem.w.payload.data.eq(Cat(self._word for _ in range(lanes))),
            mem.w.payload.last.eq(1),
            control.awaddr.eq(self._address), control.araddr.eq(self._address),
            control.wdata.eq(self._word), control.wstrb.eq(0b1111),
        ]  # fmt: skip
        for lane in range(lanes):
            strobes = mem.w.payload.strb[WORD_BYTES * lane :][:WORD_BYTES]
            m.d.comb += strobes.eq(
                Const(0b1111, 4) if lanes == 1 else (self._lane == lane).replicate(4)
            )

    def _step(self, m: Module, following: str) -> None:
        """Go to the next word of a command, or to its outcome."""
        m.d.sync += [
            self._count.eq(self._count - 1),
            self._address.eq(self._address + WORD_BYTES),
        ]
        with m.If(self._count == 1):
            m.next = "outcome"
        with m.Else():
            m.next = following

    def _commands(self, m: Module) -> None:
        with m.State("command"):
            m.d.comb += self.i.ready.eq(1)
            with m.If(self.i.valid):
                m.d.sync += [
                    self._operation.eq(self.i.payload[24:]),
                    self._count.eq(self.i.payload[:16]),
                    self._outcome.eq(Outcome.OK),
                ]
                m.next = "address"
        with m.State("address"):
            m.d.comb += self.i.ready.eq(1)
            with m.If(self.i.valid):
                m.d.sync += self._address.eq(self.i.payload)
                with m.If(self._count == 0):
                    m.next = "outcome"
                with m.Else(), m.Switch(self._operation):
                    with m.Case(Command.WRITE_MEMORY, Command.WRITE_REGISTERS):
                        m.next = "data"
                    with m.Case(Command.READ_MEMORY, Command.READ_REGISTERS):
                        m.next = "read"
                    with m.Case(Command.STATE):
                        m.d.sync += self._word.eq(Cat(self.memory_ready, self.interrupt))
                        m.next = "send"
                    with m.Default():
                        m.d.sync += self._outcome.eq(Outcome.UNKNOWN)
                        m.next = "outcome"

    def _writes(self, m: Module) -> None:
        mem, control = self.mem, self.control
        address_taken, data_taken = Signal(name="address_taken"), Signal(name="data_taken")
        with m.State("data"):
            m.d.comb += self.i.ready.eq(1)
            with m.If(self.i.valid):
                m.d.sync += [self._word.eq(self.i.payload), address_taken.eq(0), data_taken.eq(0)]
                with m.If(self._beyond):
                    m.d.sync += self._outcome.eq(Outcome.DECODE_ERROR)
                    self._step(m, "data")
                with m.Else():
                    m.next = "write"
        with m.State("write"):
            for selected, valids, readies in (
                (~self._registers, (mem.aw.valid, mem.w.valid), (mem.aw.ready, mem.w.ready)),
                (self._registers, (control.awvalid, control.wvalid),
                 (control.awready, control.wready)),
            ):  # fmt: skip
                for taken, valid, ready in zip(
                    (address_taken, data_taken), valids, readies, strict=True
                ):
                    m.d.comb += valid.eq(selected & ~taken)
                    with m.If(valid & ready):
                        m.d.sync += taken.eq(1)
            with m.If(address_taken & data_taken):
                m.next = "written"
        with m.State("written"):
            m.d.comb += [mem.b.ready.eq(~self._registers), control.bready.eq(self._registers)]
            self._respond(m, mem.b.valid, mem.b.payload.resp, control.bvalid, control.bresp)
            with m.If((mem.b.valid & ~self._registers) | (control.bvalid & self._registers)):
                self._step(m, "data")

    def _reads(self, m: Module) -> None:
        mem, control = self.mem, self.control
        with m.State("read"):
            memory, registers = Signal(name="read_memory"), Signal(name="read_registers")
            m.d.comb += [
                memory.eq(~self._registers & ~self._beyond),
                registers.eq(self._registers & ~self._beyond),
                mem.ar.valid.eq(memory),
                control.arvalid.eq(registers),
            ]
            with m.If(self._beyond):
                m.d.sync += [self._outcome.eq(Outcome.DECODE_ERROR), self._word.eq(0)]
                m.next = "send"
            with m.Elif((mem.ar.ready & memory) | (control.arready & registers)):
                m.next = "answer"
        with m.State("answer"):
            m.d.comb += [mem.r.ready.eq(~self._registers), control.rready.eq(self._registers)]
            self._respond(m, mem.r.valid, mem.r.payload.resp, control.rvalid, control.rresp)
            with m.If(mem.r.valid & ~self._registers):
                lanes = self._width // WORD
                words = mem.r.payload.data
                m.d.sync += self._word.eq(
                    words if lanes == 1 else words.word_select(self._lane, WORD)
                )
                m.next = "send"
            with m.If(control.rvalid & self._registers):
                m.d.sync += self._word.eq(control.rdata)
                m.next = "send"

    def _respond(
        self, m: Module, memory: Any, memory_response: Any, control: Any, control_response: Any
    ) -> None:
        """Add the response of an access to the outcome."""
        with m.If(~self._registers & memory):
            m.d.sync += self._outcome.eq(self._outcome | memory_response)
        with m.If(self._registers & control):
            m.d.sync += self._outcome.eq(self._outcome | control_response)

    def _answers(self, m: Module) -> None:
        with m.State("send"):
            m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(self._word)]
            with m.If(self.o.ready):
                self._step(m, "read")
        with m.State("outcome"):
            m.d.comb += [self.o.valid.eq(1), self.o.payload.eq(self._outcome)]
            with m.If(self.o.ready):
                m.next = "command"
