# SPDX-License-Identifier: Apache-2.0
"""``hwgen run`` and ``hwgen sim`` as a user meets them: results, errors, exit statuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from flows.build.design import Design
from flows.build.load import load_config
from flows.tools import toolchain
from hwgen.cli import main
from sim_tests.support.designs import design_of

TEXT = "name: tiny\nfamily: systolic\narray: {rows: 3, cols: 2}\nmax_k: 64\n"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def save(name: str, array: np.ndarray) -> str:
    np.save(name, array)
    return name


def run(*options: str, weights: str = "w.npy") -> int:
    return main(
        ["run", "--config", "tiny.yaml", "--activations", "a.npy", "--weights", weights,
         "--output", "c.npy", *options]
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8])
def test_result_is_the_product(
    config: Path, dtype: type, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    a: np.ndarray = rng.integers(0, 100, (7, 11)).astype(dtype)
    w = rng.integers(-128, 128, (11, 5)).astype(np.int16)
    save("a.npy", a)
    save("w.npy", np.asfortranarray(w))
    assert run("--check", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    c = np.load("c.npy")
    assert c.dtype == np.int32
    assert np.array_equal(c, a.astype(int) @ w.astype(int))
    assert (printed["m"], printed["k"], printed["n"]) == (7, 11, 5)
    assert 0 < printed["utilisation"] <= 1


def test_output_is_not_overwritten(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save("a.npy", np.ones((2, 3), int))
    save("w.npy", np.ones((3, 2), int))
    assert run() == 0
    before = Path("c.npy").read_bytes()
    assert run() == 2
    assert "c.npy exists; choose another name, or overwrite it with --force" in (
        capsys.readouterr().err
    )
    assert Path("c.npy").read_bytes() == before
    assert run("--force") == 0


@pytest.mark.parametrize(
    ("a", "w", "message"),
    [
        (np.ones((2, 3)), np.ones((3, 2), int), r"a\.npy: must hold integers, not float64; quant"),
        (
            np.ones(3, int),
            np.ones((3, 2), int),
            r"a\.npy: must be a matrix .*, not of shape \(3,\)",
        ),
        (np.ones((2, 3), int), np.ones((4, 2), int), r"K = 3 columns but w\.npy has K = 4 rows"),
        (np.ones((2, 65), int), np.ones((65, 2), int), r"K = 65 exceeds max_k = 64 "),
        (np.full((2, 3), 128), np.ones((3, 2), int), r"activations: must be -128\.\.127 \(int8\)"),
        (np.ones((2, 3), object), np.ones((3, 2), int), r"a\.npy is not a readable \.npy file: "),
    ],
)
def test_operands_that_cannot_be_used(
    config: Path, a: np.ndarray, w: np.ndarray, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save("a.npy", a)
    save("w.npy", w)
    assert run() == 2
    assert re.search(f"^error: .*{message}", capsys.readouterr().err, re.M)
    assert not Path("c.npy").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        (b"", "not a readable .npy file"),
        (b"PK\x03\x04", "not a readable"),
    ],
)
def test_files_that_are_not_arrays(
    config: Path, content: bytes | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save("a.npy", np.ones((2, 3), int))
    if content is not None:
        Path("bad.npy").write_bytes(content)
    assert run(weights="bad.npy") == 2
    assert message in capsys.readouterr().err


def test_a_missing_simulator_is_named(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HWGEN_VERILATOR", str(config.parent / "no-such-verilator"))
    # A simulation that another test has compiled needs no simulator.
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(config.parent / "cache"))
    toolchain.forget()
    try:
        assert main(["sim", "--config", "tiny.yaml"]) == 3
        line = toolchain.probe("verilator").line
    finally:
        monkeypatch.undo()
        toolchain.forget()
    assert line in capsys.readouterr().err


def test_sim_passes_and_writes_results(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--config", "tiny.yaml", "--jobs", "2", "--seed", "5"]) == 0
    assert re.search(r"tiny: \d+ passed, 0 failed, seed 5", capsys.readouterr().out)
    results = json.loads(Path("build/tiny-sim/results.json").read_text(encoding="utf-8"))
    assert results["failed"] == 0
    assert results["passed"] == len(results["cases"]) > 20
    assert 'failures="0"' in Path("build/tiny-sim/junit.xml").read_text(encoding="utf-8")


def test_unknown_case(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "--config", "tiny.yaml", "--case", "shape_1"]) == 2
    assert "no case is called 'shape_1' (did you mean 'shapes_1'?)" in capsys.readouterr().err


def test_a_mismatch_is_explained(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken design fails with everything that is needed to look at it again."""
    broken = design_of(load_config(config)).verilog.replace("$signed(x)", "x")
    monkeypatch.setattr(Design, "verilog", broken)
    assert main(["sim", "--config", "tiny.yaml", "--seed", "3", "--case", "values_opposite"]) == 1
    error = capsys.readouterr().err
    assert re.search(
        r"values_opposite: .*first wrong tile \(0, 0\), element result\[0,0\], expected -?\d+,"
        r" got -?\d+, cycle \d+",
        error,
    )
    assert "hwgen sim --config tiny.yaml --seed 3 --case values_opposite" in error
    save("a.npy", np.full((2, 3), -5))
    save("w.npy", np.full((3, 2), 7))
    assert run("--check") == 1
    assert re.search(
        r"is not written: 4 of 4 results .* differ .* result\[0,0\]: expected -105, got \d+",
        capsys.readouterr().err,
    )
    assert not Path("c.npy").exists()
