# SPDX-License-Identifier: Apache-2.0
"""Sums of products by radix-4 digits: which bits are added, and in which accumulators.

Hardware is made from this, and its adders and registers are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hwgen.arithmetic.digits import digit_count
from hwgen.formats.integer import IntegerFormat, enclosing_format

SUMMED_PRODUCTS = 4
"""Products that are summed before the first of two registers."""

MULTIPLE_ARRIVAL, CARRY_ARRIVAL = 20, 15
"""When a multiple is there behind its select lines, and the old total behind the gate that clears
it, in tenths of a gate's delay."""


@dataclass(frozen=True)
class DigitSum:
    """The rows of bits whose sum is a sum of products, one factor of each product in digits.

    The row of a digit, a partial product, is a multiple of the other factor: the factor or its
    double, all bits inverted if the digit is negative.  Rows hold no sign: the top bit, worth
    ``-2**p``, is inverted and then worth ``2**p``, which makes the sum too large by the
    *sign-extension constant*; so sums only grow, and what they have grown by is subtracted at the
    end.  The *two's-complement +1* of each inverted row depends on the digits alone; these are
    counted once for all products with the same digits.

    Parameters
    ----------
    recoded : IntegerFormat
        Format of the factors in digits.
    factor : IntegerFormat
        Format of the other factors, signed.
    terms : int
        Number of products.
    digits : range
        The digits of each factor that take part, by default all; the first is worth 1.
    """

    recoded: IntegerFormat
    factor: IntegerFormat
    terms: int
    digits: range = range(0)

    def __post_init__(self) -> None:
        if not self.digits:
            object.__setattr__(self, "digits", range(digit_count(self.recoded)))

    @property
    def row_width(self) -> int:
        """Bits of a row: those of the double of the other factor."""
        return self.factor.width + 1

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.terms * len(self.digits)

    @property
    def ones(self) -> int:
        """Sum of what the digits of all factors are worth if each is 1."""
        return self.terms * ((1 << 2 * len(self.digits)) - 1) // 3

    @property
    def sign_constant(self) -> int:
        """The sign-extension constant, by which rows and their +1s are more than the products."""
        return self.ones << (self.row_width - 1)

    @property
    def plain(self) -> bool:
        """Whether the +1s are a bit for each digit, which is negative, and no count."""
        return self.terms == 1

    @property
    def plus_ones_width(self) -> int:
        """Bits of the two's-complement +1s."""
        return len(self.digits) if self.plain else self.ones.bit_length()

    @property
    def total(self) -> IntegerFormat:
        """Format of the sum of the rows, which is never negative."""
        return enclosing_format(0, self.ones * ((1 << self.row_width) - 1))

    @property
    def heights(self) -> list[int]:
        """Rows in each column of bits."""
        columns = [0] * (2 * len(self.digits) - 2 + self.row_width)
        for i in range(len(self.digits)):
            for column in range(2 * i, 2 * i + self.row_width):
                columns[column] += self.terms
        return columns


@dataclass(frozen=True)
class Accumulator:
    """One accumulator of a `DigitAccumulation`.

    Parameters
    ----------
    sum : DigitSum
        What it adds at a time.
    position : int
        Position of its least significant bit in the result.
    width : int
        Bits; carries out of the last are lost.
    spacing : int
        Every so many bits a carry is kept instead of added.
    """

    sum: DigitSum
    position: int
    width: int
    spacing: int

    @property
    def carries(self) -> range:
        """Columns of the carries that are kept."""
        return range(self.spacing, self.width, self.spacing)

    @property
    def register_bits(self) -> int:
        """Bits of its registers."""
        return self.width + len(self.carries)


@dataclass(frozen=True)
class DigitAccumulation:
    """Accumulators of sums of products by digits, modulo a power of two.

    They hold more than the sums, by `sign_constant` for each time that products were added.

    Parameters
    ----------
    recoded, factor : IntegerFormat
        Formats of the factors, the first in digits.
    terms : int
        Products at a time.
    longest : int
        Products in all.
    width : int
        Bits of the result.
    spacing : int
        Every so many bits of an accumulator a carry is kept instead of added: 1 keeps two
        vectors.
    apart : bool
        Whether digits of each weight have an accumulator of their own.
    """

    recoded: IntegerFormat
    factor: IntegerFormat
    terms: int
    longest: int
    width: int
    spacing: int
    apart: bool

    @cached_property
    def parts(self) -> tuple[Accumulator, ...]:
        """The accumulators."""
        if not self.apart:
            everything = DigitSum(self.recoded, self.factor, self.terms)
            return (Accumulator(everything, 0, self.width, self.spacing),)
        times = -(-self.longest // self.terms)
        largest = times * self.terms * ((1 << self.factor.width + 1) - 1)
        return tuple(
            Accumulator(
                DigitSum(self.recoded, self.factor, self.terms, range(i, i + 1)),
                2 * i,
                min(self.width - 2 * i, largest.bit_length()),
                self.spacing,
            )
            for i in range(min(digit_count(self.recoded), (self.width + 1) // 2))
        )

    @property
    def sign_constant(self) -> int:
        """By how much the result grows beyond the sum each time, modulo its power of two.

        The sign-extension constants of all accumulators.
        """
        return sum(part.sum.sign_constant << part.position for part in self.parts) % (
            1 << self.width
        )

    @property
    def register_bits(self) -> int:
        """Bits of all registers."""
        return sum(part.register_bits for part in self.parts)

    @property
    def plus_ones_width(self) -> int:
        """Bits of the two's-complement +1s of all accumulators."""
        return sum(part.sum.plus_ones_width for part in self.parts)


@dataclass(frozen=True)
class FinalAddition:
    """The final carry-propagate add: a result from what accumulators hold, in steps.

    A step finds so many bits of the result, the least significant ones first, and the carry into
    the next.  Registers above pass as they are: there are fewer of them than bits of two numbers.

    Parameters
    ----------
    accumulation : DigitAccumulation
    registers : int
        Registers between the steps; there is one step more.
    """

    accumulation: DigitAccumulation
    registers: int = 0

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.registers + 1

    def finished_bits(self, step: int) -> int:
        """Return the bits of the result that are final before a step."""
        return -(-self.accumulation.width * step // self.steps)

    def columns(self, step: int) -> range:
        """Return the columns of bits that a step adds."""
        return range(self.finished_bits(step), self.finished_bits(step + 1))

    def sums(self, part: Accumulator, first: int) -> range:
        """Return the bits of an accumulator from a column of the result on."""
        return range(min(max(first - part.position, 0), part.width), part.width)

    def carries(self, part: Accumulator, first: int) -> range:
        """Return the carries of an accumulator from a column of the result on."""
        kept = [c for c in part.carries if c + part.position < first]
        return part.carries[len(kept) :]

    def carry_most(self, step: int) -> int:
        """Return the largest carry into a step."""
        if step == 0:
            return 0
        columns = self.columns(step - 1)
        most = self.carry_most(step - 1) + (1 << len(columns)) - 1  # with the sign constant
        for part in self.accumulation.parts:
            for columns_of_bits in (
                self.sums(part, columns.start),
                self.carries(part, columns.start),
            ):
                places = (position + part.position - columns.start for position in columns_of_bits)
                most += sum(1 << position for position in places if position < len(columns))
        return most >> len(columns)

    def carry_width(self, step: int) -> int:
        """Return the bits of the carry into a step."""
        return self.carry_most(step).bit_length()

    def width(self, step: int) -> int:
        """Return the bits of everything in front of a step, but for the sign constant."""
        finished = self.finished_bits(step)
        if step == self.steps:
            return finished
        bits_left = (
            len(self.sums(p, finished)) + len(self.carries(p, finished))
            for p in self.accumulation.parts
        )
        return finished + self.carry_width(step) + sum(bits_left)
