# SPDX-License-Identifier: Apache-2.0
"""Power of FPGAs by the energies of another fabric: only if asked for, and to a factor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cost_model.configurations.metrics import ACTIVITY, RESOURCES
from cost_model.netlist.fabric import energy as fabric_energy
from flows.bench.models import lines
from flows.build.load import parse_config
from hwgen.cli import main
from hwgen.reports.datasheet import standing
from hwgen.technologies import fpga_family
from hwgen.technologies.fpga_energies import fpga_energies
from sim_tests.models.test_gguf import estimating
from sim_tests.support.designs import estimate_of

CORE = "name: core\nfamily: systolic\narray: {rows: 2, cols: 3}\n"
WORK = {"w": [(4, 8, 4)]}
FROM_POWER = ("power_w", "tops_per_w", "energy_mj(w)")


def of(target: str, **options: Any) -> dict[str, Any]:
    config = parse_config(CORE)
    return estimate_of(config, target, 500.0, WORK, **options)


def test_the_table_is_that_of_its_source() -> None:
    """Capacitances in W/MHz/V², of what switches and of the wires behind it, at 0.8 V."""
    table = fpga_energies()
    square = 0.8**2 * 1e6
    assert table.changes["lut"] == pytest.approx(square * (0.3e-6 + 0.02e-6))
    assert table.changes["flip_flop"] == pytest.approx(square * (0.35e-6 + 0.04e-6))
    assert table.changes["dsp_bit"] == pytest.approx(square * (1.5e-6 + 0.1e-6))
    assert table.cycles["flip_flop"] == pytest.approx(square * 2.91375e-9, rel=1e-3)
    # These without a voltage.
    assert (table.changes["written_bit"], table.changes["read_bit"]) == (2.0, 2.5 + 0.35)
    assert (table.cycles["clock"], table.cycles["clock_load"]) == (10.0, 0.03)
    assert table.factor == 3


@pytest.mark.parametrize(("target", "bits", "word"), [("ecp5", 36, 36), ("ice40", 32, 16)])
def test_energy_of_a_cycle_is_the_sum_of_its_events(target: str, bits: int, word: int) -> None:
    family, table = fpga_family(target), fpga_energies()
    none = dict.fromkeys(RESOURCES, 0.0)

    def more(resource: str) -> float:
        used = {**none, resource: 1.0}
        return fabric_energy.cycle_pj(family, used) - fabric_energy.cycle_pj(family, none)

    load, toggles = table.cycles["clock_load"], 2 * ACTIVITY
    assert fabric_energy.cycle_pj(family, none) == table.cycles["clock"]
    assert more("luts") == pytest.approx(toggles * table.changes["lut"])
    assert more("carries") == pytest.approx(family.luts_in.get("carries", 0) * more("luts"))
    stored = toggles * table.changes["flip_flop"] + table.cycles["flip_flop"] + load
    assert more("flip_flops") == pytest.approx(stored)
    assert more("dsps") == pytest.approx(toggles * bits * table.changes["dsp_bit"] + load)
    accessed = table.changes["written_bit"] + table.changes["read_bit"]
    assert more("brams") == pytest.approx(toggles * word * accessed + 2 * load)


@pytest.mark.parametrize("target", ["ecp5", "ice40", "xc7"])
def test_power_of_fpgas_is_asked_for(target: str) -> None:
    silent, result = of(target), of(target, fpga_energies=True)
    for metric in FROM_POWER:
        assert silent["metrics"][metric] is None
        assert "--fpga-energies" in silent["unknown"][metric]
        assert f"factor of {fpga_energies().factor:g}" in silent["unknown"][metric]
        assert result["metrics"][metric] > 0
        assert result["certainty"][metric]["within"] == fpga_energies().factor - 1
        assert standing(result["certainty"][metric]).endswith("to a factor of 3")
    metrics = result["metrics"]
    pj = fabric_energy.cycle_pj(fpga_family(target), metrics)
    assert metrics["power_w"] == pytest.approx(pj * result["figures_at_mhz"] * 1e-6)
    assert metrics["tops_per_w"] == pytest.approx(metrics["tops"] / metrics["power_w"])
    joules = metrics["latency_ms(w)"] * metrics["power_w"]
    assert metrics["energy_mj(w)"] == pytest.approx(joules)
    (note,) = result["notes"]
    assert "without the static power" in note
    assert fpga_energies().source in note
    changed = {name for name, value in metrics.items() if value != silent["metrics"][name]}
    assert changed == set(FROM_POWER)


@pytest.mark.parametrize("target", ["nangate45", "without_rules"])
def test_other_estimates_do_not_change(target: str, request: pytest.FixtureRequest) -> None:
    target = request.getfixturevalue(target) if target == "without_rules" else target
    silent, result = of(target), of(target, fpga_energies=True)
    assert result["metrics"] == silent["metrics"]
    assert result["uncertainty"] == silent["uncertainty"]
    assert result["notes"] == silent["notes"]
    null = {metric for metric, value in result["metrics"].items() if value is None}
    assert null == set(result["unknown"])


def test_a_token_on_an_fpga(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The memory's part of its energy is not uncertain by the factor."""
    arguments, _ = estimating(tmp_path)
    arguments += ["--memory", "ddr4", "--target", "ecp5", "--json"]
    assert main([*arguments, "--fpga-energies"]) == 0
    document = json.loads(capsys.readouterr().out)
    entry = document["estimate"]
    joules = document["passes"]["decode"]["j_per_token"]
    own = entry["metrics"]["energy_mj(decode)"] * 1e-3
    within = entry["certainty"]["j_per_token(decode)"]["within"]
    assert 0 < own < joules
    assert within == pytest.approx(2 * own / joules, abs=1e-4)
    (cells,) = lines("core.yaml", [document])
    assert cells[5].endswith(f" mJ, to a factor of {1 + within:.2g}")
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["passes"]["decode"]["j_per_token"] is None


def test_the_command_says_what_the_table_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert f"to a factor of {fpga_energies().factor:g}, without static power" in words
