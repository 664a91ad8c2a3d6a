# SPDX-License-Identifier: Apache-2.0
"""Registers behind an AXI4-Lite port: one read and one write at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from hwgen.core.register_map import Register

SLVERR = 2
"""The response to an access that is refused."""

Action = Callable[[Value, Value, Signal], None]
"""What a write does: gets the word, its strobes, and the response, which it may set."""


def answer_writes(
    m: Module,
    bus: Any,
    registers: Sequence[Register],
    values: Mapping[str, Any],
    actions: Mapping[str, Action],
) -> None:
    """Answer writes.

    Parameters
    ----------
    m : Module
    bus : Block
        Has the signals of `hwgen.core.bus.axi_lite_signals` as attributes.
    registers : sequence of Register
    values : mapping
        Signals of registers that are written as they are, by name.
    actions : mapping
        What is done for the others.
    """
    address = Signal(len(bus.awaddr) - 2, name="write_address")
    strobe = Signal(4, name="strobe")
    word = Signal(32, name="word", reset_less=True)
    has_address, has_data = Signal(name="has_address"), Signal(name="has_data")
    go = Signal(name="go")
    m.d.comb += [
        bus.awready.eq(~has_address),
        bus.wready.eq(~has_data),
        go.eq(has_address & has_data & (~bus.bvalid | bus.bready)),
    ]
    with m.If(bus.awvalid & bus.awready):
        m.d.sync += [address.eq(bus.awaddr[2:]), has_address.eq(1)]
    with m.If(bus.wvalid & bus.wready):
        m.d.sync += [word.eq(bus.wdata), strobe.eq(bus.wstrb), has_data.eq(1)]
    with m.If(bus.bready):
        m.d.sync += bus.bvalid.eq(0)
    with m.If(go):
        m.d.sync += [has_address.eq(0), has_data.eq(0), bus.bvalid.eq(1)]
        m.d.sync += bus.bresp.eq(SLVERR)
        with m.Switch(address):
            for register in registers:
                if register.access == "ro":
                    continue
                with m.Case(register.offset // 4):
                    m.d.sync += bus.bresp.eq(0)
                    if register.name in actions:
                        actions[register.name](word, strobe, bus.bresp)
                    else:
                        target: Any = values[register.name]
                        m.d.sync += target.eq(merged(target, word, strobe))


def answer_reads(
    m: Module,
    bus: Any,
    registers: Sequence[Register],
    values: Mapping[str, Any],
    also: Mapping[str, list[Any]],
) -> None:
    """Answer reads; `also` holds what else is done when a register is read."""
    m.d.comb += bus.arready.eq(~bus.rvalid | bus.rready)
    with m.If(bus.rready):
        m.d.sync += bus.rvalid.eq(0)
    with m.If(bus.arvalid & bus.arready):
        m.d.sync += [bus.rvalid.eq(1), bus.rdata.eq(0), bus.rresp.eq(SLVERR)]
        with m.Switch(bus.araddr[2:]):
            for register in registers:
                with m.Case(register.offset // 4):
                    m.d.sync += bus.rresp.eq(0)
                    if register.access != "wo":
                        m.d.sync += bus.rdata.eq(values[register.name])
                    m.d.sync += also.get(register.name, [])


def merged(old: Value, word: Value, strobe: Value) -> Value:
    """Return a register's new contents: the bytes whose strobes are set."""
    bits = [
        Mux(strobe[i], word[8 * i : 8 * i + 8], old[8 * i : 8 * i + 8])[: max(0, len(old) - 8 * i)]
        for i in range(4)
        if 8 * i < len(old)
    ]
    return Cat(*bits)
