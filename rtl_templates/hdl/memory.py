# SPDX-License-Identifier: Apache-2.0
"""Memories as modules of their own, so that macros can take the place of their bodies."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Module, Signal
from amaranth.lib import memory
from amaranth.lib.wiring import In, Member, Out

from hwgen.core.memories import Ram
from rtl_templates.hdl.hierarchy import Block, place


class RamBlock(Block):
    """A memory; what it holds at first is unknown.

    Parameters
    ----------
    ram : Ram

    Members
    -------
    w_en, w_addr, w_data : In
        Write a word at the clock edge.
    r_en : In(1)
        Read a word at the clock edge; not there if reads are asynchronous.
    r_addr : In
    r_data : Out
        The word, as it was before that edge; kept until the next read.  Of several ports that
        read, the names begin with ``r0``, ``r1`` and so on.
    """

    universal = True

    def __init__(self, ram: Ram) -> None:
        self.ram = ram
        members: dict[str, Member] = {}
        for port in ram.read_ports:
            enable = {} if ram.asynchronous else {f"{port}_en": In(1)}
            members |= {
                **enable,
                f"{port}_addr": In(ram.address_bits),
                f"{port}_data": Out(ram.bits),
            }
        members |= {"w_en": In(1), "w_addr": In(ram.address_bits), "w_data": In(ram.bits)}
        super().__init__(ram.module, members)

    def build(self, m: Module) -> None:
        ram = self.ram
        m.submodules.words = words = memory.Memory(shape=ram.bits, depth=ram.words, init=[])
        write = words.write_port()
        m.d.comb += [
            write.en.eq(self.w_en),
            write.addr.eq(self.w_addr),
            write.data.eq(self.w_data),
        ]
        for port in ram.read_ports:
            read = words.read_port(domain="comb" if ram.asynchronous else "sync")
            m.d.comb += [
                read.addr.eq(getattr(self, f"{port}_addr")),
                getattr(self, f"{port}_data").eq(read.data),
            ]
            if not ram.asynchronous:
                m.d.comb += read.en.eq(getattr(self, f"{port}_en"))


@dataclass(frozen=True)
class ReadPort:
    """The signals of a port that reads; `en` is not connected if reads are asynchronous."""

    en: Signal
    addr: Signal
    data: Signal


@dataclass(frozen=True)
class WritePort:
    """The signals of the port that writes."""

    en: Signal
    addr: Signal
    data: Signal


def place_ram(m: Module, name: str, ram: Ram) -> tuple[tuple[ReadPort, ...], WritePort]:
    """Instantiate a memory in `m`.

    Parameters
    ----------
    m : Module
    name : str
        Of the instance: a key of `hwgen.core.memories.HOLDS`, which says what the memory is for,
        and a number behind an underscore if there are several.
    ram : Ram

    Returns
    -------
    reads : tuple of ReadPort
    write : WritePort
        Signals to connect.
    """
    block = RamBlock(ram)
    signals = {
        port: Signal(member.shape, name=f"{name}_{port}", reset_less=True)
        for port, member in block.members.items()
    }
    place(m, name, block, **signals)
    reads = tuple(
        ReadPort(
            signals.get(f"{port}_en", Signal()), signals[f"{port}_addr"], signals[f"{port}_data"]
        )
        for port in ram.read_ports
    )
    return reads, WritePort(signals["w_en"], signals["w_addr"], signals["w_data"])
