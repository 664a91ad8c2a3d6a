# SPDX-License-Identifier: Apache-2.0
"""Sizes of cells on critical paths, and of those that can be smaller.

A cell of a module has one size wherever the module occurs.  `enlarge` makes cells on the worst
paths larger until the clock is met or nothing helps, `reduce` makes cells smaller where there is
time left.  Both take back what does not hold in a new analysis of the whole netlist.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from flows.synthesis.sizing.cell_timing import Floats
from flows.synthesis.sizing.netlist_timing import Ints, Times, TimingGraph

ROUNDS = 24
"""Analyses that `enlarge` makes at most."""

WINDOW = 0.03
"""Part of the period that paths may be faster than the worst and still be improved with it."""

REDUCTIONS = (0.4, 0.3)
"""Share of a cell's slack that each round of `reduce` lets it use."""

REPAIRS = 4
"""Analyses after which a round of `reduce` that is still too slow is taken back."""

TOLERANCE = 1e-3
"""Part of the period by which a round of `reduce` may make the worst path longer."""

FEW = 2
"""Changes that do not help are not tried again if they are so few."""

Flags = NDArray[np.bool_]

SLACK = 0.005
"""Slack, in units of the period, that `reduce` leaves."""


class Sizer:
    """Sizes of the masters of a graph.

    Parameters
    ----------
    graph : TimingGraph
        Its `types` are changed.
    """

    def __init__(self, graph: TimingGraph) -> None:
        self.graph = graph
        tables = graph.tables
        groups = {tuple(group): number for number, group in enumerate(
            {tuple(group): None for group in tables.families.values()})}  # fmt: skip
        self._family = np.array([groups[tuple(tables.families[name])] for name in tables.names])
        self._members = [np.array([tables.number[name] for name in group]) for group in groups]
        self._rank = np.zeros(len(tables.names), dtype=np.int64)
        for members in self._members:
            self._rank[members] = np.arange(len(members))
        longest = max(map(len, self._members), default=1)
        self._table = np.array([
            [*members, *[members[-1]] * (longest - len(members))] for members in self._members
        ])  # fmt: skip
        self._sizes = np.array(list(map(len, self._members)))
        nets = np.concatenate([graph.checks[:, 0], graph.outputs])
        self._ends = np.unique(np.concatenate([2 * nets, 2 * nets + 1]))

    def enlarge(self) -> Times:
        """Make cells on the worst paths larger; return the times then."""
        graph = self.graph
        times = graph.time()
        share, useless = 1.0, np.zeros(len(graph.masters), dtype=bool)
        for _ in range(ROUNDS):
            if times.worst >= 0 or not math.isfinite(times.worst):
                break
            masters, types, gains = self._improvements(times, useless)
            if not len(masters):
                break
            most = max(1, int(share * len(masters)))
            chosen = np.argsort(-gains, kind="stable")[:most]
            before = graph.types.copy()
            graph.types[masters[chosen]] = types[chosen]
            after = graph.time()
            bound = times.worst + WINDOW * graph.constraints.period
            better = self._lateness(after, bound) < self._lateness(times, bound)
            if better and after.worst >= times.worst:
                times, share = after, min(1.0, share * 2)
                useless[:] = False
                continue
            graph.types = before
            if most <= FEW:
                useless[masters[chosen]] = True
            share /= 3
        return times

    def _lateness(self, times: Times, bound: float) -> float:
        """Return by how much paths that are about the worst end later than the others."""
        late = np.maximum(bound - times.slack[self._ends], 0.0)
        return float((late * late).sum())

    def _improvements(self, times: Times, useless: Flags) -> tuple[Ints, Ints, Floats]:
        """Return masters on the worst paths, sizes that are faster, and by how much."""
        graph, tables = self.graph, self.graph.tables
        window = times.worst + WINDOW * graph.constraints.period
        through = times.required[graph.to_node] - times.arrival[graph.from_node] - times.delay
        edges = np.flatnonzero(through <= window)
        masters, index = graph.edges[edges, 2], graph.edges[edges, 3]
        effect, slope, more_slew = (np.zeros(2 * graph.nets) for _ in range(3))
        np.maximum.at(effect, graph.from_node[edges], times.effect[edges])
        np.maximum.at(slope, graph.to_node[edges], times.slope[edges])
        np.maximum.at(more_slew, graph.to_node[edges], times.transition_slope[edges])
        slope += more_slew * effect  # of what drives a node, until the end of the next cell
        types = graph.types[masters]
        loads, slews = times.loads[graph.edges[edges, 1]], times.slew[graph.from_node[edges]]
        own, cost, best = times.delay[edges], np.zeros(len(graph.masters)), graph.types.copy()
        pins = self._pin_of_edge()[graph.edge_tables()[edges]]
        for step in (1, 2):
            rank = np.minimum(self._rank[types] + step, self._sizes[self._family[types]] - 1)
            larger = self._table[self._family[types], rank]
            delay, transition = tables.at(tables.first_edge[larger] + index, loads, slews)
            more = tables.loads[larger, pins] - tables.loads[types, pins]
            change = delay - own + more * slope[graph.from_node[edges]]
            change += (transition - times.transition[edges]) * effect[graph.to_node[edges]]
            worst = np.full(len(graph.masters), -np.inf)
            np.maximum.at(worst, masters, change)
            proposal = graph.types.copy()
            proposal[masters] = larger
            better = (worst < cost) & np.isfinite(worst) & (proposal != graph.types)
            cost[better], best[better] = worst[better], proposal[better]
        changed = np.flatnonzero((cost < -1e-5 * graph.constraints.period) & ~useless)
        return changed, best[changed], -cost[changed]

    def reduce(self, times: Times, worst: float = math.inf) -> Times:
        """Make cells smaller where there is time left; return the times then.

        Parameters
        ----------
        times : Times
            As they are.
        worst : float
            The worst slack that is enough; less if it is less already.
        """
        graph, goal = self.graph, min(times.worst, worst)
        for share in REDUCTIONS:
            before, earlier = graph.types.copy(), times
            self._smaller(times, goal, share)
            for _ in range(REPAIRS):
                times = graph.time()
                if times.worst >= goal - TOLERANCE * graph.constraints.period:
                    break
                self._restore(times, goal, before)
            else:
                graph.types, times = before, earlier
        return times

    def _restore(self, times: Times, goal: float, before: Ints) -> None:
        """Give cells on paths that are late their sizes back, and those that drive such cells."""
        graph = self.graph
        late = np.zeros(len(graph.masters), dtype=bool)
        late[graph.edges[times.slack[graph.to_node] < goal, 2]] = True
        feeding = np.zeros(graph.nets, dtype=bool)
        feeding[graph.edges[late[graph.edges[:, 2]], 0]] = True
        late[graph.edges[feeding[graph.edges[:, 1]], 2]] = True
        graph.types = np.where(late, before, graph.types)

    def _smaller(self, times: Times, goal: float, share: float) -> None:
        graph, tables = self.graph, self.graph.tables
        edges = graph.edges
        spare = share * (
            times.required[graph.to_node] - times.arrival[graph.from_node] - times.delay - goal
            - SLACK * graph.constraints.period
        )  # fmt: skip
        spare = np.where(np.isfinite(spare), spare, np.inf)
        loads, slews = times.loads[edges[:, 1]], times.slew[graph.from_node]
        for step in (2, 1):
            types = graph.types
            rank = np.maximum(self._rank - step, 0)
            candidate = self._table[self._family, rank][types]
            allowed = tables.areas[candidate] < tables.areas[types] - 1e-9
            heavier = tables.loads[candidate].sum(axis=1) > tables.loads[types].sum(axis=1) * 1.001
            allowed &= ~heavier
            mine = allowed[edges[:, 2]]
            numbers = np.flatnonzero(mine)
            smaller = candidate[edges[numbers, 2]]
            delay, _ = tables.at(
                tables.first_edge[smaller] + edges[numbers, 3], loads[numbers], slews[numbers]
            )
            late = delay - times.delay[numbers] > spare[numbers]
            heavy = loads[numbers] > tables.limits[smaller]
            refused = edges[numbers[late | heavy], 2]
            allowed[refused] = False
            graph.types = np.where(allowed, candidate, types)
            spare = np.where(allowed[edges[:, 2]], 0.0, spare)

    def _pin_of_edge(self) -> Ints:
        tables = self.graph.tables
        return np.array([
            tables.pins[name].index(edge.source) if edge.source in tables.pins[name] else 0
            for name in tables.names for edge in tables.edges[name]
        ], dtype=np.int64)  # fmt: skip

    def write(self) -> int:
        """Write the sizes into the netlist and return how many changed."""
        graph, changed = self.graph, 0
        for master, cell_type in zip(graph.masters, graph.types, strict=True):
            cell = graph.modules[master.module]["cells"][master.cell]
            name = graph.tables.names[cell_type]
            changed += cell["type"] != name
            cell["type"] = name
        return changed
