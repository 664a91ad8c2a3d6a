# SPDX-License-Identifier: Apache-2.0
"""Components of digit-serial engines: the encoder that leaves out zero digits."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.verilator import lint
from hwgen.build.files import LINT_WAIVERS
from hwgen.numerics import integer
from hwgen.numerics.digits import encode
from hwgen.numerics.sparse_digits import GROUP, group_cycles
from rtl_templates.arithmetic.sparse_encoder import SparseEncoder
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


def test_encoder_is_clean_verilog(tmp_path: Path) -> None:
    source = tmp_path / "block.v"
    source.write_text(stream_verilog(SparseEncoder()), encoding="utf-8")
    assert not lint([source], f"{PREFIX}_sparse_encoder", list(LINT_WAIVERS))
