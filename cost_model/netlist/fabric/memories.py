# SPDX-License-Identifier: Apache-2.0
"""Memories of a unit that become blocks or small memories, and what goes around them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

from cost_model.netlist.fabric.chains import Block, Chains, Late
from cost_model.netlist.fabric.fabric import Store
from cost_model.netlist.fabric.gates import FALSE, TRUE
from cost_model.netlist.fabric.memory_forms import store_of
from cost_model.netlist.model import Memory, MemoryPort


class Stores(Chains):
    """Memories on an FPGA, for `cost_model.netlist.fabric.blocks`.

    Attributes
    ----------
    literal_of : dict
        The literal of each net.
    computed : collection of int
        See `cost_model.netlist.fabric.memory_forms.store_of`.
    delayed : set of (int, int)
        Literals of which there is a register for writes that happen a cycle later, and what
        enables it.
    """

    literal_of: dict[int, int]
    computed: Collection[int]
    delayed: set[tuple[int, int]]

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

    def slice_bits(self, memory: Memory, store: Store | None = None) -> int:
        """Return the bits of a word in one of the memories that a memory becomes."""
        store = store or store_of(self.fabric, memory, self.computed)
        return self.fabric.slice_bits(memory.depth) if store.form == "block" else store.bits

    def _memory(self, memory: Memory) -> None:
        store = store_of(self.fabric, memory, self.computed)
        owner = self.gates.owner
        nets = [net for port in memory.reads for net in port.data]
        is_block = store.form == "block"

        def count(block: Block) -> None:
            for number, port in enumerate(memory.reads):
                first = number * memory.width
                live = [bit - first for bit in block.live if 0 <= bit - first < memory.width]
                count_port = self._count_blocks if is_block else self._count_small
                count_port(owner, memory, store, live, port)

        def addresses() -> list[int]:
            ports = (*memory.reads, *memory.writes)
            return self.literals([
                *(net for port in ports for net in port.address),
                *(net for port in memory.reads for net in port.enable),
            ])  # fmt: skip

        def written(output: int) -> list[int]:
            """Return the data and enables of the slice of words that an output is read from."""
            first = output % memory.width // size * size
            return self.literals(
                net
                for port in memory.writes
                for net in (*port.data[first : first + size], *port.enable[first : first + size])
            )

        size = self.slice_bits(memory, store)
        block = Late(owner, addresses, count, written)
        block.type, block.name = "memory", memory.name
        block.addresses = [
            () if port.clocked or is_block else port.address
            for port in memory.reads
            for _ in port.data
        ]
        self._outputs(nets, block)
        if is_block and not self.fabric.brams_read_first:
            for port in memory.reads:
                self._bypass(memory, port)

    def _count_blocks(
        self, owner: int, memory: Memory, store: Store, live: list[int], port: MemoryPort
    ) -> None:
        """Count the block memories of a port, of which bits are used, and registers around them."""
        fabric, width, depth = self.fabric, memory.width, memory.depth
        size = fabric.slice_bits(depth)
        whole = fabric.brams(width, depth)
        parts = {bit // size for bit in live}
        self.add(owner, "bram", float(-(-whole * len(parts) // -(-width // size))))
        if port.clocked:
            if not fabric.brams_read_first:
                self._count_delayed(owner, memory, port, live)
        else:  # the block holds the address to read, which is a register anyway
            self.add(owner, "flip_flop", len(live) + 1 - (depth - 1).bit_length())

    def _count_delayed(self, owner: int, memory: Memory, port: MemoryPort, live: list[int]) -> None:
        """Count registers by which a write happens a cycle later, and may meet a read.

        Of what is written, and of that beside what is read, there is one for several memories.
        """
        size = self.fabric.slice_bits(memory.depth)
        write = memory.writes[0]
        parts = {bit // size for bit in live}
        written = [net for part in parts for net in write.data[part * size : (part + 1) * size]]
        (enable,) = self.literals(port.enable[:1]) or (TRUE,)
        wanted = {
            *((bit, -1) for bit in self.literals([*written, *write.address])),
            *((bit, enable) for bit in self.literals(write.data[bit] for bit in live)),
        }
        more = {(bit, by) for bit, by in wanted if bit not in (FALSE, TRUE)} - self.delayed
        self.delayed |= more
        self.add(owner, "flip_flop", len(more) + 2)

    def _count_small(
        self, owner: int, memory: Memory, store: Store, live: list[int], port: MemoryPort
    ) -> None:
        """Count the small memories of a port, of which bits are used."""
        columns = -(-memory.width // store.bits)
        used = len({bit // store.bits for bit in live})
        self.add(owner, "lutram", float(store.cells // columns * used))
        self.add(owner, "memory_select", float(store.chosen * len(live)))
        if port.clocked:
            self.add(owner, "flip_flop", len(live))

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
