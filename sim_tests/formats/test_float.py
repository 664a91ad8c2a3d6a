# SPDX-License-Identifier: Apache-2.0
"""Floating point: formats and golden models against NumPy and ml_dtypes, RTL against golden."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.files import LINT_WAIVERS
from flows.simulation.verilator.verilator import lint
from hwgen.arithmetic.float_arithmetic import add, convert, multiply
from hwgen.formats import number_format
from hwgen.formats.floating import FLOATS, FloatFormat, floating
from rtl_templates.arithmetic.float.adder import FloatAdder
from rtl_templates.arithmetic.float.multiplier import FloatMultiplier
from rtl_templates.arithmetic.float.widen import FloatWiden
from sim_tests.support.blocks import TOP, block_verilog, run_block
from sim_tests.support.floats import (
    all_pairs,
    corner_pairs,
    corners,
    coverage,
    product_coverage,
    random_factors,
    random_pairs,
)
from sim_tests.support.mutations import mutated

Bits = np.ndarray[Any, Any]
Record = Callable[[str, object], None]
Draw = Callable[[FloatFormat, int, int], tuple[Bits, Bits]]

NARROW = [fmt for fmt in FLOATS.values() if fmt.width == 8]
WIDE = [fmt for fmt in FLOATS.values() if fmt.width > 8]
DEPTHS = [
    *((floating(name), stages) for name in ("fp16", "bf16") for stages in (1, 2, 3, 4, 5)),
    *((floating(name), 3) for name in ("fp32", "fp8_e5m2", "fp8_e4m3")),
]


def named(fmt: FloatFormat) -> str:
    return fmt.name


def pairs(
    fmt: FloatFormat, count: int, seed: int = 0, drawn: Draw = random_pairs
) -> tuple[Bits, Bits]:
    """Return all pairs of a narrow format, else all pairs of corners and `count` random ones."""
    if fmt.width == 8:
        return all_pairs(fmt)
    parts = zip(corner_pairs(fmt), drawn(fmt, count, seed), strict=True)
    x, y = (np.concatenate(part) for part in parts)
    return x, y


def assert_same(actual: Bits, expected: Bits, *operands: Bits) -> None:
    wrong = np.flatnonzero(actual != expected)
    shown = [
        f"{[hex(operand[i]) for operand in operands]}: {actual[i]:#x}, not {expected[i]:#x}"
        for i in wrong[:5]
    ]
    assert not wrong.size, f"{wrong.size} of {actual.size}: {'; '.join(shown)}"


def report(record: Record, what: str, count: int) -> None:
    record(what, count)
    sys.stdout.write(f"{what}: {count}, no mismatch\n")


# -- formats --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", FLOATS.values(), ids=named)
def test_values(fmt: FloatFormat) -> None:
    """Bit patterns mean what NumPy and ml_dtypes say, and survive a round trip."""
    bits = np.arange(1 << fmt.width, dtype=np.uint64) if fmt.width <= 16 else random_bits(fmt)
    bits = bits.astype(fmt.bits_dtype)
    values = fmt.decode(bits)
    assert values.dtype == fmt.dtype
    assert fmt.dtype.itemsize * 8 == fmt.width
    with np.errstate(invalid="ignore"):
        reference = values.astype(np.float64)
    assert np.array_equal(fmt.to_float64(bits), reference, equal_nan=True)
    assert np.array_equal(
        np.signbit(fmt.to_float64(bits))[~np.isnan(reference)],
        np.signbit(reference)[~np.isnan(reference)],
    )
    assert np.array_equal(fmt.is_nan(bits), np.isnan(reference))
    for encoded in (fmt.encode(values), fmt.encode(reference)):
        assert np.array_equal(encoded, np.where(np.isnan(reference), fmt.nan, bits))
    assert fmt.decode(np.array([fmt.max_finite]))[0] == np.max(reference[np.isfinite(reference)])


def random_bits(fmt: FloatFormat) -> Bits:
    return np.concatenate([*random_pairs(fmt, 300_000, 5), corners(fmt)])


def test_formats_of_numpy() -> None:
    """Constants known from elsewhere."""
    assert [(fmt.name, fmt.width, fmt.bias, hex(fmt.nan)) for fmt in FLOATS.values()] == [
        ("fp32", 32, 127, "0x7fc00000"),
        ("fp16", 16, 15, "0x7e00"),
        ("bf16", 16, 127, "0x7fc0"),
        ("fp8_e5m2", 8, 15, "0x7e"),
        ("fp8_e4m3", 8, 7, "0x7f"),
    ]
    assert floating("fp16").encode([1.0, 65504.0, 65520.0, 2.0**-25, 3 * 2.0**-26]).tolist() == [
        0x3C00,
        0x7BFF,
        0x7C00,
        0,
        1,
    ]
    assert floating("fp8_e4m3").encode([448, 464, 465, -1000, np.inf]).tolist() == [
        0x7E,
        0x7E,
        0x7F,
        0x7F,
        0x7F,
    ]
    assert floating("bf16").decode(np.uint16(0x3F80)) == 1
    with pytest.raises(ValueError, match="must be one of fp32, fp16"):
        floating("fp17")


def test_formats_by_name() -> None:
    for name in (*FLOATS, "int8", "uint64", "ternary"):
        assert number_format(name).name == name
    for name in ("fp17", "int0", "int65", ""):
        with pytest.raises(ValueError, match=rf"must be int1.* not '{name}', or one of ternary"):
            number_format(name)


@pytest.mark.parametrize("dst", FLOATS.values(), ids=named)
@pytest.mark.parametrize("src", FLOATS.values(), ids=named)
def test_golden_conversion(src: FloatFormat, dst: FloatFormat) -> None:
    if src.width <= 16:
        bits = np.arange(1 << src.width).astype(src.bits_dtype)
    else:
        # Among them every number of `dst`, the numbers halfway between two, and their neighbours.
        with np.errstate(all="ignore"):
            values = dst.decode(np.arange(1 << min(dst.width, 16)).astype(dst.bits_dtype))
            floats = np.sort(values.astype(np.float32))
            middle = ((floats[1:].astype(np.float64) + floats[:-1]) / 2).astype(np.float32)
        around = np.concatenate([floats, middle]).view(np.uint32)
        bits = np.concatenate([around, around + np.uint32(1), around - np.uint32(1)])
        bits = np.concatenate([bits, random_bits(src)])
    with np.errstate(all="ignore"):
        reference = src.decode(bits).astype(np.float32).astype(dst.dtype).view(dst.bits_dtype)
    assert_same(convert(src, dst, bits), dst.canonical(reference), bits)


@pytest.mark.parametrize("fmt", FLOATS.values(), ids=named)
def test_golden_addition(fmt: FloatFormat, record_property: Record) -> None:
    x, y = pairs(fmt, 1_000_000, seed=1)
    with np.errstate(all="ignore"):
        reference = np.asarray(fmt.decode(x) + fmt.decode(y))
    assert reference.dtype == fmt.dtype
    actual = add(fmt, x, y)
    assert actual.dtype == fmt.bits_dtype
    assert_same(actual, fmt.canonical(reference.view(fmt.bits_dtype)), x, y)
    assert_same(actual, add(fmt, y, x), x, y)
    # fp32 by way of float64 is another computation of the same.
    with np.errstate(all="ignore"):
        assert_same(actual, fmt.round(fmt.to_float64(x) + fmt.to_float64(y)), x, y)
    report(record_property, f"{fmt} golden additions", len(x))


@pytest.mark.parametrize("fmt", FLOATS.values(), ids=named)
def test_golden_multiplication(fmt: FloatFormat, record_property: Record) -> None:
    x, y = pairs(fmt, 1_000_000, 1, random_factors)
    with np.errstate(all="ignore"):
        reference = np.asarray(fmt.decode(x) * fmt.decode(y))
    assert reference.dtype == fmt.dtype
    actual = multiply(fmt, x, y)
    assert actual.dtype == fmt.bits_dtype
    assert_same(actual, fmt.canonical(reference.view(fmt.bits_dtype)), x, y)
    assert_same(actual, multiply(fmt, y, x), x, y)
    report(record_property, f"{fmt} golden multiplications", len(x))


COVERAGE: list[tuple[Draw, Callable[[FloatFormat, Bits, Bits], dict[str, int]]]] = [
    (random_pairs, coverage),
    (random_factors, product_coverage),
]


@pytest.mark.parametrize(("drawn", "met"), COVERAGE, ids=["sums", "products"])
@pytest.mark.parametrize("fmt", FLOATS.values(), ids=named)
def test_operands_cover_everything(fmt: FloatFormat, drawn: Draw, met: Any) -> None:
    """The random operands alone, in the number used at each depth, meet every difficulty."""
    x, y = all_pairs(fmt) if fmt.width == 8 else drawn(fmt, 100_000, 0)
    counts = met(fmt, x, y)
    rare = {name: count for name, count in counts.items() if count < (1 if fmt in NARROW else 100)}
    assert not rare


# -- RTL ------------------------------------------------------------------------------------------


def check_adder(
    fmt: FloatFormat, stages: int, operands: tuple[Bits, Bits], work: Path, **options: Any
) -> None:
    x, y = operands
    adder = FloatAdder(fmt, stages, enabled="stalls" in options)
    actual = run_block(adder, {"a": x, "b": y}, work, latency=stages, **options)
    assert_same(actual["o"], add(fmt, x, y), x, y)


@pytest.mark.parametrize("fmt", FLOATS.values(), ids=named)
@pytest.mark.rotate(6)
def test_adder(fmt: FloatFormat, tmp_path: Path, record_property: Record) -> None:
    operands = pairs(fmt, 1_000_000)
    check_adder(fmt, 0, operands, tmp_path)
    report(record_property, f"{fmt} additions", len(operands[0]))


@pytest.mark.parametrize(("fmt", "stages"), DEPTHS, ids=str)
@pytest.mark.rotate(8)
def test_pipelined_adder(
    fmt: FloatFormat, stages: int, tmp_path: Path, record_property: Record
) -> None:
    operands = pairs(fmt, 100_000, seed=stages)
    check_adder(fmt, stages, operands, tmp_path)
    report(record_property, f"{fmt} additions in {stages} stages", len(operands[0]))


@pytest.mark.parametrize("stages", [1, 2, 4, 7])
@pytest.mark.rotate(4)
def test_enabled_adder(stages: int, tmp_path: Path) -> None:
    """The registers keep their contents while the adder does not run."""
    fmt = floating("fp16")
    check_adder(fmt, stages, random_pairs(fmt, 50_000, 7), tmp_path, stalls=stages + 1)


def check_multiplier(
    fmt: FloatFormat, stages: int, operands: tuple[Bits, Bits], work: Path, **options: Any
) -> None:
    x, y = operands
    multiplier = FloatMultiplier(fmt, stages, enabled="stalls" in options)
    actual = run_block(multiplier, {"a": x, "b": y}, work, latency=stages, **options)
    assert_same(actual["o"], multiply(fmt, x, y), x, y)


@pytest.mark.parametrize("fmt", FLOATS.values(), ids=named)
@pytest.mark.rotate(6)
def test_multiplier(fmt: FloatFormat, tmp_path: Path, record_property: Record) -> None:
    operands = pairs(fmt, 1_000_000, 0, random_factors)
    check_multiplier(fmt, 0, operands, tmp_path)
    report(record_property, f"{fmt} multiplications", len(operands[0]))


@pytest.mark.parametrize(
    ("name", "stages"), [("fp8_e4m3", 1), ("fp16", 2), ("fp8_e5m2", 3), ("fp16", 4), ("fp16", 5)]
)
@pytest.mark.rotate(6)
def test_pipelined_multiplier(name: str, stages: int, tmp_path: Path) -> None:
    """At every depth, and while the registers keep their contents."""
    fmt = floating(name)
    operands = random_factors(fmt, 50_000, stages)
    check_multiplier(fmt, stages, operands, tmp_path, stalls=stages + 1)


@pytest.mark.long
@pytest.mark.parametrize("stages", [0, 4])
@pytest.mark.parametrize("fmt", WIDE, ids=named)
def test_adder_campaign(
    fmt: FloatFormat, stages: int, tmp_path: Path, record_property: Record
) -> None:
    operands = random_pairs(fmt, 10_000_000, 1000 + stages)
    check_adder(fmt, stages, operands, tmp_path)
    report(record_property, f"{fmt} additions in {stages} stages", len(operands[0]))


@pytest.mark.parametrize("block", [FloatAdder, FloatMultiplier])
def test_stages_are_not_negative(block: type[FloatAdder | FloatMultiplier]) -> None:
    with pytest.raises(ValueError, match="0 or more, not -1"):
        block(floating("fp16"), -1)


WIDENINGS = [
    ("fp16", "fp32"),
    ("bf16", "fp32"),
    ("fp8_e5m2", "fp16"),
    ("fp8_e5m2", "fp32"),
    ("fp8_e4m3", "bf16"),
]


@pytest.mark.parametrize(("source", "target"), WIDENINGS)
@pytest.mark.rotate(6)
def test_widening(source: str, target: str, tmp_path: Path) -> None:
    """Every bit pattern."""
    src, dst = floating(source), floating(target)
    bits = np.arange(1 << src.width).astype(src.bits_dtype)
    actual = run_block(FloatWiden(src, dst), {"i": bits}, tmp_path)
    assert_same(actual["o"], convert(src, dst, bits), bits)


@pytest.mark.parametrize(
    ("src", "dst"),
    [("fp32", "fp16"), ("fp16", "bf16"), ("bf16", "fp16"), ("fp8_e5m2", "fp8_e4m3")],
)
def test_narrowing_is_refused(src: str, dst: str) -> None:
    with pytest.raises(ValueError, match=f"{src} cannot be widened to {dst}"):
        FloatWiden(floating(src), floating(dst))


@pytest.mark.parametrize(
    "block",
    [
        FloatAdder(floating("fp16"), 0),
        FloatAdder(floating("fp8_e4m3"), 4, enabled=True),
        FloatMultiplier(floating("bf16"), 0),
        FloatMultiplier(floating("fp8_e4m3"), 2, enabled=True),
        FloatWiden(floating("fp16"), floating("fp32")),
    ],
    ids=lambda block: block.module_name,
)
def test_verilog_lints_clean(block: Any, tmp_path: Path) -> None:
    source = tmp_path / f"{TOP}.v"
    source.write_text(block_verilog(block), encoding="utf-8")
    assert not lint([source], TOP, list(LINT_WAIVERS))


# -- mutations ------------------------------------------------------------------------------------

MUTATIONS = {
    "sticky bit dropped": (r"\{ align_3, align_lost_3 \}", "{ align_3, 1'h0 }"),
    "tie rounded up": (r"(assign up_normalised = \S+) & \w+;", r"\1;"),
    "never rounded up": (r"assign up_normalised = .*;", "assign up_normalised = 1'h0;"),
    "no shift by one": (
        r"assign normal_0 = shift\[0\] \? .* : (\{.*\});",
        r"assign normal_0 = \1;",
    ),
    "subnormals shifted too far": (r"assign shift = \w+ \? \{.*\} : ", "assign shift = "),
    "carry of a difference kept": (r"(assign total_added\[14\] = total\[15\]) & \w+;", r"\1;"),
    "minus zero from a difference": (
        r"\{ (\w+\[14:0\]), \w+ \} < \{ (\w+\[14:0\]), \w+ \}",
        r"\1 <= \2",
    ),
    "far operands not far": (r"assign amount = (\w+\[3:0\]) \|.*;", r"assign amount = \1;"),
    "overflow to a NaN": (r"assign finite = .*;", "assign finite = 1'h1;"),
    "opposite infinities": (r"(assign \w+ = payload_added) \| \w+;", r"\1;"),
}
"""Ways to break the emitted fp16 adder: pattern and what takes its place."""


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.rotate(6)
def test_mutation_is_noticed(mutation: str, tmp_path: Path) -> None:
    fmt = floating("fp16")
    text = mutated(block_verilog(FloatAdder(fmt), 16), *MUTATIONS[mutation])
    with pytest.raises(AssertionError, match=r"\d+ of \d+: "):
        check_adder(fmt, 0, pairs(fmt, 20_000), tmp_path, verilog=text)
