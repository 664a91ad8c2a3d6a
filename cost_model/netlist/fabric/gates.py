# SPDX-License-Identifier: Apache-2.0
"""Networks of ands and inverters, in which equal gates are one.

Literals are numbers: twice that of a node, plus one for its inverse; `FALSE` and `TRUE` are the
constants.  (A. Kuehlmann et al., "Robust Boolean reasoning for equivalence checking and functional
property verification", TCAD 2002.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

FALSE, TRUE = 0, 1


class Gates:
    """A network of ands of two literals; nodes without are inputs.

    Attributes
    ----------
    ands : list of (int, int) or None
        The literals of each node, None of inputs.
    owners : list of int
        Whose each node is: `owner` as it was when the node was made.
    sources : dict
        For inputs that other gates lead to, through a carry chain: these literals, and how much
        later it is there than each, in look-up tables.
    origin : dict
        For inputs of a network made of another, which node of that they are.
    """

    def __init__(self) -> None:
        self.ands: list[tuple[int, int] | None] = [None]
        self.owners: list[int] = [0]
        self.owner = 0
        self.sources: dict[int, list[tuple[int, float]]] = {}
        self.origin: dict[int, int] = {}
        self._cached: dict[tuple[int, int], int] = {}

    def input(self) -> int:
        """Return the literal of a new input."""
        self.ands.append(None)
        self.owners.append(self.owner)
        return 2 * (len(self.ands) - 1)

    def both(self, a: int, b: int) -> int:
        """Return ``a and b``."""
        if a > b:
            a, b = b, a
        if a == FALSE or a == b ^ 1:
            return FALSE
        if a in (TRUE, b):
            return b
        result = self._cached.get((a, b))
        if result is None:
            simple = self._absorbed(a, b)
            if simple is not None:
                return simple
            self.ands.append((a, b))
            self.owners.append(self.owner)
            result = self._cached[a, b] = 2 * (len(self.ands) - 1)
        return result

    def _absorbed(self, a: int, b: int) -> int | None:
        """Simplify an and of which one literal is an and that has the other one."""
        for x, y in ((a, b), (b, a)):
            inside = self.ands[y >> 1]
            if inside is None:
                continue
            if y & 1:
                if x ^ 1 in inside:
                    return x  # x and not (not x and z)
                if x in inside:  # x and not (x and z)
                    other = inside[0] if inside[1] == x else inside[1]
                    return self.both(x, other ^ 1)
            elif x in inside:
                return y
            elif x ^ 1 in inside:
                return FALSE
        return None

    def either(self, a: int, b: int) -> int:
        """Return ``a or b``."""
        return self.both(a ^ 1, b ^ 1) ^ 1

    def differ(self, a: int, b: int) -> int:
        """Return the exclusive or."""
        flip = (a ^ b) & 1
        a, b = a & ~1, b & ~1
        if a == FALSE:
            return b ^ flip
        if b == FALSE:
            return a ^ flip
        return self.either(self.both(a, b ^ 1), self.both(a ^ 1, b)) ^ flip

    def choose(self, select: int, one: int, other: int) -> int:
        """Return ``one`` where ``select`` is true, else ``other``."""
        if one == other:
            return one
        if one == other ^ 1:
            return self.differ(select, other)
        if select & 1:
            return self.choose(select ^ 1, other, one)
        return self.either(self.both(select, one), self.both(select ^ 1, other))

    def all(self, literals: Iterable[int]) -> int:
        """Return the and of many literals."""
        return self._tree(sorted(set(literals)))

    def any(self, literals: Iterable[int]) -> int:
        """Return the or of many literals."""
        return self.all(literal ^ 1 for literal in literals) ^ 1

    def _tree(self, row: Sequence[int]) -> int:
        if not row:
            return TRUE
        while len(row) > 1:
            pairs = [self.both(row[n], row[n + 1]) for n in range(0, len(row) - 1, 2)]
            row = pairs + ([row[-1]] if len(row) % 2 else [])
        return row[0]

    def parity(self, literals: Iterable[int]) -> int:
        """Return the exclusive or of many literals."""
        result = FALSE
        for literal in literals:
            result = self.differ(result, literal)
        return result

    def full_adder(self, a: int, b: int, c: int) -> tuple[int, int]:
        """Return the sum and the carry of three bits."""
        a, b, c = sorted((a, b, c))
        half = self.differ(a, b)
        return self.differ(half, c), self.choose(half, c, a)


def postorder(
    ends: Iterable[int], into: Callable[[int], Iterable[int]], visited: Iterable[int] = ()
) -> list[int]:
    """Return the nodes that some depend on, and these; what a node depends on is before it.

    Parameters
    ----------
    ends : iterable of int
    into : callable
        Returns what a node depends on; it is asked once for each node.
    visited : iterable of int
        Nodes that are left out.

    Notes
    -----
    Loops are cut.
    """
    order: list[int] = []
    seen = set(visited)
    waiting = [(node, False) for node in ends]
    while waiting:
        node, done = waiting.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            waiting += [(source, False) for source in into(node)]
    return order
