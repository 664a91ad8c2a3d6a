# SPDX-License-Identifier: Apache-2.0
"""Components of digit-serial engines: the encoder that leaves out zeros, columns of PEs."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from flows.verilator import lint
from hwgen.build.files import LINT_WAIVERS
from hwgen.numerics import IntegerFormat, integer
from hwgen.numerics.digits import Encoding, digit_count, encode
from hwgen.numerics.sparse_digits import GROUP, PassSum, group_cycles
from rtl_templates.arithmetic.serial_pe import SerialColumn
from rtl_templates.arithmetic.sparse_encoder import NAMES, SparseEncoder
from rtl_templates.hierarchy import Block, place
from rtl_templates.stream import StreamSlice
from sim_tests.stream_blocks import PREFIX, Streamed, run_stream, stream_verilog

INT8 = integer("int8")
EVERY_GROUP = np.array(list(product(range(-2, 3), repeat=GROUP)))


def bits(values: np.ndarray) -> np.ndarray:
    """Return words of up to eight bits, shape (words, bits), as bytes, shape (words, 1)."""
    return np.packbits(values, axis=1, bitorder="little")


def lines_of(groups: np.ndarray) -> dict[str, np.ndarray]:
    """Return the select lines of digits, shape (groups, GROUP)."""
    return {
        "i_one": bits(np.abs(groups) == 1),
        "i_two": bits(np.abs(groups) == 2),
        "i_negative": bits(groups < 0),
    }


# -- encoder ---------------------------------------------------------------------------------------


def given_digits(groups: np.ndarray, ends: np.ndarray) -> list[tuple[int, int, bool, bool]]:
    """Return the digits of groups one by one: position, digit, last of the group, of the sum."""
    found = []
    for group, end in zip(groups.tolist(), ends.tolist(), strict=True):
        used = [(1 << i, digit) for i, digit in enumerate(group) if digit] or [(0, 0)]
        found += [
            (*digit, i == len(used), bool(end) and i == len(used))
            for i, digit in enumerate(used, 1)
        ]
    return found


def check_encoder(groups: np.ndarray, work: Path, **options: Any) -> Streamed:
    """Send groups through an encoder and check every digit."""
    ends = np.random.default_rng(len(groups)).random(len(groups)) < 0.3
    results = np.maximum(1, (groups != 0).sum(axis=1))
    inputs = {**lines_of(groups), "i_ends": bits(ends[:, None])}
    out = run_stream(SparseEncoder(), inputs, work, results=results, **options)
    position, one, two, negative, last, end = (
        out.outputs[f"o_{name}"][:, 0].astype(int)
        for name in ("position", "one", "two", "negative", "last", "ends")
    )
    assert not (negative & ~(one | two)).any(), "a zero without a sign"
    digits = (one + 2 * two) * (1 - 2 * negative)
    found = list(
        zip(position.tolist(), digits.tolist(), (last == 1).tolist(), (end == 1).tolist(),
            strict=True)
    )  # fmt: skip
    kept, at = out.report["kept"], options.get("reset_at")
    expected = given_digits(groups, ends)
    if at is not None:
        expected = expected[:kept] + given_digits(groups[at:], ends[at:])
    assert found == expected
    if not options.keys() & {"idle", "stall", "reset_at"}:
        assert out.report["first_out"] == out.report["first_in"] + 1
        assert out.report["cycles"] - out.report["first_out"] == results.sum(), "no bubble"
    return out


def shuffled(times: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(EVERY_GROUP) for _ in range(times)])


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"idle": 0.3, "stall": 0.3}, {"stall": 0.7}], ids=str)
def test_encoder_gives_every_digit_but_zeros(options: dict[str, float], tmp_path: Path) -> None:
    check_encoder(shuffled(2, len(options)), tmp_path, **options)


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 50])
def test_encoder_forgets_at_a_reset(at: int, tmp_path: Path) -> None:
    check_encoder(shuffled(1, at)[:100], tmp_path, stall=0.4, idle=0.2, reset_at=at)


@pytest.mark.slow
def test_encoder_takes_the_cycles_of_the_model(tmp_path: Path) -> None:
    """Rows of zeros, of the most negative value, dense and sparse ones in turn."""
    rng = np.random.default_rng(5)
    rows = INT8.random(rng, (6, 24))
    rows[0], rows[1], rows[3] = 0, INT8.min, np.where(rng.random(24) < 0.8, 0, rows[3])
    # One bit weight of all terms of a row after the other.
    groups = encode("ent", rows, INT8).transpose(0, 2, 1).reshape(-1, GROUP)
    report = check_encoder(groups, tmp_path).report
    cycles = report["cycles"] - report["first_out"]
    assert cycles == group_cycles("ent", rows, INT8).sum()


ENCODER_MUTATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "digit skipped": (r"o_ready \? rest", "o_ready ? rest & 4'h7", {}),
    "bubble between groups": (r"(assign i_ready = )[^;]*;", r"\1~o_valid;", {}),
    "group lost": (r"(assign i_ready = )[^;]*;", r"\1~o_valid | o_last;", {"stall": 0.4}),
    "sign lost": (r"(assign o_negative = )", r"\1 1'b0 & ", {}),
    "kept over a reset": (
        r"if \(rst\) o_valid <= 1'h0;\s*else ",
        "",
        {"stall": 0.9, "reset_at": 9},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODER_MUTATIONS)
def test_broken_encoder_is_noticed(name: str, tmp_path: Path) -> None:
    pattern, replacement, options = ENCODER_MUTATIONS[name]
    text, count = re.subn(pattern, replacement, stream_verilog(SparseEncoder()))
    assert count == 1
    with pytest.raises(AssertionError):
        check_encoder(shuffled(1, 0)[:200], tmp_path, verilog=text, **options)


# -- columns ---------------------------------------------------------------------------------------

COLUMNS = 3
TERMS = 16
"""A power of two: the largest sum of a pass is one, and needs a bit more than all others."""

FACTORS = [integer(name) for name in ("int2", "uint2", "int3", "int8", "uint8", "int16", "uint16")]


class Fed(Block):
    """Columns for several formats with the same digits, and the registers that hold their factors.

    The factors of a group, the low bits of 16-bit lanes, come `i_late` cycles behind it.
    """

    resettable = True
    i_valid: Value
    i_data: Value
    i_late: Value
    i_ready: Value
    o_valid: Value
    o_ready: Value

    def __init__(self, factors: list[IntegerFormat], spacing: int) -> None:
        self.sums = {str(fmt): PassSum(fmt, TERMS, spacing) for fmt in factors}
        super().__init__(
            f"fed_{spacing}",
            {
                **{f"i_{name}": In(GROUP) for name in NAMES},
                **{name: In(1) for name in ("i_ends", "i_valid", "o_ready")},
                "i_data": In(COLUMNS * GROUP * 16),
                "i_late": In(2),
                "i_ready": Out(1),
                "o_valid": Out(1),
                **{f"o_{name}": Out(COLUMNS * what.held) for name, what in self.sums.items()},
            },
        )

    def build(self, m: Module) -> None:
        shared = {f"i_{name}": getattr(self, f"i_{name}") for name in (*NAMES, "ends", "valid")}
        data, valid, late = Signal(COLUMNS * GROUP * 16), Signal(), Signal(2)
        ready = [Signal(3, name=f"ready_{name}") for name in self.sums]
        place(
            m,
            "factors",
            StreamSlice(len(data)),
            i_data=self.i_data,
            i_valid=self.i_valid,
            i_ready=Signal(name="as_the_columns"),
            o_data=data,
            o_valid=valid,
            o_ready=ready[0][1],
        )
        m.d.sync += late.eq(
            Mux(self.i_valid & self.i_ready, self.i_late, Mux(late == 0, 0, late - 1))
        )
        m.d.comb += [self.i_ready.eq(ready[0][0]), self.o_valid.eq(ready[0][2])]
        for (name, what), lines in zip(self.sums.items(), ready, strict=True):
            width, held = what.factor.width, Signal(COLUMNS * what.held, name=f"held_{name}")
            low = Signal(COLUMNS * GROUP * width, name=f"factors_{name}")
            for lane in range(COLUMNS * GROUP):
                m.d.comb += low.word_select(lane, width).eq(data.word_select(lane, 16))
            place(
                m,
                f"column_{name}",
                SerialColumn(what, COLUMNS),
                **shared,
                f_data=low,
                f_valid=valid & (late == 0),
                o_ready=self.o_ready,
                i_ready=lines[0],
                f_ready=lines[1],
                o_valid=lines[2],
                o_held=held,
            )
            m.d.comb += getattr(self, f"o_{name}").eq(held)


def operands(recoded: IntegerFormat, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of `TERMS` terms and, for each, the 16 bits of the factors of all columns.

    Rows are of zeros, of the most negative value and of the largest, then random, dense and
    sparse in turn.
    """
    rng = np.random.default_rng(rows)
    a, b = recoded.random(rng, (rows, TERMS)), rng.integers(1 << 16, size=(rows, TERMS, COLUMNS))
    a[8::2][rng.random(a[8::2].shape) < 0.8] = 0
    # The ends of the digits' format against those of all formats of factors.
    a[0], a[1:7], a[7] = 0, recoded.min, recoded.max
    for row, ends in enumerate((1 << 15, 1 << 7, 1 << 2, 1 << 1, 0x7FFF, 0xFFFF, 0xFFFF), 1):
        b[row] = ends
    return a, b


def sums_of(digits: np.ndarray, factors: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the whole sums of groups of digits and factors, shape (sums, COLUMNS)."""
    groups = np.einsum("gt,gct->gc", digits.astype(np.int64), factors)
    last = np.flatnonzero(ends)
    return np.diff(np.cumsum(groups, axis=0)[last], axis=0, prepend=0)


def check_columns(
    encoding: Encoding,
    recoded: IntegerFormat,
    spacing: int,
    work: Path,
    *,
    rows: int = 12,
    late: bool = False,
    factors: list[IntegerFormat] = FACTORS,
    **options: Any,
) -> None:
    """Multiply rows by the columns of each format, pass after pass, and check every product."""
    block = Fed(factors, spacing)
    a, b = operands(recoded, rows)
    passes, groups = digit_count(recoded), TERMS // GROUP
    digits = encode(encoding, a, recoded).transpose(0, 2, 1).reshape(-1, GROUP)
    lanes = b.reshape(rows, 1, groups, GROUP, COLUMNS).swapaxes(-1, -2)
    data = np.broadcast_to(lanes, (rows, passes, groups, COLUMNS, GROUP)).astype("<u2")
    ends = np.tile(np.arange(groups) == groups - 1, rows * passes)
    waits = np.random.default_rng(1).integers(4 if late else 1, size=(len(digits), 1))
    inputs = {
        **lines_of(digits),
        "i_ends": bits(ends[:, None]),
        "i_data": np.ascontiguousarray(data).reshape(len(digits), -1).view(np.uint8),
        "i_late": waits.astype(np.uint8),
    }
    out = run_stream(block, inputs, work, results=ends.astype(int), **options)
    kept, at = out.report["kept"], options.get("reset_at")
    for name, what in block.sums.items():
        unpacked = np.unpackbits(out.outputs[f"o_{name}"], axis=1, bitorder="little")
        held = unpacked[:, : COLUMNS * what.held].reshape(-1, COLUMNS, what.held).astype(np.int64)
        places = 1 << np.array([*range(what.total.width), *what.carries])
        sums = what.total.wrap(held @ places)
        factor = what.factor.wrap(data.reshape(-1, COLUMNS, GROUP).astype(np.int64))
        if at is not None:
            exact = [
                sums_of(digits, factor, ends)[:kept],
                sums_of(digits[at:], factor[at:], ends[at:]),
            ]
            assert np.array_equal(sums, np.concatenate(exact)), name
            continue
        weights = 4 ** np.arange(passes)[:, None]
        products = (sums.reshape(rows, passes, COLUMNS) * weights).sum(axis=1)
        exact = np.einsum("rk,rkc->rc", a, what.factor.wrap(b))
        assert np.array_equal(products, exact), name
    if not late and not options.keys() & {"idle", "stall", "reset_at"}:
        cycles = out.report["cycles"] - out.report["first_in"]
        assert cycles == group_cycles(encoding, a, recoded).sum() + 3, "no bubble"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "recoded", "spacing", "options"),
    [
        ("ent", "int8", 1, {}),
        ("booth4", "int8", 1, {"idle": 0.2, "stall": 0.8, "late": True}),
        ("booth4", "int16", 5, {"stall": 0.5}),
        ("ent", "uint3", 5, {"late": True}),
        ("ent", "int2", 1, {}),
        ("booth4", "int8", 5, {"stall": 0.4, "late": True, "reset_at": 149}),
    ],
)
def test_columns(
    encoding: Encoding, recoded: str, spacing: int, options: dict[str, Any], tmp_path: Path
) -> None:
    check_columns(encoding, integer(recoded), spacing, tmp_path, **options)


MUTATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "carry dropped": (r"(held <= \{ )\w+", r"\1 1'b0", {}),
    "digit skipped": (r"o_ready \? rest", "o_ready ? rest & 4'h7", {}),
    "sign of the top digit": (
        r"(= negative & \{ )o_position\[3:1\]",
        r"\1 1'b0, o_position[2:1]",
        {},
    ),
    "sign of a multiple": (r"(assign exact = \S+ \^ \{ )negative", r"\1 1'b0", {}),
    "sum not cleared": (r"~ clear;", "1'b1;", {}),
    "sum lost under a stall": (r"assign run = [^;]*;", "assign run = 1'b1;", {"stall": 0.4}),
    "factors not waited for": (r"run & f_valid;", "run;", {"late": True}),
    "sum continued over a reset": (r"if \(rst\) clear <= 1'h1;\s*else ", "", {"reset_at": 146}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_broken_column_is_noticed(name: str, tmp_path: Path) -> None:
    pattern, replacement, options = MUTATIONS[name]
    text, count = re.subn(pattern, replacement, stream_verilog(Fed([INT8], 5)))
    assert count
    with pytest.raises(AssertionError):
        check_columns("booth4", INT8, 5, tmp_path, factors=[INT8], verilog=text, **options)


@pytest.mark.parametrize(
    "block",
    [SparseEncoder(), SerialColumn(PassSum(INT8, 300), 2), SerialColumn(PassSum(INT8, 300, 9), 1)],
    ids=lambda block: block.module_name,
)
def test_clean_verilog(block: Block, tmp_path: Path) -> None:
    source = tmp_path / "block.v"
    source.write_text(stream_verilog(block), encoding="utf-8")
    assert not lint([source], f"{PREFIX}_{block.module_name}", list(LINT_WAIVERS))
