# SPDX-License-Identifier: Apache-2.0
"""Golden products of blocks against rational numbers, and against published rules."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from hwgen.core.golden.blocks import BlockMatrix, block_products
from hwgen.errors import InputError
from hwgen.formats import FloatFormat, IntegerFormat, floating, integer
from hwgen.formats.block import BlockFormat, quantise_lines
from hwgen.formats.block.accumulator import TENSOR_CORES, BlockAccumulator
from hwgen.formats.block.factors import Factor
from hwgen.formats.block.products import BlockProduct
from hwgen.formats.registry import block_format, shipped
from sim_tests.support.exact_blocks import Block, summed, term

PAIRS = (
    *((name, name) for name in shipped() if name != "q4_1"),
    ("int8", "q4_1"), ("q8_0", "q4_1"), ("fp16", "int4_g128_min"), ("mxfp8_e5m2", "q4_1"),
    ("int3_g16_min", "fp8_e5m2"), ("q4_1", "mxint8"), ("int8", "int4_g128_zero"),
    ("int3_g16_zero", "int5_g16_zero"), ("bf16", "int4_g16"), ("bf16", "q4_1"), ("bf16", "bf16"),
    ("mxfp8_e4m3", "mxfp4"), ("mxfp8_e5m2", "mxint8"), ("mxfp6_e3m2", "mxfp4"),
    ("int8", "int4_g128"), ("int8", "ternary_g64"), ("fp16", "int4_g16"), ("fp8_e4m3", "int3_g32"),
    ("int8_g32", "q4_0"), ("uint8", "bitmod_fp3"), ("fp8_e5m2", "mxfp4"), ("int5", "int2_g16"),
)  # fmt: skip
"""Formats of both operands, blocks of every kind among them."""

ACCUMULATORS = ("exact", "fp32", "aligned(35)", "aligned(25)", "aligned(13)")
DISTRIBUTIONS = ("random", "lowest", "highest", "alternating", "zero", "sparse", "special")


def operand(name: str) -> Any:
    """Return the format of an operand."""
    if name.startswith(("fp", "bf")):
        return floating(name)
    try:
        return integer(name)
    except ValueError:
        return block_format(name)


def factor_of(fmt: BlockFormat | IntegerFormat | FloatFormat) -> Factor:
    """Return the factor of a format in products."""
    return Factor(fmt)


def sample(fmt, length, blocks, lines, rng, distribution):
    """Return an operand for the golden model, and the same in numbers."""
    factor = factor_of(fmt)
    if fmt.is_block:
        records = fmt.sample(rng, (lines, blocks * length), distribution)
        codes, scales, chosen, minima = fmt.lines(records, blocks)
        matrix = BlockMatrix(factor, factor.decode(codes, chosen[..., None]), scales, minima)
        lowest = None
        if minima is not None and fmt.minimum is not None:
            lowest = fmt.minimum.to_float64(minima)
        tables = [element.values for element in fmt.elements]
        values, exponents = fmt.scale.decode(scales), exponents_of(fmt, scales)
        numbers = [
            [
                Block(
                    [tables[chosen[i, j]][c] for c in codes[i, j]],
                    values[i, j],
                    exponents[i, j],
                    None if lowest is None else lowest[i, j],
                )
                for j in range(blocks)
            ]
            for i in range(lines)
        ]
        return matrix, numbers
    shape = (lines, blocks, length)
    if fmt.is_integer:
        bits = {"lowest": np.full(shape, fmt.min), "highest": np.full(shape, fmt.max)}.get(
            distribution, fmt.random(rng, shape)
        )
        values = bits.astype(float)
    else:
        high = 1 << fmt.width if distribution == "special" else fmt.max_finite
        bits = rng.integers(0, high, shape).astype(fmt.bits_dtype)
        values = fmt.to_float64(bits)
    matrix = BlockMatrix(factor, factor.decode(bits))
    return matrix, [[Block(list(block), 1.0, 0) for block in line] for line in values]


def exponents_of(fmt: BlockFormat, bits: np.ndarray) -> np.ndarray:
    """Return the exponents of scales as the formats' definitions have them."""
    if fmt.scale.name == "uint8":
        return np.zeros(bits.shape, int)
    if fmt.scale.name == "e8m0":
        return bits.astype(int) - 127
    values = np.abs(fmt.scale.decode(bits))
    lowest = {"e4m3": -6, "fp16": -14, "bf16": -126, "fp32": -126}[fmt.scale.name]
    with np.errstate(all="ignore"):
        exponents = np.floor(np.log2(np.where(np.isfinite(values) & (values > 0), values, 1e-99)))
    return np.maximum(exponents, lowest).astype(int)


@cache
def product_of(a: str, w: str, accumulator: str, blocks: int, step: int) -> BlockProduct:
    factors = factor_of(operand(a)), factor_of(operand(w))
    length = factors[0].block or factors[1].block or 16
    return BlockProduct(*factors, BlockAccumulator.named(accumulator), length, step, blocks)


CASES = [
    (pair, accumulator)
    for pair in PAIRS
    for accumulator in ACCUMULATORS
    if not ("aligned" in accumulator and any(n.endswith("_min") or n == "q4_1" for n in pair))
]
"""Terms with a minimum have no exponent."""


@pytest.mark.parametrize(
    ("pair", "accumulator"), CASES, ids=lambda v: "-".join(v) if isinstance(v, tuple) else v
)
def test_products_are_those_of_rational_numbers(pair, accumulator):
    rng = np.random.default_rng([len(accumulator), *pair[0].encode(), *pair[1].encode()])
    step = 1 if accumulator == "fp32" else 2
    blocks = 3 if accumulator == "fp32" else 4
    product = product_of(*pair, accumulator, blocks, step)
    for distribution in DISTRIBUTIONS:
        lines = 3 if distribution in ("random", "special") else 1
        a, x = sample(operand(pair[0]), product.length, blocks, lines, rng, distribution)
        w, y = sample(operand(pair[1]), product.length, blocks, lines, rng, distribution)
        got = block_products(product, a, w).view(np.uint32)
        for i, j in np.ndindex(got.shape):
            terms = [(term(p, q), p.exponent + q.exponent) for p, q in zip(x[i], y[j], strict=True)]
            steps = [terms[s : s + step] for s in range(0, blocks, step)]
            expected = summed(product.accumulator.method, steps, product.accumulator.fraction_bits)
            assert got[i, j] == expected, (distribution, i, j, hex(got[i, j]), hex(expected))


@pytest.mark.parametrize(
    ("name", "bits"),
    [("mxfp4", 14), ("nvfp4", 13), ("mxfp6_e2m3", 18), ("mxfp6_e3m2", 24), ("mxint8", 20),
     ("mxfp8_e4m3", 42), ("mxfp8_e5m2", 70)],
)  # fmt: skip
def test_sums_of_blocks_are_as_wide_as_they_must_be(name, bits):
    product = product_of(name, name, "exact", 1, 1)
    assert product.sum.width == bits == block_format(name).dot_width()


def test_a_sum_aligned_as_tensor_cores_do_it():
    # One step of Blackwell's block-scaled FP4: four exact sums of 16 products, each times the
    # significands of its scales, and the accumulator, cut off 35 places below the largest exponent.
    product = product_of("nvfp4", "nvfp4", "aligned(35)", 4, 4)
    fmt = operand("nvfp4")
    codes = np.zeros((1, 4, 16), np.uint8)
    codes[0, :, 0] = 1  # a half
    scales = np.array([[0x7E, 0x01, 0x08, 0x3B]], np.uint8)  # 448, 2**-9, 2**-6, 1.375
    a = BlockMatrix(product.a, product.a.decode(codes), scales)
    largest = 2 * 8
    exact = [(0.25 * 448**2, 16), (0.25 * 2.0**-18, -12), (0.25 * 2.0**-12, -12), (1.375**2 / 4, 0)]
    kept = sum(math.trunc(value * 2.0 ** (35 - largest)) for value, _ in exact)
    got = float(block_products(product, a, a)[0, 0])
    assert fmt.name == "nvfp4"
    expected = math.ldexp(kept >> kept.bit_length() - 24, kept.bit_length() - 24 + largest - 35)
    assert got == expected


@pytest.mark.parametrize(("fraction_bits", "expected"), [(35, 2.0**-20), (25, 2.0**-20), (13, 0.0)])
def test_what_is_cut_off_depends_on_the_places(fraction_bits, expected):
    # 1 + 2**-20 - 1, added at one time: 13 places below 1 nothing is left of the term between.
    product = product_of("mxfp4", "mxfp4", f"aligned({fraction_bits})", 3, 3)
    codes = np.zeros((1, 3, 32), np.uint8)
    codes[0, :, 0] = 2, 2, 10  # 1, 1, -1
    ones = np.where(codes > 0, 2, 0)
    scales = np.array([[127, 107, 127]], np.uint8)
    one = np.full((1, 3), 127, np.uint8)
    a = BlockMatrix(product.a, product.a.decode(codes), scales)
    w = BlockMatrix(product.w, product.w.decode(ones), one)
    assert block_products(product, a, w)[0, 0] == expected


RULES = {
    "hopper_fp16": ("fp16", "fp16", 25, 16),
    "hopper_bf16": ("bf16", "bf16", 25, 16),
    "ada_fp8": ("fp8_e4m3", "fp8_e5m2", 13, 16),
    "hopper_fp8": ("fp8_e4m3", "fp8_e4m3", 13, 32),
    "blackwell_mxfp8": ("mxfp8_e4m3", "mxfp8_e5m2", 25, 32),
    "blackwell_mxfp6": ("mxfp6_e3m2", "mxfp4", 25, 32),
}
"""Published rules of tensor cores (MMA-Sim): operands, fractional bits, products of a step."""


def exponent_of_element(name: str, value: float) -> int:
    """Return the exponent of a floating-point element, that of the smallest normal one at least."""
    lowest = {"fp16": -14, "bf16": -126, "e4m3": -6, "e5m2": -14, "e3m2": -2, "mxfp4": 0}
    least = next(exponent for key, exponent in lowest.items() if name.endswith(key))
    return max(math.frexp(value)[1] - 1, least) if value and math.isfinite(value) else least


@pytest.mark.parametrize("rule", RULES)
def test_products_are_aligned_as_published(rule):
    """Each product is aligned by itself: numbers of a seed, by the rule and by the golden model."""
    first, second, fraction_bits, depth = RULES[rule]
    rng, steps = np.random.default_rng(len(rule)), 3
    factors = factor_of(operand(first)), factor_of(operand(second))
    length = factors[0].block or depth
    product = BlockProduct(
        *factors,
        BlockAccumulator("aligned", fraction_bits),
        length,
        depth // length,
        steps,
        fused=True,
    )
    for distribution in DISTRIBUTIONS:
        lines = 4 if distribution in ("random", "special") else 1
        a, x = sample(operand(first), length, steps * depth // length, lines, rng, distribution)
        w, y = sample(operand(second), length, steps * depth // length, lines, rng, distribution)
        got = block_products(product, a, w).view(np.uint32)
        for i, j in np.ndindex(got.shape):
            terms = [
                (
                    term(Block([u], p.scale, 0), Block([v], q.scale, 0)),
                    exponent_of_element(first, u)
                    + exponent_of_element(second, v)
                    + p.exponent
                    + q.exponent,
                )
                for p, q in zip(x[i], y[j], strict=True)
                for u, v in zip(p.elements, q.elements, strict=True)
            ]
            parts = [terms[at : at + depth] for at in range(0, len(terms), depth)]
            assert got[i, j] == summed("aligned", parts, fraction_bits), (distribution, i, j)


def test_sums_of_products_differ_from_aligned_products():
    # 256 + 2**-8 - 256: the exact sum of the products is 2**-8, but each by itself is cut off.
    elements = np.array([[[16.0, 2.0**-4, -16.0, 0.0]]])
    values = np.array([[[16.0, 2.0**-4, 16.0, 0.0]]])
    factor = factor_of(operand("fp8_e4m3"))
    a, w = (BlockMatrix(factor, np.ldexp(part, -factor.unit)) for part in (elements, values))
    for fused, expected in ((False, 2.0**-8), (True, 0.0)):
        product = BlockProduct(
            factor, factor, BlockAccumulator("aligned", 13), 4, 1, 1, fused=fused
        )
        assert block_products(product, a, w)[0, 0] == expected


def test_an_infinite_total_stays_what_it_is():
    # Minus infinity, then more than single precision holds: no sum of two infinities.
    product = product_of("mxfp8_e5m2", "mxfp8_e5m2", "aligned(13)", 2, 1)
    codes = np.zeros((1, 2, 32), np.uint8)
    codes[0, :, 0] = 0xFC, 0x7B  # -inf, 57344
    scales = np.full((1, 2), 254, np.uint8)
    a = BlockMatrix(product.a, product.a.decode(codes), scales)
    w = BlockMatrix(product.w, product.w.decode(np.where(codes > 0, 0x7B, 0)), scales)
    assert block_products(product, a, w)[0, 0] == -np.inf


def test_accumulators_by_name():
    assert BlockAccumulator.named("aligned(25)").fraction_bits == 25
    texts = (
        r"exact, fp32, aligned\(n\) or aligned\(n, m\) with n of 1\.\.48 and m of 1\.\.23,"
        rf" or a tensor core \({', '.join(TENSOR_CORES)}\)"
    )
    for name in ("aligned", "aligned(0)", "aligned(49)", "fp16"):
        with pytest.raises(ValueError, match=rf"must be {texts}, not '{re.escape(name)}'"):
            BlockAccumulator.named(name)


def test_records_hold_what_was_quantised():
    rng = np.random.default_rng(1)
    for name in ("mxfp4", "nvfp4", "int4_g16", "bitmod_fp4"):
        fmt, numbers = operand(name), rng.standard_normal((5, 70))
        records, second = quantise_lines(fmt, numbers)
        fmt.check(records)
        from hwgen.formats.block import quantise_blocks

        expected = quantise_blocks(numbers.T, fmt).decode().T
        np.testing.assert_array_equal(fmt.decode(records, second), expected)


def test_records_that_are_none_of_a_format_are_refused():
    fmt = operand("int4_g16")
    records = fmt.random(np.random.default_rng(2), (2, 20))
    records["code"][1, 3] = 8  # two's complement's lowest, which symmetric integers have not
    with pytest.raises(ValueError, match=r"\[1, 3\] has the code 8"):
        fmt.check(records)
    records["code"][1, 3] = 7
    records["scale"][1, 3] += 1
    with pytest.raises(InputError, match="block 0 of line 1 have different scales"):
        fmt.lines(records, 2)
    with pytest.raises(ValueError, match="must be blocks of int4_g16"):
        fmt.check(np.zeros((2, 2)))
