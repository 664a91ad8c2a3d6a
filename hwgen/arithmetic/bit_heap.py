# SPDX-License-Identifier: Apache-2.0
"""Sums of many bits by full and half adders: which adder adds which bits.

The plan is plain data: hardware is made from it, and its adders and its delay are counted.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

SUM, SUM_OF_LAST, CARRY, CARRY_OF_LAST = 20, 17, 16, 13
"""Delays of a full adder from its first two inputs and from the last, tenths of a gate's."""

HALF_SUM, HALF_CARRY = 10, 7
"""Delays of half an adder, alike."""

ZERO, ONE = -1, -2
"""Numbers of constant bits."""

Cell = Literal["full", "half", "half_up", "up"]


@dataclass(frozen=True)
class Adder:
    """One adder of a plan.

    Parameters
    ----------
    cell : {"full", "half", "half_up", "up"}
        Adds three bits; two; two and a constant one; one and a constant one.
    column : int
        Position of the bits that it adds.
    inputs : tuple of int
        Bits by number, the last the latest.
    sum, carry : int
        The bits that it makes, by number; the carry belongs to the next column.
    """

    cell: Cell
    column: int
    inputs: tuple[int, ...]
    sum: int
    carry: int


@dataclass(frozen=True)
class Plan:
    """Adders that reduce the bits of a heap to one number.

    Parameters
    ----------
    adders : tuple of Adder
        In an order in which inputs are there before they are used.
    result : tuple of int
        The bits of the sum by number, least significant first; also `ZERO` and `ONE`.
    delay : int
        When the last of all these bits is there, in tenths of a gate's delay.
    carries : tuple of (int, int)
        Carries that are not added: column and number.
    """

    adders: tuple[Adder, ...]
    result: tuple[int, ...]
    delay: int
    carries: tuple[tuple[int, int], ...] = ()


def plan(arrivals: Sequence[Sequence[int]], constant: int = 0, saved: Collection[int] = ()) -> Plan:
    """Plan the sum of a heap of bits, modulo ``2**len(arrivals)``.

    Columns are reduced from the least significant one to a single bit each: three bits that arrive
    first become a sum, back in the column, and a carry in the next.  So there is neither a tree of
    carry-propagate adders nor one at its end.

    Parameters
    ----------
    arrivals : sequence of sequences of int
        When the bits of each column arrive, in tenths of a gate's delay.  The bits are numbered
        from 0 in this order.
    constant : int
        Added as well.
    saved : collection of int
        Columns to which the latest carry is not added: so many chains of carries end there.  The
        number is then the result and these carries.

    Returns
    -------
    Plan
    """
    heap = _Heap(arrivals)
    result: list[int] = []
    carries: list[tuple[int, int]] = []
    delay = 0
    for column in range(len(arrivals)):
        before = len(heap.adders)
        result.append(heap.reduce(column, constant >> column & 1))
        delay = max([delay, *(time for time, _ in heap.columns[column])])
        if column + 1 in saved and len(heap.adders) > before:
            time, latest = heap.without_latest(column + 1)
            if column + 1 < len(arrivals):
                carries.append((column + 1, latest))
                delay = max(delay, time)
    return Plan(tuple(heap.adders), tuple(result), delay, tuple(carries))


class _Heap:
    """The bits of each column, by when they arrive and by number, and the adders so far."""

    def __init__(self, arrivals: Sequence[Sequence[int]]) -> None:
        self.adders: list[Adder] = []
        self.columns: list[list[tuple[int, int]]] = [[] for _ in range(len(arrivals) + 1)]
        self._numbers = count()
        for column, times in enumerate(arrivals):
            for time in times:
                self.columns[column].append((time, next(self._numbers)))
        for bits in self.columns:
            heapq.heapify(bits)

    def reduce(self, column: int, one: int) -> int:
        """Add the bits of a column, and a constant bit, to a single one; return its number."""
        bits = self.columns[column]
        while len(bits) >= 3:
            popped = self._pop_earliest(bits, 3)
            early, late = popped[1][0], popped[2][0]
            total = max(early + SUM, late + SUM_OF_LAST)
            carry = max(early + CARRY, late + CARRY_OF_LAST)
            self._add("full", column, popped, total, carry)
        if len(bits) == 2:
            popped = self._pop_earliest(bits, 2)
            late = popped[1][0]
            cell: Cell = "half_up" if one else "half"
            self._add(cell, column, popped, late + HALF_SUM, late + HALF_CARRY)
        elif bits and one:
            popped = self._pop_earliest(bits, 1)
            self._add("up", column, popped, popped[0][0], popped[0][0])
        return bits[0][1] if bits else ONE if one else ZERO

    def without_latest(self, column: int) -> tuple[int, int]:
        """Take the carry of the last adder out of a column; return when it is there, its number."""
        latest = self.adders[-1].carry
        bits = self.columns[column]
        (time,) = [time for time, number in bits if number == latest]
        bits.remove((time, latest))
        heapq.heapify(bits)
        return time, latest

    def _pop_earliest(self, bits: list[tuple[int, int]], number: int) -> list[tuple[int, int]]:
        """Take the bits that arrive first."""
        return [heapq.heappop(bits) for _ in range(number)]

    def _add(
        self, cell: Cell, column: int, popped: list[tuple[int, int]], total: int, carry: int
    ) -> None:
        """Put sum and carry, which arrive at `total` and `carry`, in the place of bits."""
        inputs = tuple(number for _, number in popped)
        made = Adder(cell, column, inputs, next(self._numbers), next(self._numbers))
        self.adders.append(made)
        heapq.heappush(self.columns[column], (total, made.sum))
        heapq.heappush(self.columns[column + 1], (carry, made.carry))


def count_adders(
    heights: Sequence[int], constant: int = 0, saved: Collection[int] = ()
) -> tuple[int, int]:
    """Return the full and the half adders of `plan` for columns of so many bits.

    Which bits meet depends on when they arrive, how many adders there are does not: three bits of
    a column become one and a carry, until there are one or two.
    """
    full = half = carries = 0
    for column, height in enumerate(heights):
        bits, one = height + carries, constant >> column & 1
        triples = max(0, bits - 1) // 2
        left = bits - 2 * triples
        full += triples
        half += left == 2
        carries = triples + (left == 2 or (left == 1 and one))
        carries -= carries > 0 and column + 1 in saved
    return full, half
