# SPDX-License-Identifier: Apache-2.0
"""Properties of modules that follow from their instances: constant inputs and unused outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cost_model.netlist.liveness import RIPPLING, Inputs, Liveness
from cost_model.netlist.model import TOP, Bits, Cell, Module

REPEATED, LARGE = 4, 150.0
"""A module that is there so often, and of so many gates, is mapped once, for any surroundings."""

ROUNDS = 8
"""How often what is not needed is followed from module to module, at most."""


class Surroundings:
    """Constant inputs and used bits of each module of a design.

    Synthesis removes what no instance of a module needs, and folds constants that all of them get;
    the latter not into a module that is mapped once, for any surroundings.
    """

    def __init__(self, modules: Mapping[str, Module]) -> None:
        counts = instance_counts(modules)
        self.is_output = is_output = output_test(modules)
        self.modules = folded_modules(modules, is_output)
        self.live: dict[str, Liveness] = {}
        reads: dict[str, Inputs] = {}
        for name in reversed(counts):
            self.live[name] = Liveness(self.modules[name], reads)
            reads[name] = self.live[name].inputs(self.modules[name])
        # What a module needs depends on what is needed of it, and the other way round: what turned
        # out not to be needed may make more so, in modules on either side.
        previous: dict[str, dict[str, set[int] | None]] = {}
        for _ in range(ROUNDS):
            needed = self._needed_outputs(counts)
            changed: set[str] = set()
            for name in reversed(counts):
                outputs = needed.get(name)
                partly = outputs is not None and any(bits is not None for bits in outputs.values())
                news = partly and outputs != previous.get(name)
                inside = self.modules[name].instances
                if news or any(instance.module in changed for instance in inside):
                    self.live[name] = Liveness(self.modules[name], reads, outputs)
                    before, reads[name] = reads[name], self.live[name].inputs(self.modules[name])
                    if reads[name] != before:
                        changed.add(name)
            if needed == previous:
                break
            previous = needed

    def _needed_outputs(self, counts: Mapping[str, int]) -> dict[str, dict[str, set[int] | None]]:
        """Return the bits of each module's outputs that any instance needs; None is all."""
        result: dict[str, dict[str, set[int] | None]] = {}
        for name in counts:
            nets = self.live[name].nets
            for number, instance in enumerate(self.modules[name].instances):
                outputs = result.setdefault(instance.module, {})
                for port, bits in instance.connections.items():
                    if self.is_output(instance.module, port):
                        before = outputs.get(port, set())
                        if before is not None and number in self.live[name].instances:
                            before |= {index for index, net in enumerate(bits) if net in nets}
                        full = before is None or len(before) == len(bits)
                        outputs[port] = None if full else before
        return result


def instance_counts(modules: Mapping[str, Module]) -> dict[str, int]:
    """Count the instances of each module in the whole design; parents before their children."""
    order: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
        seen.add(name)
        for instance in modules[name].instances:
            if instance.module not in seen:
                visit(instance.module)
        order.append(name)

    visit(TOP)
    counts = dict.fromkeys(reversed(order), 0)
    counts[TOP] = 1
    for name in counts:
        for instance in modules[name].instances:
            counts[instance.module] += counts[name]
    return counts


def output_test(modules: Mapping[str, Module]) -> Callable[[str, str], bool]:
    """Return a function that tells whether a port of a module is an output, by their names."""
    outputs = {
        name: {port.name for port in module.ports if port.output}
        for name, module in modules.items()
    }
    return lambda module, port: port in outputs[module]


def without_unused(modules: Mapping[str, Module], surroundings: Surroundings) -> dict[str, Module]:
    """Return the modules without unused cells, instances, upper bits and register bits."""
    live = surroundings.live
    return {
        name: _pruned(module, live[name]) if name in live else module
        for name, module in modules.items()
    }


def _pruned(module: Module, live: Liveness) -> Module:
    cells = tuple(
        cell if len(used) == len(cell.result) else _narrowed(cell, used)
        for cell, used in zip(module.cells, live.used, strict=True)
        if used
    )
    instances = tuple(
        instance for number, instance in enumerate(module.instances) if number in live.instances
    )
    return replace(module, cells=cells, instances=instances)


def _narrowed(cell: Cell, used: set[int]) -> Cell:
    """Return a cell of which only some bits of the result are used."""
    if cell.operator == "register":
        bits = sorted(used)
        return replace(cell, pins={
            pin: tuple(nets[index] for index in bits) if pin in ("d", "q") else nets
            for pin, nets in cell.pins.items()
        })  # fmt: skip
    if cell.operator in RIPPLING:
        return replace(cell, pins={**cell.pins, "y": cell.pins["y"][: max(used) + 1]})
    return cell


def folded_modules(
    modules: Mapping[str, Module], is_output: Callable[[str, str], bool], *, repeated: bool = True
) -> dict[str, Module]:
    """Return the modules with the constants that all of their instances get.

    Large modules that repeat are left as they are if `repeated` says that they are mapped once.
    """
    result: dict[str, Module] = {}
    inputs_of: dict[str, dict[str, list[int]]] = {}
    sizes = gate_counts(modules)
    for name, count in instance_counts(modules).items():  # parents come first
        module = modules[name]
        once = repeated and count >= REPEATED and sizes[name] >= LARGE
        unchanged = name == TOP or module.keep_hierarchy or once
        result[name] = module if unchanged else _folded(module, inputs_of[name])
        for instance in result[name].instances:
            inputs = inputs_of.setdefault(instance.module, {})
            for port, bits in instance.connections.items():
                if is_output(instance.module, port):
                    continue
                constants = [min(net, 0) for net in bits]
                if port in inputs:  # a constant is one only if all instances get it
                    constants = [x if x == y else 0
                                 for x, y in zip(constants, inputs[port], strict=True)]  # fmt: skip
                inputs[port] = constants
    return result


def gate_counts(modules: Mapping[str, Module], per_bit: float = 5.0) -> dict[str, float]:
    """Estimate the gates of each module, those of the modules in it included.

    Parameters
    ----------
    modules : mapping
        By name.
    per_bit : float, optional
        Gates for a bit of a memory.
    """
    result: dict[str, float] = {}
    for name in reversed(instance_counts(modules)):
        module = modules[name]
        local = sum(per_bit * memory.width * memory.depth for memory in module.memories)
        inside = sum(result[instance.module] for instance in module.instances)
        result[name] = local + inside + sum(_gates(cell) for cell in module.cells)
    return result


def _gates(cell: Cell) -> float:
    widest = float(max(map(len, cell.pins.values()), default=0))
    if cell.operator == "mul":
        return 6.0 * cell.width("a") * cell.width("b")
    if cell.operator in ("add", "sub", "neg", "less", "register"):
        return 5.0 * widest
    if cell.operator in ("pmux", "shift"):
        return 2.0 * cell.width("y") * cell.width("s" if cell.operator == "pmux" else "b")
    return widest


def _folded(module: Module, inputs: Mapping[str, list[int]]) -> Module:
    """Return a module with constants in place of bits of inputs; 0 leaves a bit as it is."""
    constants = {
        net: constant
        for port in module.ports
        for net, constant in zip(port.bits, inputs.get(port.name, ()), strict=False)
        if constant < 0
    }
    if not constants:
        return module

    def folded(pins: Mapping[str, Bits]) -> dict[str, Bits]:
        return {pin: tuple(constants.get(net, net) for net in bits) for pin, bits in pins.items()}

    return replace(
        module,
        cells=tuple(replace(cell, pins=folded(cell.pins)) for cell in module.cells),
        instances=tuple(
            replace(instance, connections=folded(instance.connections))
            for instance in module.instances
        ),
    )
