# SPDX-License-Identifier: Apache-2.0
"""Products of blocks: how wide every sum is, for golden models and hardware alike.

The products of a block are summed exactly, in integers.  The sum times the significands of both
scales is the block's *term*, an integer times a power of two.  Where an operand has a minimum, the
sum of the products is aligned, exactly, with the sum of the other operand's elements times the
minimum, which needs as many bits more as their exponents may differ; both sums together are the
term.  Terms are accumulated

- ``exact``: in a long integer that holds every bit of every term, rounded once at the end;
- ``fp32``: each is rounded to single precision, and added to the total, which is rounded too, in
  the order of the blocks, to nearest, ties to even; from +0 on;
- ``aligned(n)``: those of a step and the total, which is a single-precision number, are aligned at
  the largest of their exponents, cut off below `n` fractional bits, towards zero, and added; the
  sum is cut off to single precision.  The exponent of a term is the sum of those of its scales,
  that of a subnormal total -126, zeros do not count, and what is aligned is at least at -133;
- ``aligned(n, m)``: the sum of a step is cut off to `m` fractional bits of its own exponent.

So add tensor cores, `accumulator.TENSOR_CORES`.  With one of their names the result's signs of
zero and NaNs are theirs too: no sum is -0, and every NaN is 0x7fffffff.

With ``fused`` products are not summed before: each is a term, the product of the significands, and
its exponent is the sum of those of both elements and of the scales.  So do tensor cores treat
floating-point numbers that are no blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from hwgen.formats.block.accumulator import BlockAccumulator
from hwgen.formats.block.factors import Factor, ScaleNumber, largest_exponent, term_count
from hwgen.formats.floating import FloatFormat, floating
from hwgen.formats.integer import IntegerFormat, enclosing_format

MOST_SHIFTED = 1
"""Places by which significands are shifted before they are multiplied, if those of both are."""


@dataclass(frozen=True)
class MinimumSum:
    """The sum of a block's products and of its minimum times the other operand's elements.

    Parameters
    ----------
    factor : Factor
        The operand with a scale and a minimum.
    other : Factor
    side : {"a", "w"}
        Which of both `other` is.
    length : int
        Elements of a block.
    """

    factor: Factor
    other: Factor
    side: Literal["a", "w"]
    length: int

    @property
    def parts(self) -> tuple[ScaleNumber, ScaleNumber]:
        """The scale and the minimum."""
        assert self.factor.scale is not None
        assert self.factor.minimum is not None
        return self.factor.scale, self.factor.minimum

    @property
    def sum(self) -> IntegerFormat:
        """Format of the sum of the other operand's elements."""
        low, high = self.other.range
        return enclosing_format(min(self.length * low, -1), self.length * high)

    @property
    def _last_bits(self) -> tuple[int, int]:
        """Exponents of the last bits of both products, for the smallest exponents."""
        scale, minimum = self.parts
        of_products = scale.exponents[0] - scale.fraction + self.factor.unit
        return of_products, minimum.exponents[0] - minimum.fraction

    @property
    def lowest(self) -> int:
        """Exponent of the last bit of the sum, in units of the other operand's elements."""
        return min(self._last_bits)

    @property
    def shifts(self) -> tuple[int, int]:
        """Places by which the sum of products, and the minimum's, are shifted at least."""
        of_products, of_minimum = self._last_bits
        return of_products - self.lowest, of_minimum - self.lowest

    def ends(self, products: tuple[int, int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the smallest and largest of both parts, shifted as far as they can be."""
        low, high = self.other.range
        sums = products, (self.length * low, self.length * high)
        ends = []
        for part, interval, shift in zip(self.parts, sums, self.shifts, strict=True):
            bottom, top = _products(interval, part.range)
            reach = part.exponents[1] - part.exponents[0] + shift
            ends.append((bottom << reach, top << reach))
        return ends[0], ends[1]

    def range(self, products: tuple[int, int]) -> tuple[int, int]:
        """Return the smallest and largest sum, of sums of products between two numbers."""
        x, y = self.ends(products)
        return x[0] + y[0], x[1] + y[1]


@dataclass(frozen=True)
class BlockProduct:
    """The arithmetic of a core that multiplies blocks.

    Parameters
    ----------
    a, w : Factor
        At least one of them has blocks; both, if they do, of one length.  Only one has a minimum.
    accumulator : BlockAccumulator
    length : int
        Elements of a block.
    blocks_per_step : int
        Blocks that are accumulated at a time.
    blocks : int
        Most blocks of a reduction.
    hybrid : bool
        Whether the significands of one operand are multiplied by the integers of the other, and
        their products shifted; else one that is floating point is shifted at the edge.
    serial : bool
        Whether elements of `w` are taken term by term; see `hwgen.formats.block.terms`.
    fused : bool
        Whether each product is a term by itself.
    """

    a: Factor
    w: Factor
    accumulator: BlockAccumulator
    length: int
    blocks_per_step: int
    blocks: int
    hybrid: bool = False
    serial: bool = False
    fused: bool = False

    @property
    def addends(self) -> int:
        """Terms that are accumulated at a time."""
        return self.blocks_per_step * (self.length if self.fused else 1)

    @cached_property
    def terms(self) -> int:
        """Cycles in which a beat is multiplied."""
        return term_count(self.w) if self.serial else 1

    @property
    def result(self) -> FloatFormat:
        """Format of results."""
        return self.accumulator.result

    def sum_of(self, terms: int) -> IntegerFormat:
        """Return the format of sums of products of elements."""
        low, high = _products(self.a.range, self.w.range)
        return enclosing_format(terms * low, terms * high)

    @cached_property
    def addend(self) -> IntegerFormat:
        """Format of what is added at a time: a product of elements, or of an element and a term.

        Terms may be larger than the element that they make: 6 is 8 - 2.
        """
        if not self.serial:
            return self.sum_of(1)
        low, high = self.a.range
        largest = max(-low, high) << largest_exponent(self.w)
        return enclosing_format(-largest, largest)

    @cached_property
    def sum(self) -> IntegerFormat:
        """Format of the exact sum of a block."""
        return self.sum_of(self.length)

    @property
    def splits(self) -> bool:
        """Whether significands are multiplied and their products shifted, not whole elements.

        Elements of one operand that are shifted are so once for a row or a column; of two, the
        factors of integers would be much longer than the significands.  Special numbers have none.
        """
        return (
            self.hybrid
            or self.serial
            or self.fused
            or all(f.shifts > MOST_SHIFTED and not f.special_width for f in (self.a, self.w))
        )

    @property
    def scales(self) -> tuple[ScaleNumber, ...]:
        """The scales whose exponents are those of a term: not of an operand with a minimum."""
        factors = (self.a, self.w)
        return tuple(f.scale for f in factors if f.scale is not None and f.minimum is None)

    @property
    def integer_scale(self) -> int:
        """Bits of the scale of `w` if it is an integer, and the only significand; else 0."""
        numbers = [scale for scale in self.scales if scale.range != (1, 1)]
        scale_of_w = self.w.scale
        if scale_of_w is None or len(numbers) != 1 or self.w.minimum is not None:
            return 0
        return (
            scale_of_w.significand.width
            if scale_of_w in numbers and scale_of_w.scale.name == "uint8"
            else 0
        )

    @property
    def offset(self) -> MinimumSum | None:
        """Alignment of the sum of products with that of a minimum, None without minima."""
        if self.w.minimum is not None:
            return MinimumSum(self.w, self.a, "a", self.length)
        return MinimumSum(self.a, self.w, "w", self.length) if self.a.minimum else None

    @property
    def _significands(self) -> tuple[int, int]:
        ends = (1, 1)
        for scale in self.scales:
            ends = _products(ends, scale.range)
        return ends

    @cached_property
    def term(self) -> IntegerFormat:
        """Format of a term, as an integer; signed."""
        if self.fused:
            most = (1 << self.a.precision) - 1, (1 << self.w.precision) - 1
            return enclosing_format(-most[0] * most[1], most[0] * most[1])
        low, high = _products(self.a.range, self.w.range)
        ends = self.length * low, self.length * high
        if self.offset is not None:
            ends = self.offset.range(ends)
        low, high = _products(ends, self._significands)
        return enclosing_format(min(low, -1), high)

    @property
    def fraction(self) -> int:
        """A term is so many times ``2**-1`` smaller than its integer times ``2**exponent``."""
        places = sum(scale.fraction for scale in self.scales)
        if self.offset is not None:
            return places - self.offset.other.unit - self.offset.lowest
        if self.fused:
            return self.a.precision + self.w.precision - 2
        return places - self.a.unit - self.w.unit

    @property
    def exponents(self) -> tuple[int, int]:
        """Smallest and largest exponent of a term: the sum of those of its scales.

        Where each product is a term, those of both elements are added.
        """
        lows, highs = [s.exponents[0] for s in self.scales], [s.exponents[1] for s in self.scales]
        if self.fused:
            lows += [f.lowest_exponent for f in (self.a, self.w)]
            highs += [f.lowest_exponent + f.shifts for f in (self.a, self.w)]
        return sum(lows), sum(highs)

    @property
    def lowest_exponent(self) -> int:
        """Lowest exponent at which terms are aligned: of no terms below, that of subnormals."""
        subnormal = 1 - self.result.bias
        return max(self.accumulator.lowest_exponent, min(self.exponents[0], subnormal))

    @property
    def last_bit(self) -> int:
        """Exponent of the last bit of exact totals."""
        return self.exponents[0] - self.fraction

    @cached_property
    def total(self) -> IntegerFormat:
        """Format of exact totals, in units of ``2**last_bit``."""
        low, high = self.exponents
        most = self.blocks << (high - low)
        return enclosing_format(most * -(1 << self.term.width - 1), most << (self.term.width - 1))

    @property
    def whole_bits(self) -> int:
        """Bits of a term in front of its binary point, without the sign."""
        return max(self.term.width - 1 - self.fraction, 1)

    @property
    def aligned(self) -> IntegerFormat:
        """Format of the sum of aligned terms and the total."""
        terms = self.addends * (1 << self.whole_bits) + 2  # the total is below 2
        return IntegerFormat((terms - 1).bit_length() + self.accumulator.fraction_bits + 1, True)

    @property
    def flags(self) -> int:
        """Bits beside an exact total: that it is a NaN, and each infinity."""
        return self.has_nan + 2 * self.has_infinities

    @property
    def has_nan_elements(self) -> bool:
        """Whether an element can be a NaN."""
        return self.a.has_nan or self.w.has_nan

    @property
    def flags_of_sum(self) -> int:
        """Bits beside the sum of a block: that there is a NaN, and each infinity."""
        return self.has_nan_elements + 2 * self.has_infinities

    @property
    def rounds_at_end(self) -> bool:
        """Whether totals are rounded on their way out, not in the accumulators."""
        return self.accumulator.method == "exact"

    @property
    def accumulator_bits(self) -> int:
        """Bits of the accumulator of a result."""
        return self.total.width + self.flags if self.rounds_at_end else self.result.width

    @property
    def has_nan(self) -> bool:
        """Whether a NaN can come in, by an element or a scale."""
        numbers = (self.a.scale, self.w.scale, self.a.minimum, self.w.minimum)
        scales = any(scale.has_nan for scale in numbers if scale is not None)
        return scales or self.has_nan_elements

    @property
    def has_infinities(self) -> bool:
        """Whether an infinity can come in."""
        return self.a.has_infinities or self.w.has_infinities


# -- one datapath of several formats ---------------------------------------------------------
#
# A processing element has, for each of its `depth` lanes, four multipliers of 4 by 4 bits, the
# *slots*.  Each takes magnitudes, signs and shifts: significands of small floating-point numbers,
# or a half of the magnitude of an 8-bit integer, whose four partial products make one product.  So
# a lane makes as many products a cycle as `SCALABLE` says.  Sums are exact, each in units of its
# own format; how much larger these are than the smallest is added to the exponent of the block.

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
    """Arithmetic of a datapath of several formats; see `BlockProduct`.

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
        """Accumulation of terms."""
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
        """Return the half of an integer's magnitude that a slot multiplies: 1 is the upper one."""
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
        """Constants that are added to exponents, by number of the format."""
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


def _products(x: tuple[int, int], y: tuple[int, int]) -> tuple[int, int]:
    """Return the smallest and largest product of numbers of two ranges."""
    corners = [a * b for a in x for b in y]
    return min(corners), max(corners)
