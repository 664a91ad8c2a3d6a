# SPDX-License-Identifier: Apache-2.0
"""Sums of many operands by full adders, one column of bits after the other."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from rtl_templates.hierarchy import Block, place

SUM, SUM_OF_LAST, CARRY, CARRY_OF_LAST = 20, 17, 16, 13
"""Delays of a full adder from its first two inputs and from the last, tenths of a gate's."""

HALF_SUM, HALF_CARRY = 10, 7
"""Delays of half an adder, alike."""


class FullAdder(Block):
    """Adds three bits; a module, so that synthesis can map it to a cell.

    Members
    -------
    a, b, c : In(1)
        `c` is the fastest input.
    sum, carry : Out(1)
        ``a + b + c = sum + 2 * carry``.
    """

    def __init__(self) -> None:
        super().__init__(
            "full_adder", {**{name: In(1) for name in "abc"}, "sum": Out(1), "carry": Out(1)}
        )

    def build(self, m: Module) -> None:
        half = Signal()
        m.d.comb += [
            half.eq(self.a ^ self.b),
            self.sum.eq(half ^ self.c),
            self.carry.eq((self.a & self.b) | (half & self.c)),
        ]


@dataclass(frozen=True)
class Operand:
    """A number to add.

    Parameters
    ----------
    value : Value
        Signed or unsigned, of any width.
    weight : int
        Position of its least significant bit in the sum.
    arrival : int
        When it is there, in tenths of a gate delay.
    """

    value: Value
    weight: int = 0
    arrival: int = 0


def sum_of(
    m: Module, name: str, operands: Sequence[Operand], width: int, constant: int = 0
) -> Value:
    """Return ``sum(operands) + constant`` modulo ``2**width``.

    Columns of bits of equal weight are reduced from the least significant one to a single bit
    each: three bits that arrive first become a sum, back in the column, and a carry in the next.
    So there is neither a tree of carry-propagate adders nor one at its end, and no bit is added
    that carries no information: a signed operand brings its top bit inverted, and what that
    changes is a constant.

    Parameters
    ----------
    m : Module
        Where the adders go.
    name : str
        Prefix of their names.
    operands : sequence of Operand
    width : int
        Bits of the result.
    constant : int
        Added as well.
    """
    order = count()  # of equally early bits, the first comes first
    columns: list[list[tuple[int, int, Value]]] = [[] for _ in range(width + 1)]

    def enter(column: int, arrival: int, bit: Value) -> None:
        heapq.heappush(columns[column], (arrival, next(order), bit))

    for operand in operands:
        bits = list(operand.value)[: max(0, width - operand.weight)]
        if operand.value.shape().signed and len(operand.value) == len(bits):
            # -b = ~b - 1: the top bit, worth -2**top, is its inverse, worth 2**top, less 2**top.
            bits[-1] = ~bits[-1]
            constant -= 1 << (operand.weight + len(bits) - 1)
        for column, bit in enumerate(bits, operand.weight):
            enter(column, operand.arrival, bit)

    adder = FullAdder()
    ones = constant % (1 << width)
    result = []
    for column in range(width):
        bits, one = columns[column], ones >> column & 1
        while len(bits) >= 3:
            (_, _, a), (early, _, b), (late, _, c) = (heapq.heappop(bits) for _ in range(3))
            number = next(order)
            total, carry = Signal(name=f"{name}_s{number}"), Signal(name=f"{name}_c{number}")
            place(m, f"{name}_{column}_{number}", adder, a=a, b=b, c=c, sum=total, carry=carry)
            enter(column, max(early + SUM, late + SUM_OF_LAST), total)
            enter(column + 1, max(early + CARRY, late + CARRY_OF_LAST), carry)
        if len(bits) == 2:  # with a constant one, or without: no whole adder
            (_, _, a), (late, _, b) = (heapq.heappop(bits) for _ in range(2))
            enter(column, late + HALF_SUM, ~(a ^ b) if one else a ^ b)
            enter(column + 1, late + HALF_CARRY, a | b if one else a & b)
        elif one:
            (late, _, a) = heapq.heappop(bits) if bits else (0, 0, Const(0, 1))
            enter(column, late, ~a)
            enter(column + 1, late, a)
        result.append(bits[0][2] if bits else Const(0, 1))
    return Cat(*result)
