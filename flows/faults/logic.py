# SPDX-License-Identifier: Apache-2.0
"""Truth tables as gates of two inputs, which many simulations in the bits of a word can share.

A gate is a code and its nets.  Codes below 16 are truth tables of two inputs, bit ``a + 2 b`` of
the code being the output; the others are `NOT`, `COPY` and `SELECT` (``c ? b : a``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

NOT, COPY, SELECT = 16, 17, 18


@dataclass(frozen=True)
class Step:
    """A gate of a decomposed truth table.

    Parameters
    ----------
    code : int
    operands : tuple of int
        One to three: an input of the table from 0 on, or ``inputs + i`` for the result of step i.
    """

    code: int
    operands: tuple[int, ...]


@cache
def decomposed(inputs: int, table: int) -> tuple[Step, ...]:
    """Return the gates of a truth table; the last one gives the output.

    Parameters
    ----------
    inputs : int
        1 to 6.
    table : int
        Bit i is the output for index i; input 0 is bit 0 of the index.

    Raises
    ------
    ValueError
        If the output is constant.
    """
    steps: list[Step] = []

    def add(code: int, *operands: int) -> int:
        step = Step(code, operands)
        if step not in steps:
            steps.append(step)
        return inputs + steps.index(step)

    result = _decompose(tuple(range(inputs)), table, add)
    if result < inputs:
        add(COPY, result)
    elif result != inputs + len(steps) - 1:  # a step that others share
        steps.append(Step(COPY, (result,)))
    return tuple(steps)


Add = Callable[..., int]


def _decompose(names: tuple[int, ...], table: int, add: Add) -> int:
    """Add the gates of a table of some operands; return the operand that is its result."""
    names, table = _needed(names, table)
    count = len(names)
    if not count:
        raise ValueError("a constant")
    if count == 1:
        return names[0] if table == 0b10 else add(NOT, names[0])
    if count == 2:
        return add(table, *names)
    full = (1 << (1 << count - 1)) - 1
    for x in range(count):
        low, high = _cofactors(table, count, x)
        rest = tuple(name for i, name in enumerate(names) if i != x)
        if high == low ^ full:
            return add(0b0110, _decompose(rest, low, add), names[x])
        if low in (0, full):
            return add(0b1000 if not low else 0b1011, _decompose(rest, high, add), names[x])
        if high in (0, full):
            return add(0b0010 if not high else 0b1110, _decompose(rest, low, add), names[x])
    for x, y in combinations(range(count), 2):
        if pair := _pair(table, count, x, y):
            code, reduced = pair
            rest = tuple(name for i, name in enumerate(names) if i not in (x, y))
            return _decompose((*rest, add(code, names[x], names[y])), reduced, add)
    # Prefer a select whose parts are small.
    costs = []
    for x in range(count):
        low, high = _cofactors(table, count, x)
        rest = tuple(name for i, name in enumerate(names) if i != x)
        costs.append((len(_needed(rest, low)[0]) + len(_needed(rest, high)[0]), x, low, high, rest))
    _, x, low, high, rest = min(costs)
    return add(SELECT, _decompose(rest, low, add), _decompose(rest, high, add), names[x])


def _cofactors(table: int, count: int, x: int) -> tuple[int, int]:
    """Return the tables for input x at 0 and at 1."""
    halves = [0, 0]
    for index in _indices(count):
        rest = index & ((1 << x) - 1) | index >> x + 1 << x
        halves[index >> x & 1] |= (table >> index & 1) << rest
    return halves[0], halves[1]


def _needed(names: Sequence[int], table: int) -> tuple[tuple[int, ...], int]:
    """Leave out inputs that make no difference."""
    names = tuple(names)
    for x in reversed(range(len(names))):
        low, high = _cofactors(table, len(names), x)
        if low == high:
            names, table = names[:x] + names[x + 1 :], low
    return names, table


def _pair(table: int, count: int, x: int, y: int) -> tuple[int, int] | None:
    """Return a gate of inputs x and y, and the table of the other inputs and its output.

    None if the table is not a function of such a gate.
    """
    parts: list[int] = []
    for b, a in ((0, 0), (0, 1), (1, 0), (1, 1)):
        part = _cofactors(table, count, y)[b]  # y is above x
        parts.append(_cofactors(part, count - 1, x)[a])
    different = list(dict.fromkeys(parts))
    if len(different) != 2:
        return None
    code = sum((part == different[1]) << index for index, part in enumerate(parts))
    return code, different[0] | different[1] << (1 << count - 2)


def _indices(count: int) -> Iterator[int]:
    return iter(range(1 << count))
