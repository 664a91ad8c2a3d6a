# SPDX-License-Identifier: Apache-2.0
"""Trees of buffers for nets that drive much.

ABC drives a net with hundreds of sinks through a chain of buffers, each of which drives a few sinks
and the next buffer, and sees one module at a time.  `buffer_nets` takes its buffers away and makes
trees instead.  The sinks that can wait longest are put behind a buffer first, as many as it drives
well; the buffer is then a sink itself, which can wait less by its delay.  That way all sinks of a
net that are alike are equally deep, and those on critical paths stay near the driver.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from flows.synthesis.sizing.cell_timing import Floats, TimedCell
from flows.synthesis.sizing.netlist_timing import (
    CellTables,
    Constraints,
    Ints,
    Master,
    Netlist,
    TimingGraph,
)
from hwgen.technologies.model import StandardCells

BUFFER = "$buffer"
"""How the names of the cells begin that are inserted."""

SHARES = (1.0, 0.5, 0.25)
"""Loads that buffers of a tree may have, in units of the one that the technology states."""

SMALLER = 3
"""Sizes of buffers that trees are tried with: the technology's and those below it."""


class Sink(NamedTuple):
    """Reader of a net: a pin of a cell, or a port of the module.

    Parameters
    ----------
    bits : list
        The bits of the connection in the netlist; `position` is that of the sink.
    position : int
    load : float
    required : float
        When the signal must be there at the latest.
    """

    bits: list[Any]
    position: int
    load: float
    required: float


class BufferSize(NamedTuple):
    """A buffer that trees are made of.

    Parameters
    ----------
    cell, source, output : str
        The cell and its pins.
    area, input_load : float
    capacity : float
        Load up to which sinks are put behind it.
    delay : callable
        Delay with a load.
    """

    cell: str
    source: str
    output: str
    area: float
    input_load: float
    capacity: float
    delay: Callable[[float], float]


@dataclass
class Node:
    """A buffer of a tree: the sinks and buffers that it drives."""

    size: BufferSize
    inside: list[Sink | Node] = field(default_factory=list)


@dataclass(frozen=True)
class Tree:
    """Load of a driver: sinks, and the buffers that drive the other sinks.

    Parameters
    ----------
    load : float
        Of the driver.
    required : float
        When the signal must be at the driver's output at the latest.
    area : float
        Of the buffers.
    roots : list
        What the driver drives; empty while trees are compared.
    """

    load: float
    required: float
    area: float
    roots: list[Sink | Node] = field(default_factory=list)


def grow(sinks: Sequence[Sink], size: BufferSize, buffers: int | None = None) -> Iterator[Tree]:
    """Yield trees for a net, each with a buffer more than the one before.

    Parameters
    ----------
    sinks : sequence of Sink
    size : BufferSize
        The buffer to use.
    buffers : int, optional
        Yield only the tree with so many buffers, with its roots.
    """
    entries = [(-sink.required, index, sink.load) for index, sink in enumerate(sinks)]
    items: list[Sink | Node] = list(sinks)
    heapq.heapify(entries)
    total, area = sum(sink.load for sink in sinks), 0.0
    worst = min((sink.required for sink in sinks), default=math.inf)
    full = size.delay(size.capacity)
    for count in itertools.count():
        if buffers is None:
            yield Tree(total, worst, area)
        elif buffers == count:
            yield Tree(total, worst, area, [items[index] for _, index, _ in entries])
            return
        node, load, earliest = Node(size), 0.0, math.inf
        while entries and (not node.inside or load + entries[0][2] <= size.capacity):
            if load > size.input_load and earliest + entries[0][0] > full:
                break  # a sink that is so much earlier would make the others wait for nothing
            late, index, each = heapq.heappop(entries)
            node.inside.append(items[index])
            load, earliest = load + each, min(earliest, -late)
        if load <= size.input_load:
            return  # nothing is left that a buffer would make lighter
        required = earliest - size.delay(load)
        heapq.heappush(entries, (-required, len(items), size.input_load))
        items.append(node)
        total, area = total - load + size.input_load, area + size.area
        worst = min(worst, required)


def best_tree(
    sinks: Sequence[Sink],
    sizes: Sequence[BufferSize],
    delay: Callable[[float], float],
    limit: float,
    arrival: float,
    slack: float,
    step: float,
) -> Tree:
    """Return the tree for a net: the smallest that is fast enough, or the fastest.

    Parameters
    ----------
    sinks : sequence of Sink
    sizes : sequence of BufferSize
        Buffers to try.
    delay : callable
        Delay of the driver with a load.
    limit : float
        Load that the driver must not exceed.
    arrival : float
        When the signal would be at the driver's output without any load.
    slack : float
        What is fast enough.
    step : float
        Time that is worth another buffer.
    """
    best: tuple[tuple[float, float, float], BufferSize, int] | None = None
    for size in sizes:
        for count, tree in enumerate(grow(sinks, size)):
            excess = max(0.0, tree.load - limit)
            missing = max(0.0, slack - (tree.required - arrival - delay(tree.load)))
            rank = (excess, math.ceil(missing / step), tree.area)
            if best is None or rank < best[0]:
                best = rank, size, count
            if not excess and not missing:
                break
    assert best is not None
    return next(grow(sinks, best[1], best[2]))


def balanced(sinks: Sequence[Sink], spread: float) -> list[Sink]:
    """Return sinks none of which can wait longer than the first one by more than `spread`.

    Sinks that can wait for ever would make a chain of the buffers that they are behind, which takes
    no fewer of them than a tree.
    """
    latest = min((sink.required for sink in sinks), default=math.inf) + spread
    return [sink._replace(required=min(sink.required, latest)) for sink in sinks]


def collapse(module: Netlist, cells: Mapping[str, TimedCell]) -> int:
    """Take the buffers out of a module and return their number.

    Those between a port and another are left, so that no wire leads through the module.

    Parameters
    ----------
    module : dict
        The module as ``write_json`` of Yosys writes it, changed in place.
    cells : mapping
    """
    inputs, outputs = (
        {bit for port in module["ports"].values() if port["direction"] == direction
         for bit in port["bits"]}
        for direction in ("input", "output")
    )  # fmt: skip
    driver: dict[Any, tuple[Any, str]] = {}
    for name, cell in module["cells"].items():
        timed = cells.get(cell["type"])
        if timed is not None and (pins := timed.buffer_pins):
            (bit,), (output,) = (cell["connections"][pin] for pin in pins)
            if isinstance(bit, int):
                driver[output] = bit, name
    for output in outputs & driver.keys():
        if _root(output, driver) in inputs:
            del driver[output]
    for _, name in driver.values():
        del module["cells"][name]
    for named in (*module["ports"].values(), *module["netnames"].values()):
        named["bits"] = [_root(bit, driver) for bit in named["bits"]]
    for cell in module["cells"].values():
        cell["connections"] = {
            port: [_root(bit, driver) for bit in bits] for port, bits in cell["connections"].items()
        }
    return len(driver)


def _root(bit: Any, driver: Mapping[Any, tuple[Any, str]]) -> Any:
    while bit in driver:
        bit = driver[bit][0]
    return bit


@dataclass(frozen=True)
class _Curve:
    """Delay and transition of a cell over its load, with the slew of a signal on its path."""

    loads: Floats
    delays: Floats
    transitions: Floats

    def delay(self, load: float) -> float:
        if load > self.loads[-1]:
            slope = (self.delays[-1] - self.delays[-2]) / (self.loads[-1] - self.loads[-2])
            return float(self.delays[-1] + slope * (load - self.loads[-1]))
        return float(np.interp(load, self.loads, self.delays))

    def load_at(self, transition: float) -> float:
        """Return the load at which the output changes so slowly."""
        return float(np.interp(transition, self.transitions, self.loads))


def _curve(cell: TimedCell, output: str, slew: float) -> _Curve | None:
    """Return the slowest arc to an output; None if it has none that depends on the load."""
    tables = [t for edge, t in cell.edges.items() if edge.output == output and len(t.loads) > 1]
    if not tables:
        return None
    loads = max(tables, key=lambda table: float(table.loads[-1])).loads
    values = np.array([[table.at(slew, load) for load in loads] for table in tables])
    delays, transitions = values.max(axis=0).T
    return _Curve(loads, delays, np.maximum.accumulate(transitions))


class _Port(NamedTuple):
    """An input of a module as a sink, or an output as a driver.

    Parameters
    ----------
    load : float
        Of the input, or of what the output drives in the module.
    required : float
        Of an input.
    driver : tuple of int and str, or None
        Master that drives the output, and its pin.
    """

    load: float
    required: float = math.inf
    driver: tuple[int, str] | None = None


class TreeBuilder:
    """Buffer trees of a netlist.

    Parameters
    ----------
    modules : dict
        Modules of the netlist by name, without buffers; changed in place.
    top : str
    tables : CellTables
    tech : StandardCells
    constraints : Constraints
    """

    def __init__(
        self,
        modules: dict[str, Netlist],
        top: str,
        tables: CellTables,
        tech: StandardCells,
        constraints: Constraints,
    ) -> None:
        self.modules, self.top, self.tables, self.tech = modules, top, tables, tech
        strong = tables.cells[tech.buffer.cell]
        pins = tech.buffer.input, tech.buffer.output
        self._slew = strong.edges[next(iter(strong.edges))].at(0.0, tech.buffer.load_ff / 2)[1]
        curve = _curve(strong, pins[1], self._slew)
        assert curve is not None
        self._transition = float(np.interp(tech.buffer.load_ff, curve.loads, curve.transitions))
        self._curves: dict[tuple[str, str], _Curve | None] = {}
        self.sizes = self._sizes()
        stage = curve.delay(tech.buffer.load_ff / 2)
        gain = tech.buffer.load_ff / 2 / strong.inputs[pins[0]]
        self._per_decade = stage / math.log(max(gain, 2.0))
        self.graph = TimingGraph(modules, top, tables, tech, constraints)
        self._period = constraints.period
        limits, extra = self._estimated()
        self.times = self.graph.time(limits, extra)
        self._limits, self._extra = limits, extra
        margin = MARGIN * constraints.period
        self._enough = self.times.worst + margin
        self._pin_required = self._required()
        self._output_slack = self._slacks()
        self._ports: dict[str, dict[int, _Port]] = {}
        self.count = 0

    def build(self) -> int:
        """Insert buffers and return their number."""
        self._module(self.top)
        return self.count

    def _sizes(self) -> list[BufferSize]:
        buffer = self.tech.buffer
        stem = _stem(buffer.cell)
        family = self.tables.families[buffer.cell]
        names = [name for name in family if _stem(name) == stem]
        names = names[: names.index(buffer.cell) + 1][-SMALLER:]
        sizes = []
        for name in reversed(names):
            cell = self.tables.cells[name]
            curve = self._curve_of(name, buffer.output)
            assert curve is not None
            most = min(curve.load_at(self._transition), cell.limits[buffer.output])
            sizes += [
                BufferSize(
                    name, buffer.input, buffer.output, cell.area, cell.inputs[buffer.input],
                    most * share, curve.delay,
                )
                for share in SHARES
            ]  # fmt: skip
        return sizes

    def _curve_of(self, cell: str, output: str) -> _Curve | None:
        key = cell, output
        if key not in self._curves:
            self._curves[key] = _curve(self.tables.cells[cell], output, self._slew)
        return self._curves[key]

    def limit(self, cell: str, output: str) -> float:
        """Return the load that a cell drives well: a few gates, or what it moves quickly."""
        few = FEW * self.tech.load_ff
        curve = self._curve_of(cell, output)
        quick = curve.load_at(self._transition) if curve else self.tech.buffer.load_ff
        return min(max(quick, few), self.tables.cells[cell].limits.get(output, math.inf))

    def _estimated(self) -> tuple[Floats, Floats]:
        """Return the loads that nets have at most with trees, and the delays of these trees."""
        graph, tables = self.graph, self.tables
        limits = np.full(graph.nets, self.limit(self.tech.driver, self.tech.buffer.output))
        of_types = np.array([
            min((self.limit(name, pin) for pin in tables.cells[name].outputs), default=np.inf)
            for name in tables.names
        ])  # fmt: skip
        limits[graph.edges[:, 1]] = of_types[graph.types[graph.edges[:, 2]]]
        excess = np.maximum(graph.net_loads() / np.maximum(limits, 1e-9), 1.0)
        extra = np.log(excess) * self._per_decade
        extra[graph.clock] = 0.0
        return limits, extra

    def _required(self) -> Floats:
        """Return when signals must be at the pins of masters, whichever instance is the first."""
        graph, tables = self.graph, self.tables
        required = np.full((len(graph.masters), tables.loads.shape[1]), np.inf)
        pin_of_edge = _lookup(tables, lambda name, edge: tables.pins[name].index(edge.source))
        masters = graph.edges[:, 2]
        pins = pin_of_edge[graph.edge_tables()]
        needed = self.times.required[graph.to_node] - self.times.delay
        np.minimum.at(required, (masters, pins), needed)
        masters, pins = graph.checks[:, 1:].T
        for cell_type in np.unique(graph.types[masters]):
            cell = tables.cells[tables.names[cell_type]]
            for (pin, _), (_, values) in cell.setups.items():
                index = tables.pins[cell.name].index(pin)
                mine = (graph.types[masters] == cell_type) & (pins == index)
                setup = float(values[len(values) // 2])
                np.minimum.at(required, (masters[mine], pins[mine]), self._period - setup)
        return required

    def _slacks(self) -> dict[tuple[int, str], tuple[float, float]]:
        """Return of outputs of masters the worst slack and the delay that was assumed."""
        graph, tables = self.graph, self.tables
        slack = self.times.slack[graph.to_node]
        width = max(map(len, tables.edges.values()))
        worst = np.full((len(graph.masters), width), np.inf)
        slowest = np.zeros((len(graph.masters), width))
        places = graph.edges[:, 2], graph.edges[:, 3]
        np.minimum.at(worst, places, slack)
        np.maximum.at(slowest, places, self.times.delay)
        result: dict[tuple[int, str], tuple[float, float]] = {}
        for master, cell_type in enumerate(graph.types):
            for index, edge in enumerate(tables.edges[tables.names[cell_type]]):
                before = result.get((master, edge.output), (np.inf, 0.0))
                result[master, edge.output] = (
                    min(before[0], float(worst[master, index])),
                    max(before[1], float(slowest[master, index])),
                )
        return result

    def _module(self, name: str) -> dict[int, _Port]:
        """Make the trees of a module and of those in it; return its ports by their bits."""
        if name in self._ports:
            return self._ports[name]
        module, nets = self.modules[name], self.graph.local_nets(name)
        sinks: dict[int, list[Sink]] = defaultdict(list)
        drivers: dict[int, _Port] = {}
        for cell_name, cell in module["cells"].items():
            cell_type, connections = cell["type"], cell["connections"]
            if cell_type in self.modules:
                inside, ports = self._module(cell_type), self.modules[cell_type]["ports"]
                for port, bits in connections.items():
                    for position, bit in enumerate(bits[: len(ports[port]["bits"])]):
                        entry = inside.get(ports[port]["bits"][position])
                        if entry is None or not isinstance(bit, int):
                            continue
                        if ports[port]["direction"] == "output":
                            drivers[bit] = entry
                        elif entry.load:
                            sinks[bit].append(Sink(bits, position, entry.load, entry.required))
                continue
            master = self.graph.number.get(Master(name, cell_name))
            if master is None:
                continue
            timed = self.tables.cells[cell_type]
            for port, bits in connections.items():
                for position, bit in enumerate(bits):
                    if not isinstance(bit, int):
                        continue
                    if port in timed.outputs:
                        drivers[bit] = _Port(0.0, driver=(master, port))
                    elif port in timed.inputs:
                        pin = self.tables.pins[cell_type].index(port)
                        required = float(self._pin_required[master, pin])
                        sinks[bit].append(Sink(bits, position, timed.inputs[port], required))
        self._output_ports(name, sinks)
        free = 1 + max(_numbers(module))
        result: dict[int, _Port] = {}
        inputs = {
            bit for port in module["ports"].values() if port["direction"] == "input"
            for bit in port["bits"] if isinstance(bit, int)
        }  # fmt: skip
        before = {port: list(entry["bits"]) for port, entry in module["ports"].items()}
        for bit in sorted({*sinks, *drivers}):
            if nets[bit] == self.graph.clock:
                result[bit] = _Port(sum(sink.load for sink in sinks[bit]))
                continue
            tree = self._tree(nets[bit], drivers.get(bit), sinks[bit], bit in inputs)
            free = self._insert(module, bit, tree.roots, free)
            driver = drivers.get(bit)
            result[bit] = _Port(tree.load, tree.required, driver.driver if driver else None)
        for port, entry in module["ports"].items():
            if port in module["netnames"]:
                module["netnames"][port]["bits"] = list(entry["bits"])
            for old, new in zip(before[port], entry["bits"], strict=True):
                if old != new:  # the port is behind a buffer of its own
                    result[new] = _Port(0.0, driver=(_OUTSIDE, self.tech.buffer.output))
        self._ports[name] = result
        return result

    def _output_ports(self, name: str, sinks: dict[int, list[Sink]]) -> None:
        """Add the output ports of a module to the sinks of its nets."""
        nets = self.graph.local_nets(name)
        most = LIGHT * self.tech.load_ff
        for port in self.modules[name]["ports"].values():
            if port["direction"] != "output":
                continue
            for position, bit in enumerate(port["bits"]):
                if isinstance(bit, int):
                    net = nets[bit]
                    inside = sum(sink.load for sink in sinks[bit])
                    load = min(max(float(self.times.loads[net]) - inside, 0.0), most)
                    required = float(self.times.required[2 * net : 2 * net + 2].min())
                    sinks[bit].append(Sink(port["bits"], position, load, required))

    def _tree(self, net: int, driver: _Port | None, sinks: list[Sink], port: bool) -> Tree:
        """Return the tree for a net of a module."""
        load, required = sum(sink.load for sink in sinks), min(
            (sink.required for sink in sinks), default=math.inf
        )  # fmt: skip
        plain = Tree(load, required, 0.0, list(sinks))
        inside, source = (driver.load, driver.driver) if driver else (0.0, None)
        if source is None and not port:
            return plain  # nothing drives it
        slack = float(self.times.slack[2 * net : 2 * net + 2].min())
        master, output = source or (_OUTSIDE, self.tech.buffer.output)
        if master >= 0:
            cell = self.tables.names[self.graph.types[master]]
            slack, assumed = self._output_slack.get((master, output), (math.inf, 0.0))
            limit = self.limit(cell, output)
        else:
            cell = self.tech.driver if source is None else self.tech.buffer.cell
            limit = self.limit(self.tech.buffer.cell, output)
        curve = self._curve_of(cell, output)
        if master < 0:
            assumed = curve.delay(min(load, float(self._limits[net]))) if curve else 0.0
            assumed += float(self._extra[net])
        light = load + inside <= limit
        if len(sinks) < 2 or (light and slack > min(self._enough, 0.0)):
            return plain
        if not math.isfinite(slack) or not math.isfinite(required):
            slack, arrival = math.inf, -math.inf
        else:
            arrival = required - slack - assumed

        def delay(driven: float) -> float:
            return curve.delay(driven + inside) if curve else 0.0

        sinks = balanced(sinks, self.sizes[0].delay(self.sizes[0].capacity))
        return best_tree(
            sinks, self.sizes, delay, limit - inside, arrival, self._enough, STEP * self._period
        )

    def _insert(self, module: Netlist, bit: int, nodes: Iterable[Sink | Node], free: int) -> int:
        """Put the buffers of a tree behind a bit and return the next bit that is free."""
        for node in nodes:
            if isinstance(node, Sink):
                node.bits[node.position] = bit
                continue
            module["cells"][f"{BUFFER}${self.count}"] = {
                "hide_name": 1,
                "type": node.size.cell,
                "parameters": {},
                "attributes": {},
                "port_directions": {node.size.source: "input", node.size.output: "output"},
                "connections": {node.size.source: [bit], node.size.output: [free]},
            }
            self.count += 1
            free = self._insert(module, free, node.inside, free + 1)
        return free


_OUTSIDE = -1
"""Stands for the driver of a port, or for a buffer that was inserted."""

LIGHT = 4.0
"""What an output of a module drives at most in the eyes of the module, in units of the load that
the technology states; the module around it puts the rest behind buffers."""

FEW = 4.0
"""Load that any cell may have, in units of the load that the technology states, which is that of
about three gates."""

STEP = 0.005
"""Part of the period by which a tree must be faster to be preferred to a smaller one."""

MARGIN = 0.02
"""Part of the period by which paths shall be faster than the worst one."""


def _lookup(tables: CellTables, value: Callable[[str, Any], int]) -> Ints:
    return np.array(
        [value(name, edge) for name in tables.names for edge in tables.edges[name]], dtype=np.int64
    )


def _stem(name: str) -> str:
    """Return the name of a cell without digits."""
    return "".join(letter for letter in name if not letter.isdigit())


def _numbers(module: Netlist) -> Iterator[int]:
    yield 1  # 0 and 1 are never nets
    for named in (*module["ports"].values(), *module["netnames"].values()):
        yield from (bit for bit in named["bits"] if isinstance(bit, int))
    for cell in module["cells"].values():
        for bits in cell["connections"].values():
            yield from (bit for bit in bits if isinstance(bit, int))
