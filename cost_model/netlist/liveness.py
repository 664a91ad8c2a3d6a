# SPDX-License-Identifier: Apache-2.0
"""Liveness of the bits of a module: those that are used.

Generators compute sums and products in full width and use what they need of them; synthesis
removes the rest.  A bit is used if it leads to an output; inputs of an instance or a memory are
used if what it gives is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cost_model.netlist.model import Bits, Cell, Module

Inputs = Mapping[str, set[int]]
"""Which bits of each input of a module are used."""

_BITWISE = frozenset(("and", "or", "xor", "not", "mux", "pmux", "register"))
RIPPLING = frozenset(("add", "sub", "neg", "mul"))
"""Cells of which a bit of the result depends on bits of the operands up to its own."""
ENCODED = "b"
"""The factor of which synthesis makes digits of two bits each: of one both are used, or none."""

_SELECTS = ("s", "en", "srst", "arst")


class Liveness:
    """Nets and cells of a module that an output, an instance or a memory depends on.

    Parameters
    ----------
    module : Module
    inside : mapping
        By name of each module that it instantiates, and by input, which bits of it are used.
    outputs : mapping, optional
        Which bits of the module's own outputs are used, by port, None for all; default all.
    slices : sequence of int, optional
        For each memory, the bits of a word that are written together if one of them is used;
        default one.

    Attributes
    ----------
    used : list of set of int
        For each cell, which bits of its result are used.
    nets : set of int
        The nets that are used.
    instances : set of int
        The instances, by their numbers, of which anything is used.
    read : list of set of int
        For each memory, which bits of its words are used.
    """

    def __init__(
        self,
        module: Module,
        inside: Mapping[str, Inputs],
        outputs: Mapping[str, set[int] | None] | None = None,
        slices: Sequence[int] = (),
    ) -> None:
        self.cells = module.cells
        self.used: list[set[int]] = [set() for _ in module.cells]
        self.nets: set[int] = set()
        self._driver: dict[int, tuple[int, int]] = {
            net: (number, index)
            for number, cell in enumerate(module.cells)
            for index, net in enumerate(cell.result)
        }
        # Highest bit of a sum whose operands are marked.
        self._reached: list[int] = [-1] * len(module.cells)
        self._waiting: list[int] = []
        for port in module.ports:
            if port.output:
                chosen = None if outputs is None else outputs.get(port.name, set())
                live = port.bits if chosen is None else [port.bits[index] for index in chosen]
                self._mark(live)
        self.instances: set[int] = set()
        self._made_by: dict[int, int] = {}
        self._needs: list[Bits] = []
        for number, instance in enumerate(module.instances):
            inputs = inside[instance.module]
            self._needs.append(tuple(
                instance.connections[name][index]
                for name, used in inputs.items() if name in instance.connections
                for index in used
            ))  # fmt: skip
            self._made_by |= {
                net: number
                for name, bits in instance.connections.items() if name not in inputs
                for net in bits
            }  # fmt: skip
        self._memories = module.memories
        self._slices = slices or [1] * len(module.memories)
        self._read_by: dict[int, tuple[int, int, int]] = {
            net: (number, port, index)
            for number, memory in enumerate(module.memories)
            for port, read in enumerate(memory.reads)
            for index, net in enumerate(read.data)
        }
        self.read: list[set[int]] = [set() for _ in module.memories]
        while self._waiting:
            self._visit(self._waiting.pop())

    def inputs(self, module: Module) -> Inputs:
        """Return the used bits of each input of the module."""
        return {
            port.name: {index for index, net in enumerate(port.bits) if net in self.nets}
            for port in module.ports
            if not port.output
        }

    def _mark(self, bits: Iterable[int]) -> None:
        for net in bits:
            if net >= 0 and net not in self.nets:
                self.nets.add(net)
                self._waiting.append(net)

    def _visit(self, net: int) -> None:
        position = self._driver.get(net)
        if position is None:
            number = self._made_by.get(net, -1)
            if number >= 0 and number not in self.instances:
                self.instances.add(number)
                self._mark(self._needs[number])
            if net in self._read_by:
                self._visit_memory(*self._read_by[net])
            return
        number, index = position
        cell, pins = self.cells[number], self.cells[number].pins
        first = not self.used[number]
        self.used[number].add(index)
        if cell.operator in _BITWISE:
            if first:
                for pin in _SELECTS:
                    self._mark(pins.get(pin, ()))
            self._mark(_columns(cell, index))
        elif cell.operator in RIPPLING:
            if index > (reached := self._reached[number]):
                for pin in ("a", "b"):
                    bits = pins.get(pin, ())
                    last = index | 1 if cell.operator == "mul" and pin == ENCODED else index
                    self._mark(bits[reached + 1 : last + 1])
                self._reached[number] = index
        elif first:
            for _, bits in cell.operands:
                self._mark(bits)

    def _visit_memory(self, number: int, port: int, index: int) -> None:
        """Mark what a bit that a port reads depends on."""
        memory, read = self._memories[number], self._memories[number].reads[port]
        self._mark(read.address)
        self._mark(read.enable)
        if not self.read[number]:
            for write in memory.writes:
                self._mark(write.address)
        if index not in self.read[number]:
            self.read[number].add(index)
            size = self._slices[number]
            part = slice(index // size * size, (index // size + 1) * size)
            for write in memory.writes:
                self._mark(write.data[part] + write.enable[part])


def _columns(cell: Cell, index: int) -> Iterable[int]:
    """Return the bits of the operands of a bitwise cell that one bit of its result depends on."""
    pins: Mapping[str, Bits] = cell.pins
    if cell.operator == "register":
        return pins["d"][index : index + 1]
    if cell.type == "bmux":
        return pins["a"][index :: len(pins["y"])]
    if cell.operator == "pmux":
        return pins["a"][index : index + 1] + pins["b"][index :: len(pins["y"])]
    result = []
    for pin in ("a", "b"):
        bits = pins.get(pin, ())
        if bits:
            result.append(bits[min(index, len(bits) - 1)])
    return result
