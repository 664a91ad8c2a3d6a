# SPDX-License-Identifier: Apache-2.0
"""Golden products of very many random blocks against exact integers.

``python -m sim_tests.formats.many_blocks [--blocks 1000000] [FORMAT ...]`` multiplies random blocks
of each format, every fourth batch with scales and elements that are NaN, and compares the
results with sums of Python's integers, rounded once.  Nothing is shared with the model but the
values of codes and scales in the formats' descriptions.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from fractions import Fraction
from operator import mul

import numpy as np

from hwgen.core.golden.blocks import block_matrix, block_products
from hwgen.core.params.block_operands import BLOCKS
from hwgen.formats.block import BlockFormat
from hwgen.formats.block.accumulator import BlockAccumulator
from hwgen.formats.block.factors import Factor
from hwgen.formats.block.products import BlockProduct
from hwgen.formats.registry import block_format
from sim_tests.support.exact_blocks import INFINITE, NAN, SMALLEST

FORMATS = (*BLOCKS, "int2_g32", "int4_g128", "int8_g32", "ternary_g64")
LINES = 2000
"""Blocks of a batch, all of which are multiplied by one other."""

_UNIT = 40  # fractional bits of any element


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=1_000_000)
    parser.add_argument("formats", nargs="*", default=FORMATS)
    arguments = parser.parse_args()
    for name in arguments.formats:
        start = time.monotonic()
        count = check(name, arguments.blocks)
        line = f"{name:<12} {count:9,} blocks, {time.monotonic() - start:5.1f} s\n"
        sys.stdout.write(line)
        sys.stdout.flush()


def check(name: str, blocks: int) -> int:
    """Check products of at least so many random blocks of a format; return how many.

    Raises
    ------
    AssertionError
        If a result differs.
    """
    fmt = block_format(name)
    # One operand at most has minima: then the other one is the same in integers without.
    w_fmt = block_format("int8_g32") if fmt.minimum else fmt
    factor, length = Factor(fmt), fmt.block
    assert length == w_fmt.block
    product = BlockProduct(factor, Factor(w_fmt), BlockAccumulator("exact"), length, 1, 1)
    rng = np.random.default_rng(list(name.encode()))
    elements, w_elements = _elements(fmt), _elements(w_fmt)
    done = 0
    while done < blocks:
        kind = "random" if done // LINES % 4 else "special"
        a = fmt.sample(rng, (LINES, length), kind)
        w = w_fmt.sample(rng, (1, length), "random")
        matrices = (block_matrix(product, each, lines) for each, lines in ((fmt, a), (w_fmt, w)))
        got = block_products(product, *matrices).view(np.uint32)[:, 0].tolist()
        ((other, factor_of_other),) = _numbers(w_fmt, w, w_elements)
        minima = _minima(fmt, a)
        for i, (numbers, scale) in enumerate(_numbers(fmt, a, elements)):
            if minima is None:
                expected = _product(numbers, scale, other, factor_of_other)
            elif math.isfinite(scale) and math.isfinite(minima[i]):
                expected = _with_minimum(numbers, scale, minima[i], other, factor_of_other)
            else:
                continue
            assert got[i] == expected, (name, done + i, hex(got[i]), hex(expected))
        done += LINES
    return done


def _elements(fmt: BlockFormat) -> list[list[float | int]]:
    """Return the values of the codes of a format, for each special number."""
    return [
        [_exact(value) for value in fmt.elements_of(choice).values]
        for choice in range(max(1, len(fmt.special)))
    ]


def _minima(fmt: BlockFormat, lines: np.ndarray) -> list[float] | None:
    """Return the minima of blocks, None of a format without."""
    if not fmt.minimum:
        return None
    return list(fmt.minimum.decode(lines["minimum"][:, 0]).tolist())


def _with_minimum(
    x: list[float | int], a: float, low: float, y: list[float | int], w: float
) -> int:
    """Return the bits of the product of blocks whose first one has a minimum, rounded once."""
    exact = Fraction(a) * Fraction(w) * sum(map(mul, x, y)) / (1 << 2 * _UNIT)
    exact += Fraction(low) * Fraction(w) * sum(y) / (1 << _UNIT)
    numerator, denominator = exact.as_integer_ratio()
    return rounded(numerator, 1 - denominator.bit_length())


def _exact(value: float) -> float | int:
    """Return a number as an integer in units of ``2**-40``, or what is none as it is."""
    return int(math.ldexp(value, _UNIT)) if math.isfinite(value) else value


def _numbers(
    fmt: BlockFormat, lines: np.ndarray, elements: list[list[float | int]]
) -> list[tuple[list[float | int], float]]:
    """Return the elements of blocks and the values of their scales."""
    scales = fmt.scale.decode(lines["scale"][:, 0]).tolist()
    chosen, codes = lines["special"][:, 0].tolist(), lines["code"].tolist()
    return [
        (list(map(elements[choice].__getitem__, row)), scale)
        for row, choice, scale in zip(codes, chosen, scales, strict=True)
    ]


def _product(x: list[float | int], a: float, y: list[float | int], w: float) -> int:
    """Return the bits of the product of two blocks with their scales, rounded once."""
    if not (math.isfinite(a) and math.isfinite(w)):
        return NAN
    total: float | int = sum(map(mul, x, y))
    if isinstance(total, float):  # an infinity or a NaN is among the elements
        special = total * math.copysign(1.0, a) * math.copysign(1.0, w)
        if math.isnan(special) or not a * w:
            return NAN
        return INFINITE if special > 0 else INFINITE | 0x80000000
    exponent = -2 * _UNIT
    for scale in (a, w):
        numerator, denominator = scale.as_integer_ratio()
        total *= numerator
        exponent -= denominator.bit_length() - 1
    return rounded(total, exponent)


def rounded(number: int, exponent: int) -> int:
    """Return the bits of ``number * 2**exponent`` in single precision, ties to even."""
    magnitude, sign = abs(number), 0x80000000 if number < 0 else 0
    drop = max(magnitude.bit_length() - 24, SMALLEST - exponent)
    if drop > 0:
        whole, rest = magnitude >> drop, magnitude & ((1 << drop) - 1)
        half = 1 << (drop - 1)
        whole += rest > half or (rest == half and whole & 1)
    else:
        whole = magnitude << -drop
    if not magnitude:
        return 0
    # Significands and exponents are one number; the leading one of a normal number counts one.
    bits = ((exponent + drop - SMALLEST) << 23) + whole
    return sign | min(bits, INFINITE)


if __name__ == "__main__":
    main()
