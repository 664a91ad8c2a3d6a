# SPDX-License-Identifier: Apache-2.0
"""Forms of memories on an FPGA; those that become registers are registers and multiplexers.

Yosys compares what a memory of registers, of small memories and of block memories takes, all its
ports together (``memory_libmap``); `cost_model.netlist.fabric.fabric.Fabric.store` does the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import compress

from cost_model.netlist.fabric.fabric import Fabric, Read, Store
from cost_model.netlist.fabric.flat import Unit
from cost_model.netlist.model import ONE, OPERATOR_OF, ZERO, Bits, Cell, Memory, Module


def store_of(fabric: Fabric, memory: Memory, computed: Collection[int]) -> Store:
    """Return the form that a memory takes.

    Parameters
    ----------
    fabric : Fabric
    memory : Memory
    computed : collection of int
        The nets that cells other than registers drive, or memories.
    """
    reads: list[Read] = [
        "clocked" if port.clocked else
        "at once" if any(net in computed for net in port.address) else "registered"
        for port in memory.reads
    ]  # fmt: skip
    enables = len({net for port in memory.writes for net in port.enable})
    return fabric.store(memory.width, memory.depth, reads, enables)


def computed_nets(module: Module) -> set[int]:
    """Return the nets that cells other than registers drive, or memories."""
    result = {net for cell in module.cells if cell.operator != "register" for net in cell.result}
    return result.union(*(port.data for memory in module.memories for port in memory.reads))


def in_registers(unit: Unit, fabric: Fabric) -> Unit:
    """Return a unit with registers and multiplexers in the place of memories that become these."""
    module, computed = unit.module, computed_nets(unit.module)
    remaining = [
        store_of(fabric, memory, computed).form != "registers" for memory in module.memories
    ]
    if all(remaining):
        return unit
    nets = Nets(module)
    cells, owners = list(module.cells), list(unit.owners)
    for memory, keeper, stays in zip(module.memories, unit.keepers, remaining, strict=True):
        if not stays:
            made = list(nets.words(memory))
            cells += made
            owners += [keeper] * len(made)
    memories = tuple(compress(module.memories, remaining))
    return replace(
        unit,
        module=replace(module, cells=tuple(cells), memories=memories),
        owners=tuple(owners),
        keepers=tuple(compress(unit.keepers, remaining)),
    )


class Nets:
    """New nets of a module, and cells between them in the place of memories.

    Parameters
    ----------
    module : Module
    """

    def __init__(self, module: Module) -> None:
        used = [net for port in module.ports for net in port.bits]
        used += [net for cell in module.cells for bits in cell.pins.values() for net in bits]
        used += [net for memory in module.memories for bits in memory.inputs() for net in bits]
        used += [net for memory in module.memories for port in memory.reads for net in port.data]
        used += [net for each in module.instances for bits in each.connections.values()
                 for net in bits]  # fmt: skip
        self.last = max(used, default=0)

    def new(self, count: int) -> Bits:
        """Return new nets."""
        first = self.last + 1
        self.last += count
        return tuple(range(first, first + count))

    def words(self, memory: Memory) -> Iterator[Cell]:
        """Yield the cells that a memory becomes: a register of each word, and what selects them."""
        words = [self.new(memory.width) for _ in range(memory.depth)]
        for number, word in enumerate(words):
            yield from self._written(memory, number, word)
        table = tuple(net for word in words for net in word)
        for port in memory.reads:
            data = self.new(memory.width) if port.clocked else port.data
            select = port.address[: (memory.depth - 1).bit_length()]
            yield _cell("bmux", a=table, s=select, y=data)
            if port.clocked:
                yield _cell("dffe", d=data, q=port.data, en=port.enable)

    def _written(self, memory: Memory, number: int, word: Bits) -> Iterator[Cell]:
        """Yield the register of a word, in parts that are written at the same time."""
        data, enables = list(word), [ZERO] * memory.width
        for port in memory.writes:
            (here,) = self.new(1)
            at = tuple(ONE if number >> bit & 1 else ZERO for bit in range(len(port.address)))
            yield _cell("eq", a=port.address, b=at, y=(here,))
            chosen: dict[int, int] = {}
            for bit, (value, enable) in enumerate(zip(port.data, port.enable, strict=True)):
                if enable not in chosen:
                    (chosen[enable],) = self.new(1)
                    yield _cell("and", a=(here,), b=(enable,), y=(chosen[enable],))
                write = chosen[enable]
                if enables[bit] == ZERO:
                    data[bit], enables[bit] = value, write
                else:
                    (both,), (either,) = self.new(1), self.new(1)
                    yield _cell("mux", a=(data[bit],), b=(value,), s=(write,), y=(both,))
                    yield _cell("or", a=(enables[bit],), b=(write,), y=(either,))
                    data[bit], enables[bit] = both, either
        for enable in dict.fromkeys(enables):
            part = [bit for bit, other in enumerate(enables) if other == enable]
            yield _cell(
                "dffe", memory.name, d=tuple(data[bit] for bit in part),
                q=tuple(word[bit] for bit in part), en=(enable,),
            )  # fmt: skip


def _cell(cell_type: str, name: str = "", **pins: Bits) -> Cell:
    return Cell(OPERATOR_OF[cell_type], cell_type, (False, False), pins, name=name)
