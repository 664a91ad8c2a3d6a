# SPDX-License-Identifier: Apache-2.0
"""The outline of a design: its main blocks and what flows between them, from the netlist."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cost_model.netlist.model import TOP, Bits, Instance, Module, is_full_adder
from cost_model.netlist.netlist import Netlist
from hwgen.reports.diagram import Box, Diagram, Link, Role

MOST_BOXES = 18
"""Blocks of a diagram; of more, the smallest are left out and links pass through them."""

_NARROW = 3
"""Bits up to which a port carries a handshake or a mode, not data."""

_OPENED = 0.45
"""A block with this share of the design is shown by the blocks inside it."""

_ARRAY = 0.25
"""Share that repeated blocks have at least of a block that is drawn as an array."""

_NUMBER = re.compile(r"(_\d+)+$")
_CONTROL = re.compile(r"control|sequencer|loader|list")
_BUFFER = re.compile(r"buffer|slice|skid|fifo|queue|slots")
_DECISIONS = ("equal", "less", "reduce_and", "reduce_or", "reduce_xor")


@dataclass
class _Node:
    """Blocks alike in one module, and the nets that they read and drive."""

    path: str
    members: list[Instance] = field(default_factory=list)
    reads: list[Bits] = field(default_factory=list)
    drives: set[int] = field(default_factory=set)


class _Flat:
    """A netlist opened down to the blocks of a diagram; nets are numbered throughout."""

    def __init__(self, netlist: Netlist, opened: set[str]) -> None:
        self.netlist = netlist
        self.nodes: dict[str, _Node] = {}
        self.drivers: dict[int, int] = {}
        self.cells: list[Bits] = []
        self.nets = 0
        self.top: dict[str, Bits] = {}
        top = netlist.top
        binding: dict[int, int] = {}
        for port in top.ports:
            self.top[port.name] = self._bind(binding, port.bits)
        self._open(top, "", binding, opened)

    def _bind(self, binding: dict[int, int], bits: Bits) -> Bits:
        result = []
        for bit in bits:
            if bit >= 0:
                if bit not in binding:
                    self.nets += 1
                    binding[bit] = self.nets
                result.append(binding[bit])
        return tuple(result)

    def _open(self, module: Module, path: str, binding: dict[int, int], opened: set[str]) -> None:
        for cell in module.cells:
            pins = [(pin, bits) for pin, bits in cell.operands if pin in ("a", "b", "d")]
            if cell.operator == "shift":
                pins = pins[:1]
            if cell.operator in _DECISIONS:
                pins = []
            self.cells.append(tuple(n for _, bits in pins for n in self._bind(binding, bits)))
            for net in self._bind(binding, cell.result):
                self.drivers[net] = len(self.cells) - 1
        for instance in module.instances:
            inner = self.netlist.modules[instance.module]
            name = f"{path}.{instance.name}" if path else instance.name
            if name in opened:
                inside: dict[int, int] = {}
                for port in inner.ports:
                    bits = instance.connections.get(port.name, ())
                    for local, outer in zip(port.bits, bits, strict=False):
                        if local >= 0 and outer >= 0:
                            inside[local] = self._bind(binding, (outer,))[0]
                self._open(inner, name, inside, opened)
                continue
            base = _NUMBER.sub("", instance.name)
            node = self.nodes.setdefault(f"{path}/{base}", _Node(f"{path}.{base}".strip(".")))
            node.members.append(instance)
            for port in inner.ports:
                nets = self._bind(binding, instance.connections.get(port.name, ()))
                if port.output:
                    node.drives.update(nets)
                elif port.width > _NARROW and port.name not in ("clk", "rst"):
                    node.reads.append(nets)

    def sources(self, bits: Bits, owner: Mapping[int, str]) -> Counter[str]:
        """Return the bits that reach `bits` without passing a block, by their owner."""
        reached: Counter[str] = Counter()
        seen, cells, queue = set(bits), set(), list(bits)
        while queue:
            net = queue.pop()
            if net in owner:
                reached[owner[net]] += 1
                continue
            cell = self.drivers.get(net)
            if cell is None or cell in cells:
                continue
            cells.add(cell)
            new = [each for each in self.cells[cell] if each not in seen]
            seen.update(new)
            queue += new
        return reached


def outline(
    netlist: Netlist,
    title: str,
    inputs: Mapping[str, Sequence[str]],
    outputs: Mapping[str, Sequence[str]],
) -> Diagram:
    """Return the block diagram of a design.

    Parameters
    ----------
    netlist : Netlist
    title : str
    inputs, outputs : mapping
        Label of a port in the diagram: names of the ports of the top module that carry its data.
    """
    weights = _weights(netlist)
    flat = _Flat(netlist, _opened(netlist, weights))
    owner = {net: key for key, node in flat.nodes.items() for net in node.drives}
    for label, names in inputs.items():
        owner |= {net: f">{label}" for name in names for net in flat.top.get(name, ())}
    links: Counter[tuple[str, str]] = Counter()
    for key, node in flat.nodes.items():
        for bits in set(node.reads):
            for source, count in flat.sources(bits, owner).items():
                if source != key:
                    links[source, key] += min(count, len(bits))
    for label, names in outputs.items():
        for name in names:
            bits = flat.top.get(name, ())
            for source, count in flat.sources(bits, owner).items():
                links[source, f"<{label}"] += min(count, len(bits))
    size = {key: sum(weights[each.module] for each in node.members)
            for key, node in flat.nodes.items()}  # fmt: skip
    kept = set(sorted(size, key=lambda key: -size[key])[:MOST_BOXES])
    for key in sorted(set(size) - kept):
        _bypass(links, key)
    links = _wide(_without_control(links, flat.nodes))
    used = {key for pair in links for key in pair}
    boxes = [Box(f">{label}", label, "input") for label in inputs if f">{label}" in used]
    boxes += [_box(netlist, weights, key, flat.nodes[key]) for key in flat.nodes
              if key in kept and (key in used or size[key] > 0.02 * weights[TOP])]  # fmt: skip
    boxes += [Box(f"<{label}", label, "output") for label in outputs if f"<{label}" in used]
    shown = {box.key for box in boxes}
    return Diagram(
        title,
        tuple(boxes),
        tuple(Link(*pair, bits) for pair, bits in links.items() if set(pair) <= shown),
    )


def _weights(netlist: Netlist) -> dict[str, float]:
    """Return the size of each module with all that is inside, in bits of registers, roughly."""
    result: dict[str, float] = {}

    def weigh(name: str) -> float:
        if name not in result:
            module = netlist.modules[name]
            own = sum(memory.width * memory.depth / 4 for memory in module.memories)
            for cell in module.cells:
                bits = len(cell.result)
                product = max(1, min(cell.width("a"), cell.width("b")))
                own += bits * (product if cell.operator == "mul" else 1 if cell.operator ==
                               "register" else 0.4)  # fmt: skip
            result[name] = own + sum(weigh(each.module) for each in module.instances)
        return result[name]

    weigh(TOP)
    return result


def _opened(netlist: Netlist, weights: Mapping[str, float]) -> set[str]:
    """Return the hierarchical names of the blocks that are shown by what is inside them."""
    opened: set[str] = set()
    whole = weights[TOP] or 1.0

    def look(module: Module, path: str) -> None:
        for each in module.instances:
            inner = netlist.modules[each.module]
            bases = {_NUMBER.sub("", inside.name) for inside in inner.instances}
            name = f"{path}.{each.name}" if path else each.name
            alone = len(module.instances) == 1
            large = weights[each.module] > _OPENED * whole and len(bases) > 2
            if bases and (alone or large):
                opened.add(name)
                look(inner, name)

    look(netlist.top, "")
    return opened


def _bypass(links: Counter[tuple[str, str]], key: str) -> None:
    """Remove a block, and lead its links past it."""
    before = {source: bits for (source, target), bits in links.items() if target == key}
    after = {target: bits for (source, target), bits in links.items() if source == key}
    for pair in [pair for pair in links if key in pair]:
        del links[pair]
    for source, left in before.items():
        for target, right in after.items():
            if source != target:
                links[source, target] = max(links[source, target], min(left, right))


def _without_control(
    links: Counter[tuple[str, str]], nodes: Mapping[str, _Node]
) -> Counter[tuple[str, str]]:
    """Return the links without those of control to blocks that have data from others."""
    control = {key for key, node in nodes.items() if _CONTROL.search(node.path.rsplit(".", 1)[-1])}
    fed = {target for source, target in links if source not in control}
    return Counter(
        {
            (source, target): bits
            for (source, target), bits in links.items()
            if source not in control or target not in fed
        }
    )


def _wide(links: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Return the links that carry data: not those much narrower than others of both ends."""
    into: Counter[str] = Counter()
    out: Counter[str] = Counter()
    for (source, target), bits in links.items():
        into[target] = max(into[target], bits)
        out[source] = max(out[source], bits)
    return Counter(
        {
            (source, target): bits
            for (source, target), bits in links.items()
            if bits == into[target] or bits == out[source]
            or 8 * bits >= max(into[target], out[source])
        }
    )  # fmt: skip


def _box(netlist: Netlist, weights: Mapping[str, float], key: str, node: _Node) -> Box:
    count = len(node.members)
    module = netlist.modules[node.members[0].module]
    name = node.path.rsplit(".", 1)[-1]
    registers, memories, inside = _contents(netlist, [each.module for each in node.members])
    whole = sum(weights[each.module] for each in node.members)
    repeated, what, share = _repeated(weights, inside, count, whole)
    lines = []
    if what:
        lines.append(f"{repeated:,} x {what}")
    if memories:
        (depth, width), times = max(memories.items(), key=lambda m: m[0][0] * m[0][1] * m[1])
        lines.append(f"{f'{times} x ' if times > 1 else ''}{depth:,} words of {width:,} bits")
    elif registers:
        lines.append(f"{registers:,} register bits")
    stored = sum(depth * width * times for (depth, width), times in memories.items())
    role: Role = "logic"
    if _CONTROL.search(name):
        role = "control"
    elif repeated >= 4 and share > _ARRAY:
        role = "array"
    elif stored > registers:
        role = "memory"
    elif _BUFFER.search(name):
        role = "buffer"
    label = f"{name} x {count}" if count > 1 else name
    title = f"{node.path}: {module.name}"
    return Box(key, label, role, tuple(lines), repeated if role == "array" else 0, title)


def _contents(
    netlist: Netlist, modules: Sequence[str]
) -> tuple[int, Counter[tuple[int, int]], Counter[str]]:
    """Return register bits, memories (words, bits) and blocks inside modules, counted."""
    registers = 0
    memories: Counter[tuple[int, int]] = Counter()
    inside: Counter[str] = Counter()
    queue = Counter(modules)
    while queue:
        name, times = queue.popitem()
        module = netlist.modules[name]
        registers += times * sum(
            len(cell.result) for cell in module.cells if cell.operator == "register"
        )
        for memory in module.memories:
            memories[memory.depth, memory.width] += times
        for each in module.instances:
            inside[each.module] += times
            queue[each.module] += times
    return registers, memories, inside


def _repeated(
    weights: Mapping[str, float], inside: Counter[str], count: int, whole: float
) -> tuple[int, str, float]:
    """Return the block that makes up most of others: how often, its name, its share of them."""
    times: Counter[str] = Counter()
    sizes: dict[str, float] = {}
    for module, number in inside.items():
        if weights[module] and not is_full_adder(module):
            # Variants of a block, such as PEs of other widths, count as one.
            base = _NUMBER.sub("", re.sub(r"_x\d+$|_\d+x\d+$", "", module))
            times[base] += number
            sizes[base] = sizes.get(base, 0.0) + weights[module] * number / whole
    shares = {base: share for base, share in sizes.items() if times[base] >= 4}
    if not shares:
        return (count, "", 1.0) if count >= 4 else (0, "", 0.0)
    # Of nested blocks with about the same share, the innermost: PEs, not rows.
    most = max(shares.values())
    base = max((base for base in shares if shares[base] > 0.6 * most),
               key=lambda base: (times[base], base))  # fmt: skip
    if times[base] == count:
        return count, "", 1.0
    return times[base], base, shares[base]
