# SPDX-License-Identifier: Apache-2.0
"""Products by radix-4 digits: encoders of one factor, rows of multiples of the other.

See `hwgen.arithmetic.digits`.  An encoder serves every product with its factor, so it stands at
the edge of an array; what a product itself needs is a multiplexer and an inverter a bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.arithmetic.digit_sums import MULTIPLE_ARRIVAL, DigitSum
from hwgen.arithmetic.digits import Encoding, digit_count
from hwgen.formats.integer import IntegerFormat
from rtl_templates.arithmetic.integer.compressor import HeapOperand, sum_of
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.hdl.hierarchy import Block, place

SELECT_SIGNALS = 4
"""Select lines of a digit: its magnitude is one, it is two, it is negative; the top bit of its row
is inverted."""


class Recoder(Block):
    """Digits of a number, as select lines.

    Parameters
    ----------
    encoding : {"booth4", "ent"}
    fmt : IntegerFormat

    Members
    -------
    x : In
        The number.
    one, two, negative : Out
        Of each digit: its magnitude is one; it is two; it is less than zero.  All are zero of a
        digit that is zero.
    """

    def __init__(self, encoding: Encoding, fmt: IntegerFormat) -> None:
        digits = digit_count(fmt)
        super().__init__(
            f"recode_{encoding}_{fmt}",
            {
                "x": In(shape_of(fmt)),
                **{name: Out(digits) for name in ("one", "two", "negative")},
            },
        )
        self.encoding, self.fmt, self.digits = encoding, fmt, digits

    def build(self, m: Module) -> None:
        recoded = self._booth if self.encoding == "booth4" else self._magnitude
        for name, selects in zip(
            ("one", "two", "negative"), zip(*recoded(m), strict=True), strict=True
        ):
            m.d.comb += getattr(self, name).eq(Cat(*selects))

    def _booth(self, m: Module) -> list[tuple[Value, Value, Value]]:
        bits = booth_bits(self.x, self.fmt)
        return [booth_digit(*bits[2 * i : 2 * i + 3]) for i in range(self.digits)]

    def _magnitude(self, m: Module) -> list[tuple[Value, Value, Value]]:
        sign: Value = Const(0, 1)
        magnitude: Value = self.x
        if self.fmt.signed:
            sign = self.x[-1]
            inverted = Signal(self.fmt.width, name="magnitude")
            m.d.comb += inverted.eq((self.x ^ sign.replicate(self.fmt.width)) + sign)
            magnitude = inverted
        bits = [*magnitude, Const(0, 1), Const(0, 1)]
        carry: Value = Const(0, 1)
        selects = []
        for digit in range(self.digits):
            low, high = bits[2 * digit : 2 * digit + 2]
            # The pair and the carry are one, two, or three or four, which leave a carry.
            one, low_carry = low ^ carry, low & carry
            two = (high ^ low_carry) & ~one
            three = high & ~low_carry & one
            selects.append((one, two, (one | two) & (sign ^ three)))
            carry = (high & low) | (high & carry)
        return selects


def booth_bits(x: Value, fmt: IntegerFormat) -> list[Value]:
    """Return the bits of a number of which three make a digit: digit i those from 2i on."""
    sign = x[-1] if fmt.signed else Const(0, 1)
    return [Const(0, 1), *x, sign, sign]


def booth_digit(below: Value, low: Value, high: Value) -> tuple[Value, Value, Value]:
    """Return whether the digit of three bits is of magnitude one, of two, and is negative."""
    return (
        low ^ below,
        (high & ~low & ~below) | (~high & low & below),
        high & ~(low & below),
    )


@dataclass(frozen=True)
class Digits:
    """Select lines of the digits of a number, all zero if there is none."""

    one: Value
    two: Value
    negative: Value
    top: Value

    @staticmethod
    def width(fmt: IntegerFormat) -> int:
        """Return the bits of all select signals of a number of the format."""
        return SELECT_SIGNALS * digit_count(fmt)

    @classmethod
    def of(cls, selects: Value) -> Digits:
        """Return the signals that `joined` put together."""
        return cls(
            *(selects.word_select(i, len(selects) // SELECT_SIGNALS) for i in range(SELECT_SIGNALS))
        )

    @property
    def joined(self) -> Value:
        """All signals in one value."""
        return Cat(self.one, self.two, self.negative, self.top)


def recode(
    m: Module, name: str, encoding: Encoding, fmt: IntegerFormat, x: Value, on: Value
) -> Digits:
    """Return the digits of `x` by an encoder called `name`, all signals zero while `on` is low."""
    digits = digit_count(fmt)
    selects = [Signal(digits, name=f"{name}_{select}") for select in ("one", "two", "negative")]
    one, two, negative = selects
    place(m, name, Recoder(encoding, fmt), x=x, one=one, two=two, negative=negative)
    gate = on.replicate(digits)
    return Digits(one & gate, two & gate, negative & gate, ~negative & gate)


def row_operands(
    m: Module, name: str, digits: Digits, factor: Value, digit_sum: DigitSum
) -> list[HeapOperand]:
    """Return the rows of a product, to be added; see `DigitSum`."""
    double, single = Cat(Const(0, 1), factor), Cat(factor, factor[-1])
    operands = []
    for position, i in enumerate(digit_sum.digits):
        row = Signal(digit_sum.row_width, name=f"{name}_{i}")
        one, two = (select[i].replicate(len(row)) for select in (digits.one, digits.two))
        inverted = Cat(digits.negative[i].replicate(len(row) - 1), digits.top[i])
        m.d.comb += row.eq(((single & one) | (double & two)) ^ inverted)
        operands.append(HeapOperand(row, 2 * position, MULTIPLE_ARRIVAL))
    return operands


def plus_ones(m: Module, name: str, digits: Sequence[Digits], digit_sum: DigitSum) -> Value:
    """Return the two's-complement +1s of products with these digits; see `DigitSum`."""
    ones = [
        HeapOperand(x.negative[i], 2 * n) for x in digits for n, i in enumerate(digit_sum.digits)
    ]
    if digit_sum.plain:
        return Cat(*(operand.value for operand in ones))
    total = Signal(digit_sum.plus_ones_width, name=name)
    m.d.comb += total.eq(sum_of(m, name, ones, len(total)))
    return total
