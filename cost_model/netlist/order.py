# SPDX-License-Identifier: Apache-2.0
"""Order of the nodes of a graph by their dependencies."""

from __future__ import annotations

from collections.abc import Sequence


def strongly_connected(inputs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the groups of nodes that depend on one another, after those that they depend on.

    (R. Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1972.)
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on: set[int] = set()
    result: list[list[int]] = []
    for root in range(len(inputs)):
        if root in index:
            continue
        waiting = [(root, iter(inputs[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while waiting:
            node, rest = waiting[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on.add(other)
                    waiting.append((other, iter(inputs[other])))
                    break
                if other in on:
                    low[node] = min(low[node], index[other])
            else:
                waiting.pop()
                if waiting:
                    above = waiting[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == index[node]:
                    group = _popped(stack, node)
                    del stack[-len(group) :]
                    on.difference_update(group)
                    result.append(group)
    return result


def _popped(stack: list[int], node: int) -> list[int]:
    first = len(stack) - 1
    while stack[first] != node:
        first -= 1
    return stack[first:]


def in_order(group: list[int], inputs: Sequence[Sequence[int]], cut: set[int]) -> list[int]:
    """Return a group that depends on itself through some of it only, these last."""
    inside = set(group)
    index = {number: n for n, number in enumerate(n for n in group if n not in cut)}
    between = [[index[n] for n in inputs[number] if n in inside and n not in cut]
               for number in index]  # fmt: skip
    order = list(index)
    return [order[n] for part in strongly_connected(between) for n in part] + sorted(cut)
