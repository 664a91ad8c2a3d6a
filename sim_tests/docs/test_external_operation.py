# SPDX-License-Identifier: Apache-2.0
"""The family of ``docs/adding-an-operation.md``, which multiplies no matrices, from a package."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sim_tests.docs.installed_page import Installed

Hwgen = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def hwgen(tmp_path_factory: pytest.TempPathFactory) -> Hwgen:
    """Install the page's package; return a function that runs ``hwgen`` beside it."""
    return Installed.of("adding-an-operation.md", tmp_path_factory.mktemp("operation")).run


def configuration(tmp_path: Path, **values: object) -> Path:
    path = tmp_path / "core.yaml"
    path.write_text(json.dumps({"name": "core", "family": "row_sum", **values}))
    return path


def test_it_runs_and_its_manifest_names_the_operation(hwgen: Hwgen, tmp_path: Path) -> None:
    x = np.random.default_rng(1).integers(-128, 128, (5, 21))
    np.save(tmp_path / "x.npy", x)
    core, sums = configuration(tmp_path), tmp_path / "sums.npy"
    operand = ["--operand", f"x={tmp_path / 'x.npy'}", "--output", sums]
    done = hwgen("run", "--config", core, "--operation", "row_sum", *operand, "--check", "--json")
    assert np.array_equal(np.load(sums), x.sum(axis=1))
    result = json.loads(done.stdout)
    assert result["sizes"] == {"rows": 5, "length": 21}
    assert result["cycles"] == 5 * 6 + 2
    hwgen("build", "--config", core, "--output", tmp_path / "out")
    (operation,) = json.loads((tmp_path / "out" / "core.json").read_text())["operations"]
    assert operation["operands"][0]["shape"] == ["rows", "length"]


def test_it_is_estimated_by_its_jobs(hwgen: Hwgen, tmp_path: Path) -> None:
    job = ["--job", "row_sum:rows=64,length=512", "--json"]
    result = json.loads(hwgen("estimate", "--config", configuration(tmp_path), *job).stdout)
    name = "row_sum rows=64,length=512"
    assert result["metrics"][f"cycles({name})"] == 64 * 128 + 2
    assert result["certainty"][f"cycles({name})"]["basis"] == "exact"
    assert result["metrics"][f"energy_mj({name})"] > 0
    assert result["metrics"]["tops"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["estimate", "--gemm", "4,8,4"], "a workload is for products of matrices"),
        (["run", "--output", "c.npy", "--operation", "row_sun"], "did you mean 'row_sum'?"),
        (["run", "--output", "c.npy", "--weights", "w.npy"], "--weights is for products"),
        (["pack", "--weights", "w.npy", "--output", "p"], "packing weights is for products"),
    ],
)
def test_what_it_cannot_do_is_refused(
    hwgen: Hwgen, tmp_path: Path, arguments: list[str], message: str
) -> None:
    command, *rest = arguments
    if command == "pack":
        np.save(tmp_path / "w.npy", np.ones((2, 2), np.int8))
        rest[1] = str(tmp_path / "w.npy")
    done = hwgen(command, "--config", configuration(tmp_path), *rest, status=2)
    assert message in " ".join(done.stderr.split())


@pytest.mark.slow
def test_it_works_inside_a_memory_engine(hwgen: Hwgen, tmp_path: Path) -> None:
    """Nothing is said of memory by the family: its beats lie there one behind the other."""
    x = np.random.default_rng(2).integers(-128, 128, (6, 13))
    np.save(tmp_path / "x.npy", x)
    core = tmp_path / "engine.yaml"
    memory = {"data_width": 32, "max_burst": 4, "outstanding": 2}
    buffers = {"port_beats": 8}
    values = {"name": "engine", "family": "stream_engine", "compute": {"family": "row_sum"}}
    core.write_text(json.dumps({**values, "memory": memory, "buffers": buffers}))
    operand = ["--operand", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "sums.npy"]
    hwgen("run", "--config", core, "--operation", "row_sum", *operand, "--check")
    assert np.array_equal(np.load(tmp_path / "sums.npy"), x.sum(axis=1))


@pytest.mark.slow
def test_its_whole_regression_passes(hwgen: Hwgen, tmp_path: Path) -> None:
    core = configuration(tmp_path, activation="uint5", array={"lanes": 3})
    done = hwgen("sim", "--config", core, "--output", tmp_path / "sim", "--json")
    summary = json.loads(done.stdout)
    assert summary["failed"] == 0
    assert {"row_sum_values", "reset_0", "back_to_back_stalled"} <= {
        case["name"] for case in summary["cases"]
    }
