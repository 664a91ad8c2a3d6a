# SPDX-License-Identifier: Apache-2.0
"""Digits of integers: encodings, statistics, encoders and sums of multiples in hardware."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.wiring import In, Out
from hypothesis import given, settings
from hypothesis import strategies as st

from hwgen.arithmetic.digit_sums import DigitSum
from hwgen.arithmetic.digits import (
    Encoding,
    decode,
    digit_count,
    encode,
    normal,
    statistics,
    uniform,
    values_of,
)
from hwgen.formats import IntegerFormat, integer
from rtl_templates.arithmetic.integer.compressor import HeapOperand, compress
from rtl_templates.arithmetic.integer.multiply import shape_of
from rtl_templates.arithmetic.integer.recode import plus_ones, recode, row_operands
from rtl_templates.hdl.hierarchy import Block
from sim_tests.support.blocks import block_verilog, run_block

ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
FORMATS = [IntegerFormat(width, signed) for width in range(2, 17) for signed in (False, True)]
INT8 = integer("int8")
ENCODED = (*range(2, 11), 13, 16)
VECTORS = 1 << 11

# -- encodings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_integer_has_digits(encoding: Encoding, fmt: IntegerFormat) -> None:
    digits = encode(encoding, values_of(fmt), fmt)
    assert digits.shape == (1 << fmt.width, digit_count(fmt))
    assert np.abs(digits).max() <= 2
    assert np.array_equal(decode(digits), values_of(fmt))


@pytest.mark.parametrize(
    ("value", "digits"), [(91, [-1, -1, 2, 1]), (124, [0, -1, 0, 2]), (127, [-1, 0, 0, 2])]
)
def test_digits_of_magnitudes(value: int, digits: list[int]) -> None:
    assert encode("ent", np.array([value, -value]), INT8).tolist() == [
        digits,
        [-digit for digit in digits],
    ]


@pytest.mark.parametrize(
    ("sigma", "ent", "booth", "nonzero"),
    [
        (None, 2.918, 3.000, (0.750, 0.750, 0.750, 0.668)),
        (10, 1.762, 1.925, (0.750, 0.718, 0.294, 0.000)),
        (20, 2.115, 2.294, (0.750, 0.735, 0.596, 0.034)),
        (30, 2.335, 2.530, (0.750, 0.740, 0.688, 0.157)),
        (40, 2.490, 2.673, (0.750, 0.743, 0.711, 0.287)),
        (50, 2.604, 2.769, (0.750, 0.744, 0.721, 0.389)),
    ],
)
def test_statistics(
    sigma: float | None, ent: float, booth: float, nonzero: tuple[float, ...]
) -> None:
    values = uniform(INT8) if sigma is None else normal(INT8, sigma, clipped=False)
    assert values.sum() == pytest.approx(1)
    if sigma is not None:
        assert normal(INT8, sigma) == pytest.approx(values, abs=6e-3)
    assert statistics("booth4", INT8, values).mean == pytest.approx(booth, abs=6e-4)
    result = statistics("ent", INT8, values)
    assert result.mean == pytest.approx(ent, abs=6e-4)
    assert result.nonzero == pytest.approx(nonzero, abs=6e-4)


@settings(max_examples=200)
@given(
    st.sampled_from(FORMATS),
    st.sampled_from([fmt for fmt in FORMATS if fmt.signed]),
    st.integers(1, 9),
    st.data(),
)
def test_rows_and_correction_exceed_the_products_by_a_constant(
    recoded: IntegerFormat, factor: IntegerFormat, terms: int, data: st.DataObject
) -> None:
    what = DigitSum(recoded, factor, terms)
    draw = [
        np.array(data.draw(st.lists(st.integers(f.min, f.max), min_size=terms, max_size=terms)))
        for f in (recoded, factor)
    ]
    digits = encode("booth4", draw[0], recoded).astype(np.int64)
    width, negative = what.row_width, (digits < 0).astype(np.int64)
    rows = (np.abs(digits) * draw[1][:, None] ^ -negative) & ((1 << width) - 1)
    rows ^= 1 << (width - 1)
    weights = 4 ** np.arange(len(what.digits))
    total, short = (rows * weights).sum(), (negative * weights).sum()
    assert total + short - what.sign_constant == draw[0] @ draw[1]
    assert what.total.min <= total <= what.total.max
    assert short <= what.ones


# -- hardware --------------------------------------------------------------------------------------


def patterns(count: int, rng: np.random.Generator) -> np.ndarray:
    """Return 16-bit numbers, half of them powers of two, or one less, or their complements."""
    powers = 1 << np.arange(17)
    ends = np.concatenate([powers, powers - 1, ~powers, -powers]) & 0xFFFF
    return np.where(
        rng.random(count) < 0.5, rng.choice(ends, count), rng.integers(1 << 16, size=count)
    )


class Encoders(Block):
    """Encoders of many formats, fed with the low bits of one input."""

    x: Value

    def __init__(self) -> None:
        self.encodings = [
            (encoding, fmt) for encoding in ENCODINGS for fmt in FORMATS if fmt.width in ENCODED
        ]
        super().__init__(
            "encoders", {"x": In(16), **{f"{e}_{fmt}": Out(32) for e, fmt in self.encodings}}
        )

    def build(self, m: Module) -> None:
        for encoding, fmt in self.encodings:
            name = f"{encoding}_{fmt}"
            x = Signal(shape_of(fmt), name=f"x_{name}")
            m.d.comb += x.eq(self.x)
            digits = recode(m, f"recode_{name}", encoding, fmt, x, Const(1, 1))
            lines = Cat(digits.one, digits.two, digits.negative)
            m.d.comb += getattr(self, name).eq(lines)


@pytest.mark.slow
@pytest.mark.rotate(6)
def test_encoders(tmp_path: Path) -> None:
    """Encoders give the digits, of all numbers to ten bits, and no line of a digit that is zero."""
    block = Encoders()
    x = np.concatenate([np.arange(1 << 10), patterns(1 << 10, np.random.default_rng(0))])
    result = run_block(block, {"x": x.astype(np.uint16)}, tmp_path, lanes=1)
    for encoding, fmt in block.encodings:
        count, lines = digit_count(fmt), result[f"{encoding}_{fmt}"]
        one, two, negative = (
            lines[:, None] >> np.arange(i * count, (i + 1) * count) & 1 for i in range(3)
        )
        digits = encode(encoding, fmt.wrap(x), fmt)
        assert np.array_equal(one + 2 * two, np.abs(digits))
        assert np.array_equal(negative, digits < 0)


class SumOfProducts(Block):
    """``x . y`` over two terms and 32 bits, carries saved every `spacing` columns and then added.

    Each format takes the low bits of its 16-bit lanes.
    """

    x: Value
    y: Value

    def __init__(
        self, encoding: Encoding, formats: list[tuple[IntegerFormat, IntegerFormat]], spacing: int
    ) -> None:
        super().__init__(
            "sums", {"x": In(32), "y": In(32), **{f"{a}_{w}": Out(64) for a, w in formats}}
        )
        self.encoding, self.formats, self.spacing = encoding, formats, spacing

    def build(self, m: Module) -> None:
        for a, w in self.formats:
            signed = w if w.signed else IntegerFormat(w.width + 1, True)
            name, what = f"{a}_{w}", DigitSum(a, signed, 2)
            factors: list[tuple[Value, Value]] = []
            for term in range(2):
                x = Signal(shape_of(a), name=f"x_{term}_{name}")
                y = Signal(shape_of(w), name=f"y_{term}_{name}")
                factor = Signal(shape_of(signed), name=f"factor_{term}_{name}")
                m.d.comb += [
                    x.eq(self.x.word_select(term, 16)),
                    y.eq(self.y.word_select(term, 16)),
                    factor.eq(y),
                ]
                factors.append((x, factor))
            digits = [
                recode(m, f"recode_{name}_{i}", self.encoding, a, x, Const(1, 1))
                for i, (x, _) in enumerate(factors)
            ]
            operands = [
                *(
                    operand
                    for i, (_, y) in enumerate(factors)
                    for operand in row_operands(m, f"row_{name}_{i}", digits[i], y, what)
                ),
                HeapOperand(plus_ones(m, f"correction_{name}", digits, what)),
            ]
            width, saved = 40, range(self.spacing, 40, self.spacing)
            total, carries = compress(m, f"sum_{name}", operands, width, -what.sign_constant, saved)
            for column, carry in carries.items():
                total = total + (carry << column)
            whole = Signal(width, name=f"whole_{name}")
            m.d.comb += [whole.eq(total), getattr(self, name).eq(whole.as_signed())]


PAIRS = [
    (integer(a), integer(w))
    for a, w in (
        ("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8"),
        ("int3", "uint13"), ("uint13", "int4"), ("int16", "int16"), ("uint16", "uint2"),
    )
]  # fmt: skip


def products_differ(
    encoding: Encoding,
    spacing: int,
    work: Path,
    pairs: list[tuple[IntegerFormat, IntegerFormat]],
    mutation: tuple[str, str] = ("", ""),
) -> bool:
    """Return whether any sum of two products is wrong; `mutation` is a pattern and its text."""
    block = SumOfProducts(encoding, pairs, spacing)
    rng = np.random.default_rng(spacing)
    x, y = (
        (patterns(VECTORS, rng) | patterns(VECTORS, rng) << 16).astype(np.uint32) for _ in range(2)
    )
    text = block_verilog(block)
    if mutation[0]:
        text, count = re.subn(*mutation, text)
        assert count
    result = run_block(block, {"x": x, "y": y}, work, verilog=text, lanes=1)
    for a, w in pairs:
        total = sum(
            a.wrap((x >> shift).astype(np.int64)) * w.wrap((y >> shift).astype(np.int64))
            for shift in (0, 16)
        )
        if not np.array_equal(result[f"{a}_{w}"].astype(np.int64), total):
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize(("encoding", "spacing"), [("booth4", 1), ("ent", 7)])
@pytest.mark.rotate(6)
def test_sums_of_products(encoding: Encoding, spacing: int, tmp_path: Path) -> None:
    assert not products_differ(encoding, spacing, tmp_path, PAIRS)


MUTATIONS = {
    "carry dropped": (r"\.carry\((sum_int8_int8_c\d+)\)", r".carry()"),
    "sign of the top digit": (r"(assign negative\[3\] = x)\[7\]", r"\1[6]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_broken_sums_are_noticed(name: str, tmp_path: Path) -> None:
    assert products_differ("booth4", 1, tmp_path, PAIRS[:1], MUTATIONS[name])
