# SPDX-License-Identifier: Apache-2.0
"""Products of blocks in several formats by one datapath, the format with each beat.

A processing element has, for each of its `depth` lanes, four multipliers of 4 by 4 bits, the
*slots*.  Each takes magnitudes, signs and shifts: significands of small floating-point numbers, or
a half of the magnitude of an 8-bit integer, whose four partial products make one product.  So a
lane makes as many products a cycle as `SCALABLE` says.  Sums are exact, each in units of its own
format; how much larger these are than the smallest is added to the exponent of the block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hwgen.formats.block.factors import Factor
from hwgen.formats.block.products import BlockAccumulator, BlockProduct
from hwgen.formats.floating import FloatFormat, floating
from hwgen.formats.integer import IntegerFormat

SCALABLE = {"mxint8": 1, "mxfp8_e4m3": 1, "mxfp6_e2m3": 2, "mxfp4": 4}
"""Formats of both operands, and products of a lane and cycle; a beat has a format's number."""

MODE_BITS = (len(SCALABLE) - 1).bit_length()
"""Bits of that number, the highest of a lane."""

SLOTS, PART = 4, 4
"""Multipliers of a lane, and bits of their factors."""

DEPTHS = (4, 8)
"""Lanes of a processing element: a block takes 1 to 8 beats, with its scale in equal parts."""


@dataclass(frozen=True)
class ScalableProduct:
    """What the datapath needs to know of its formats together; see `BlockProduct`.

    Parameters
    ----------
    products : tuple of BlockProduct
        Of each of `SCALABLE` with itself.
    depth : int
        Lanes.
    """

    products: tuple[BlockProduct, ...]
    depth: int

    @property
    def accumulator(self) -> BlockAccumulator:
        """How terms are accumulated."""
        return self.products[0].accumulator

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The formats of elements, by number."""
        return tuple(product.a for product in self.products)

    @property
    def counts(self) -> tuple[int, ...]:
        """Products of a lane and cycle, by number of the format."""
        return tuple(SCALABLE.values())

    @property
    def beats(self) -> tuple[int, ...]:
        """Beats of a block, by number of the format."""
        return tuple(self.products[0].length // (self.depth * count) for count in self.counts)

    def shift_of(self, mode: int, slot: int, side: str) -> int:
        """Return the largest shift of a factor in a slot; of halves of integers the only one."""
        factor = self.factors[mode]
        if factor.fields is None:
            return PART * self.half_of(slot, side)
        return factor.shifts if slot < self.counts[mode] else 0

    @staticmethod
    def half_of(slot: int, side: str) -> int:
        """Return which half of an integer's magnitude a slot multiplies: 1 is the upper one."""
        return slot & 1 if side == "a" else slot >> 1

    def shift_width(self, slot: int, side: str) -> int:
        """Return the bits of the shift of a factor."""
        return max(self.shift_of(mode, slot, side) for mode in range(len(SCALABLE))).bit_length()

    def addend_width(self, slot: int) -> int:
        """Return the bits of a product in its place, with its sign."""
        reach = max(
            self.shift_of(mode, slot, "a") + self.shift_of(mode, slot, "w")
            for mode in range(len(SCALABLE))
        )
        return 2 * PART + reach + 1

    @cached_property
    def sum(self) -> IntegerFormat:
        """Format of the exact sum of a block."""
        return IntegerFormat(max(product.sum.width for product in self.products), True)

    @property
    def term(self) -> IntegerFormat:
        """Format of a block's term: scales are powers of two."""
        return self.sum

    @property
    def fraction(self) -> int:
        """As of `BlockProduct`, for the smallest units."""
        return max(product.fraction for product in self.products)

    @property
    def rises(self) -> tuple[int, ...]:
        """How much is added to exponents, by number of the format."""
        return tuple(self.fraction - product.fraction for product in self.products)

    @property
    def exponents(self) -> tuple[int, int]:
        """Smallest and largest exponent of a term."""
        low, high = self.products[0].exponents
        return low, high + max(self.rises)

    @property
    def addends(self) -> int:
        """Terms that are accumulated at a time."""
        return 1

    @property
    def result(self) -> FloatFormat:
        """Format of results."""
        return floating("fp32")

    @property
    def has_nan(self) -> bool:
        """Whether a NaN can come in: a scale may be one."""
        return True

    @property
    def has_infinities(self) -> bool:
        """Whether an infinity can come in: no format has any."""
        return False
