# SPDX-License-Identifier: Apache-2.0
"""Instances that share their code in a simulation: where that is tried, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.build.load import load_config
from flows.simulation.verilator.sharing import (
    APART,
    GROWTH,
    INSTANCES,
    SHARING,
    UNIT_BYTES,
    repeated,
)
from flows.simulation.verilator.verilator import build_program
from sim_tests.support.designs import design_of
from sim_tests.support.paths import ROOT

FILLING = "  wire [7:0] filling;\n"
MAIN = "#include <Vtop.h>\nint main() { Vtop top; top.eval(); top.final(); return 0; }\n"


def design(instances: int, lines: int, others: int = 0) -> str:
    """Return a top module with instances of one that has so many lines, and other lines."""
    within = "".join(f"  part part_{i} (\n    .a(a)\n  );\n" for i in range(instances))
    return (
        f"module part(a);\n  input a;\n  wire a;\n{FILLING * lines}endmodule\n"
        f"module top(a);\n  input a;\n  wire a;\n{FILLING * others}{within}endmodule\n"
    )


LINES = UNIT_BYTES // len(FILLING) + 1


def test_size_counts_each_instance() -> None:
    text = design(INSTANCES, LINES)
    part = text.index("module top")
    expected = INSTANCES * (part - 1) + len(text) - part - 1
    result = repeated(text, "top")
    assert result is not None
    assert result.bytes == pytest.approx(expected, rel=0.001)
    assert result.attempts == (SHARING, APART)


@pytest.mark.parametrize(
    "text",
    [
        design(INSTANCES - 1, LINES),
        design(INSTANCES, LINES // 2),
        design(INSTANCES, LINES, 2 * LINES),
    ],
    ids=["few", "small", "beside others"],
)
def test_what_is_not_promising(text: str) -> None:
    assert repeated(text, "top") is None


def test_large_modules_within_what_is_repeated_stay_apart() -> None:
    """As the adders of the columns of a core of floating-point numbers."""
    config = load_config(ROOT / "configs" / "lut_core_fp16.yaml")
    result = repeated(design_of(config).verilog, config.name)
    assert result is not None
    assert result.attempts == (APART,)


def test_another_top_module() -> None:
    assert repeated(design(INSTANCES, LINES), "elsewhere") is None


@pytest.mark.slow
@pytest.mark.rotate(9)
def test_code_is_shared(tmp_path: Path) -> None:
    """Of the columns of a core there is one copy, where each had its own."""
    config = load_config(ROOT / "configs" / "lut_w2.yaml")
    text = design_of(config).verilog
    result = repeated(text, config.name)
    assert result is not None
    (tmp_path / "design.v").write_text(text)
    (tmp_path / "main.cpp").write_text(MAIN)
    build_program([tmp_path / "design.v"], config.name, tmp_path, ["main.cpp"])
    written = sum(path.stat().st_size for path in tmp_path.glob("Vtop*.cpp"))
    assert written < 2 * result.bytes < GROWTH * result.bytes
