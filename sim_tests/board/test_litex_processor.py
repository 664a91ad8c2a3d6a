# SPDX-License-Identifier: Apache-2.0
"""An engine tested by the processor of a SoC, as `hwgen board litex` writes it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flows.board.litex import litex_files
from flows.board.litex_test import TEST_ADDRESS
from flows.build.design import Design
from flows.build.load import parse_config
from sim_tests.board.test_litex import ENGINE

GEMM = ENGINE.format(width=32, bits=32)
STREAM = """\
name: rows
family: stream_engine
compute:
  family: vector
  input: bf16
  output: bf16
  array: {operations: [add], lanes: 2, longest_row: 64}
memory: {data_width: 64, address_width: 40}
"""
LISTS = """\
name: lists
family: transformer
units:
  products:
    family: gemm_stream
    compute: {family: systolic, array: {rows: 2, cols: 2, dataflow: weight_stationary}}
    buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}
lists: {registers: 8, calls: 2, cache_lines: 2}
memory: {data_width: 32, address_width: 32}
"""
HEADERS = ("/usr/include/json-c/json.h", "/usr/include/event2/event.h")


def needs_compiler() -> None:
    """Skip a test where programs for RISC-V cannot be compiled."""
    if shutil.which("riscv64-unknown-elf-gcc") is None:
        pytest.skip("no compiler for RISC-V")


def needs_simulation() -> None:
    """Skip a test where LiteX's simulation cannot be compiled."""
    needs_compiler()
    if not all(Path(path).exists() for path in HEADERS):
        pytest.skip("no headers of json-c and libevent")


def written(text: str, folder: Path) -> Path:
    """Write what `hwgen board litex` writes of a configuration."""
    for name, content in litex_files(Design.of(parse_config(text))).items():
        (folder / name).write_text(content)
    return folder


def run(folder: Path, *options: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the script of the SoC."""
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    return subprocess.run(
        [sys.executable, "soc.py", *options], cwd=folder, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "bus"),
    [
        pytest.param(GEMM, "wishbone", marks=pytest.mark.rotate(10)),
        pytest.param(GEMM, "axi-lite", marks=pytest.mark.rotate(60)),
        pytest.param(STREAM, "axi", marks=pytest.mark.rotate(60)),
        pytest.param(LISTS, "wishbone", marks=pytest.mark.rotate(60)),
    ],
    ids=["gemm", "gemm_axi_lite", "stream", "lists"],
)
def test_a_processor_finds_all_memory_right(text: str, bus: str, tmp_path: Path) -> None:
    needs_simulation()
    done = run(written(text, tmp_path), "--bus", bus)
    assert done.returncode == 0, done.stdout + done.stderr
    words = re.search(r"(\d+) words of memory, 0 of them wrong\s+PASSED", done.stdout)
    assert words is not None
    assert int(words[1]) > 64


@pytest.mark.rotate(60)
def test_a_processor_notices_a_wrong_engine(tmp_path: Path) -> None:
    needs_simulation()
    verilog = written(GEMM, tmp_path) / "gs.v"
    text = verilog.read_text()
    for right, wrong in (
        (".mem__wdata(m_axi_mem_wdata)", ".mem__wdata(wrong)"),
        (
            "  wire [31:0] m_axi_mem_wdata;",
            "  wire [31:0] wrong;\n  assign m_axi_mem_wdata = wrong ^ 256;",
        ),
    ):
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    verilog.write_text(text)
    done = run(tmp_path)
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert " 0 of them wrong" not in done.stdout


@pytest.mark.parametrize("board", [
    pytest.param("ulx3s", marks=pytest.mark.rotate(6)),
    pytest.param("arty", marks=pytest.mark.rotate(12)),
    pytest.param("tang-nano-20k", marks=pytest.mark.rotate(12)),
])  # fmt: skip
def test_a_board_has_the_engine_and_a_program(board: str, tmp_path: Path) -> None:
    needs_compiler()
    done = run(written(GEMM, tmp_path), "--board", board)
    assert done.returncode == 0, done.stderr
    (verilog,) = (tmp_path / "soc" / "gateware").glob("*.v")
    assert re.search(r"^gs gs", verilog.read_text(), re.MULTILINE)
    regions = (tmp_path / "soc" / "software" / "include" / "generated" / "mem.h").read_text()
    memory = re.search(
        r"MAIN_RAM_BASE 0x([0-9a-f]+)L\n#define MAIN_RAM_SIZE 0x([0-9a-f]+)", regions
    )
    assert memory is not None
    base, size = (int(number, 16) for number in memory.groups())
    assert base <= TEST_ADDRESS < base + size
    program = (tmp_path / "soc" / "test.bin").stat().st_size
    assert program < TEST_ADDRESS - base


def test_a_missing_compiler_is_named(tmp_path: Path) -> None:
    done = run(written(GEMM, tmp_path), path=str(tmp_path))
    assert done.returncode == 1
    assert "apt-get install gcc-riscv64-unknown-elf" in done.stderr
