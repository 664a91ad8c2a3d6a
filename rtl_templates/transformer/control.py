# SPDX-License-Identifier: Apache-2.0
"""Registers of an engine that executes command lists, and the lists' own registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth.hdl import Array, Cat, Const, Module, Mux, Shape, Signal, Value, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hwgen.core.lists.commands import STATES
from hwgen.families.transformer.registers import LAYOUT, MAGIC, list_registers
from rtl_templates.arithmetic.pipeline import delayed
from rtl_templates.axi.bus import BusSignature
from rtl_templates.axi.registers import SLVERR, Action, answer_reads, answer_writes, merged
from rtl_templates.hdl.hierarchy import Block

from .list_memory import INDEX_BITS

if TYPE_CHECKING:
    from hwgen.families.transformer.params import TransformerConfig


class ListSignature(wiring.Signature):
    """Signature between the registers and the sequencer, seen from the registers.

    Parameters
    ----------
    config : TransformerConfig

    Members
    -------
    start, abort : Out(1)
        Pulses: begin the list; end it.
    base, length, limit : Out
        Address and number of descriptors of the list, and the largest number to execute (0: no
        limit).
    running : In(1)
    state, index, unit, steps : In
        Code of `hwgen.core.lists.commands.STATES`; index of the descriptor; unit; number of
        executed descriptors.
    ended : In(1)
        Pulse.
    x_index, x, y_index, y : In, Out
        Two registers that are read.
    write : In(stream), always ready
        A register to write: ``index`` and ``value``.
    """

    def __init__(self, config: TransformerConfig) -> None:
        width = config.register_width
        register = range(max(2, config.lists.registers))
        write = data.StructLayout({"index": Shape.cast(register), "value": width})
        super().__init__(
            {
                "start": Out(1),
                "abort": Out(1),
                "base": Out(config.memory.address_width),
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
                "write": In(stream.Signature(write, always_ready=True)),
            }
        )


class ListControl(Block):
    """AXI4-Lite registers: start, abort, the state of a list, and the lists' own registers.

    While a list runs, writes are refused except to ABORT and the interrupt's registers.

    Parameters
    ----------
    config : TransformerConfig

    Members
    -------
    bus : Out(BusSignature)
        AXI4-Lite subordinate.
    list : Out(ListSignature)
        The sequencer.
    interrupt : Out(1)
        Level.
    """

    resettable = True

    def __init__(self, config: TransformerConfig) -> None:
        self.config = config
        super().__init__(
            "list_control",
            {
                "bus": Out(BusSignature(config.buses[0])),
                "list": Out(ListSignature(config)),
                "interrupt": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        config, lists = self.config, self.list
        width = config.register_width
        contents = [
            Signal(width, name=f"r_{i}", reset_less=True) for i in range(config.lists.registers)
        ]
        m.d.comb += contents[0].eq(0)
        m.d.comb += [
            lists.x.eq(Array(contents)[lists.x_index]),
            lists.y.eq(Array(contents)[lists.y_index]),
        ]
        valid, index = lists.write.valid, lists.write.payload.index
        value = lists.write.payload.value
        if config.memory.registered:  # the next descriptor is fetched first
            valid = delayed(m, "write_valid", valid, 1, token=True)
            index, value = (
                delayed(m, name, each, 1) for name, each in (("index", index), ("value", value))
            )
        for i, register in enumerate(contents[1:], 1):
            with m.If(valid & (index == i)):
                m.d.sync += register.eq(value)
        pending, enable = Signal(name="pending"), Signal(name="interrupt_enable")
        clear = Signal(name="clear_pending")
        m.d.sync += pending.eq((pending & ~clear) | lists.ended)
        m.d.comb += self.interrupt.eq(pending & enable)
        address = Signal(len(lists.base), name="list_address", reset_less=True)
        length = Signal(INDEX_BITS, name="list_length", reset_less=True)
        limit = Signal(32, name="step_limit")
        m.d.comb += [lists.base.eq(address), lists.length.eq(length), lists.limit.eq(limit)]
        cycles = Signal(48, name="cycles")
        high = Signal(16, name="cycles_high", reset_less=True)
        with m.If(lists.start):
            m.d.sync += cycles.eq(0)
        with m.Elif(lists.running):
            m.d.sync += cycles.eq(cycles + 1)
        values: dict[str, ValueLike] = {
            "ID": Const(MAGIC, 32),
            "LAYOUT": Const(LAYOUT, 32),
            "STATUS": Cat(lists.running, Const(0, 7), lists.state),
            "INTERRUPT_ENABLE": enable,
            "INTERRUPT": pending,
            "UNITS": Const(len(config.units), 32),
            "LIST_ADDRESS_LOW": address[:32],
            "LIST_ADDRESS_HIGH": address[32:],
            "LIST_LENGTH": length,
            "STEP_LIMIT": limit,
            "INDEX": lists.index,
            "UNIT": lists.unit,
            "STEPS": lists.steps,
            "CYCLES_LOW": cycles[:32],
            "CYCLES_HIGH": high,
        }
        for i, register in enumerate(contents[1:], 1):
            values |= {f"R{i}_LOW": register[:32], f"R{i}_HIGH": register[32:]}
        registers = list_registers(config)
        answer_reads(m, self.bus, registers, values, {"CYCLES_LOW": [high.eq(cycles[32:])]})

        def unless_running(target: Value | None) -> Action:
            def act(word: Value, strobe: Value, response: Signal) -> None:
                with m.If(lists.running):
                    m.d.sync += response.eq(SLVERR)
                with m.Elif(Const(1)):
                    if target is None:
                        m.d.comb += lists.start.eq(1)
                    elif len(target):
                        m.d.sync += target.eq(merged(target, word, strobe))

            return act

        def abort(word: Value, strobe: Value, response: Signal) -> None:
            m.d.comb += lists.abort.eq(1)

        def forget(word: Value, strobe: Value, response: Signal) -> None:
            m.d.comb += clear.eq(Mux(strobe[0], word[0], 0))

        actions: dict[str, Action] = {
            register.name: unless_running(values[register.name])
            for register in registers
            if register.access == "rw" and register.name != "INTERRUPT_ENABLE"
        }
        actions |= {"START": unless_running(None), "ABORT": abort, "INTERRUPT": forget}
        answer_writes(m, self.bus, registers, values, actions)
