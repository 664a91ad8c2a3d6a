# SPDX-License-Identifier: Apache-2.0
"""Power by the switching activity of operands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from cost_model.estimate.activity import (
    ASSUMED,
    Activity,
    simulated_energies,
    with_activity,
)
from cost_model.estimate.technology import Technology, technology
from cost_model.sweep.netlists import Evaluation
from flows.build.costs import NetlistCosts
from flows.build.load import load_config, parse_config
from flows.power.netlist_power import port_changes
from hwgen.cli import main
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from sim_tests.support.paths import ROOT

CORE = """\
name: little
family: systolic
activation: int8
weight: int8
array: {rows: 2, cols: 2}
target: {technology: nangate45, clock_mhz: 200}
"""


def test_energies_of_an_activity() -> None:
    """Idle energy stays; what operands add follows the activity of the ports, but for a part."""
    energies = {
        "idle_fj": {"register_bit": 8.0}, "toggle_fj": {"register_bit": 2.0, "mux_bit": 4.0},
        "constant": 0.25, "reference": 0.4, "worst": 1.5, "uncertainty": 0.2,
    }  # fmt: skip
    costs = {"area_um2": {"mux_bit": 1.0}, "energy_fj": {"mux_bit": 9.0}}
    tech = Technology("t", structure={"costs": costs, "uncertainty": {}}, energies=energies)

    def prices(activity: Activity) -> dict[str, float]:
        return dict(with_activity(tech, activity).structure["costs"]["energy_fj"])

    assert prices(ASSUMED) == {"mux_bit": 9.0}
    assert prices(Activity("typical", 0.4)) == {"register_bit": 10.0, "mux_bit": 4.0}
    assert prices(Activity("worst", 0.4)) == {"register_bit": 11.0, "mux_bit": 6.0}
    assert prices(Activity("x.npz", 0.0)) == {"register_bit": 8.5, "mux_bit": 1.0}
    assert with_activity(tech, Activity("typical", 0.4)).structure["uncertainty_of_power"] == 0.2
    assert (
        with_activity(tech, Activity("x", 0.1)).structure["costs"]["area_um2"] == costs["area_um2"]
    )
    with pytest.raises(InputError, match=r"--activity worst: energies of u were not fitted"):
        with_activity(Technology("u", structure=tech.structure), Activity("worst", 0.4))


def test_tables_without_energies_stay_as_they_are() -> None:
    assert "energies" not in Technology("u").document()
    assert Technology(**Technology("u").document()) == Technology("u")
    for name in simulated_energies():
        energies = technology(name).energies
        assert 0 <= energies["constant"] <= 1 <= energies["worst"]
        assert min(energies["toggle_fj"].values()) >= 0 < energies["idle_fj"]["register_bit"]
        assert 1 <= energies["glitches"]["median"] <= energies["glitches"]["high"]


def test_activity_of_operands(tmp_path: Path) -> None:
    """Zeros move nothing; operands that are typical change as many bits as typical ones."""
    core, rng = core_of(parse_config(CORE)), np.random.default_rng(5)
    zeros, usual = tmp_path / "zeros.npz", tmp_path / "usual.npz"
    np.savez(zeros, activations=np.zeros((8, 32), int), weights=np.zeros((32, 8), int))
    values = [np.clip(rng.normal(0, 32, s), -128, 127).astype(int) for s in ((8, 256), (256, 8))]
    np.savez(usual, activations=values[0], weights=values[1])
    assert port_changes(core, str(zeros), 0.4) == 0.0
    typical = port_changes(core, "typical", 0.4)
    assert port_changes(core, str(usual), 0.4) == pytest.approx(typical, rel=0.15)
    assert port_changes(core, "worst", 0.4) == typical
    vector = core_of(parse_config("name: v\nfamily: vector\n"))
    with pytest.raises(InputError, match="multiplies no matrices"):
        port_changes(vector, "random", 0.4)


def test_estimates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("little.yaml").write_text(CORE)
    np.savez("zeros.npz", activations=np.zeros((8, 32), int), weights=np.zeros((32, 8), int))
    power = {}
    for activity in ("assumed", "typical", "worst", "zeros.npz"):
        command = ["estimate", "--config", "little.yaml", "--activity", activity, "--json"]
        assert main(command) == 0
        document = json.loads(capsys.readouterr().out)
        power[activity] = document["metrics"]["power_w"]
        assert document["activity"]["name"] == activity
        simulated = [note for note in document["notes"] if "by simulated netlists" in note]
        assert len(simulated) == (activity != "assumed")
    assert power["zeros.npz"] < power["typical"] < power["worst"]
    assert power["typical"] > 2 * power["assumed"]  # which has no energy inside cells
    assert main(["estimate", "--config", "little.yaml", "--activity", "often"]) == 2
    message = capsys.readouterr().err.replace("\n", " ")
    assert re.search(r"--activity: must be .*not 'often'", message)
    assert main(["estimate", "--config", "little.yaml", "--activity", "worst",
                 "--target", "ecp5"]) == 2  # fmt: skip
    assert "were not fitted to simulations" in capsys.readouterr().err.replace("\n", " ")


def test_estimates_and_data_sheets_say_the_activity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside power, and in a sentence where its ± is that of an assumption."""
    monkeypatch.chdir(tmp_path)
    Path("little.yaml").write_text(CORE)
    said = {
        "assumed": "at the assumed activity of 0.15 rises a cycle",
        "typical": "at the activity of typical operands",
    }
    for activity, text in said.items():
        arguments = ["--config", "little.yaml", "--activity", activity]
        assert main(["estimate", *arguments]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert re.search(rf" power \S+ W modelled, ± [\d.]+ %, {text}", shown)
        assert main(["report", *arguments, "--output", "sheet.html", "--force"]) == 0
        page = Path("sheet.html").read_text()
        assert len(re.findall(rf"<(?:small|td)[^>]*>[^<]*{text}", page)) == 2
        for words in (shown, page):
            assert ("real operands may take several times as much" in words) == (
                activity == "assumed"
            )
        capsys.readouterr()
    assert main(["report", "--config", "little.yaml", "--activity", "often"]) == 2
    assert "--activity: must be" in capsys.readouterr().err


def test_points_of_a_sweep_have_the_power_of_an_activity() -> None:
    values = {"array.rows": 2, "array.cols": 2, "target.technology": "nangate45"}
    power = []
    for activity in ("assumed", "typical"):
        answer = NetlistCosts(activity).evaluate("systolic", values, {})
        assert isinstance(answer, Evaluation)
        power.append(answer.metrics["power_w"] or 0.0)
    assert power[1] > 2 * power[0] > 0


@pytest.mark.parametrize(
    ("activity", "technology_name", "message"),
    [
        ("often", "nangate45", "--activity: must be assumed, typical, worst, .*not 'often'"),
        ("typical", "ecp5", "energies of ecp5 were not fitted to simulations"),
    ],
)
def test_a_sweep_refuses_an_activity_before_it_starts(
    activity: str,
    technology_name: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(
        "name: s\nfamily: systolic\nparameters: {array: {rows: [2, 4]}}\n"
        f"targets: {{technology: {technology_name}}}\nobjectives: {{minimize: [power_w]}}\n"
    )
    assert main(["sweep", "--config", "sweep.yaml", "--activity", activity]) == 2
    assert re.search(message, " ".join(capsys.readouterr().err.split()))
    assert not Path("build").exists()


def test_activity_of_an_engine_of_units_is_that_of_the_fitted_designs() -> None:
    """It has no ports whose beats could be counted."""
    for name in ("decoder_engine/int8", "gemm_stream"):
        core = core_of(load_config(ROOT / "configs" / f"{name}.yaml"))
        assert [port_changes(core, text, 0.25) for text in ("typical", "worst")] == [0.25, 0.25]
