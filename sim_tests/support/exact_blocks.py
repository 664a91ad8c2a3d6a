# SPDX-License-Identifier: Apache-2.0
"""Products of blocks in rational numbers: the reference for golden models.

Nothing here is shared with the models but the tables of the formats: an element is the number that
its format's table says, a scale the number that its description says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

SMALLEST = -149
"""Exponent of the smallest subnormal of single precision."""

LOWEST = -133
"""Lowest exponent at which terms are aligned."""

NAN, INFINITE = 0x7FC00000, 0x7F800000

_FLOATS = {NAN: math.nan, INFINITE: math.inf, INFINITE | 0x80000000: -math.inf}


def bits_of(value: Fraction, *, nearest: bool) -> int:
    """Return a number in single precision, to nearest, ties to even, or cut off towards zero."""
    magnitude, sign = abs(value), 0x80000000 if value < 0 else 0
    if not magnitude:
        return 0
    exponent = math.floor(math.log2(magnitude.numerator) - math.log2(magnitude.denominator))
    while Fraction(2) ** exponent > magnitude:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= magnitude:
        exponent += 1
    last = max(exponent - 23, SMALLEST)
    units = magnitude / Fraction(2) ** last
    whole = math.floor(units)
    rest = units - whole
    if nearest and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)):
        whole += 1
    if not whole:
        return sign
    if whole.bit_length() > 24:
        whole, last = whole >> 1, last + 1
    if last + 23 > 127:
        return sign | INFINITE
    if whole.bit_length() < 24:
        return sign | whole
    return sign | (last - SMALLEST + 1) << 23 | whole & 0x7FFFFF


def number_of(bits: int) -> Fraction:
    """Return the value of a finite number of single precision."""
    magnitude = bits & 0x7FFFFFFF
    exponent, fraction = magnitude >> 23, magnitude & 0x7FFFFF
    units = fraction | (0x800000 if exponent else 0)
    value = Fraction(units) * Fraction(2) ** (max(exponent, 1) + SMALLEST - 1)
    return -value if bits >> 31 else value


def exponent_of(bits: int) -> int:
    """Return the exponent of a finite number, that of the smallest normal one at least."""
    return max(bits >> 23 & 0xFF, 1) - 127


class Block:
    """A block of an operand: elements, the value of its scale, the exponent of that, a minimum."""

    def __init__(
        self,
        elements: Sequence[float],
        scale: float,
        exponent: int,
        minimum: float | None = None,
    ) -> None:
        self.elements = [float(element) for element in elements]
        self.scale, self.exponent = float(scale), int(exponent)
        self.minimum = minimum


def term(a: Block, w: Block) -> Fraction | float:
    """Return the product of two blocks: a number, NaN or an infinity.

    With a minimum it is two products, of the elements and of ones times the minimum.
    """
    for other, block in ((a, w), (w, a)):
        if block.minimum is not None:
            ones = Block([1.0] * len(block.elements), block.minimum, 0)
            products = Block(block.elements, block.scale, 0)
            return _plus(term(other, products), term(other, ones))
    if not (math.isfinite(a.scale) and math.isfinite(w.scale)):
        return math.nan
    scale = Fraction(a.scale) * Fraction(w.scale)
    special, total = 0.0, Fraction(0)
    for x, y in zip(a.elements, w.elements, strict=True):
        if math.isfinite(x) and math.isfinite(y):
            total += Fraction(x) * Fraction(y)
        else:
            special += x * y
    if special:  # an infinity or a NaN
        return special * math.copysign(float(scale != 0), scale)
    return total * scale


def _plus(x: Fraction | float, y: Fraction | float) -> Fraction | float:
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return x + y
    return sum(float(v) for v in (x, y) if not isinstance(v, Fraction))


def summed(
    accumulator: str, steps: Sequence[Sequence[tuple[Fraction | float, int]]], fraction_bits: int
) -> int:
    """Return the bits of a sum of terms with their exponents, those of a step together."""
    if accumulator == "exact":
        flat = [value for step in steps for value, _ in step]
        result = _special(flat)
        return (
            bits_of(sum(map(_rational, flat), Fraction(0)), nearest=True)
            if result is None
            else result
        )
    total = 0
    with np.errstate(all="ignore"):
        for step in steps:
            if accumulator == "fp32":
                ((value, _),) = step
                total = _added(total, value)
            else:
                total = _aligned(total, step, fraction_bits)
    return total


def _rational(value: Fraction | float) -> Fraction:
    return Fraction(value)


def _special(values: Sequence[Fraction | float]) -> int | None:
    """Return the bits of the sum of what are no numbers, None if all are."""
    others = [float(value) for value in values if not math.isfinite(value)]
    if not others:
        return None
    total = sum(others)
    if math.isnan(total):
        return NAN
    return INFINITE if total > 0 else INFINITE | 0x80000000


def _added(total: int, value: Fraction | float) -> int:
    """Return a total and a term that is rounded first, added in single precision by the machine."""
    if math.isnan(value):
        addend = NAN
    elif math.isinf(value):
        addend = INFINITE if value > 0 else INFINITE | 0x80000000
    else:
        addend = bits_of(Fraction(value), nearest=True)
    if addend & INFINITE != INFINITE and total & INFINITE != INFINITE:
        return bits_of(number_of(total) + number_of(addend), nearest=True)
    pair = np.array([total, addend], np.uint32).view(np.float32)
    result = pair[0] + pair[1]
    return NAN if np.isnan(result) else int(np.asarray(result).view(np.uint32))


def _aligned(total: int, step: Sequence[tuple[Fraction | float, int]], fraction_bits: int) -> int:
    before = [] if total & INFINITE != INFINITE else [_FLOATS[total]]
    special = _special([*before, *(value for value, _ in step)])
    if special is not None:
        return special
    terms = [(Fraction(v), e) for v, e in step if math.isfinite(v) and v]
    largest = max([exponent_of(total) if number_of(total) else LOWEST, *(e for _, e in terms)])
    largest = max(largest, LOWEST)
    unit = Fraction(2) ** (largest - fraction_bits)
    numbers = [number_of(total), *(value for value, _ in terms)]
    return bits_of(sum((math.trunc(n / unit) for n in numbers), 0) * unit, nearest=False)
