# SPDX-License-Identifier: Apache-2.0
"""The path that limits the clock of a design on an FPGA, through what it is mapped to.

Where look-up tables, carry chains, DSP blocks and memories are counted (`cost_model.netlist`) it
is also known what is between two registers: these cells, one after the other, and the wires to
them.  A wire's delay is part of the step that it leads to; the more loads it has and the larger the
design is, the longer it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, log2

from cost_model.netlist.fabric.chains import Block, Late
from cost_model.netlist.fabric.components import Mapped, mapped
from cost_model.netlist.fabric.fabric import Fabric
from cost_model.netlist.fabric.gates import postorder
from cost_model.netlist.model import TOP
from cost_model.netlist.netlist import Netlist
from cost_model.timing.arcs import Costs, Steps, spread
from cost_model.timing.graph import Path, Stage

STEPS: Mapping[str, str] = {
    "register": "a register, from the clock to its output, and its setup time",
    "lut": "a look-up table, and the wire to it",
    "chain": "a carry chain, from an operand to a sum, and the wire to it",
    "chain_bit": "each bit that a carry crosses in it",
    "dsp": "a DSP block, and the wire to it",
    "memory": "a block memory, or a register behind a small one, from the clock to its data",
    "read": "a small memory, from the address to its data, and the wire to it",
    "control": "the wire to an enable or a reset, or to the port of a memory that is written",
    "fanout": "each doubling of the loads of a wire beyond a few",
    "extent": "each doubling of the look-up tables of the design beyond a few, for each wire",
}
"""Kinds of steps on an FPGA, and what one of them is."""

SMALL = 64.0
"""Look-up tables of a design in which wires are short."""

PORT = "port"
"""Start and end of paths from and to other parts of a design."""

_DIRECT: Steps = {}
_REGISTER: Steps = {"register": 1.0}
_MEMORY: Steps = {"memory": 1.0}
_LUT: Steps = {"lut": 1.0}
_CHAIN: Steps = {"chain": 1.0}
_BIT: Steps = {"chain_bit": 1.0}
_DSP: Steps = {"dsp": 1.0}
_READ: Steps = {"read": 1.0}
_CONTROL: Steps = {"control": 1.0}
_WIRES = ("lut", "chain", "dsp", "read", "control")
"""Kinds of steps that begin with a wire."""


Arc = tuple[int, Steps]
"""The node that a way comes from, and what it leads through."""


@dataclass(frozen=True)
class _End:
    """End of a path, the arc to it, and whether it is a port."""

    arc: Arc
    name: str
    outside: bool = False


class _Unit:
    """The nodes of a unit, in an order in which what a node depends on is before it.

    Nodes are those of the network of gates, and one for each carry of a chain.

    Attributes
    ----------
    arcs : dict
        What each node depends on.
    starts : dict
        Of nodes where paths may start, the signal and the steps.
    prefix : str
        What is in front of names in paths: the module, unless it is the top.
    loads : Counter
        How many inputs each node drives.
    ends : list
    order : list of int
    luts : int
        Look-up tables.
    """

    def __init__(self, mapped: Mapped) -> None:
        blocks = self.blocks = mapped.blocks
        self.origin = mapped.gates.origin
        local = mapped.unit.module.name
        self.prefix = "" if local == TOP else f"{local}."
        self.best, self.luts = mapped.cover.best, len(mapped.cover.roots())
        sinks = zip(blocks.sinks, mapped.sinks, strict=True)
        self.node_of = {old >> 1: new >> 1 for old, new in sinks}
        self.carries: dict[tuple[int, int], int] = {}
        self.carry: dict[int, tuple[Block, int]] = {}
        self.free = len(mapped.gates.ands)
        self.arcs: dict[int, list[Arc]] = {}
        self.starts: dict[int, tuple[str, Steps]] = {}
        self.loads: Counter[int] = Counter()
        self.ends = list(self._ends())
        self.order = self._ordered()

    def _nodes(self, literals: Iterable[int]) -> Iterator[int]:
        """Yield the nodes of literals of the blocks that are no constants."""
        for literal in dict.fromkeys(literals):
            if literal > 1 and literal >> 1 in self.node_of:
                yield self.node_of[literal >> 1]

    def _ends(self) -> Iterator[_End]:
        """Yield the ends of paths, and count what each node drives besides look-up tables."""
        blocks = {id(block): block for block, _ in self.blocks.blocks.values() if block.live}
        for block in blocks.values():
            pins: list[tuple[int, Steps]] = []
            if isinstance(block, Late):
                steps = _CONTROL if block.type == "memory" else _DIRECT
                pins = [(pin, steps) for pin in dict.fromkeys(block.inputs)]
            elif block.type == "register":
                d, *controls = block.needs[0]
                pins = [(d, _DIRECT), *((pin, _CONTROL) for pin in controls)]
            else:
                rows = block.needs[: block.used] if block.ripples else block.needs[:1]
                for row in rows:
                    self.loads.update(self._nodes(row))
            for pin, steps in pins:
                for node in self._nodes([pin]):
                    self.loads[node] += 1
                    yield _End((node, steps), block.name or PORT)
        for port in self.blocks.module.ports:
            if port.output:
                for node in self._nodes(self.blocks.literals(port.bits)):
                    yield _End((node, _DIRECT), port.name, outside=True)

    def _ordered(self) -> list[int]:
        """Return the nodes that ends depend on; loops are cut."""

        def into(node: int) -> Iterator[int]:
            result = self.arcs[node] = self._into(node)
            return (source for source, _ in result)

        return postorder((end.arc[0] for end in self.ends), into)

    def _into(self, node: int) -> list[Arc]:
        """Return the arcs to a node; it is a start if that is noted."""
        if node in self.best:
            leaves = [leaf for leaf in self.best[node] if leaf]
            self.loads.update(leaves)
            return [(leaf, _LUT) for leaf in leaves]
        if node in self.carry:
            return self._carried(*self.carry[node])
        block, index = self.blocks.blocks.get(self.origin.get(node, -1), (None, 0))
        if block is None or block.type in ("register", "instance"):
            self.starts[node] = (block.name if block else "") or PORT, _REGISTER
            return []
        if block.type == "chain":
            return [(self._carry_of(block, index), _DIRECT)]
        if block.type == "memory":
            if not block.addresses[index]:
                self.starts[node] = block.name, _MEMORY
                return []
            self.starts[node] = block.name, _REGISTER
            address = self.blocks.literals(block.addresses[index])
            return [(source, _READ) for source in self._nodes(address)]
        if block.type == "compare":
            bits = len(block.needs[0])
            return [
                (source, {**_CHAIN, "chain_bit": (bits - position) / 2})
                for position, literal in enumerate(block.needs[0])
                for source in self._nodes([literal])
            ]
        steps = _DSP if block.type == "dsp" else _DIRECT
        return [(source, steps) for source in self._nodes(block.needs[index])]

    def _carry_of(self, block: Block, index: int) -> int:
        """Return the node of a carry."""
        key = (id(block), index)
        if key not in self.carries:
            self.carries[key] = self.free
            self.carry[self.free] = (block, index)
            self.free += 1
        return self.carries[key]

    def _carried(self, block: Block, index: int) -> list[Arc]:
        result: list[Arc] = [(source, _CHAIN) for source in self._nodes(block.needs[index])]
        if index:
            result.append((self._carry_of(block, index - 1), _BIT))
        return result


class Network:
    """Network of a design mapped to an FPGA family, for the path that limits its clock.

    Units of a large design (`cost_model.netlist.fabric.flat`) are looked at one by one, as if there
    were registers between them.

    Parameters
    ----------
    design : Netlist
    fabric : Fabric

    Attributes
    ----------
    luts : int
        Look-up tables of the design.
    extent : float
        Doublings of them beyond a few.
    """

    def __init__(self, design: Netlist, fabric: Fabric) -> None:
        parts = mapped(design, fabric)
        self.units = [_Unit(part) for part in parts]
        counts = [part.unit.count for part in parts]
        self.luts = sum(unit.luts * n for unit, n in zip(self.units, counts, strict=True))
        self.extent = max(0.0, log2(max(self.luts, 1) / SMALL))

    def limiting(self, ns: Mapping[str, float]) -> Path | None:
        """Return the slowest path, None if there is none.

        Parameters
        ----------
        ns : mapping
            How long each kind of step takes (`STEPS`).
        """
        paths = [path for unit in self.units if (path := self._slowest(unit, Costs(ns)))]
        return max(paths, key=lambda path: path.period_ns, default=None)

    def _wired(self, unit: _Unit, source: int, steps: Steps) -> Steps:
        """Return the steps of an arc with those that its wire takes more for being long."""
        wires = sum(steps.get(step, 0.0) for step in _WIRES)
        if not wires:
            return steps
        return {**steps, "fanout": spread(unit.loads[source]), "extent": wires * self.extent}

    def _slowest(self, unit: _Unit, costs: Costs) -> Path | None:
        at: dict[int, float] = {}
        cause: dict[int, Arc] = {}

        def later(arc: Arc) -> float:
            source, steps = arc
            return at.get(source, -inf) + costs.of(self._wired(unit, source, steps))

        for node in unit.order:
            arcs = unit.arcs[node]
            start = unit.starts.get(node)
            at[node] = costs.of(start[1]) if start else -inf
            if arcs:
                arc = max(arcs, key=later)
                if (time := later(arc)) > at[node]:
                    at[node], cause[node] = time, arc
        if not unit.ends:
            return None
        end = max(unit.ends, key=lambda each: later(each.arc))
        period = later(end.arc)
        if period == -inf:
            return None
        stages, node = [self._wired(unit, *end.arc)], end.arc[0]
        while node in cause:
            stages.append(self._wired(unit, *cause[node]))
            node = cause[node][0]
        name, first = unit.starts[node]
        stages.append(first)
        result = tuple(Stage(each) for each in reversed(stages) if each)
        outside = (name == PORT) + end.outside if not unit.prefix else 0
        return Path(period, unit.prefix + name, unit.prefix + end.name, result, outside)
