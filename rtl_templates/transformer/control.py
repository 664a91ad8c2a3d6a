# SPDX-License-Identifier: Apache-2.0
"""The registers of an engine that executes command lists, and those that lists compute in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from hwgen.core.bus import axi_lite_signals
from hwgen.core.lists.commands import STATES
from hwgen.core.lists.registers import LAYOUT, MAGIC, list_registers
from rtl_templates.axi.registers import SLVERR, Action, answer_reads, answer_writes, merged
from rtl_templates.hdl.hierarchy import Block

from .list_memory import INDEX_BITS

if TYPE_CHECKING:
    from hwgen.families.transformer.params import TransformerConfig


class ListControl(Block):
    """AXI4-Lite registers: start, abort, how a list ended, and the lists' own registers.

    While a list runs, writes are refused but to ABORT and the interrupt's registers.

    Parameters
    ----------
    config : TransformerConfig

    Members
    -------
    awaddr, ... rready
        AXI4-Lite; see `hwgen.core.bus.axi_lite_signals`.
    start, abort, base, length, limit, running, state, index, unit, steps, ended
        Of `Sequencer`.
    x_index, x, y_index, y, w_index, w, w_valid
        Registers that it reads and writes.
    interrupt : Out(1)
        Level.
    """

    resettable = True

    def __init__(self, config: TransformerConfig) -> None:
        self.config = config
        width, address = config.register_width, config.memory.address_width
        register = range(max(2, config.lists.registers))
        members: dict[str, Member] = {}
        for name, way, bits in axi_lite_signals(config.buses[0].address_width):
            members[name] = In(bits) if way == "in" else Out(bits)
        super().__init__(
            "list_control",
            {
                **members,
                "start": Out(1),
                "abort": Out(1),
                "base": Out(address),
                "length": Out(INDEX_BITS),
                "limit": Out(32),
                "running": In(1),
                "state": In(range(len(STATES))),
                "index": In(32),
                "unit": In(range(max(2, len(config.units)))),
                "steps": In(32),
                "ended": In(1),
                "x_index": In(register),
                "x": Out(width),
                "y_index": In(register),
                "y": Out(width),
                "w_index": In(register),
                "w": In(width),
                "w_valid": In(1),
                "interrupt": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        config = self.config
        width = config.register_width
        held = [
            Signal(width, name=f"r_{i}", reset_less=True) for i in range(config.lists.registers)
        ]
        m.d.comb += held[0].eq(0)
        m.d.comb += [self.x.eq(Array(held)[self.x_index]), self.y.eq(Array(held)[self.y_index])]
        for i, register in enumerate(held[1:], 1):
            with m.If(self.w_valid & (self.w_index == i)):
                m.d.sync += register.eq(self.w)
        pending, enable = Signal(name="pending"), Signal(name="interrupt_enable")
        clear = Signal(name="clear_pending")
        m.d.sync += pending.eq((pending & ~clear) | self.ended)
        m.d.comb += self.interrupt.eq(pending & enable)
        address = Signal(len(self.base), name="list_address", reset_less=True)
        length = Signal(INDEX_BITS, name="list_length", reset_less=True)
        limit = Signal(32, name="step_limit")
        m.d.comb += [self.base.eq(address), self.length.eq(length), self.limit.eq(limit)]
        cycles = Signal(48, name="cycles")
        high = Signal(16, name="cycles_high", reset_less=True)
        with m.If(self.start):
            m.d.sync += cycles.eq(0)
        with m.Elif(self.running):
            m.d.sync += cycles.eq(cycles + 1)
        values: dict[str, Any] = {
            "ID": Const(MAGIC, 32),
            "LAYOUT": Const(LAYOUT, 32),
            "STATUS": Cat(self.running, Const(0, 7), self.state),
            "INTERRUPT_ENABLE": enable,
            "INTERRUPT": pending,
            "UNITS": Const(len(config.units), 32),
            "LIST_ADDRESS_LOW": address[:32],
            "LIST_ADDRESS_HIGH": address[32:],
            "LIST_LENGTH": length,
            "STEP_LIMIT": limit,
            "INDEX": self.index,
            "UNIT": self.unit,
            "STEPS": self.steps,
            "CYCLES_LOW": cycles[:32],
            "CYCLES_HIGH": high,
        }
        for i, register in enumerate(held[1:], 1):
            values |= {f"R{i}_LOW": register[:32], f"R{i}_HIGH": register[32:]}
        registers = list_registers(config)
        answer_reads(m, self, registers, values, {"CYCLES_LOW": [high.eq(cycles[32:])]})

        def unless_running(target: Value | None) -> Action:
            def act(word: Value, strobe: Value, response: Signal) -> None:
                with m.If(self.running):
                    m.d.sync += response.eq(SLVERR)
                with m.Elif(Const(1)):
                    if target is None:
                        m.d.comb += self.start.eq(1)
                    elif len(target):
                        m.d.sync += target.eq(merged(target, word, strobe))

            return act

        def abort(word: Value, strobe: Value, response: Signal) -> None:
            m.d.comb += self.abort.eq(1)

        def forget(word: Value, strobe: Value, response: Signal) -> None:
            m.d.comb += clear.eq(Mux(strobe[0], word[0], 0))

        actions: dict[str, Action] = {
            register.name: unless_running(values[register.name])
            for register in registers
            if register.access == "rw" and register.name != "INTERRUPT_ENABLE"
        }
        actions |= {"START": unless_running(None), "ABORT": abort, "INTERRUPT": forget}
        answer_writes(m, self, registers, values, actions)
