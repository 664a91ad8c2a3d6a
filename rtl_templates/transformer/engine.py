# SPDX-License-Identifier: Apache-2.0
"""Top of an engine with several units: sequencer, units, and the memory that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hwgen.core.bus import CONTROL_ADDRESS_WIDTH
from rtl_templates.axi.bus import axi_lite, fixed_fields
from rtl_templates.axi.channels import FIELDS, MemorySignature, channels_of, registered
from rtl_templates.axi.share import MemoryShare
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.shell import bus_members
from rtl_templates.hdl.streams import connect, create

from .control import ListControl
from .list_memory import ListMemory
from .sequencer import Sequencer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwgen.core.params.memory_port import Memory
    from hwgen.families.transformer.params import TransformerConfig
    from rtl_templates.axi.job_engine import JobEngine


class Unit(Block):
    """An engine as a block.

    Parameters
    ----------
    name : str
        Of the unit.
    engine : Component
        Of a family with a memory port.
    memory : Memory
        Its port.

    Members
    -------
    control : Out(BusSignature)
        Its registers.
    mem : Out(MemorySignature)
        Its memory port.
    interrupt : Out(1)
    """

    resettable = True
    opens_scope = True

    def __init__(self, name: str, engine: wiring.Component, memory: Memory) -> None:
        self.engine = engine
        super().__init__(
            f"unit_{name}",
            {
                "control": Out(axi_lite(CONTROL_ADDRESS_WIDTH)),
                "mem": Out(MemorySignature(memory)),
                "interrupt": Out(1),
            },
        )

    def build(self, m: Module) -> None:
        m.submodules.top = engine = self.engine
        for name, member in axi_lite(CONTROL_ADDRESS_WIDTH).members.items():
            outer, inner = getattr(self.control, name), getattr(engine.control, name)
            m.d.comb += inner.eq(outer) if member.flow == In else outer.eq(inner)
        channels = channels_of(engine.mem)
        for name in FIELDS:
            outer, inner = getattr(self.mem, name), getattr(channels, name)
            source, sink = (outer, inner) if name in ("r", "b") else (inner, outer)
            connect(m, source, sink)
        m.d.comb += self.interrupt.eq(engine.interrupt)


class ListEngine(wiring.Component):
    """Units that share a memory port and execute command lists in that memory.

    Parameters
    ----------
    config : TransformerConfig
    engines : mapping of str to JobEngine
        The engine of each unit.

    Members
    -------
    control : AXI4-Lite subordinate
        The registers; see `hwgen.families.transformer.registers`.
    mem : AXI4 manager
        The memory.
    interrupt : Out(1)
        Level.
    """

    def __init__(self, config: TransformerConfig, engines: Mapping[str, JobEngine]) -> None:
        self.config, self.engines = config, engines
        for engine in engines.values():
            engine.observed = False
        super().__init__(bus_members(config.buses))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, memory = self.config, self.config.memory
        control = place(
            m, "control", ListControl(config), bus=self.control, interrupt=self.interrupt
        )
        units = [
            place(m, f"unit_{name}", Unit(name, engine, memory))
            for name, engine in self.engines.items()
        ]
        sequencer = place(
            m, "sequencer", Sequencer(config), list=control.list,
            failures=Cat(unit.interrupt for unit in units),
            **{f"U{i}": unit.control for i, unit in enumerate(units)},
        )  # fmt: skip
        port: Any = create("lists_port", Out(MemorySignature(memory)))
        inner: dict[str, Any] = (
            {"mem": registered(m, "lists_held", port)} if memory.registered else {}
        )
        lists = place(
            m, "lists", ListMemory(memory, config.lists.cache_lines), access=sequencer.memory,
            base=control.list.base, length=control.list.length, **inner,
        )  # fmt: skip
        managers = [port if inner else lists.mem, *(unit.mem for unit in units)]
        outstanding = sum(unit.memory.outstanding for unit in config.units.values()) + 2
        place(
            m, "share", MemoryShare(memory, len(managers), outstanding), mem=channels_of(self.mem),
            **{f"M{i}": manager for i, manager in enumerate(managers)},
        )  # fmt: skip
        m.d.comb += fixed_fields(self.mem, memory.data_width)
        return m
