# SPDX-License-Identifier: Apache-2.0
"""The package that ``hwgen init --plugin`` writes works, the tool untouched.

``docs/adding-a-family.md`` lists it.  It is installed in a temporary directory, as pip would.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.simulation.verilator.verilator import lint
from hwgen.core import registry as families
from hwgen.core.core import CONTRACT, Core
from hwgen.errors import InputError
from hwgen.reports.plugin_package import plugin_files
from sim_tests.docs.installed_page import Installed, listings

PAGE = "adding-a-family.md"

Hwgen = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def hwgen(tmp_path_factory: pytest.TempPathFactory) -> Hwgen:
    """Install the package; return a function that runs ``hwgen`` beside it."""
    return Installed.of_files(plugin_files("dot"), tmp_path_factory.mktemp("family")).run


class Unfinished(Core[Any]):
    """A family that lacks everything but its version."""

    contract = CONTRACT


def configuration(tmp_path: Path, **values: object) -> Path:
    path = tmp_path / "core.yaml"
    path.write_text(json.dumps({"name": "core", "family": "dot", **values}))  # JSON is YAML
    return path


def test_the_page_lists_what_is_written() -> None:
    files = plugin_files("dot")
    listed = listings(PAGE)
    assert listed == {name: files[name] for name in listed}
    assert files.keys() - listed.keys() == {
        "README.md",
        "dot_family/__init__.py",
        "tests/test_contract.py",
    }


def test_families_and_schema_know_it(hwgen: Hwgen) -> None:
    (entry,) = json.loads(hwgen("families", "dot", "--json").stdout)
    assert "array.lanes" in {parameter["name"] for parameter in entry["parameters"]}
    every = {entry["name"] for entry in json.loads(hwgen("families", "--json").stdout)}
    assert {"dot", "systolic"} <= every
    assert "dot" in json.loads(hwgen("schema").stdout)["properties"]["family"]["enum"]


def test_messages_know_it(hwgen: Hwgen, tmp_path: Path) -> None:
    core = configuration(tmp_path, array={"lanes": 65})
    said = hwgen("build", "--config", core, status=2).stderr
    assert "array.lanes: must be 1..64, not 65" in said


def test_the_template_builds(hwgen: Hwgen, tmp_path: Path) -> None:
    core = tmp_path / "dot.yaml"
    hwgen("init", "dot", "--output", core)
    hwgen("build", "--config", core, "--output", tmp_path / "out")
    verilog = (tmp_path / "out" / "dot_core.v").read_text()
    assert verilog.count("module dot_core_adder_tree(") == 1
    assert lint([tmp_path / "out" / f"dot_core.{end}" for end in ("vlt", "v")], "dot_core") == []
    manifest = json.loads((tmp_path / "out" / "dot_core.json").read_text())
    assert manifest["family"] == "dot"
    assert [stream["tdata_bits"] for stream in manifest["streams"]] == [64, 64, 32]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_package:Core", r"'bad' \(no_such_package:Core\) cannot be loaded: Module"),
        (
            "hwgen.core.registry:ENTRY_POINTS",
            r"must be a subclass of hwgen\.core\.core\.Core, not 'hwgen",
        ),
        (
            "hwgen.families.systolic.core:SystolicCore",
            r"must have parameters of family 'bad', not 'systolic'",
        ),
        (
            "hwgen.core.gemm_core:GemmCore",
            r"written for version 0 .* not for 2; update its package",
        ),
        ("sim_tests.docs.test_external_family:Unfinished", r"lacks cycles, golden, schedule, see"),
    ],
)
def test_a_broken_package_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    points = [EntryPoint("bad", value, families.ENTRY_POINTS)]
    monkeypatch.setattr("hwgen.plugins.entry_points", lambda group: points)
    result = families.families.__wrapped__()
    assert list(result) == ["bad"]  # only what is asked for is imported
    with pytest.raises(InputError, match=message):
        result["bad"]


def test_two_packages_cannot_share_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("dot", f"{package}:FAMILY", families.ENTRY_POINTS) for package in ("a", "b")
    ]
    monkeypatch.setattr("hwgen.plugins.entry_points", lambda group: points)
    with pytest.raises(InputError, match="'dot': a:FAMILY and b:FAMILY; uninstall one"):
        families.families.__wrapped__()


def test_it_packs_a_users_weights(hwgen: Hwgen, tmp_path: Path) -> None:
    w = np.random.default_rng(2).integers(-128, 128, (21, 6))
    np.save(tmp_path / "w.npy", w)
    core, packed, back = configuration(tmp_path), tmp_path / "packed", tmp_path / "back.npy"
    hwgen("pack", "--config", core, "--weights", tmp_path / "w.npy", "--output", packed)
    assert (packed / "w.bin").stat().st_size == 6 * 24  # three beats of 8 bytes a column
    hwgen("unpack", "--config", core, "--input", packed / "w.json", "--output", back)
    assert np.array_equal(np.load(back), w)


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"activation": "uint3", "weight": "int5", "max_k": 37, "array": {"lanes": 3}},
        {"activation": "uint16", "weight": "uint2", "array": {"lanes": 1}},
    ],
    ids=["default", "odd", "one_lane"],
)
@pytest.mark.rotate(4)
def test_its_whole_regression_passes(
    hwgen: Hwgen, tmp_path: Path, values: dict[str, object]
) -> None:
    core = configuration(tmp_path, **values)
    done = hwgen("sim", "--config", core, "--output", tmp_path / "sim", "--json")
    summary = json.loads(done.stdout)
    assert summary["failed"] == 0
    assert summary["passed"] == len(summary["cases"]) > 20


@pytest.mark.slow
def test_it_runs_a_users_matrices(hwgen: Hwgen, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a, w = rng.integers(-128, 128, (5, 21)), rng.integers(-128, 128, (21, 6))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "w.npy", w)
    files = ["--activations", tmp_path / "a.npy", "--weights", tmp_path / "w.npy"]
    c = tmp_path / "c.npy"
    core = configuration(tmp_path)
    done = hwgen("run", "--config", core, *files, "--output", c, "--check", "--json")
    assert np.array_equal(np.load(c), a @ w)
    assert json.loads(done.stdout)["cycles"] == 5 * 6 * 3 + 2


def test_it_has_an_estimate_without_a_line_of_its_own(hwgen: Hwgen, tmp_path: Path) -> None:
    core = configuration(tmp_path)
    result = json.loads(hwgen("estimate", "--config", core, "--gemm", "4,8,4", "--json").stdout)
    assert result["costs_of"] == "structure"
    for metric in ("area_mm2", "power_w", "tops_per_w", "energy_mj(4x8x4)"):
        assert result["metrics"][metric] > 0
    assert "adder" in {part["part"].split("_")[0] for part in result["breakdown"]}
