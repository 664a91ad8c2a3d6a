# SPDX-License-Identifier: Apache-2.0
"""Registers, carry chains, DSP blocks and memories of a unit, and the gates between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from cost_model.netlist.fabric import elaborate
from cost_model.netlist.fabric.chains import Block, Late
from cost_model.netlist.fabric.dsp_packing import Packing, packing
from cost_model.netlist.fabric.elaborate import Word, extended
from cost_model.netlist.fabric.fabric import Fabric
from cost_model.netlist.fabric.flat import Unit
from cost_model.netlist.fabric.gates import FALSE, TRUE, Gates
from cost_model.netlist.fabric.memories import Stores
from cost_model.netlist.fabric.memory_forms import computed_nets, in_registers
from cost_model.netlist.liveness import Liveness
from cost_model.netlist.model import ONE, ZERO, Cell, Instance
from cost_model.netlist.order import in_order, strongly_connected
from cost_model.netlist.rewrite import (
    Choices,
    renamed,
    shift_registers,
    with_choices,
    without_undefined,
)
from cost_model.netlist.sums import sums

ROUNDS = 4
"""How often constants and equal nets that were found are put into the words, at most."""


@dataclass
class _Item:
    """A cell, a sum, a port of a memory or an instance: what it reads, and what it drives."""

    reads: Sequence[int]
    makes: Sequence[int]
    make: Callable[[], None]
    owner: int
    is_register: bool = False


class Blocks(Stores):
    """See the module.

    Attributes
    ----------
    gates : Gates
        Their owners are numbers of `names`.
    sinks : list of int
        The literals that blocks and outputs need.
    names : list of str
        Modules.
    counts : Counter
        What there is, by the module that it is in and its kind.
    used_inputs : dict
        For each input port of the unit, the bits that anything depends on.

    Parameters
    ----------
    unit : Unit
    fabric : Fabric
    is_output : callable
        Tells whether a module, by its name, has an output of a name.
    inputs : mapping
        By name, the `used_inputs` of the units that it instantiates.
    """

    def __init__(
        self,
        unit: Unit,
        fabric: Fabric,
        is_output: Callable[[str, str], bool],
        inputs: Mapping[str, Mapping[str, set[int]]],
    ) -> None:
        unit = in_registers(unit, fabric)
        self.unit, self.fabric, self.is_output = unit, fabric, is_output
        self.inside = {
            instance.module: inputs[instance.module] for instance in unit.module.instances
        }
        self.names = sorted({unit.module.name, *unit.owners, *unit.keepers})
        self.number = {name: number for number, name in enumerate(self.names)}
        self.module = without_undefined(unit.module)
        self.computed = computed_nets(self.module)
        for _ in range(ROUNDS):
            self._elaborate()
            same = self._same()
            if not same:
                break
            self.module = renamed(self.module, same)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.sinks: list[int] = []
        self._use()

    def add(self, owner: int, component: str, count: float) -> None:
        """Count components of a module."""
        if count:
            self.counts[self.names[owner], component] += count  # type: ignore[assignment]

    def literals(self, bits: Iterable[int]) -> list[int]:
        """Return the literals of nets; what is undefined is zero."""
        return [self._literal(net) for net in bits]

    def _literal(self, net: int) -> int:
        if net < 0:
            return TRUE if net == ONE else FALSE
        result = self.literal_of.get(net)
        if result is None:  # nothing drives it, or it is part of a loop
            result = self.literal_of[net] = self.gates.input()
        return result

    # -- all cells -------------------------------------------------------------------------------

    def _elaborate(self) -> None:
        module = self.module = with_choices(self.module)
        self.gates = Gates()
        self.literal_of: dict[int, int] = {}
        self.blocks: dict[int, tuple[Block, int]] = {}
        self.differences: dict[tuple[Word, Word], Block] = {}
        self.comparisons: dict[tuple[Word, Word], Block] = {}
        self.delayed: set[tuple[int, int]] = set()
        self.registers: dict[tuple[int, ...], int] = {}
        self.enabled: dict[int, tuple[int, int]] = {}
        for port in module.ports:
            if not port.output:
                for net in port.bits:
                    if net >= 0:
                        self.literal_of[net] = self.gates.input()
        slices = [self.slice_bits(memory) for memory in module.memories]
        live = Liveness(module, self.inside, slices=slices)
        items = self._items(live)
        self.choices = Choices(module, live.used)
        driver = {net: number for number, item in enumerate(items) for net in item.makes}
        self._visit(items, driver)

    def _items(self, live: Liveness) -> list[_Item]:
        module, unit = self.module, self.unit
        totals, summed = sums(module, live.used, products=False)
        owners = [self.number[owner] for owner in unit.owners]
        self.packed = Packing()
        if self.fabric.dsp_adds:
            products = [
                (cell, used)
                for cell, used in zip(module.cells, live.used, strict=True)
                if used and cell.operator == "mul" and self._is_dsp(cell)
            ]
            others = {n for n, used in enumerate(live.used) if used and n not in summed}
            self.packed = packing(module, products, totals, others)
        owner_of = {cell.result: owner for cell, owner in zip(module.cells, owners, strict=True)}
        items = []
        for result in totals:
            reads = [net for row in result.rows for net in row]
            make = partial(self._sum, result)
            items.append(_Item(reads, result.result, make, owner_of[result.result]))
        for number, (cell, used) in enumerate(zip(module.cells, live.used, strict=True)):
            if used and number not in summed:
                reads = [net for _, bits in cell.operands for net in bits]
                is_register = cell.operator == "register"
                items.append(_Item(
                    reads, cell.result, partial(self._cell, cell), owners[number], is_register
                ))  # fmt: skip
        for memory, keeper in zip(module.memories, unit.keepers, strict=True):
            nets = [net for port in memory.reads for net in port.data]
            items.append(_Item((), nets, partial(self._memory, memory), self.number[keeper]))
        for instance in module.instances:
            outputs = [net for port, bits in instance.connections.items() for net in bits
                       if self.is_output(instance.module, port)]  # fmt: skip
            make = partial(self._instance, instance)
            items.append(_Item((), outputs, make, self.number[module.name]))
        return items

    def _visit(self, items: list[_Item], driver: dict[int, int]) -> None:
        """Make gates, what an item reads before it; registers in loops are inputs."""
        inputs = [
            list(dict.fromkeys(driver[net] for net in item.reads if net in driver))
            for item in items
        ]
        for group in strongly_connected(inputs):
            looped = len(group) > 1 or group[0] in inputs[group[0]]
            if looped:
                for number in group:
                    if items[number].is_register:
                        self._loop(items[number])
                group = in_order(group, inputs, {n for n in group if items[n].is_register})
            for number in group:
                self.gates.owner = items[number].owner
                items[number].make()

    def _loop(self, item: _Item) -> None:
        self.gates.owner = item.owner
        for net in item.makes:
            if net >= 0:
                self.literal_of[net] = self.gates.input()

    def _same(self) -> dict[int, int]:
        """Map nets that are constant, or equal to another net, to that."""
        result, first = {}, dict[int, int]()
        for net, literal in self.literal_of.items():
            if literal in (FALSE, TRUE):
                result[net] = ONE if literal else ZERO
            elif first.setdefault(literal, net) != net:
                result[net] = first[literal]
        used = {net for cell in self.module.cells for _, bits in cell.operands for net in bits}
        if not used & set(result):
            return {}
        return result

    # -- blocks ----------------------------------------------------------------------------------

    def _set(self, nets: Sequence[int], word: Word) -> None:
        for net, literal in zip(nets, word, strict=False):
            if net >= 0 and net not in self.literal_of:
                self.literal_of[net] = literal

    def _register(self, cell: Cell) -> None:
        owner, low = self.gates.owner, cell.low
        inputs = {
            pin: [bit ^ (pin in low) for bit in self.literals(cell.pins.get(pin, ()))[:1]]
            for pin in ("en", "srst")
        }

        for net, data in zip(cell.pins["q"], cell.pins["d"], strict=True):
            if net < 0:
                continue
            data, enables, resets, to_one = self._controls(net, data, inputs["srst"])
            d = self._literal(data)
            enable = self.gates.all([*inputs["en"], *enables])
            reset = self.gates.any([*inputs["srst"], *resets])
            if enable != TRUE and reset != FALSE:
                inside = bool(inputs["en"] and resets) or cell.type == "sdffce"
                where_enabled = self.fabric.reset_enables or not self.fabric.resets
                if where_enabled and not inside:
                    enable = self.gates.either(enable, reset)
                elif inside and not where_enabled:
                    reset = self.gates.both(enable, reset)
            if not self.fabric.resets:
                either, both = self.gates.either, self.gates.both
                d, reset = either(d, reset) if to_one else both(d, reset ^ 1), FALSE
            if net not in self.literal_of:
                if (d in (FALSE, TRUE) and reset == FALSE) or d == to_one:
                    self.literal_of[net] = d
                    continue
                key = (d, enable, reset, to_one)
                if key in self.registers:
                    self.literal_of[net] = self.registers[key]
                    continue
                self.registers[key] = self.literal_of[net] = self.gates.input()
            needs = [d, enable, reset]
            packed = net in self.packed.registers
            count = partial(self._count_register, 0 if packed else 1)
            if self.fabric.shifts and reset == FALSE and not packed:
                self.enabled[self.literal_of[net] >> 1] = (d, enable)
            block = Block(owner, [needs], False, count, type="register", name=cell.name)
            self.blocks[self.literal_of[net] >> 1] = (block, 0)

    def _count_register(self, bits: int, block: Block) -> None:
        self.add(block.owner, "flip_flop", bits)

    def _controls(
        self, net: int, data: int, reset: list[int]
    ) -> tuple[int, list[int], list[int], int]:
        """Return the data input of a register without the multiplexers that its pins replace.

        Returns
        -------
        (int, list of int, list of int, int)
            The net of its data, the literals that enable it, those that reset it, and to what.
        """
        enables: list[int] = []
        resets: list[int] = []
        to = FALSE if reset else -1
        while (result := self.choices.muxes.get(data)) and self.choices.uses[data] == 1:
            other, one, select = result
            literal = self._literal(select)
            if one < 0 and to in (-1, _constant(one)):
                to = _constant(one)
                resets.append(literal)
                data = other
            elif other < 0 and to in (-1, _constant(other)):
                to = _constant(other)
                resets.append(literal ^ 1)
                data = one
            else:
                break
        while (result := self.choices.muxes.get(data)) and self.choices.uses[data] == 1:
            other, one, select = result
            literal = self._literal(select)
            if net not in (other, one):
                break
            enables.append(literal if net == other else literal ^ 1)
            data = one if net == other else other
        return data, enables, resets, max(to, FALSE)

    def _instance(self, instance: Instance) -> None:
        outputs: list[int] = []
        inputs: list[int] = []
        for port, bits in instance.connections.items():
            if self.is_output(instance.module, port):
                outputs.extend(bits)
            else:
                used = self.inside[instance.module][port]
                inputs.extend(bit for index, bit in enumerate(bits) if index in used)
        owner = self.gates.owner
        self._outputs(outputs, Late(owner, lambda: self.literals(inputs), lambda block: None))

    # -- gates -----------------------------------------------------------------------------------

    def _cell(self, cell: Cell) -> None:
        operator, gates = cell.operator, self.gates
        if operator in ("register", "less", "mul"):
            getattr(self, f"_{operator}")(cell)
            return
        result = cell.result
        a, b, select = (self.literals(cell.pins.get(pin, ())) for pin in ("a", "b", "s"))
        if cell.result in self.packed.muxes:
            word = self.literals(self.packed.muxes[cell.result])
        elif operator in elaborate.GATED:
            word = elaborate.gates_of(gates, cell, a, b, select)
        else:  # what is not known is one function of all it reads
            reads = [bit for _, bits in cell.operands for bit in self.literals(bits)]
            word = [gates.parity(reads)] * len(result)
        self._set(result, extended(word, len(result), signed=False))

    # -- what is used ----------------------------------------------------------------------------

    def _use(self) -> None:
        """Find what outputs depend on, count those blocks, and collect what they need."""
        waiting: list[int] = []
        needed: set[int] = set()
        for port in self.module.ports:
            if port.output:
                needed.update(self.literals(port.bits))
        waiting = [literal >> 1 for literal in needed]
        seen: set[int] = set()
        counted: list[Block] = []
        reads = Counter(literal >> 1 for literal in needed)
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            inside = self.gates.ands[node]
            if inside is not None:
                waiting += [inside[0] >> 1, inside[1] >> 1]
                reads.update((inside[0] >> 1, inside[1] >> 1))
            elif node in self.blocks:
                block, index = self.blocks[node]
                if not block.live:
                    counted.append(block)
                more = self._needs(block, index)
                needed.update(more)
                reads.update(literal >> 1 for literal in more)
                waiting += [literal >> 1 for literal in more]
        for block in counted:
            block.count(block)
        self._count_shifts(reads, seen)
        self.sinks = sorted(needed - {FALSE, TRUE})
        self.used_inputs = {
            port.name: {
                index
                for index, net in enumerate(port.bits)
                if net >= 0 and self.literal_of[net] >> 1 in seen
            }
            for port in self.module.ports
            if not port.output
        }

    def _count_shifts(self, reads: Counter[int], live: set[int]) -> None:
        """Count shift registers instead of registers one behind the other."""
        latched = {node: self.enabled[node] for node in self.enabled if node in live}
        before = {
            node: d >> 1
            for node, (d, enable) in latched.items()
            if not d & 1
            and d >> 1 in latched
            and latched[d >> 1][1] == enable
            and reads[d >> 1] == 1
        }
        inner = set(before.values())
        for node in latched:
            if node in inner or node not in before:
                continue
            row = [node]
            while row[-1] in before and before[row[-1]] not in row:
                row.append(before[row[-1]])
            shifts, registers = shift_registers(len(row))
            for index in row:
                self.add(self.gates.owners[index], "flip_flop", -1)
            owner = self.gates.owners[node]
            self.add(owner, "flip_flop", registers)
            self.add(owner, "lutram", shifts)

    def _needs(self, block: Block, index: int) -> list[int]:
        if isinstance(block, Late):
            first_use = not block.live
            block.live.add(index)
            return [*(block.find() if first_use else ()), *block.find_by_output(index)]
        first = block.used if block.ripples else index
        block.live.add(index)
        block.used = max(block.used, index + 1)
        return [literal for row in block.needs[first : index + 1] for literal in row]


def _constant(net: int) -> int:
    return TRUE if net == ONE else FALSE
