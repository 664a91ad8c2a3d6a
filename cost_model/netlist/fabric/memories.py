# SPDX-License-Identifier: Apache-2.0
"""Memories of a unit: blocks, small memories or registers, and what goes around them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from cost_model.netlist.fabric.chains import Block, Chains, Late
from cost_model.netlist.fabric.gates import FALSE
from cost_model.netlist.model import Memory, MemoryPort

BYPASS = "memory_emulation"
"""What `Fabric.memory` calls the bits that are read around a block memory."""


class Stores(Chains):
    """Memories on an FPGA, for `cost_model.netlist.fabric.blocks`.

    Attributes
    ----------
    literal_of : dict
        The literal of each net.
    """

    literal_of: dict[int, int]

    def _outputs(self, nets: Sequence[int], block: Block) -> None:
        """Say that nets are the outputs of a block."""
        for index, net in enumerate(nets):
            literal = self.gates.input()
            self.blocks[literal >> 1] = (block, index)
            if net >= 0:
                if net in self.literal_of:  # of a loop
                    self.blocks[self.literal_of[net] >> 1] = (block, index)
                else:
                    self.literal_of[net] = literal

    def _memory(self, memory: Memory) -> None:
        owner = self.gates.owner
        nets = [net for port in memory.reads for net in port.data]
        port_counts = [
            self.fabric.memory(memory.width, memory.depth, clocked=port.clocked)
            for port in memory.reads
        ]

        def count(block: Block) -> None:
            if memory.depth < 2:
                self.add(owner, "flip_flop", memory.width)
                return
            for counts in port_counts:
                for component, each in counts.items():
                    if component != BYPASS:  # whose gates are below
                        self.add(owner, component, float(each))

        def needs() -> list[int]:
            return self.literals([
                *(net for port in (*memory.reads, *memory.writes)
                  for net in (*port.address, *port.enable)),
                *(net for port in memory.writes for net in port.data),
            ])  # fmt: skip

        block = Late(owner, needs, count)
        block.type, block.name = "memory", memory.name
        bram = self._is_block(memory)
        block.addresses = [
            () if port.clocked or bram else port.address for port in memory.reads for _ in port.data
        ]
        self._outputs(nets, block)
        for port, counts in zip(memory.reads, port_counts, strict=True):
            if counts[BYPASS]:
                self._bypass(memory, port)

    def _bypass(self, memory: Memory, port: MemoryPort) -> None:
        """Put in front of what is read what was there before, where a block gives what is written.

        Writes happen a cycle later, and a read of the word that waits takes it from a register.
        Registers are counted by the rules of memories.
        """
        gates, owner = self.gates, self.gates.owner
        write = memory.writes[0]
        register = Block(
            owner, [[FALSE]] * (len(write.address) + 1 + memory.width), False, lambda block: None,
            type="register", name=memory.name,
        )  # fmt: skip
        registers = [gates.input() for _ in register.needs]
        self.blocks |= {bit >> 1: (register, index) for index, bit in enumerate(registers)}
        enable, *rest = registers
        address, data = rest[: len(write.address)], rest[len(write.address) :]

        @cache
        def hit() -> list[int]:
            gates.owner = owner
            pairs = zip(self.literals(port.address), address, strict=True)
            same = [gates.differ(a, b) ^ 1 for a, b in pairs]
            return [gates.all([*same, enable]), *self.literals(port.enable)]

        waits = Late(owner, hit, lambda block: None)
        waits.type, waits.name = "register", memory.name
        select = gates.input()
        self.blocks[select >> 1] = (waits, 0)
        for net, bit in zip(port.data, data, strict=True):
            if net >= 0:
                self.literal_of[net] = gates.choose(select, bit, self.literal_of[net])

    def _is_block(self, memory: Memory) -> bool:
        """Return whether a memory that is read at once is a block memory, which has the address."""
        return bool(self.fabric.memory(memory.width, memory.depth, clocked=False)["bram"])
