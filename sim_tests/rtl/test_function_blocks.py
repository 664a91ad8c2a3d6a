# SPDX-License-Identifier: Apache-2.0
"""Function units in simulation: every result is that of the golden model."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Module, Signal, Value
from amaranth.lib.wiring import In, Out

from flows.bench.functions import admitted
from flows.bench.published_formulas import FORMULAS, Formula, TwoMemories, shift_formula
from hwgen.arithmetic.functions import FunctionUnit, Wanted
from rtl_templates.arithmetic.functions.unit import FunctionBlock, FunctionStream
from rtl_templates.hdl.hierarchy import Block, place
from sim_tests.formats.test_functions import FIXED, FLOATING, ULP, WIDE, Case, named, unit_of
from sim_tests.support.blocks import block_verilog, run_block
from sim_tests.support.stream_blocks import run_stream, stream_verilog

FLOATING_SIMULATED: tuple[Case, ...] = (
    *FLOATING,
    ("exp", "fp16", "bf16", Wanted(ulp=0.8)),
    ("reciprocal", "bf16", "bf16", ULP),
)


def words_of(values: np.ndarray, width: int) -> np.ndarray:
    """Return the low bits of integers as bytes, a row each."""
    size = -(-width // 8)
    low = values.astype(np.int64) & ((1 << width) - 1)
    return np.ascontiguousarray(low.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size])


def numbers_of(words: np.ndarray) -> np.ndarray:
    padded = np.zeros((len(words), 8), np.uint8)
    padded[:, : words.shape[1]] = words
    return padded.view("<u8")[:, 0].astype(np.int64)


def every_pattern(unit: FunctionUnit) -> np.ndarray:
    if unit.source.is_fixed:
        return unit.source.patterns()
    return np.arange(1 << unit.source.width, dtype=np.int64)


def corners_and_samples(unit: FunctionUnit, count: int) -> np.ndarray:
    """Return special values, ends of segments and exponents, and random numbers."""
    rng = np.random.default_rng(4)
    source = unit.source
    if source.is_fixed:
        low, high = source.integer.min, source.integer.max
        powers = 1 << np.arange(source.width - 1)
        corners = np.r_[low, high, 0, powers, powers - 1, -powers, 1 - powers]
        corners = corners[(corners >= low) & (corners <= high)]
        small = rng.integers(low, high, count, endpoint=True) >> rng.integers(
            0, source.width, count
        )
        return np.r_[corners, small]
    exponents = np.arange(1 << source.exponent_bits) << source.mantissa_bits
    corners = np.r_[exponents, exponents - 1, exponents + 1] & source.magnitude_mask
    near = source.round(rng.standard_normal(count) * 2.0 ** rng.integers(-8, 8, count))
    anything = rng.integers(0, 1 << source.width, count // 2)
    return np.r_[corners, corners | source.sign_mask, near.astype(np.int64), anything]


def simulated(
    unit: FunctionUnit, stages: int, raw: np.ndarray, work: Path, **options
) -> np.ndarray:
    block = FunctionStream(unit, stages)
    inputs = {"i_data": words_of(raw, unit.source.width)}
    streamed = run_stream(block, inputs, work, **options)
    if not options.get("stall") and not options.get("idle"):
        # One word a cycle, and the latency is that of the registers.
        assert streamed.report["first_out"] - streamed.report["first_in"] == stages
        assert streamed.report["cycles"] - streamed.report["first_out"] == len(raw)
    return numbers_of(streamed.outputs["o_data"])


def expected(unit: FunctionUnit, raw: np.ndarray) -> np.ndarray:
    return unit.evaluate(raw) & ((1 << unit.target.width) - 1)


@pytest.mark.parametrize("case", FIXED, ids=named)
@pytest.mark.rotate(8)
def test_every_fixed_point_input(case: Case, tmp_path: Path) -> None:
    stages = 1 + FIXED.index(case) % 5
    unit = unit_of(case)
    raw = np.random.default_rng(5).permutation(every_pattern(unit))
    stall = 0.3 if stages > 2 else 0.0
    results = simulated(unit, stages, raw, tmp_path, stall=stall, idle=stall)
    assert np.array_equal(results, expected(unit, raw))


@pytest.mark.slow
@pytest.mark.parametrize("case", FLOATING_SIMULATED, ids=named)
@pytest.mark.rotate(12)
def test_every_16_bit_floating_point_input(case: Case, tmp_path: Path) -> None:
    unit = unit_of(case)
    stages = 1 + FLOATING_SIMULATED.index(case) % 5
    raw = every_pattern(unit)
    results = simulated(unit, stages, raw, tmp_path)
    wrong = np.flatnonzero(results != expected(unit, raw))
    assert not len(wrong), [hex(int(raw[i])) for i in wrong[:8]]


@pytest.mark.parametrize("case", WIDE, ids=named)
@pytest.mark.rotate(6)
def test_corners_and_samples_of_wide_inputs(case: Case, tmp_path: Path) -> None:
    unit = unit_of(case)
    raw = corners_and_samples(unit, 4000)
    results = simulated(unit, 3, raw, tmp_path)
    wrong = np.flatnonzero(results != expected(unit, raw))
    assert not len(wrong), unit.source.values_of(raw[wrong[:8]])


def test_a_unit_without_registers_and_one_that_stalls(tmp_path: Path) -> None:
    unit = unit_of(FLOATING[2])
    raw = corners_and_samples(unit, 500).astype(np.uint16)
    for stages, stalls in ((0, 0), (3, 7)):
        block = FunctionBlock(unit, stages, enabled=stalls > 0)
        got = run_block(
            block, {"i": raw}, tmp_path / str(stages), latency=stages, lanes=4, stalls=stalls
        )
        assert np.array_equal(got["o"], expected(unit, raw.astype(np.int64)))


MUTATIONS = {
    "a choice in the table": (
        r"assign (rom_\d+) = ([^?;]+) \? ([^:;]+) : ([^;]+);",
        r"assign \1 = \2 ? \4 : \3;",
    ),
    "halves are not rounded up": (r"assign rounded = (.*) \+ [^;]*;", r"assign rounded = \1;"),
    "negative arguments have no sign": (r"assign scaled = [^;]*;", "assign scaled = magnitude;"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_unit_is_noticed(name: str, tmp_path: Path) -> None:
    unit = unit_of(FLOATING[0])
    pattern, replacement = MUTATIONS[name]
    block = FunctionBlock(unit, 0)
    text, count = re.subn(pattern, replacement, block_verilog(block, 4), count=1)
    assert count == 1
    raw = np.arange(0, 1 << 16, 3).astype(np.uint16)
    got = run_block(block, {"i": raw}, tmp_path, lanes=4, verilog=text)
    assert not np.array_equal(got["o"], expected(unit, raw.astype(np.int64)))


def test_registers_are_as_many_as_asked_for() -> None:
    unit = unit_of(FIXED[0])
    with pytest.raises(ValueError, match="0 or more"):
        FunctionBlock(unit, -1)
    with pytest.raises(ValueError, match="1 or more"):
        FunctionStream(unit, 0)


def test_the_text_depends_on_the_unit_alone() -> None:
    block = FunctionStream(unit_of(FIXED[0]), 2)
    assert stream_verilog(block) == stream_verilog(FunctionStream(unit_of(FIXED[0]), 2))


class Padded(Block):
    """A block whose ports have whole bytes."""

    i: Value
    o: Value

    def __init__(self, inner: Block) -> None:
        super().__init__(f"padded_{inner.module_name}", {"i": In(32), "o": Out(32)})
        self.inner = inner

    def build(self, m: Module) -> None:
        widths = {name: self.inner.width(name) for name in ("i", "o")}
        result = Signal(widths["o"], name="found")
        place(m, "inner", self.inner, i=self.i[: widths["i"]], o=result)
        m.d.comb += self.o.eq(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        pytest.param(made, marks=[pytest.mark.long] * (made is not shift_formula), id=made.__name__)
        for made in FORMULAS
    ],
)
def test_published_formulas_are_what_their_errors_are_of(made, tmp_path: Path) -> None:
    formula: Formula = made(admitted)
    block = formula.block
    raw = np.arange(1 << block.width("i"), dtype=np.int64)
    if isinstance(block, TwoMemories):
        raw = np.r_[
            :4096, np.arange(21) << 12, np.random.default_rng(1).integers(0, 21 << 12, 4000)
        ]
    got = run_block(Padded(block), {"i": raw.astype(np.uint32)}, tmp_path, lanes=4)["o"]
    assert np.array_equal(got, block.evaluate(raw))
    assert formula.made_error <= admitted(formula.error)
