# SPDX-License-Identifier: Apache-2.0
"""The fast simulation path: the same results and cycles as with cocotb, and the same errors."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import load_config, parse_config
from flows.simulation import stream_program as fast
from flows.simulation.operands import draw_matrices
from flows.simulation.run import run_product
from hwgen.cli import main
from hwgen.errors import CheckFailed
from hwgen.formats import differences
from sim_tests.support.cores import cycles_of_operands, golden
from sim_tests.support.cores import plan as gemm_plan
from sim_tests.support.designs import design_of
from sim_tests.support.paths import ROOT

CONFIGS = [
    path
    for path in sorted((ROOT / "configs").glob("*.yaml"))
    if load_config(path).ports and load_config(path).multiplies
]
"""Of cores with streams that multiply matrices."""
LARGE = {"lut_core_fp16", "lut_core_fp16_aligned", "lut_w2"}  # more than half a minute to compile

OUTPUT = "name: c\nfamily: systolic\narray: {rows: 3, cols: 5}\nmax_k: 64\n"
NARROW = (
    "name: c\nfamily: systolic\nactivation: uint3\nweight: int5\nmax_k: 99\n"
    "array: {rows: 2, cols: 3, dataflow: weight_stationary, accumulator_depth: 4}\n"
)
WIDE = (
    "name: c\nfamily: systolic\nactivation: int8\nweight: int16\nmax_k: 64\n"
    "array: {rows: 1, cols: 200, dataflow: input_stationary}\n"
)
TABLES = (
    "name: c\nfamily: ternary_lut\n"
    "array: {group_size: 2, tables: 2, fetch_ports: 3, accumulator_depth: 2}\n"
)
FLOATS = (
    "name: c\nfamily: ternary_lut\nactivation: bf16\n"
    "array: {group_size: 2, tables: 1, fetch_ports: 2, accumulator_depth: 4}\n"
)


def assert_equal(config: Any, size: tuple[int, int, int], engines: tuple[Any, ...]) -> None:
    """Every engine gives the golden result in the cycles of the model."""
    a, w = draw_matrices(config, size, "random", np.random.default_rng(1))
    expected = golden(config, a, w)
    cycles = cycles_of_operands(config, [(a, w)])
    for engine in engines:
        result = run_product(design_of(config), a, w, engine=engine)
        assert result.result.dtype == expected.dtype
        assert not len(differences(result.result, expected)), engine
        assert result.cycles == cycles, engine


@pytest.mark.parametrize("text", [OUTPUT, NARROW, TABLES, FLOATS])
def test_engines_agree(text: str) -> None:
    config = parse_config(text)
    assert_equal(config, (4, 11, 7), ("fast", "cocotb"))
    for size in ((1, 1, 1), (7, 1, 12), (13, 60, 1), (3, 33, 31)):
        assert_equal(config, size, ("fast",))


@pytest.mark.slow
@pytest.mark.rotate(9)
def test_ports_of_thousands_of_bits() -> None:
    config: Any = parse_config(WIDE)
    assert max(port.data_width for port in config.ports) >= 3072
    assert_equal(config, (201, 5, 3), ("fast", "cocotb"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[pytest.mark.long] * (p.stem in LARGE), id=p.stem) for p in CONFIGS],
)
@pytest.mark.rotate(32)
def test_shipped_configurations(path: Path) -> None:
    config = load_config(path)
    assert_equal(config, (5, 67, 37), ("fast", "cocotb"))
    assert_equal(config, (66, 130, 35), ("fast",))


@pytest.mark.parametrize("engine", ["fast", "cocotb"])
def test_missing_results_end_the_run(engine: Any) -> None:
    """A core that gives no results runs into the cycle limit."""
    config: Any = parse_config(OUTPUT)
    design = design_of(config)
    broken = design.verilog.replace(".act__valid(s_axis_act_tvalid)", ".act__valid(1'h0)")
    with pytest.raises(CheckFailed, match=r"^(AssertionError: )?3 result beats are missing"):
        run_product(
            design.with_verilog(broken), np.ones((3, 5), int), np.ones((5, 4), int), engine=engine
        )


def test_a_design_that_does_not_compile() -> None:
    config: Any = parse_config(OUTPUT)
    design = design_of(config)
    text = design.verilog.replace("endmodule", "endmodul", 1)
    with pytest.raises(CheckFailed, match=r"(?s)^verilator failed \(.*syntax error"):
        run_product(design.with_verilog(text), np.ones((3, 5), int), np.ones((5, 4), int))


def test_time_limit() -> None:
    config: Any = parse_config(OUTPUT)
    a, w = np.ones((120, 64), int), np.ones((64, 120), int)
    with pytest.raises(CheckFailed, match="the simulation did not end within 0 s"):
        run_product(design_of(config), a, w, timeout=0.01)


def test_progress() -> None:
    config: Any = parse_config(OUTPUT)
    seen: list[tuple[int, int]] = []
    a, w = draw_matrices(config, (900, 64, 900), "random", np.random.default_rng(1))
    run_product(design_of(config), a, w, on_progress=lambda *update: seen.append(update))
    assert seen
    assert all(0 < cycles <= total for cycles, total in seen)
    assert seen == sorted(seen)


def test_an_error_of_the_schedule_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    config: Any = parse_config(OUTPUT)
    schedule = type(gemm_plan(config, 1, 1, 1))

    def fail(self: Any, port: Any, blocks: Any) -> Iterator[Any]:
        yield blocks[0, 0], True
        raise RuntimeError("no more beats")

    monkeypatch.setattr(schedule, "stream", fail)
    with pytest.raises(RuntimeError, match="no more beats"):
        run_product(design_of(config), np.ones((9, 5), int), np.ones((5, 9), int))


def test_repeated_blocks_are_not_stored_in_memory() -> None:
    block = np.zeros((1 << 10, 16), np.uint8)

    def chunks() -> Iterator[tuple[np.ndarray, bool]]:
        for _ in range(1 << 12):
            yield block, True

    tracemalloc.start()
    try:
        total = sum(len(part) for _, _, part in fast.batches(chunks()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == block.nbytes << 12
    assert peak < 8 * fast.BATCH_BYTES


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.yaml").write_text(OUTPUT)
    np.save(tmp_path / "a.npy", np.ones((4, 3), int))
    np.save(tmp_path / "w.npy", np.ones((3, 2), int))
    files = [f"--{name}={tmp_path / file}" for name, file in (
        ("config", "c.yaml"), ("activations", "a.npy"), ("weights", "w.npy"), ("output", "c.npy")
    )]  # fmt: skip
    assert main(["run", *files, "--driver", "slow"]) == 2
    assert "'fast', 'cocotb'" in capsys.readouterr().err
    assert main(["run", *files, "--driver", "cocotb", "--check"]) == 0
    assert main(["run", *files, "--check", "--force"]) == 0
    assert (np.load(tmp_path / "c.npy") == 3).all()
