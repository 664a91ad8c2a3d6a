# SPDX-License-Identifier: Apache-2.0
"""A module made ready for arrival times: its nets numbered, its operators in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cost_model.netlist.model import Bits, Cell, Instance, Memory, Module
from cost_model.timing import operators
from cost_model.timing.arcs import LIGHT, Arcs, Costs, Nets, Parallel, Steps, Sum, Times, spread

_ADDS = ("add", "sub", "neg")


@dataclass(frozen=True)
class Inside:
    """An instance of a module, as far as some of its outputs are concerned.

    Parameters
    ----------
    instance : Instance
    ins, out : array
        Nets of all its inputs, in the order of its ports, and of these outputs.
    positions : array
        Where these outputs are among all outputs of the module.
    needs : array
        Nets of the inputs that lead to these outputs.
    """

    instance: Instance
    ins: Nets
    out: Nets
    positions: Nets
    needs: Nets


@dataclass(frozen=True)
class Start:
    """Nets that change with the clock."""

    name: str
    out: Nets
    steps: Steps


@dataclass(frozen=True)
class End:
    """Nets that must be stable before the clock."""

    name: str
    ins: Nets
    steps: Steps


@dataclass(frozen=True)
class MacroSteps:
    """The steps into and out of a memory that is made of macros.

    Parameters
    ----------
    out : mapping
        From the clock to the data that are read.
    address, data : mapping
        From addresses and enables, and from data that are written, to the macros.
    """

    out: Steps
    address: Steps
    data: Steps


class Compiled:
    """A module: what drives what, and in which order.

    Parameters
    ----------
    module : Module
    below : mapping
        The compiled modules that it instantiates, by name.
    costs : Costs
    macros : MacroSteps, optional
        If its memories are made of macros.
    """

    def __init__(
        self,
        module: Module,
        below: Mapping[str, Compiled],
        costs: Costs,
        macros: MacroSteps | None = None,
    ) -> None:
        self.module, self.below, self.costs = module, below, costs
        self._numbers: dict[int, int] = {}
        for bits in _all_bits(module):
            for bit in bits:
                if bit >= 0 and bit not in self._numbers:
                    self._numbers[bit] = len(self._numbers)
        self.constant = len(self._numbers)
        self.inputs = self._ports(output=False)
        self.outputs = self._ports(output=True)
        self.nodes: list[Arcs | Inside] = []
        self.starts: list[Start] = []
        self.ends: list[End] = []
        chained = operators.nested(module.cells)
        for cell in self._merged(module.cells):
            if cell.operator == "register":
                self._register(cell)
            else:
                self.nodes.append(
                    operators.operator(cell, self.number, self.constant, costs, chained)
                )
        for memory in module.memories:
            if macros is None:
                self._memory(memory)
            else:
                self._macros(memory, macros)
        self.instances: list[Inside] = []
        for instance in module.instances:
            self._instance(instance)
        self.driver: dict[int, int] = {
            net: index for index, node in enumerate(self.nodes) for net in node.out.tolist()
        }
        self.order, self.passes = self._ordered()
        self.loads, self.fanout = self._fanout()
        self.start_of = {net: start for start in self.starts for net in start.out.tolist()}
        self.initial = np.full(self.constant + 1, -np.inf)
        for start in self.starts:
            self.initial[start.out] = costs.of(start.steps) + self.fanout[start.out]
        self.groups = self._groups()

    # -- nets --------------------------------------------------------------------------------------

    def number(self, bits: Bits) -> Nets:
        """Return the numbers of bits; see `operators.operator`."""
        numbers, constant = self._numbers, self.constant
        return np.array([numbers.get(bit, constant) for bit in bits], np.int64)

    def _ports(self, *, output: bool) -> Nets:
        ports = [port for port in self.module.ports if port.output == output]
        return self.number(tuple(bit for port in ports for bit in port.bits))

    # -- what drives and what waits ----------------------------------------------------------------

    def _merged(self, cells: Sequence[Cell]) -> Iterator[Cell]:
        """Yield cells; adders of which one feeds only the next are made one `Sum` instead."""
        uses: dict[int, set[int]] = defaultdict(set)
        for index, cell in enumerate(cells):
            for _, bits in cell.operands:
                for bit in bits:
                    uses[bit].add(index)
        outside = {bit for bits in self.module.read_outside() for bit in bits}
        into: dict[int, int] = {}
        for index, cell in enumerate(cells):
            if cell.operator in _ADDS and cell.type != "pos":
                users = set().union(*(uses[bit] for bit in cell.result))
                if len(users) == 1 and not outside.intersection(cell.result):
                    (user,) = users
                    if cells[user].operator in _ADDS and cells[user].type != "pos":
                        into[index] = user
        by_user: dict[int, list[int]] = defaultdict(list)
        for index, user in into.items():
            by_user[user].append(index)
        for index, cell in enumerate(cells):
            if index in into:
                continue
            if index not in by_user:
                yield cell
                continue
            words = list(self._summands(cells, by_user, index, len(cell.result)))
            if len(words) < 3:
                words += [np.full(len(cell.result), self.constant)] * (3 - len(words))
            self.nodes.append(
                Sum(self.number(cell.result), np.stack(words), self.costs, self.constant)
            )

    def _summands(
        self, cells: Sequence[Cell], by_user: Mapping[int, list[int]], index: int, width: int
    ) -> Iterator[Nets]:
        """Yield the words that a tree of adders adds up, as wide as its result."""
        cell = cells[index]
        pins = {pin: self.number(bits) for pin, bits in cell.pins.items()}
        within = {
            bit: other for other in by_user.get(index, ()) for bit in cells[other].result
        }  # fmt: skip
        for pin, word in zip("ab", operators.words_of(cell, pins, self.constant), strict=False):
            other = next((within[bit] for bit in cell.pins[pin] if bit in within), None)
            if other is not None:
                yield from self._summands(cells, by_user, other, width)
            elif len(word) >= width:
                yield word[:width]
            else:
                yield np.concatenate([word, np.full(width - len(word), word[-1])])

    def _register(self, cell: Cell) -> None:
        pins = {pin: self.number(bits) for pin, bits in cell.pins.items()}
        self.starts.append(Start(cell.name, pins["q"], {"register": 1.0}))
        before: dict[str, float] = {}
        if "srst" in pins or "arst" in pins:
            before["gate"] = 1.0
            reset = pins["srst"] if "srst" in pins else pins["arst"]
            self.ends.append(End(cell.name, reset, {"gate": 1.0}))
        if "en" in pins:
            before["mux"] = 1.0
            self.ends.append(End(cell.name, pins["en"], dict(before)))
        self.ends.append(End(cell.name, pins["d"], before))

    def _memory(self, memory: Memory) -> None:
        for write in memory.writes:
            deep = spread(memory.depth)
            steps = operators.write_steps(memory, len(write.address))
            self.ends.append(End(memory.name, self.number(write.address), steps))
            self.ends.append(End(memory.name, self.number(write.enable), steps))
            stored = {"mux": 1.0, "fanout": deep}
            self.ends.append(End(memory.name, self.number(write.data), stored))
        for read in memory.reads:
            steps = operators.address_steps(memory)
            address, data = self.number(read.address), self.number(read.data)
            if read.clocked:
                self.starts.append(Start(memory.name, data, {"register": 1.0}))
                self.ends.append(End(memory.name, address, {**steps, "mux": 1.0}))
                self.ends.append(End(memory.name, self.number(read.enable), {"mux": 1.0}))
                continue
            # A word that is read right after it was written comes from a register, too.
            word = {"register": 1.0, "read": steps["read"]}
            self.starts.append(Start(memory.name, data, word))
            ins = np.broadcast_to(address[:, None], (len(address), len(data)))
            self.nodes.append(Parallel(data, ins, [steps] * len(address), self.costs))

    def _macros(self, memory: Memory, macros: MacroSteps) -> None:
        for port in (*memory.reads, *memory.writes):
            self.ends.append(End(memory.name, self.number(port.address), macros.address))
            self.ends.append(End(memory.name, self.number(port.enable), macros.address))
        for port in memory.writes:
            self.ends.append(End(memory.name, self.number(port.data), macros.data))
        for port in memory.reads:
            self.starts.append(Start(memory.name, self.number(port.data), macros.out))

    def _instance(self, instance: Instance) -> None:
        child = self.below[instance.module]
        module = child.module

        def connected(*, output: bool) -> Nets:
            result: list[int] = []
            for port in module.ports:
                if port.output == output:
                    bits = self.number(instance.connections.get(port.name, ()))
                    result += bits.tolist()
                    result += [self.constant] * (port.width - len(bits))
            return np.array(result, np.int64)

        ins, out = connected(output=False), connected(output=True)
        if module.is_full_adder:
            self._full_adder(instance)
            return
        for indices, needs in child.groups:
            used = indices[out[indices] != self.constant]
            self.nodes.append(Inside(instance, ins, out[used], used, ins[needs]))
        self.instances.append(Inside(instance, ins, out, np.arange(len(out)), ins))

    def _full_adder(self, instance: Instance) -> None:
        bits = {name: self.number(result) for name, result in instance.connections.items()}
        ins = np.stack([bits[name] for name in ("a", "b", "c")])
        for pin in ("sum", "carry"):
            steps = {f"full_adder_{pin}": 1.0}
            if pin in bits:
                self.nodes.append(Parallel(bits[pin], ins, [steps] * 3, self.costs))

    # -- order -------------------------------------------------------------------------------------

    def _needs(self, node: Arcs | Inside) -> Nets:
        if isinstance(node, Inside):
            return node.needs
        return node.sources

    def _ordered(self) -> tuple[list[int], int]:
        """Return nodes with those before that drive them, and how often to go through them.

        Words may depend on each other although their bits do not; then nodes are gone through
        until nothing changes.
        """
        driver, state, order, passes = self.driver, [0] * len(self.nodes), [], 1
        before = [
            sorted({driver[net] for net in set(self._needs(node).tolist()) if net in driver})
            for node in self.nodes
        ]
        for first in range(len(self.nodes)):
            stack = [(first, iter(before[first]))] if not state[first] else []
            if stack:
                state[first] = 1
            while stack:
                node, rest = stack[-1]
                for other in rest:
                    if state[other] == 1:
                        passes = len(self.nodes)
                    elif not state[other]:
                        state[other] = 1
                        stack.append((other, iter(before[other])))
                        break
                else:
                    state[node] = 2
                    order.append(node)
                    stack.pop()
        return order, passes

    def _groups(self) -> list[tuple[Nets, Nets]]:
        """Group outputs by the inputs that they depend on without registers between.

        Returns
        -------
        list of (array, array)
            Places of outputs, and the places of the inputs that they depend on.
        """
        masks = [0] * (self.constant + 1)
        names = [port for port in self.module.ports if not port.output]
        position, bits_of_port = 0, []
        for index, port in enumerate(names):
            for net in self.inputs[position : position + port.width].tolist():
                masks[net] |= 1 << index
            bits_of_port.append(range(position, position + port.width))
            position += port.width
        masks[self.constant] = 0
        for _ in range(2 if self.passes > 1 else 1):
            for index in self.order:
                node, mask = self.nodes[index], 0
                for net in set(self._needs(node).tolist()):
                    mask |= masks[net]
                for net in node.out.tolist():
                    masks[net] |= mask
        by_mask: dict[int, list[int]] = defaultdict(list)
        for index, net in enumerate(self.outputs.tolist()):
            by_mask[masks[net]].append(index)
        return [
            (
                np.array(result, np.int64),
                np.array(
                    [bit for i, bits in enumerate(bits_of_port) if mask >> i & 1 for bit in bits],
                    np.int64,
                ),
            )
            for mask, result in by_mask.items()
        ]

    # -- loads -------------------------------------------------------------------------------------

    def _fanout(self) -> tuple[Times, Times]:
        """Return the loads of each net, and the delay that they add, in ns."""
        count = np.zeros(self.constant + 1)
        for cell in self.module.cells:
            each = operators.loads(cell)
            for pin, bits in cell.operands:
                np.add.at(count, self.number(bits), each.get(pin, 1))
        for memory in self.module.memories:
            for bits in memory.inputs():
                np.add.at(count, self.number(bits), 1)
        for instance in self.module.instances:
            child = self.below[instance.module]
            index = 0
            for port in child.module.ports:
                if port.output:
                    continue
                nets = self.number(instance.connections.get(port.name, ()))
                inside = child.loads[child.inputs[index : index + len(nets)]]
                np.add.at(count, nets, inside)
                index += port.width
        count[self.constant] = 0
        doublings = np.log2(np.maximum(count / LIGHT, 1.0))
        slower = self.costs.ns.get("fanout", 0.0) * doublings
        slower[self.inputs] = 0.0  # whoever drives them knows the loads
        self.doublings = doublings
        return count, slower


def _all_bits(module: Module) -> Iterator[Bits]:
    for port in module.ports:
        yield port.bits
    for cell in module.cells:
        yield from cell.pins.values()
    for memory in module.memories:
        for entry in (*memory.reads, *memory.writes):
            yield from (entry.address, entry.data, entry.enable)
    for instance in module.instances:
        yield from instance.connections.values()
