# SPDX-License-Identifier: Apache-2.0
"""Sums of many operands by full adders, one column of bits after the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.bit_heap import ONE, ZERO, plan
from rtl_templates.hdl.hierarchy import Block, place


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
class HeapOperand:
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
    m: Module, name: str, operands: Sequence[HeapOperand], width: int, constant: int = 0
) -> Value:
    """Return ``sum(operands) + constant`` modulo ``2**width``; see `compress`."""
    total, _ = compress(m, name, operands, width, constant)
    return total


def compress(
    m: Module,
    name: str,
    operands: Sequence[HeapOperand],
    width: int,
    constant: int = 0,
    saved: Collection[int] = (),
) -> tuple[Value, dict[int, Value]]:
    """Return ``sum(operands) + constant`` modulo ``2**width``, and carries to be added to it.

    The bits are reduced by full adders; see `hwgen.arithmetic.bit_heap.plan`.  No bit is added that
    carries no information: a signed operand brings its top bit inverted, and what that changes is
    a constant.

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
    saved : collection of int
        Columns whose last carry is not added but returned, by column: none, and the result is the
        sum; all, and the two are the vectors of a carry-save adder.
    """
    heap: list[list[tuple[int, Value]]] = [[] for _ in range(width)]
    for operand in operands:
        bits = list(operand.value)[: max(0, width - operand.weight)]
        if operand.value.shape().signed and len(operand.value) == len(bits):
            # -b = ~b - 1: the top bit, worth -2**top, is its inverse, worth 2**top, less 2**top.
            bits[-1] = ~bits[-1]
            constant -= 1 << (operand.weight + len(bits) - 1)
        for column, bit in enumerate(bits, operand.weight):
            heap[column].append((operand.arrival, bit))

    tree = plan([[arrival for arrival, _ in column] for column in heap], constant, saved)
    values: dict[int, Value] = {ZERO: Const(0, 1), ONE: Const(1, 1)}
    values.update(enumerate(bit for column in heap for _, bit in column))
    block = FullAdder()
    for adder in tree.adders:
        inputs = [values[i] for i in adder.inputs]
        if adder.cell == "full":
            total, carry = Signal(name=f"{name}_s{adder.sum}"), Signal(name=f"{name}_c{adder.sum}")
            place(
                m,
                f"{name}_{adder.column}_{adder.sum}",
                block,
                **dict(zip("abc", inputs, strict=True)),
                sum=total,
                carry=carry,
            )
            values[adder.sum], values[adder.carry] = total, carry
        elif adder.cell == "up":
            values[adder.sum], values[adder.carry] = ~inputs[0], inputs[0]
        else:
            a, b = inputs
            up = adder.cell == "half_up"
            values[adder.sum] = ~(a ^ b) if up else a ^ b
            values[adder.carry] = a | b if up else a & b
    total = Cat(*(values[number] for number in tree.result))
    return total, {column: values[number] for column, number in tree.carries}
