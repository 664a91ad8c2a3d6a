# SPDX-License-Identifier: Apache-2.0
"""Static timing of a mapped netlist in which modules occur many times.

The netlist is what ``write_json`` of Yosys writes.  Every instance is timed where it is, and
nothing is flattened in the netlist: a cell of a module that occurs a hundred times is one *master*
with a hundred places, and a change of its size holds for all of them.  Wires have no delay, but may
have a load, and the clock is ideal; `flows.synthesis.timing` has the last word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flows.synthesis.sizing.cell_timing import Edge, Floats, Table, TimedCell, families
from hwgen.technologies.model import StandardCells

Netlist = dict[str, Any]
Ints = NDArray[np.int64]

_CONSTANT = 0
"""The net of constants and of what is open."""


class Master(NamedTuple):
    """A cell of a module."""

    module: str
    cell: str


class Constraints(NamedTuple):
    """Clock and surroundings of a design.

    Parameters
    ----------
    clock : str
        The clock port.
    period, outside : float
        Clock period in ns, and the part of it that inputs and outputs need outside.
    """

    clock: str
    period: float
    outside: float


class CellTables:
    """The tables of all cells as arrays, numbered in the order of families' edges."""

    def __init__(self, cells: Mapping[str, TimedCell]) -> None:
        self.cells = cells
        self.names = list(cells)
        self.number = {name: index for index, name in enumerate(self.names)}
        self.families = families(cells)
        self.pins = {name: sorted(cell.inputs) for name, cell in cells.items()}
        self.edges: dict[str, list[Edge]] = {n: sorted(cell.edges) for n, cell in cells.items()}
        width = max(map(len, self.pins.values()), default=1)
        self.loads = np.zeros((len(self.names), max(width, 1)))
        self.first_edge = np.zeros(len(self.names), dtype=np.int64)
        tables: list[Table] = []
        for index, name in enumerate(self.names):
            for pin, load in sorted(cells[name].inputs.items()):
                self.loads[index, self.pins[name].index(pin)] = load
            self.first_edge[index] = len(tables)
            tables += [cells[name].edges[edge] for edge in self.edges[name]]
        self.areas = np.array([cells[name].area for name in self.names])
        self.limits = np.array([min(cells[n].limits.values(), default=np.inf) for n in self.names])
        slews = max((len(table.slews) for table in tables), default=2)
        loads = max((len(table.loads) for table in tables), default=2)
        self.slews = np.array([_axis(table.slews, max(slews, 2)) for table in tables])
        self.load_axis = np.array([_axis(table.loads, max(loads, 2)) for table in tables])
        shape = (max(slews, 2), max(loads, 2))
        self.delays = np.array([_padded(table.delays, shape) for table in tables])
        self.transitions = np.array([_padded(table.transitions, shape) for table in tables])

    def rows(self, tables: Ints, loads: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return delays and transitions over the slew with a load, and both per load."""
        index, share, step = _positions(self.load_axis[tables], loads)
        results, slopes = [], []
        for values in (self.delays, self.transitions):
            low, high = (values[tables, :, index + i] for i in (0, 1))
            results.append(low + (high - low) * share[:, None])
            slopes.append(((high - low) / step[:, None]).mean(axis=1))
        return results[0], results[1], slopes[0], slopes[1]

    def at(self, tables: Ints, loads: Floats, slews: Floats) -> tuple[Floats, Floats]:
        """Return delays and transitions with loads and slews."""
        delays, transitions, _, _ = self.rows(tables, loads)
        index, share, _ = _positions(self.slews[tables], slews)
        every = np.arange(len(tables))
        delay, transition = (
            rows[every, index] + (rows[every, index + 1] - rows[every, index]) * share
            for rows in (delays, transitions)
        )
        return delay, transition


def _axis(values: Floats, length: int) -> Floats:
    last = values[-1] if len(values) else 0.0
    return np.concatenate([values, last + 1e6 * np.arange(1, length - len(values) + 1)])


def _padded(values: Floats, shape: tuple[int, int]) -> Floats:
    more = [(0, size - have) for size, have in zip(shape, values.shape, strict=True)]
    return np.pad(values, more, mode="edge")


def _positions(axes: Floats, values: Floats) -> tuple[Ints, Floats, Floats]:
    """Return the interval of each axis that a value is in, the share of it, and its length."""
    last = axes.shape[1] - 2
    index = np.clip((axes <= values[:, None]).sum(axis=1) - 1, 0, last)
    every = np.arange(len(axes))
    low = axes[every, index]
    step = axes[every, index + 1] - low
    return index, (values - low) / step, step


@dataclass(frozen=True)
class _Local:
    """A module by itself: its nets, what its cells join, and the modules in it."""

    nets: dict[int, int]
    pins: Ints  # net, cell, pin of the cell
    edges: Ints  # net, net, cell, edge of the family, whether the source and the output rise
    checks: Ints  # net, cell, pin of the cell
    children: list[tuple[str, list[tuple[int, int]]]]
    masters: list[Master]


class TimingGraph:
    """A netlist to be timed.

    Parameters
    ----------
    modules : mapping
        Modules of the netlist by name.
    top : str
    tables : CellTables
        All cells of the netlist, macros as well.
    tech : StandardCells
    constraints : Constraints
    wire_ff : mapping, optional
        Load of the wires of nets of the top module, by the bits in its JSON, in fF; default none.
    """

    def __init__(
        self,
        modules: Mapping[str, Netlist],
        top: str,
        tables: CellTables,
        tech: StandardCells,
        constraints: Constraints,
        wire_ff: Mapping[int, float] | None = None,
    ) -> None:
        self.modules, self.top, self.tables = modules, top, tables
        self.tech, self.constraints = tech, constraints
        self.masters: list[Master] = []
        self._locals: dict[str, _Local] = {}
        self._offsets: dict[str, int] = {}
        self._flatten()
        self.types = np.array(
            [tables.number[modules[m.module]["cells"][m.cell]["type"]] for m in self.masters],
            dtype=np.int64,
        )
        self.number = {master: index for index, master in enumerate(self.masters)}
        self._wire_loads = np.zeros(self.nets)
        for bit, load in (wire_ff or {}).items():
            self._wire_loads[self._bits[top][bit]] = load
        self._order()

    def local_nets(self, module: str) -> Mapping[int, int]:
        """Return the nets of an instance of a module, by the bits in its JSON."""
        return self._bits[module]

    def _local(self, name: str) -> _Local:
        module = self.modules[name]
        nets: dict[int, int] = {}

        def net(bit: int | str) -> int:
            return nets.setdefault(bit, len(nets) + 1) if isinstance(bit, int) else _CONSTANT

        pins: list[tuple[int, int, int]] = []
        edges: list[tuple[int, int, int, int, int, int]] = []
        checks: list[tuple[int, int, int]] = []
        children: list[tuple[str, list[tuple[int, int]]]] = []
        masters: list[Master] = []
        for port in module["ports"].values():
            for bit in port["bits"]:
                net(bit)
        for cell_name, cell in module["cells"].items():
            cell_type, connections = cell["type"], cell["connections"]
            if cell_type in self.modules:
                ports = self.modules[cell_type]["ports"]
                bound = [
                    (inner, net(outer))
                    for port, bits in connections.items()
                    for inner, outer in zip(ports[port]["bits"], bits, strict=False)
                    if isinstance(inner, int)
                ]
                children.append((cell_type, bound))
                continue
            if cell_type not in self.tables.number:
                continue
            number = len(masters)
            masters.append(Master(name, cell_name))
            timed = self.tables.cells[cell_type]
            order = self.tables.pins[cell_type]
            local = {port: [net(bit) for bit in bits] for port, bits in connections.items()}
            for index, pin in enumerate(order):
                pins += [(bit, number, index) for bit in local.get(pin, ())]
                if (pin, True) in timed.setups or (pin, False) in timed.setups:
                    checks += [(bit, number, index) for bit in local.get(pin, ())]
            for index, edge in enumerate(self.tables.edges[cell_type]):
                edges += [
                    (source, output, number, index, edge.source_rises, edge.output_rises)
                    for source in local.get(edge.source, ())
                    for output in local.get(edge.output, ())
                ]
        return _Local(nets, _array(pins, 3), _array(edges, 6), _array(checks, 3), children, masters)

    def _flatten(self) -> None:
        pins, edges, checks = [], [], []
        count = 1
        joined: list[tuple[int, int]] = []
        self._bits: dict[str, dict[int, int]] = {}
        top: dict[int, int] = {}
        waiting: list[tuple[str, dict[int, int]]] = [(self.top, top)]
        while waiting:
            name, bound = waiting.pop()
            if name not in self._locals:
                self._locals[name] = self._local(name)
                self._offsets[name] = len(self.masters)
                self.masters += self._locals[name].masters
            local, offset = self._locals[name], self._offsets[name]
            nets = np.zeros(len(local.nets) + 1, dtype=np.int64)
            for bit, index in local.nets.items():
                if bit in bound:
                    nets[index] = bound[bit]
                else:
                    nets[index] = count
                    count += 1
            if name not in self._bits:
                self._bits[name] = {bit: int(nets[index]) for bit, index in local.nets.items()}
            pins.append(np.stack([nets[local.pins[:, 0]], local.pins[:, 1] + offset,
                                  local.pins[:, 2]], axis=1))  # fmt: skip
            edges.append(np.concatenate([
                nets[local.edges[:, :2]], local.edges[:, 2:3] + offset, local.edges[:, 3:]
            ], axis=1))  # fmt: skip
            checks.append(np.stack([nets[local.checks[:, 0]], local.checks[:, 1] + offset,
                                    local.checks[:, 2]], axis=1))  # fmt: skip
            for child, pairs in local.children:
                inside: dict[int, int] = {}
                for inner, outer in pairs:
                    mine = int(nets[outer])
                    if inner in inside and inside[inner] != mine:
                        joined.append((inside[inner], mine))  # a wire through the module
                    inside[inner] = mine
                waiting.append((child, inside))
        root = _roots(count, joined)
        self.nets = count
        self._bits = {
            name: {bit: int(root[net]) for bit, net in bits.items()}
            for name, bits in self._bits.items()
        }
        self.pins, self.edges = np.concatenate(pins), np.concatenate(edges)
        self.checks = np.concatenate(checks)
        for array, columns in ((self.pins, 1), (self.edges, 2), (self.checks, 1)):
            array[:, :columns] = root[array[:, :columns]]
        self.edges = self.edges[(self.edges[:, 0] != _CONSTANT) & (self.edges[:, 1] != _CONSTANT)]
        bits = self._bits[self.top]
        self.inputs, self.outputs = (
            np.array([bits[bit] for port in self.modules[self.top]["ports"].values()
                      if port["direction"] == direction for bit in port["bits"]
                      if isinstance(bit, int)], dtype=np.int64)
            for direction in ("input", "output")
        )  # fmt: skip
        self.clock = bits[self.modules[self.top]["ports"][self.constraints.clock]["bits"][0]]

    def _order(self) -> None:
        """Order edges by levels: nets are as many edges away from where paths begin."""
        sources, outputs = self.edges[:, 0], self.edges[:, 1]
        missing = np.bincount(outputs, minlength=self.nets)
        by_source = np.argsort(sources, kind="stable")
        starts = np.searchsorted(sources[by_source], np.arange(self.nets + 1))
        level = np.full(self.nets, -1)
        front = np.flatnonzero(missing == 0)
        depth = 0
        while len(front):
            level[front] = depth
            counts = starts[front + 1] - starts[front]
            first = np.repeat(starts[front] - np.cumsum(counts) + counts, counts)
            reached = outputs[by_source[first + np.arange(counts.sum())]]
            np.subtract.at(missing, reached, 1)
            reached = np.unique(reached)
            front = reached[missing[reached] == 0]
            depth += 1
        self.edges = self.edges[(level[sources] >= 0) & (level[outputs] >= 0)]
        to_node = 2 * self.edges[:, 1] + self.edges[:, 5]
        order = np.lexsort((to_node, level[self.edges[:, 1]]))
        self.edges = self.edges[order]
        self.from_node = 2 * self.edges[:, 0] + self.edges[:, 4]
        self.to_node = 2 * self.edges[:, 1] + self.edges[:, 5]
        self._forward = _runs(level[self.edges[:, 1]], self.to_node)
        from_level = level[self.edges[:, 0]]
        self._back_order = np.lexsort((self.from_node, -from_level))
        self._backward = _runs(-from_level[self._back_order], self.from_node[self._back_order])

    def net_loads(self) -> Floats:
        """Return the load of every net."""
        weights = self.tables.loads[self.types[self.pins[:, 1]], self.pins[:, 2]]
        loads = self._wire_loads.copy()
        np.add.at(loads, self.pins[:, 0], weights)
        np.add.at(loads, self.outputs, self.tech.load_ff)
        loads[_CONSTANT] = 0.0
        return loads

    def edge_tables(self) -> Ints:
        """Return the table of every edge with the sizes as they are."""
        numbers: Ints = self.tables.first_edge[self.types[self.edges[:, 2]]] + self.edges[:, 3]
        return numbers

    def time(self, limits: Floats | None = None, extra: Floats | None = None) -> Times:
        """Time the netlist.

        Parameters
        ----------
        limits : array, optional
            Loads that nets have at most.
        extra : array, optional
            Delay that is added to nets.
        """
        loads = self.net_loads()
        seen = loads if limits is None else np.minimum(loads, limits)
        tables = self.edge_tables()
        delay_rows, slew_rows, slopes, slew_slopes = self.tables.rows(
            tables, seen[self.edges[:, 1]]
        )
        axes = self.tables.slews[tables]
        added = np.zeros(len(tables)) if extra is None else extra[self.edges[:, 1]]
        nodes = 2 * self.nets
        arrival, slew = np.full(nodes, -np.inf), np.zeros(nodes)
        self._begin(arrival, slew, seen)
        delay, change, effect = (np.zeros(len(tables)) for _ in range(3))
        for run in self._forward:
            part = run.part
            source = self.from_node[part]
            index, share, step = _positions(axes[part], slew[source])
            every = np.arange(part.start, part.stop)
            low, high = delay_rows[every, index], delay_rows[every, index + 1]
            delay[part] = low + (high - low) * share + added[part]
            effect[part] = (high - low) / step
            low = slew_rows[every, index]
            out = change[part] = low + (slew_rows[every, index + 1] - low) * share
            reached = arrival[source] + delay[part]
            out = np.where(np.isfinite(reached), out, 0.0)
            arrival[run.nodes] = np.maximum(
                arrival[run.nodes], np.maximum.reduceat(reached, run.starts)
            )
            slew[run.nodes] = np.maximum(slew[run.nodes], np.maximum.reduceat(out, run.starts))
        required = np.full(nodes, np.inf)
        self._end(required, slew)
        for run in self._backward:
            edges = self._back_order[run.part]
            needed = required[self.to_node[edges]] - delay[edges]
            required[run.nodes] = np.minimum(
                required[run.nodes], np.minimum.reduceat(needed, run.starts)
            )
        return Times(
            loads, arrival, slew, required, delay, change, slopes, slew_slopes, effect
        )  # fmt: skip

    def _begin(self, arrival: Floats, slew: Floats, loads: Floats) -> None:
        """Set when inputs arrive: their driver takes longer the more it drives."""
        driver = self.tables.cells[self.tech.driver]
        table = max(driver.edges.values(), key=lambda table: float(table.delays.mean()))
        unloaded = table.at(0.0, 0.0)[0]
        early = self.constraints.period * self.constraints.outside
        for net in np.unique(self.inputs):
            delay, transition = table.at(0.0, float(loads[net]))
            for node in (2 * net, 2 * net + 1):
                arrival[node], slew[node] = early + max(delay - unloaded, 0.0), transition
        for node in (2 * self.clock, 2 * self.clock + 1):
            arrival[node], slew[node] = 0.0, 0.0

    def _end(self, required: Floats, slew: Floats) -> None:
        period = self.constraints.period
        late = period * (1 - self.constraints.outside)
        for rises in (0, 1):
            nodes = 2 * self.outputs + rises
            required[nodes] = np.minimum(required[nodes], late)
            nodes = 2 * self.checks[:, 0] + rises
            setup = np.zeros(len(nodes))
            for cell_type in np.unique(self.types[self.checks[:, 1]]):
                name = self.tables.names[cell_type]
                for index, pin in enumerate(self.tables.pins[name]):
                    check = self.tables.cells[name].setups.get((pin, bool(rises)))
                    if check is None:
                        continue
                    mine = (self.types[self.checks[:, 1]] == cell_type) & (
                        self.checks[:, 2] == index
                    )
                    setup[mine] = np.interp(slew[nodes[mine]], *check)
            np.minimum.at(required, nodes, period - setup)


@dataclass(frozen=True)
class Times:
    """Result of `TimingGraph.time`.

    Parameters
    ----------
    loads : array
        Of every net.
    arrival, slew, required : array
        Of every node: 2 n is the fall of net n, 2 n + 1 its rise.
    delay, transition : array
        Of every edge.
    slope, transition_slope : array
        By how much they grow with the load.
    effect : array
        By how much the delay of an edge grows with the slew of its source.
    """

    loads: Floats
    arrival: Floats
    slew: Floats
    required: Floats
    delay: Floats
    transition: Floats
    slope: Floats
    transition_slope: Floats
    effect: Floats

    @cached_property
    def slack(self) -> Floats:
        """Slack of every node; infinite where no path leads through."""
        with np.errstate(invalid="ignore"):
            slack = self.required - self.arrival
        return np.where(np.isfinite(slack), slack, np.inf)

    @property
    def worst(self) -> float:
        """The worst slack."""
        return float(self.slack.min(initial=np.inf))


@dataclass(frozen=True)
class _Run:
    """Edges of one level: which, the nodes they share, and where those of each begin."""

    part: slice
    nodes: Ints
    starts: Ints


def _runs(levels: Ints, nodes: Ints) -> list[_Run]:
    bounds = [0, *(np.flatnonzero(np.diff(levels)) + 1), len(levels)]
    return list(_of_runs(bounds, nodes)) if len(levels) else []


def _of_runs(bounds: list[int], nodes: Ints) -> Iterator[_Run]:
    for begin, end in pairwise(bounds):
        here = nodes[begin:end]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(here)) + 1])
        yield _Run(slice(int(begin), int(end)), here[starts], starts)


def _roots(count: int, joined: list[tuple[int, int]]) -> Ints:
    root = np.arange(count)
    for one, other in joined:
        root[root == root[other]] = root[one]
    return root


def _array(rows: Sequence[tuple[int, ...]], width: int) -> Ints:
    return np.array(rows, dtype=np.int64).reshape(-1, width)
