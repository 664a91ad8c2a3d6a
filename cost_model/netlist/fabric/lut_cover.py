# SPDX-License-Identifier: Apache-2.0
"""Look-up tables that cover a network of gates.

Gates of many inputs are divided such that their parts fill look-up tables (R. J. Francis et al.,
"Chortle-crf", DAC 1991); each gate then has a few cuts, sets of nodes that it is a function of,
and those that take the fewest look-up tables cover the network (A. Mishchenko et al.,
"Combinational and sequential mapping with priority cuts", ICCAD 2007).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import inf

from cost_model.netlist.fabric.gates import Gates, postorder

Cut = frozenset[int]

CUTS = 8
"""Cuts that are kept of each node."""

ROUNDS = 2
"""How often cuts are chosen anew by what they really save."""


def reached(gates: Gates, sinks: Iterable[int]) -> list[int]:
    """Return the nodes that literals depend on, inputs of a node before it."""

    def into(node: int) -> list[int]:
        inside = gates.ands[node] or [other for other, _ in gates.sources.get(node, ())]
        return [literal >> 1 for literal in inside]

    return postorder((literal >> 1 for literal in sinks), into, visited=(0,))


def balanced(gates: Gates, sinks: list[int], size: int) -> tuple[Gates, list[int]]:
    """Return an equal network whose gates of many inputs are divided to fill look-up tables.

    Parameters
    ----------
    gates : Gates
    sinks : list of int
        The literals that are needed.
    size : int
        Inputs of a look-up table.
    """
    order = reached(gates, sinks)
    reads: Counter[int] = Counter(literal >> 1 for literal in sinks)
    reads.update(reads)  # they are made, whoever else reads them
    for node in order:
        for literal in gates.ands[node] or ():
            reads[literal >> 1] += 1
    inside_of = {node for node in order if _is_inside(gates, node, reads)}
    joined = {
        literal >> 1
        for node in order
        for literal in gates.ands[node] or ()
        if not literal & 1 and literal >> 1 in inside_of
    }
    result = Gates()
    new: dict[int, int] = {0: 0}
    levels: list[int] = [0]
    for node in order:
        result.owner = gates.owners[node]
        if gates.ands[node] is None:
            literal = new[node] = result.input()
            result.origin[literal >> 1] = node
            levels.append(0)
            result.sources[literal >> 1] = [
                (new[other >> 1] ^ (other & 1), late) for other, late in gates.sources.get(node, ())
            ]
        elif node not in joined:
            leaves = [new[leaf >> 1] ^ (leaf & 1) for leaf in _leaves(gates, node, joined)]
            new[node] = _joined(result, leaves, levels)
    return result, [new[literal >> 1] ^ (literal & 1) for literal in sinks]


def _joined(gates: Gates, literals: list[int], levels: list[int]) -> int:
    """Return the and of literals, of those first that there are gates in front of fewest."""
    heap = [(levels[literal >> 1], literal) for literal in set(literals)]
    heapify(heap)
    while len(heap) > 1:
        _, a = heappop(heap)
        _, b = heappop(heap)
        both = gates.both(a, b)
        for node in range(len(levels), len(gates.ands)):
            x, y = gates.ands[node] or (0, 0)
            levels.append(1 + max(levels[x >> 1], levels[y >> 1]))
        heappush(heap, (levels[both >> 1], both))
    return heap[0][1]


def _is_inside(gates: Gates, node: int, reads: Counter[int]) -> bool:
    return gates.ands[node] is not None and reads[node] == 1


def _leaves(gates: Gates, node: int, joined: set[int]) -> list[int]:
    """Return the literals that a node is the and of."""
    waiting, result = list(gates.ands[node] or ()), []
    while waiting:
        literal = waiting.pop()
        if not literal & 1 and literal >> 1 in joined:
            waiting += gates.ands[literal >> 1] or ()
        else:
            result.append(literal)
    return sorted(set(result))


class Cover:
    """The look-up tables that a network takes.

    Parameters
    ----------
    gates : Gates
    sinks : iterable of int
        The literals that are needed.
    size : int
        Inputs of a look-up table.
    costs : sequence of float
        What the mapper takes one of no inputs, of one, of two and so on for; default all alike.
    """

    def __init__(
        self, gates: Gates, sinks: Iterable[int], size: int, costs: Sequence[float] = ()
    ) -> None:
        self.gates, self.sinks, self.size = gates, sorted(set(sinks)), size
        self.costs = costs or (1.0,) * (size + 1)
        self.order = reached(gates, self.sinks)
        self.fan_out: Counter[int] = Counter(literal >> 1 for literal in self.sinks)
        for node in self.order:
            for literal in gates.ands[node] or ():
                self.fan_out[literal >> 1] += 1
        self.cuts: dict[int, list[Cut]] = {}
        self.best: dict[int, Cut] = {}
        self.late: dict[int, float] = {0: 0.0}
        self.needed: dict[int, float] = {}
        self._enumerate()
        self.latest = max([self.late[literal >> 1] for literal in self.sinks], default=0.0)
        self._choose()
        self._require()
        self._enumerate()
        self._choose()
        for _ in range(ROUNDS):
            self._require()
            self._recover()
        self._collapse()

    def roots(self) -> list[int]:
        """Return the nodes that look-up tables make, and inputs of which one makes the inverse."""
        result = [node for node in self.order if self.reads[node]]
        marked = set(self.sinks)
        for literal in self.sinks:
            inverted = literal & 1 and literal > 1
            if inverted and (self.gates.ands[literal >> 1] is None or literal ^ 1 in marked):
                result.append(literal >> 1)
        return result

    def _enumerate(self) -> None:
        """Find the cuts of all nodes: the fastest first, or where time is known the smallest."""
        ands, late, cuts = self.gates.ands, self.late, self.cuts
        timed, cost = not self.needed, self.cost
        flow: dict[int, float] = {}
        for node in self.order:
            inside = ands[node]
            if inside is None:
                late[node] = self._arrival(node)
                continue
            sets = self._candidates(node, inside[0] >> 1, inside[1] >> 1)
            if not timed:
                sets.add(self.best[node])
            limit = self.needed.get(node, inf)
            rated = []
            for cut in sets:
                area = cost(node, cut) + sum([flow.get(leaf, 0.0) for leaf in cut])
                time = 1 + max([late[leaf] for leaf in cut])
                first = time if timed else float(time > limit)
                rated.append((first, area, time, len(cut), sorted(cut), cut))
            rated.sort()
            selected: list[Cut] = []
            for rating in rated:
                cut = rating[-1]
                if not any(other <= cut for other in selected):
                    selected.append(cut)
                    if len(selected) == CUTS:
                        break
            best = rated[0]
            flow[node] = best[1] / max(1, self.fan_out[node])
            late[node] = best[2]
            self.best[node] = best[-1]
            cuts[node] = [*selected, frozenset((node,))]

    def _candidates(self, node: int, a: int, b: int) -> set[Cut]:
        """Return the cuts of a node that is the and of two others, or of their inverses."""
        cuts, size = self.cuts, self.size
        return {
            cut
            for x in cuts.get(a) or (frozenset((a,)),)
            for y in cuts.get(b) or (frozenset((b,)),)
            if len(cut := x | y) <= size
        }

    def cost(self, node: int, cut: Cut) -> float:
        """Return the mapper's cost of the look-up table of a node."""
        return self.costs[len(cut)]

    def _arrival(self, node: int) -> float:
        following = self.gates.sources.get(node, ())
        return max([self.late[other >> 1] + time for other, time in following], default=0.0)

    def _require(self) -> None:
        """Find when each node has to be there, for all to be there when the latest sink is."""
        needed: dict[int, float] = {}
        for literal in self.sinks:
            needed[literal >> 1] = self.latest
        for node in reversed(self.order):
            limit = needed.get(node, inf)
            if node in self.best:
                if self.reads[node]:
                    for leaf in self.best[node]:
                        needed[leaf] = min(needed.get(leaf, inf), limit - 1)
            else:
                for other, time in self.gates.sources.get(node, ()):
                    needed[other >> 1] = min(needed.get(other >> 1, inf), limit - time)
        self.needed = needed

    def _choose(self) -> None:
        self.reads: Counter[int] = Counter()
        for literal in self.sinks:
            self._reference(literal >> 1)

    def _reference(self, node: int) -> float:
        """Count a read of a node; return what the look-up tables cost that it takes more."""
        return self._counted(node, 1, made_at=1)

    def _dereference(self, node: int) -> float:
        """Take back a read of a node; return what the look-up tables cost that it takes fewer."""
        return self._counted(node, -1, made_at=0)

    def _counted(self, node: int, step: int, made_at: int) -> float:
        """Return the costs of the look-up tables whose reads come to `made_at` by a step."""
        area = 0.0
        waiting = [node]
        while waiting:
            at = waiting.pop()
            if at in self.best:
                self.reads[at] += step
                if self.reads[at] == made_at:
                    area += self.cost(at, self.best[at])
                    waiting += self.best[at]
        return area

    def _recover(self) -> None:
        """Choose for each look-up table the cut that takes the fewest others."""
        late = self.late
        for node in self.order:
            if node not in self.best:
                late[node] = self._arrival(node)
                continue
            if self.reads[node]:
                self._exchange(node)
            late[node] = 1 + max([late[leaf] for leaf in self.best[node]])

    def _collapse(self) -> None:
        """Put look-up tables into all that read them, where these have inputs left for it."""
        readers: dict[int, list[int]] = {}
        made = [node for node in self.order if self.reads[node] and node in self.best]
        for node in made:
            for leaf in self.best[node]:
                readers.setdefault(leaf, []).append(node)
        sinks = {literal >> 1 for literal in self.sinks}
        for node in made:
            if node in sinks:
                continue
            inside, above = self.best[node], readers[node]
            merged = [self.best[reader] - {node} | inside for reader in above]
            if max(map(len, merged)) > self.size:
                continue
            before = self.cost(node, inside) + sum([self.cost(n, self.best[n]) for n in above])
            if sum(map(self.cost, above, merged)) >= before:
                continue
            for reader, cut in zip(above, merged, strict=True):
                for leaf in cut - self.best[reader]:
                    self.reads[leaf] += 1
                    readers[leaf].append(reader)
                self.best[reader] = cut
            self.reads[node] = 0
            for leaf in inside:
                self.reads[leaf] -= 1
                readers[leaf].remove(node)

    def _exchange(self, node: int) -> None:
        late, limit = self.late, self.needed.get(node, inf)
        for leaf in self.best[node]:
            self._dereference(leaf)
        least, chosen = None, self.best[node]
        for cut in self.cuts[node][:-1]:
            if cut != self.best[node] and 1 + max([late[leaf] for leaf in cut]) > limit:
                continue
            area = self.cost(node, cut) + sum([self._reference(leaf) for leaf in cut])
            for leaf in cut:
                self._dereference(leaf)
            if least is None or area < least:
                least, chosen = area, cut
        self.best[node] = chosen
        for leaf in chosen:
            self._reference(leaf)
