# SPDX-License-Identifier: Apache-2.0
"""Figures say what they are: exact, expected or modelled."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import load_config, parse_config
from hwgen.cli import main
from hwgen.core.registry import core_of
from sim_tests.support.cores import cycles_of_operands
from sim_tests.support.designs import estimate_of
from sim_tests.support.paths import ROOT

CONFIGS = ROOT / "configs"

SIZES = [(9, 200, 5), (3, 40, 2)]

BASES = {"serial": "expected", "gemm_stream": "exact", "cube": "exact", "systolic": "exact",
         "lut_core": "exact"}  # fmt: skip


@pytest.mark.parametrize("name", BASES)
def test_cycles_say_what_they_are(name: str) -> None:
    config = load_config(CONFIGS / f"{name}.yaml")
    core = core_of(config)
    result = core.cycles([core.gemm(*size) for size in SIZES])
    assert result.basis == result.document()["basis"] == BASES[name]


def test_expected_cycles_have_a_bound_that_the_densest_values_reach() -> None:
    config = load_config(CONFIGS / "serial.yaml")
    core = core_of(config)
    result = core.cycles([core.gemm(*size) for size in SIZES])
    assert result.most is not None
    assert result.number < result.most
    operands = [(np.full((m, k), -86), np.ones((k, n), int)) for m, k, n in SIZES]
    assert cycles_of_operands(config, operands) == result.most


def bases(entry: dict[str, Any]) -> dict[str, str]:
    known = {name for name, value in entry["metrics"].items() if value is not None}
    assert set(entry["certainty"]) == known, "each known figure says what it is, no other does"
    return {name: figure["basis"] for name, figure in entry["certainty"].items()}


def test_each_figure_of_an_estimate_says_what_it_is() -> None:
    config = load_config(CONFIGS / "cube.yaml")
    entry = estimate_of(config, "nangate45", 500.0, {"w": SIZES})
    result = bases(entry)
    exact = {"tops", "bandwidth_gb_s", "cycles(w)", "latency_ms(w)"}
    assert {name for name, basis in result.items() if basis == "exact"} == exact
    assert set(result.values()) == {"exact", "modelled"}
    for name in ("area_mm2", "power_w", "fmax_mhz"):
        assert entry["certainty"][name]["within"] == entry["uncertainty"][name]


def test_what_fmax_limits_is_modelled() -> None:
    entry = estimate_of(load_config(CONFIGS / "cube.yaml"), "nangate45", 5000.0, {"w": SIZES})
    result = bases(entry)
    assert {name for name, basis in result.items() if basis == "exact"} == {"cycles(w)"}
    assert entry["certainty"]["tops"]["within"] == entry["uncertainty"]["fmax_mhz"]


@pytest.mark.rotate(12)
def test_every_shipped_configuration_says_what_its_figures_are() -> None:
    for path in sorted(CONFIGS.glob("*.yaml")):
        core = load_config(path)
        entry = estimate_of(core, workloads={"w": [(5, 16, 7)]} if core.multiplies else None)
        bases(entry)


def test_supplied_activations_make_serial_pes_exact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    a, w = rng.integers(-20, 20, (9, 200)), rng.integers(-128, 128, (200, 5))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "w.npy", w)
    config = CONFIGS / "serial.yaml"
    command = ["estimate", "--config", str(config), "--activations", str(tmp_path / "a.npy")]
    assert main([*command, "--weights", str(tmp_path / "w.npy"), "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)
    core = load_config(config)
    exact = cycles_of_operands(core, [(a, w)])  # what simulations are held against
    assert entry["metrics"]["cycles(a)"] == exact
    assert entry["certainty"]["cycles(a)"] == {"basis": "exact"}
    assert entry["metrics"]["latency_ms(a)"] == pytest.approx(exact / core.target.clock_mhz / 1e3)
    expected = estimate_of(core, workloads={"a": [(9, 200, 5)]})
    assert expected["certainty"]["cycles(a)"]["basis"] == "expected"
    ratio = exact / expected["metrics"]["cycles(a)"]
    energy = "energy_mj(a)"
    assert entry["metrics"][energy] == pytest.approx(expected["metrics"][energy] * ratio)
    assert main([*command, "--n", "5"]) == 0
    text = capsys.readouterr().out
    assert f"{exact:,}" in text
    assert "exact" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n", "5"], "belong to --activations"),
        (["--activations", "a.npy"], "give either --weights or --n"),
        (["--activations", "a.npy", "--n", "5", "--weights", "w.npy"], "give either"),
        (["--activations", "a.npy", "--weights", "w.npy"], "weights: shape must be (20, 5)"),
        (["--activations", "big.npy", "--n", "5"], "activations: "),
    ],
)
def test_matrices_of_an_estimate_are_checked(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.ones((3, 20), int))
    np.save("big.npy", np.full((3, 20), 200))
    np.save("w.npy", np.ones((21, 5), int))
    assert main(["estimate", "--config", str(CONFIGS / "serial.yaml"), *options]) == 2
    assert message in capsys.readouterr().err


def test_latencies_are_those_of_the_page_on_interfaces() -> None:
    """docs/interface.md gives closed forms; final adders are among them."""
    for name, pe, adder, registers in product(
        ("systolic", "cube", "adder_tree", "broadcast_2d"), ("mac", "carry_save"), (0, 2), (0, 1)
    ):
        if pe == "mac" and adder:
            continue
        core: Any = parse_config(
            f"name: core\nfamily: {name}\narray: {{pe: {pe}}}\n"
            f"pipeline: {{pe: {registers}, final_adder: {adder}}}\n"
        )
        adders = 1 + adder if pe == "carry_save" else 0
        assert core.latency == 4 + registers + adders
