# SPDX-License-Identifier: Apache-2.0
"""Look-up tables that are trees of ones of two inputs.

Two pairs of inputs have a table each, and a third one takes both; or there is one more behind, with
a further input.  Such a tree makes only what reads each of its inputs once: ands, ors and exclusive
ors of two.  A multiplexer, which reads one twice, is a cell of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cost_model.netlist.fabric.gates import Gates
from cost_model.netlist.fabric.lut_cover import Cover, Cut
from hwgen.technologies.fpga_model import LutTrees

_LEAF, _PAIR, _TREE, _LONG, _MUX = range(5)


class _Operation(NamedTuple):
    """Operation of a node: on two others, or a multiplexer of three."""

    reads: tuple[int, ...]
    is_mux: bool = False


def _operations(gates: Gates, node: int) -> list[_Operation]:
    """Return the operations of a node: the and of two, and an exclusive or or a multiplexer."""
    inside = gates.ands[node]
    assert inside is not None
    one, other = (gates.ands[literal >> 1] for literal in inside)
    result = [_Operation((inside[0] >> 1, inside[1] >> 1))]
    if not (inside[0] & inside[1] & 1) or one is None or other is None:
        return result
    inverse = [literal for literal in one if literal ^ 1 in other]
    if len(inverse) == 2:
        return [_Operation((one[0] >> 1, one[1] >> 1))]
    if inverse:
        select = inverse[0]
        reads = (select, *(x for x in one if x != select), *(x for x in other if x != select ^ 1))
        result.append(_Operation(tuple(literal >> 1 for literal in reads), is_mux=True))
    return result


class TreeCover(Cover):
    """The look-up tables that a network takes, of which each is a tree.

    Parameters
    ----------
    gates : Gates
    sinks : iterable of int
        The literals that are needed.
    trees : LutTrees
        What the mapper takes each shape for.
    """

    def __init__(self, gates: Gates, sinks: Iterable[int], trees: LutTrees) -> None:
        self.price = {
            _PAIR: trees.pair, _TREE: trees.tree, _LONG: trees.long, _MUX: trees.multiplexer
        }  # fmt: skip
        self.more = trees.long_luts - 1
        self.shapes: dict[int, dict[Cut, int]] = {}
        super().__init__(gates, sinks, 5)

    def roots(self) -> list[int]:
        """Return the nodes that look-up tables make, one of five inputs as often as it takes."""
        long = [
            node for node in self.order
            if self.reads[node] and self.shapes[node][self.best[node]] == _LONG
        ]  # fmt: skip
        return [*super().roots(), *long * self.more]

    def _collapse(self) -> None:
        """Leave trees as they are: two together may be none that the mapper has."""

    def cost(self, node: int, cut: Cut) -> float:
        """Return the mapper's cost of the tree of a node."""
        return self.price[self.shapes[node][cut]]

    def _candidates(self, node: int, a: int, b: int) -> set[Cut]:
        if node not in self.shapes:
            self.shapes[node] = self._trees(node)
        return set(self.shapes[node])

    def _trees(self, node: int) -> dict[Cut, int]:
        """Return the cuts of a node whose functions are trees, and their shapes."""
        result: dict[Cut, int] = {}
        for operation in _operations(self.gates, node):
            if operation.is_mux:
                result[frozenset(operation.reads)] = _MUX
                continue
            a, b = ([(frozenset((read,)), _LEAF), *self.shapes.get(read, {}).items()]
                    for read in operation.reads)  # fmt: skip
            for x, of_x in a:
                for y, of_y in b:
                    shape = _joined(of_x, of_y)
                    cut = x | y
                    if shape and len(cut) == len(x) + len(y):
                        result[cut] = min(shape, result.get(cut, shape))
        return result


def _joined(a: int, b: int) -> int | None:
    """Return the shape of what an operation makes of two trees; None if there is no such one."""
    low, high = sorted((a, b))
    if high == _LEAF:
        return _PAIR
    if high == _PAIR:
        return _TREE
    return _LONG if high == _TREE and low == _LEAF else None
