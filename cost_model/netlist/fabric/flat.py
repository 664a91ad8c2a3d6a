# SPDX-License-Identifier: Apache-2.0
"""Designs without hierarchy, as FPGA synthesis sees them: modules with what is inside them.

A design of some ten thousand gates is one unit, but for modules whose boundaries are to be kept.
In a larger one, modules that repeat and are large are units of their own too, each counted as often
as it is there; all else is part of what it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cost_model.netlist.model import TOP, Bits, Cell, Instance, Memory, MemoryPort, Module
from cost_model.netlist.netlist import Netlist
from cost_model.netlist.surroundings import folded_modules, gate_counts

WHOLE = 30_000.0
"""Gates up to which a design is one unit."""

REPEATED, LARGE = 4, 400.0
"""A module that is there so often, and of so many gates beside memories, is a unit of its own in
larger ones."""


@dataclass(frozen=True)
class Unit:
    """A module, with the modules in it in place of their instances.

    Parameters
    ----------
    module : Module
        Its instances are those of other units.
    count : int
        How often it is there in the whole design.
    owners : tuple of str
        For each cell, the module of the design that it is from.
    keepers : tuple of str
        The same for each memory.
    """

    module: Module
    count: int
    owners: tuple[str, ...]
    keepers: tuple[str, ...]


def units(design: Netlist, is_output: Callable[[str, str], bool]) -> list[Unit]:
    """Return the units of a design.

    Parameters
    ----------
    design : Netlist
    is_output : callable
        Tells whether a module, by its name, has an output of a name.
    """
    modules = folded_modules(design.modules, is_output, repeated=False)
    sizes = gate_counts(design.modules)
    alone = {TOP, *(name for name, module in modules.items() if module.keep_hierarchy)}
    if sizes[TOP] > WHOLE:
        logic = gate_counts(design.modules, per_bit=0.0)
        alone |= {
            n for n, count in design.counts.items() if count >= REPEATED and logic[n] >= LARGE
        }
    return [
        _Flat(modules, alone).unit(name, count)
        for name, count in design.counts.items()
        if name in alone
    ]


class _Flat:
    def __init__(self, modules: Mapping[str, Module], separate: set[str]) -> None:
        self.modules, self.separate = modules, separate
        self.nets = 0
        self.same: dict[int, int] = {}
        self.cells: list[tuple[Cell, str]] = []
        self.memories: list[tuple[Memory, str]] = []
        self.instances: list[Instance] = []

    def unit(self, name: str, count: int) -> Unit:
        module = self.modules[name]
        ports = self._place(name, module, {})
        root = self._root
        cells = tuple(replace(cell, pins={pin: tuple(map(root, bits))
                                          for pin, bits in cell.pins.items()})
                      for cell, _ in self.cells)  # fmt: skip
        whole = Module(
            name,
            tuple(replace(port, bits=tuple(map(root, ports[port.name]))) for port in module.ports),
            cells,
            tuple(_memory(memory, root) for memory, _ in self.memories),
            tuple(_instance(instance, root) for instance in self.instances),
        )
        owners = tuple(owner for _, owner in self.cells)
        return Unit(whole, count, owners, tuple(owner for _, owner in self.memories))

    def _root(self, net: int) -> int:
        while net in self.same:
            net = self.same[net]
        return net

    def _place(
        self, name: str, module: Module, outside: Mapping[str, Bits], path: str = ""
    ) -> dict[str, Bits]:
        """Add what a module consists of; return its ports in the nets of the unit.

        `path` is in front of the names of registers and memories.
        """
        renamed: dict[int, int] = {}

        def new(net: int) -> int:
            if net < 0:
                return net
            if net not in renamed:
                self.nets += 1
                renamed[net] = self.nets
            return renamed[net]

        ports = {}
        for port in module.ports:
            connected = outside.get(port.name, ())
            if not port.output:
                for net, other in zip(port.bits, connected, strict=False):
                    if net >= 0:
                        renamed.setdefault(net, other)
            ports[port.name] = tuple(map(new, port.bits))
            if port.output:
                for net, other in zip(ports[port.name], connected, strict=False):
                    if other >= 0 and self._root(net) != other:
                        self.same[other] = net
        for cell in module.cells:
            pins = {pin: tuple(map(new, bits)) for pin, bits in cell.pins.items()}
            prefix = f"{path}{cell.name}" if cell.name else ""
            self.cells.append((replace(cell, pins=pins, name=prefix), name))
        for memory in module.memories:
            placed = replace(_memory(memory, new), name=f"{path}{memory.name}")
            self.memories.append((placed, name))
        for instance in module.instances:
            inside = _instance(instance, new)
            if instance.module in self.separate:
                self.instances.append(inside)
            else:
                below = f"{path}{instance.name}."
                self._place(
                    instance.module, self.modules[instance.module], inside.connections, below
                )
        return ports


def _memory(memory: Memory, new: Callable[[int], int]) -> Memory:
    def port(of: MemoryPort) -> MemoryPort:
        address, data, enable = (tuple(map(new, bits)) for bits in (of.address, of.data, of.enable))
        return replace(of, address=address, data=data, enable=enable)

    return replace(
        memory, reads=tuple(map(port, memory.reads)), writes=tuple(map(port, memory.writes))
    )


def _instance(instance: Instance, new: Callable[[int], int]) -> Instance:
    return replace(
        instance,
        connections={name: tuple(map(new, bits)) for name, bits in instance.connections.items()},
    )
