# SPDX-License-Identifier: Apache-2.0
"""The top of an engine with several units: sequencer, units, and the memory that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member, Out

from rtl_templates.axi.bus import fixed_fields
from rtl_templates.axi.channels import bus_members, channels
from rtl_templates.axi.share import MemoryShare
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.shell import bus_members as top_members

from .control import ListControl
from .list_memory import ListMemory
from .sequencer import Sequencer
from .unit_bus import LITE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hwgen.families.transformer.params import TransformerConfig


class Unit(Block):
    """An engine as a block: its registers, its channels and its interrupt as plain ports.

    Parameters
    ----------
    name : str
        Of the unit.
    engine : Component
        Of a family that works on memory.
    memory : Memory
        Its port.

    Members
    -------
    awaddr, ... rready
        Its registers.
    ar_addr, ... b_ready
        Its channels.
    interrupt : Out(1)
    """

    resettable = True
    opens_scope = True

    def __init__(self, name: str, engine: wiring.Component, memory: Any) -> None:
        self.engine, self.memory = engine, memory
        members: dict[str, Member] = {
            name: In(bits) if way == "in" else Out(bits) for name, way, bits in LITE
        }
        super().__init__(f"unit_{name}", {**members, **bus_members(memory), "interrupt": Out(1)})

    def build(self, m: Module) -> None:
        m.submodules.top = engine = self.engine
        pairs = [(name, way, getattr(engine.control, name)) for name, way, _ in LITE]
        inner = channels(self.memory, engine.mem)
        for name, member in bus_members(self.memory).items():
            pairs.append((name, "in" if member.flow == In else "out", inner[name]))
        for name, way, signal in pairs:
            outer = getattr(self, name)
            m.d.comb += signal.eq(outer) if way == "in" else outer.eq(signal)
        m.d.comb += self.interrupt.eq(engine.interrupt)


class ListEngine(wiring.Component):
    """Units behind one memory port, driven by lists in that memory.

    Parameters
    ----------
    config : TransformerConfig
    engines : mapping of str to Component
        The engine of each unit.

    Members
    -------
    control : AXI4-Lite subordinate
        The registers; see `hwgen.core.lists.registers`.
    mem : AXI4 manager
        The memory.
    interrupt : Out(1)
        Level.
    """

    def __init__(self, config: TransformerConfig, engines: Mapping[str, wiring.Component]) -> None:
        self.config, self.engines = config, engines
        super().__init__(top_members(config.buses))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        config, memory = self.config, self.config.memory
        control, sequencer = ListControl(config), Sequencer(config)
        between = {
            name: Signal(member.shape, name=name)
            for name, member in sequencer.members.items()
            if name != "failures"
        }
        lists = {name[2:]: signal for name, signal in between.items() if name[:2] == "m_"}
        registers = {name: getattr(self.control, name) for name, _, _ in config.buses[0].signals
                     if name in control.members}  # fmt: skip
        shared = {name: between[name] for name in control.members if name in between}
        place(m, "control", control, **registers, **shared, interrupt=self.interrupt)
        managers = [self._channels(f"M{i}_") for i in range(len(config.units) + 1)]
        place(
            m, "lists", ListMemory(memory, config.lists.cache_lines), **lists,
            base=between["base"], length=between["length"], **managers[0],
        )  # fmt: skip
        failures = []
        for i, (name, engine) in enumerate(self.engines.items()):
            failed = Signal(name=f"{name}_failed")
            failures.append(failed)
            prefix = f"U{i}_"
            lite = {key[len(prefix) :]: s for key, s in between.items() if key.startswith(prefix)}
            place(
                m, f"unit_{name}", Unit(name, engine, memory), **lite,
                **managers[i + 1], interrupt=failed,
            )  # fmt: skip
        place(m, "sequencer", sequencer, **between, failures=Cat(*failures))
        flying = sum(unit.memory.outstanding for unit in config.units.values()) + 2
        ports = {
            f"M{i}_{name}": signal
            for i, manager in enumerate(managers)
            for name, signal in manager.items()
        }
        place(
            m, "share", MemoryShare(memory, len(managers), flying),
            **ports, **channels(memory, self.mem),
        )  # fmt: skip
        m.d.comb += fixed_fields(self.mem, memory.data_width)
        return m

    def _channels(self, prefix: str) -> dict[str, Signal]:
        return {
            name: Signal(member.shape, name=f"{prefix}{name}")
            for name, member in bus_members(self.config.memory).items()
        }
