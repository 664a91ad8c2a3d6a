# SPDX-License-Identifier: Apache-2.0
"""Products by radix-4 digits: encoders of one factor, rows of multiples of the other.

See `hwgen.numerics.digits`.  An encoder serves every product with its factor, so it stands at
the edge of an array; what a product itself needs is a multiplexer and an inverter a bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out

from hwgen.numerics.digit_sums import DigitSum
from hwgen.numerics.digits import Encoding, digit_count
from hwgen.numerics.integer import IntegerFormat
from rtl_templates.hierarchy import Block, place

from .compressor import Operand, sum_of
from .integer import shape_of

LINES = 3
"""Select lines of a digit: its magnitude is one, it is two, it is negative."""

MULTIPLE = 20
"""Delay of a multiple behind its select lines, in tenths of a gate's."""


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
        by = self._booth if self.encoding == "booth4" else self._magnitude
        for name, lines in zip(("one", "two", "negative"), zip(*by(m), strict=True), strict=True):
            m.d.comb += getattr(self, name).eq(Cat(*lines))

    def _booth(self, m: Module) -> list[tuple[Value, Value, Value]]:
        sign = self.x[-1] if self.fmt.signed else Const(0, 1)
        bits = [Const(0, 1), *self.x, sign, sign]
        lines = []
        for place_ in range(0, 2 * self.digits, 2):
            below, low, high = bits[place_ : place_ + 3]
            lines.append(
                (
                    low ^ below,
                    (high & ~low & ~below) | (~high & low & below),
                    high & ~(low & below),
                )
            )
        return lines

    def _magnitude(self, m: Module) -> list[tuple[Value, Value, Value]]:
        sign: Value = Const(0, 1)
        magnitude: Value = self.x
        if self.fmt.signed:
            sign = self.x[-1]
            held = Signal(self.fmt.width, name="magnitude")
            m.d.comb += held.eq((self.x ^ sign.replicate(self.fmt.width)) + sign)
            magnitude = held
        bits = [*magnitude, Const(0, 1), Const(0, 1)]
        carry: Value = Const(0, 1)
        lines = []
        for digit in range(self.digits):
            low, high = bits[2 * digit : 2 * digit + 2]
            # The pair and the carry are one, two, or three or four, which leave a carry.
            one, both = low ^ carry, low & carry
            two = (high ^ both) & ~one
            three = high & ~both & one
            lines.append((one, two, (one | two) & (sign ^ three)))
            carry = (high & low) | (high & carry)
        return lines


@dataclass(frozen=True)
class Digits:
    """Select lines of the digits of a number."""

    one: Value
    two: Value
    negative: Value

    @staticmethod
    def width(fmt: IntegerFormat) -> int:
        """Return the bits of all lines of a number of the format."""
        return LINES * digit_count(fmt)

    @classmethod
    def of(cls, lines: Value) -> Digits:
        """Return the lines that `joined` put together."""
        one, two, negative = (lines.word_select(i, len(lines) // LINES) for i in range(LINES))
        return cls(one, two, negative)

    @property
    def joined(self) -> Value:
        """All lines in one value."""
        return Cat(self.one, self.two, self.negative)


def recode(m: Module, name: str, encoding: Encoding, fmt: IntegerFormat, x: Value) -> Digits:
    """Return the digits of `x`, by an encoder called `name`."""
    lines = {
        line: Signal(digit_count(fmt), name=f"{name}_{line}") for line in ("one", "two", "negative")
    }
    place(m, name, Recoder(encoding, fmt), x=x, **lines)
    return Digits(**lines)


def gated(
    m: Module, name: str, encoding: Encoding, fmt: IntegerFormat, x: Value, on: Value
) -> Digits:
    """Return the digits of `x`, zeros while `on` is low; see `recode`."""
    digits = recode(m, name, encoding, fmt, x)
    return Digits.of(digits.joined & on.replicate(Digits.width(fmt)))


def rows_of(m: Module, name: str, digits: Digits, factor: Value, what: DigitSum) -> list[Value]:
    """Return the row of every digit, the least significant first; see `DigitSum`."""
    doubled = Cat(Const(0, 1), factor)
    # A signed factor's own row is extended by its sign, an unsigned one's by zero.
    single = Cat(factor, factor[-1] if what.factor.signed else Const(0, 1))
    rows = []
    for i in what.digits:
        row = Signal(what.row_width, name=f"{name}_{i}")
        width = what.row_width
        multiple = (single & digits.one[i].replicate(width)) | (
            doubled & digits.two[i].replicate(width)
        )
        inverted: Value = digits.negative[i].replicate(width)
        if what.factor.signed:
            inverted = inverted ^ (1 << (width - 1))
        m.d.comb += row.eq(multiple ^ inverted)
        rows.append(row)
    return rows


def row_operands(
    m: Module, name: str, digits: Sequence[Digits], factors: Sequence[Value], what: DigitSum
) -> list[Operand]:
    """Return the rows of all products, to be added; see `DigitSum`."""
    return [
        Operand(row, 2 * i, MULTIPLE)
        for term, (x, y) in enumerate(zip(digits, factors, strict=True))
        for i, row in enumerate(rows_of(m, f"{name}_{term}", x, y, what))
    ]


def correction(m: Module, name: str, digits: Sequence[Digits], what: DigitSum) -> Value:
    """Return the correction of products with these digits; see `DigitSum`."""
    fmt = what.correction
    total = Signal(shape_of(fmt), name=name)
    ones = [Operand(x.negative[i], 2 * (i - what.digits[0])) for x in digits for i in what.digits]
    if what.factor.signed:
        m.d.comb += total.eq(sum_of(m, name, ones, fmt.width))
        return total
    # Each 1 comes with the sign of its row: x - x * 2**row_width.
    plain = replace(what, factor=IntegerFormat(what.factor.width, True))
    count = Signal(shape_of(plain.correction), name=f"{name}_ones")
    m.d.comb += [
        count.eq(sum_of(m, name, ones, len(count))),
        total.eq(count - (count << what.row_width)),
    ]
    return total
