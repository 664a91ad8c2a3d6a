# SPDX-License-Identifier: Apache-2.0
"""Accumulation of products by radix-4 digits, carries left over for later.

The bits of all multiples and of the old total are one heap for full adders.  Every so many columns
the last carry is not added but kept in a register, to be added in the next cycle; so the
delay is that of the heap and of a short chain of carries, however wide the total.  Its value is
put together where it is read, by the final carry-propagate add, which also subtracts the
sign-extension constants of what was added; see `hwgen.arithmetic.digit_sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.digit_sums import (
    CARRY_ARRIVAL,
    SUMMED_PRODUCTS,
    Accumulator,
    DigitAccumulation,
    FinalAddition,
)
from rtl_templates.arithmetic.integer.compressor import HeapOperand, compress
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.arithmetic.integer.recode import Digits, plus_ones, row_operands
from rtl_templates.hdl.hierarchy import Block, place


def plus_ones_of_parts(
    m: Module, name: str, digits: Sequence[Digits], accumulation: DigitAccumulation
) -> Value:
    """Return the two's-complement +1s for products with these digits, of all accumulators."""
    return Cat(
        *(
            plus_ones(m, f"{name}_{i}", digits, part.sum)
            for i, part in enumerate(accumulation.parts)
        )
    )


def accumulate_digits(
    m: Module,
    digits: Sequence[Digits],
    factors: Sequence[Value],
    counts: Value,
    clear: Value,
    registers: int,
    accumulation: DigitAccumulation,
) -> Value:
    """Return the registers of the accumulators, which add products in every cycle.

    Parameters
    ----------
    m : Module
    digits, factors : sequences
        The factors of each product, one of them as digits.
    counts : Value
        Their `plus_ones_of_parts`, `registers` cycles later.
    clear : Value
        Start from zero with the products of `registers` cycles before.
    registers : int
        Registers in the path: the last in front of the accumulators, another one behind the sums
        of `SUMMED_PRODUCTS` products.
    accumulation : DigitAccumulation
    """
    totals, start = [], 0
    for number, part in enumerate(accumulation.parts):
        name = f"sum_{number}"
        operands = _products(m, name, digits, factors, part, registers)
        missing = counts[start : start + part.sum.plus_ones_width]
        start += part.sum.plus_ones_width
        if part.sum.plain:
            operands += [HeapOperand(bit, 2 * i) for i, bit in enumerate(missing)]
        else:
            operands.append(HeapOperand(missing))
        total = Signal(part.register_bits, name=f"total_{number}", reset_less=True)
        previous = Signal(part.register_bits, name=f"previous_{number}")
        m.d.comb += previous.eq(total & (~clear).replicate(part.register_bits))
        operands += _read(previous, part.width, part.carries, CARRY_ARRIVAL)
        result, carries = compress(m, name, operands, part.width, 0, part.carries)
        m.d.sync += total.eq(_joined(result, carries, part.carries))
        totals.append(total)
    return Cat(*totals)


def signed_factor(m: Module, factor: Signal, accumulation: DigitAccumulation) -> Signal:
    """Return a factor in the format in which it is added, which is signed."""
    wide = Signal(shape_of(accumulation.factor), name=f"{factor.name}_signed")
    m.d.comb += wide.eq(factor)
    return wide


class FinalAdder(Block):
    """A step of the final carry-propagate add, from the registers of an accumulator to its value.

    Parameters
    ----------
    addition : FinalAddition
    step : int

    Members
    -------
    i : In
        The bits that are known, the carry, and the registers above them of each accumulator; in
        front of the first step all registers.
    sign_constant : In
        What is more than the result, negated, in these columns; see `SignConstant`.
    o : Out
        The same behind the step: at last the result.
    """

    def __init__(self, addition: FinalAddition, step: int = 0) -> None:
        members = {
            "i": In(addition.width(step)),
            "sign_constant": In(len(addition.columns(step))),
            "o": Out(addition.width(step + 1)),
        }
        super().__init__(f"resolve_{step}" if addition.registers else "resolve", members)
        self.addition, self.step = addition, step

    def build(self, m: Module) -> None:
        addition, columns = self.addition, self.addition.columns(self.step)
        carry_bits = addition.carry_width(self.step + 1) if self.step < addition.registers else 0
        width, start = len(columns) + carry_bits, columns.start
        operands = [HeapOperand(self.sign_constant)]
        if carry := addition.carry_width(self.step):
            operands.append(HeapOperand(self.i[start : start + carry]))
        above: list[Value] = []
        at = start + carry
        for part in addition.accumulation.parts:
            sums, carries = addition.sums(part, start), addition.carries(part, start)
            registers = self.i[at : at + len(sums) + len(carries)]
            at += len(registers)
            added = len(sums) - len(addition.sums(part, columns.stop))
            if added:
                operands.append(HeapOperand(registers[:added], sums.start + part.position - start))
            above.append(registers[added : len(sums)])
            for bit, column in zip(registers[len(sums) :], carries, strict=True):
                if column + part.position in columns:
                    operands.append(HeapOperand(bit, column + part.position - start))
                else:
                    above.append(bit)
        # All but the last two numbers by full adders, these by a fast adder.
        total, saved = compress(m, "digit", operands, width, 0, range(width))
        finished = (total + _sparse(saved, width))[:width]
        m.d.comb += self.o.eq(Cat(self.i[:start], finished, *above))


class SignConstant(Block):
    """The sign-extension constants that accumulators hold beyond their sums, negated.

    Members
    -------
    add, clear : In(1)
        Products are added; they are the first of a sum.
    o : Out
    """

    def __init__(self, accumulation: DigitAccumulation) -> None:
        super().__init__(
            "sign_constant", {"add": In(1), "clear": In(1), "o": Out(accumulation.width)}
        )
        self.accumulation = accumulation

    def build(self, m: Module) -> None:
        total = Signal(self.accumulation.width, reset_less=True)
        with m.If(self.add):
            m.d.sync += total.eq(Mux(self.clear, 0, total) - self.accumulation.sign_constant)
        m.d.comb += self.o.eq(total)


def final_add_row(
    m: Module, values: Value, sign_constant: Value, addition: FinalAddition, step: int = 0
) -> Value:
    """Add the carries of a row of accumulators in one step.

    `sign_constant` is that of the columns from the step's first on.
    """
    block, suffix = FinalAdder(addition, step), f"{step}_" if addition.registers else ""
    lanes = len(values) // block.width("i")
    results = Signal(
        lanes * block.width("o"), name="resolved" + f"_{step}" * bool(addition.registers)
    )
    for lane in range(lanes):
        place(
            m,
            f"resolve_{suffix}{lane}",
            block,
            i=values.word_select(lane, block.width("i")),
            sign_constant=sign_constant[: block.width("sign_constant")],
            o=results.word_select(lane, block.width("o")),
        )
    return results


def _products(
    m: Module,
    name: str,
    digits: Sequence[Digits],
    factors: Sequence[Value],
    part: Accumulator,
    registers: int,
) -> list[HeapOperand]:
    """Return the rows of all products behind registers, partly or wholly summed."""
    groups = [
        row_operands(m, f"{name}_row_{term}", x, y, part.sum)
        for term, (x, y) in enumerate(zip(digits, factors, strict=True))
    ]
    terms = 1
    for stage in range(registers):
        size = len(groups) if stage == registers - 1 else SUMMED_PRODUCTS
        terms *= size
        groups = [
            _summed(
                m,
                f"{name}_{stage}_{i}",
                [operand for group in groups[i : i + size] for operand in group],
                replace(part, sum=replace(part.sum, terms=min(terms, part.sum.terms))),
            )
            for i in range(0, len(groups), size)
        ]
    return [operand for group in groups for operand in group]


def _summed(
    m: Module, name: str, operands: list[HeapOperand], part: Accumulator
) -> list[HeapOperand]:
    """Return the sum of rows, which is never negative, behind a register."""
    width = part.sum.total.width
    saved = range(part.spacing, width, part.spacing)
    result, carries = compress(m, name, operands, width, 0, saved)
    register = Signal(width + len(saved), name=f"{name}_held", reset_less=True)
    m.d.sync += register.eq(_joined(result, carries, saved))
    return _read(register, width, saved, 0)


def _joined(result: Value, carries: dict[int, Value], columns: range) -> Value:
    return Cat(result, *(carries.get(column, Const(0, 1)) for column in columns))


def _sparse(carries: dict[int, Value], width: int) -> Value:
    """Return a number of some bits."""
    return Cat(*(carries.get(column, Const(0, 1)) for column in range(width)))


def _read(joined: Value, width: int, columns: range, arrival: int) -> list[HeapOperand]:
    """Return the operands that `_joined` concatenated."""
    return [
        HeapOperand(joined[:width], 0, arrival),
        *(HeapOperand(joined[width + i], column, arrival) for i, column in enumerate(columns)),
    ]
