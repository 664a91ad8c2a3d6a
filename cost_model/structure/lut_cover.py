# SPDX-License-Identifier: Apache-2.0
"""Look-up tables that cover a network of gates, by the rule of Chortle.

Gates that one other gate reads are part of its look-up table as far as inputs suffice; gates of
many inputs are packed into look-up tables, the fullest first, whose outputs are inputs of the next
(R. J. Francis, J. Rose, Z. Vranesic, "Chortle-crf", DAC 1991).  What functions gates have does not
matter, as a look-up table has any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

Cut = frozenset[int]
ADDER = ("sum", "carry")
"""Kinds of gates that are outputs of a full adder."""

Groups = tuple[tuple[int, ...], ...]


class Network:
    """Gates of one module, bit by bit.

    Parameters
    ----------
    inputs : int
        Of a look-up table.
    """

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.gates: dict[int, tuple[str, Groups]] = {}
        self.same: dict[int, int] = {}
        self.sinks: set[int] = set()

    def alias(self, net: int, other: int) -> None:
        """Say that a net has the value of another, or the inverse of it."""
        if net != other:
            self.same[net] = other

    def gate(self, net: int, kind: str, groups: Iterable[Sequence[int]]) -> None:
        """Add a gate that drives a net.

        Parameters
        ----------
        net : int
        kind : str
            Gates of one kind and equal inputs are one.
        groups : iterable of sequence of int
            Nets; a gate of several groups can be divided between them, those of a group stay
            together.  Constants, which are negative, are left out.
        """
        live = tuple(group for each in groups if (group := tuple(n for n in each if n >= 0)))
        if len(live) == 1 and len(live[0]) == 1:
            self.alias(net, live[0][0])
        elif live:
            self.gates[net] = (kind, live)

    def sink(self, nets: Iterable[int]) -> None:
        """Say that something other than a gate reads nets."""
        self.sinks.update(net for net in nets if net >= 0)

    def luts(self) -> dict[str, float]:
        """Return how many look-up tables cover what leads to sinks.

        Returns
        -------
        dict
            ``full_adder_lut``, those whose last gate is an output of a full adder; ``lut``, the
            others; ``masked_bit``, ands of two bits that are part of an or.
        """
        cover = _Cover(self)
        return {
            "lut": float(cover.count - cover.adders),
            "full_adder_lut": float(cover.adders),
            "masked_bit": float(cover.masked),
        }


class _Cover:
    def __init__(self, network: Network) -> None:
        self.network, self.most = network, network.inputs
        self.count = self.adders = self.masked = self.closed = 0
        self.open: dict[int, Cut] = {}
        self.gates: dict[int, Groups] = {}
        self.order = self._merged()
        self.reads = self._reads()
        self._visit_all()

    def _root(self, net: int) -> int:
        same = self.network.same
        for _ in range(len(same) + 1):
            if net not in same:
                return net
            net = same[net]
        return net

    def _inputs(self, net: int) -> set[int]:
        _, groups = self.network.gates[net]
        return {self._root(n) for group in groups for n in group}

    def _merged(self) -> list[int]:
        """Return the gates that lead to sinks, inputs first, after equal ones are made one."""
        order: list[int] = []
        seen: set[int] = set()
        waiting = [(self._root(net), False) for net in sorted(self.network.sinks)]
        known: dict[tuple[str, Groups], int] = {}
        while waiting:
            net, done = waiting.pop()
            if done:
                kind, groups = self.network.gates[net]
                found = tuple(sorted(
                    tuple(sorted({self._root(n) for n in group})) for group in groups
                ))  # fmt: skip
                first = known.setdefault((kind, found), net)
                if first != net:
                    self.network.alias(net, first)
                elif len(found) == 1 and len(found[0]) == 1:
                    self.network.alias(net, found[0][0])
                else:
                    self.gates[net] = found
                    order.append(net)
            elif net in self.network.gates and net not in seen:
                seen.add(net)
                waiting.append((net, True))
                inputs = self._inputs(net)
                waiting += [(other, False) for other in inputs if other not in seen]
        return order

    def _reads(self) -> Counter[int]:
        """Return how many gates read each net; of sinks two more, so that they are made."""
        found: Counter[int] = Counter()
        for net in {self._root(net) for net in self.network.sinks}:
            found[net] += 2
        for net in reversed(self.order):
            if found[net]:  # else what is equal to it is made
                found.update({n for group in self.gates[net] for n in group})
        return found

    def _visit_all(self) -> None:
        for net in self.order:
            if not self.reads[net]:
                continue
            cut = self._packed([self._group(group) for group in self.gates[net]])
            kind = self.network.gates[net][0]
            if kind == "or":
                self.masked += sum(self._is_mask(n) for group in self.gates[net] for n in group)
            if self.reads[net] == 1:
                self.open[net] = cut
            else:
                self.count += 1
                self.adders += kind in ADDER

    def _is_mask(self, net: int) -> bool:
        return net in self.open and self.network.gates[net][0] == "and"

    def _group(self, group: tuple[int, ...]) -> Cut:
        """Return the inputs of what stays together, with gates that nothing else reads."""
        inside = sorted((n for n in group if n in self.open), key=lambda n: len(self.open[n]))
        cut = frozenset(group)
        for number, net in enumerate(inside):
            wider = (cut - {net}) | self.open[net]
            if len(wider) > self.most:
                self.count += len(inside) - number
                break
            cut = wider
        return cut

    def _packed(self, items: list[Cut]) -> Cut:
        """Return the inputs of the last look-up table of a gate, after those in front of it."""
        bins: list[Cut] = []
        for item in sorted(items, key=len, reverse=True):
            self._place(bins, item)
        while len(bins) > 1:
            bins.sort(key=len)
            bins.pop()
            self.count += 1
            self.closed -= 1  # its output, a net like no other
            self._place(bins, frozenset({self.closed}))
        return bins[0] if bins else frozenset()

    def _place(self, bins: list[Cut], item: Cut) -> None:
        for number, each in enumerate(bins):
            if len(each | item) <= self.most:
                bins[number] = each | item
                return
        bins.append(item)
