# SPDX-License-Identifier: Apache-2.0
"""Sums of products, one digit of a factor at a time, and how their values are put together."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.sparse_digits import CHOSEN_ARRIVAL, FINAL_STEPS, GROUP_TERMS, SerialSum
from rtl_templates.arithmetic.integer.compressor import HeapOperand, compress
from rtl_templates.hdl.hierarchy import Block


class SerialPe(Block):
    """Adds a multiple of a factor a cycle for each lane: -2, -1, 0, 1 or 2 times it.

    All digits of a pass have the same weight.  The most significant ones come first, and the sum
    is multiplied by four in front of each later pass; so there is one accumulator and no other
    shift.  It has no clock enable: while nothing is selected the factors are zero, and so
    are the multiples.

    A multiple is not extended by its sign: its top bit is inverted, which adds a constant in every
    cycle, be there a digit or not.  So the sum only grows, and above the multiples carries pass
    half adders.  The sum of these sign-extension constants is what a PE has that never gets a
    digit.  Some carries are kept instead of added, see `SerialSum`; they are multiplied by four
    like the sum.

    Parameters
    ----------
    serial_sum : SerialSum
    queue : int
        Groups of factors that are there to choose from.
    registers : int
        Registers in the path: 1 behind the sum of the multiples, 2 in front of it as well.

    Members
    -------
    w : In(lanes * queue * GROUP_TERMS * bits of a factor)
        The factors of each lane, those of a group together.
    select : In(lanes * queue * GROUP_TERMS)
        One-hot for each lane: which of its factors is the next, if there is one.
    one, two, negative : In(lanes)
        The digit that it is multiplied with: of magnitude one, of two, less than zero.
    plus_ones : In
        The two's-complement +1s, i.e. the number of negative digits, `registers` cycles later.
    hold, shift : In(1)
        `registers` cycles later: the sum stays as it is; it is multiplied by four.  Neither: it is
        forgotten.  The latter two with nothing selected.
    total : Out
        The sum, and above its bits the carries that are kept, in the order of ``what.carries``.
    """

    def __init__(self, serial_sum: SerialSum, queue: int, registers: int) -> None:
        choices = serial_sum.lanes * queue * GROUP_TERMS
        super().__init__(
            "pe",
            {
                "w": In(choices * serial_sum.factor.width),
                "select": In(choices),
                "one": In(serial_sum.lanes),
                "two": In(serial_sum.lanes),
                "negative": In(serial_sum.lanes),
                "plus_ones": In(serial_sum.plus_ones_width),
                "hold": In(1),
                "shift": In(1),
                "total": Out(serial_sum.register_bits),
            },
        )
        self.serial_sum, self.queue, self.registers = serial_sum, queue, registers

    def build(self, m: Module) -> None:
        serial_sum = self.serial_sum
        operands = [HeapOperand(row, 0, CHOSEN_ARRIVAL) for row in self._rows(m)]
        if self.registers > 1:
            operands = [self._register(m, f"row_{i}_reg", o) for i, o in enumerate(operands)]
        if self.registers:
            operands = self._summed(m, operands)
        accumulator = Signal(serial_sum.register_bits, name="accumulator", reset_less=True)
        m.d.comb += self.total.eq(accumulator)
        operands += [HeapOperand(self.plus_ones), HeapOperand(accumulator[: serial_sum.width])]
        operands += [
            HeapOperand(bit, column)
            for bit, column in zip(accumulator[serial_sum.width :], serial_sum.carries, strict=True)
        ]
        total, carries = compress(m, "sum", operands, serial_sum.width, 0, serial_sum.carries)
        # What is shifted is the result, not an operand: so the path does not begin with a line that
        # has this many loads.
        sums = self._fed_back(dict(enumerate(total)), range(serial_sum.width))
        m.d.sync += accumulator.eq(Cat(sums, self._fed_back(carries, serial_sum.carries)))

    def _register(self, m: Module, name: str, operand: HeapOperand) -> HeapOperand:
        register = Signal(len(operand.value), name=name, reset_less=True)
        m.d.sync += register.eq(operand.value)
        return HeapOperand(register, operand.weight)

    def _summed(self, m: Module, rows: list[HeapOperand]) -> list[HeapOperand]:
        """Return the sum of all multiples, registered: two numbers, if there are more."""
        serial_sum = self.serial_sum
        if serial_sum.lanes > 2:
            width = serial_sum.rows_width
            total, carries = compress(m, "rows", rows, width, 0, range(width))
            above = Cat(carries.get(column, Const(0, 1)) for column in range(1, max(carries) + 1))
            rows = [HeapOperand(total), HeapOperand(above, 1)]
        return [self._register(m, f"rows_{i}_reg", row) for i, row in enumerate(rows)]

    def _rows(self, m: Module) -> list[Value]:
        """Return the multiple of each lane, its top bit inverted."""
        serial_sum, choices = self.serial_sum, self.queue * GROUP_TERMS
        rows: list[Value] = []
        for lane in range(serial_sum.lanes):
            w = self.w.word_select(lane, choices * serial_sum.factor.width)
            select = self.select.word_select(lane, choices)
            factor = Signal(serial_sum.factor.width, name=f"factor_{lane}")
            terms = [
                w.word_select(i, len(factor)) & select[i].replicate(len(factor))
                for i in range(choices)
            ]
            while len(terms) > 1:
                terms = [a | b for a, b in zip(terms[::2], terms[1::2], strict=True)]
            m.d.comb += factor.eq(terms[0])
            wide = Cat(factor, *([] if serial_sum.factor.signed else [Const(0, 1)]))
            row = Signal(serial_sum.row_width, name=f"row_{lane}")
            double, single = Cat(Const(0, 1), wide), Cat(wide, wide[-1])
            one, two = (select[lane].replicate(len(row)) for select in (self.one, self.two))
            multiple = (single & one) | (double & two)
            inverted = self.negative[lane].replicate(len(row) - 1)
            m.d.comb += row.eq(multiple ^ Cat(inverted, ~self.negative[lane]))
            rows.append(row)
        return rows

    def _fed_back(self, bits: dict[int, Value], columns: range) -> Value:
        """Return bits of columns as they are, from two columns below, or zero."""
        zero = Const(0, 1)
        return Cat(
            (bits.get(column, zero) & self.hold) | (bits.get(column - 2, zero) & self.shift)
            for column in columns
        )


class SerialFinalAdder(Block):
    """A step of the final carry-propagate add of a serial accumulator: some bits of its value.

    Parameters
    ----------
    serial_sum : SerialSum
    number : int
        Of the step; each takes what the one before gives.

    Members
    -------
    i : In
        First sum and carries, see `SerialPe`; later the bits that are known, a carry, and two
        numbers to be added above them.
    sign_constant : In
        In the first step, what is more than the result, inverted; see `SerialPe`.
    o : Out
    """

    def __init__(self, serial_sum: SerialSum, number: int) -> None:
        self.serial_sum, self.number = serial_sum, number
        first = {"sign_constant": In(serial_sum.width)} if number == 0 else {}
        width = serial_sum.width_after(number) if number else serial_sum.register_bits
        super().__init__(
            f"resolve_{number}",
            {"i": In(width), **first, "o": Out(serial_sum.width_after(number + 1))},
        )

    def build(self, m: Module) -> None:
        width = self.serial_sum.width
        start, end = (self.serial_sum.finished_bits(self.number + step) for step in range(2))
        if self.number == 0:
            operands = [HeapOperand(self.sign_constant), HeapOperand(self.i[:width])] + [
                HeapOperand(bit, column)
                for bit, column in zip(self.i[width:], self.serial_sum.carries, strict=True)
            ]
            first, saved = compress(m, "bit", operands, width, 0, range(width))
            second: Value = Cat(saved.get(column, Const(0, 1)) for column in range(width))
            finished, carry = Const(0, 0), Const(1, 1)  # the negative is the inverse and one
        else:
            finished, carry, rest = self.i[:start], self.i[start], self.i[start + 1 :]
            first, second = rest[: width - start], rest[width - start :]
        # One sum of two numbers: the carry enters by a column below.
        numbers = [Cat(carry, number[: end - start]) for number in (first, second)]
        total = (numbers[0] + numbers[1])[1:]
        rest_ = Cat(first[end - start :], second[end - start :])
        last = self.number + 1 == FINAL_STEPS
        m.d.comb += self.o.eq(Cat(finished, total[: end - start] if last else total, rest_))
