# SPDX-License-Identifier: Apache-2.0
"""Power at work: activities, energies, and the command."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.design import Design
from flows.build.load import parse_config
from flows.power.gates import Gate, Gates, read_netlist
from flows.power.internal_power import Arc, causes_of, internal_fj
from flows.power.netlist_power import GateLevel, workload
from flows.power.power import Activity, power_of
from flows.simulation.run import ACTIVITY, run_product
from flows.synthesis import liberty
from flows.synthesis.synth import synthesize
from hwgen.cli import main
from hwgen.core.operation import gemm_operands
from hwgen.core.registry import core_of
from hwgen.errors import CheckFailed
from hwgen.technologies import cell_library
from hwgen.technologies.model import StandardCells
from sim_tests.support.cores import cycles
from sim_tests.support.gates_verilog import cell_models, design_verilog, read_saif
from sim_tests.synthesis.tools import require_tools

TINY = """\
name: tiny
family: systolic
activation: int3
weight: int2
accumulator: int8
max_k: 32
array: {rows: 2, cols: 1}
"""
LIBRARY = """\
library (two) {
  nom_voltage : 2.0;
  capacitive_load_unit (1, ff);
  leakage_power_unit : "1nW";
  cell (INV) {
    area : 1; cell_leakage_power : 3;
    pin (A) { direction : input; capacitance : 4; }
    pin (Y) {
      direction : output; function : "!A";
      internal_power () {
        related_pin : "A"; related_pg_pin : VDD;
        rise_power (t) { index_1 ("1, 2"); index_2 ("0, 2"); values ("9, 9", "2, 4"); }
        fall_power (t) { index_1 ("1, 2"); index_2 ("0, 2"); values ("9, 9", "0, 2"); }
      }
      internal_power () {
        related_pin : "A"; related_pg_pin : VSS;
        rise_power (t) { index_1 ("1, 2"); index_2 ("0, 2"); values ("9, 9", "0.5, 0.5"); }
      }
    }
  }
  cell (DFF) {
    area : 5; cell_leakage_power : 10;
    ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; }
    pin (D) { direction : input; capacitance : 1; }
    pin (CK) {
      direction : input; clock : true; capacitance : 2;
      internal_power () { when : "D"; power (s) { index_1 ("1, 2, 3"); values ("9, 1, 9"); } }
      internal_power () { when : "!D"; power (s) { index_1 ("1, 2, 3"); values ("9, 3, 9"); } }
    }
    pin (Q) { direction : output; function : "IQ"; }
  }
}
"""


def divider() -> Gates:
    """Return a register that inverts itself."""
    return Gates(
        "half", {"aclk": ("n2",)}, {"out": ("n3", "n3")},
        (Gate("g0", "INV", {"A": "n3"}, {"Y": "n4"}),
         Gate("g1", "DFF", {"D": "n4", "CK": "n2"}, {"Q": "n3"})),
    )  # fmt: skip


def technology(**values: Any) -> StandardCells:
    return cell_library("nangate45").model_copy(update=values)


def test_energies() -> None:
    """A register at half the clock drives 4 fF and two outputs of 3 fF; an inverter drives 1 fF."""
    library = liberty.prepare([LIBRARY])
    activity = Activity(100, {"n2": 0, "n3": 100, "n4": 100})
    result = power_of(
        divider(), activity, library, technology(load_ff=3.0), "aclk", 500.0,
        workload="dividing", macs=25,
    )  # fmt: skip
    uw = {
        name: {key: value and round(1e3 * value, 9) for key, value in vars(group).items()}
        for name, group in result.groups.items()
    }
    each = 2.0  # V^2 f: uW for a fF that rises in every cycle
    assert uw["sequential"] == {
        # Two changes of the clock in a cycle, of 2 fJ on average over the states.
        "internal_mw": 2 * 2 * 0.5,
        "switching_mw": 10 * each / 2,
        "leakage_mw": 0.01,
    }
    assert uw["combinational"] == {
        # A change in each cycle: with 1 fF the mean of 3 and 1 fJ, and 0.5 fJ of the other supply.
        "internal_mw": 2.5 * 0.5,
        "switching_mw": 1 * each / 2,
        "leakage_mw": 0.003,
    }
    assert uw["clock"] == {"internal_mw": None, "switching_mw": 2 * each, "leakage_mw": None}
    document = result.document()
    assert document["total_mw"] == pytest.approx((7.5 * each + 3.25 + 0.013) * 1e-3)
    # mW at 500 MHz is 2 pJ a cycle; 4 cycles for a multiply-accumulate are 2 for an operation.
    assert document["energy_per_cycle_pj"] == pytest.approx(2 * document["total_mw"])
    assert document["energy_per_operation_fj"] == pytest.approx(4000 * document["total_mw"])


def test_a_library_without_tables() -> None:
    bare = re.sub(r"internal_power \(\) \{(?:[^{}]|\{[^{}]*\})*\}", "", LIBRARY)
    result = power_of(
        divider(), Activity(10, {"n3": 1, "n4": 1}), liberty.prepare([bare]), technology(),
        "aclk", 500.0, workload="dividing", macs=1,
    )  # fmt: skip
    assert result.groups["sequential"].internal_mw is None
    assert result.note.startswith("without the energy inside cells")


def test_the_cause_of_a_change() -> None:
    """Inputs that change more often count more, states of an input alike, supplies add up."""
    arcs = [
        Arc(("A",), "", (((0.0,), (1.0,)),)),
        Arc(("A",), "", (((0.0,), (2.0,)), ((0.0,), (4.0,)))),
        Arc(("B",), "", (((0.0, 2.0), (10.0, 20.0)),)),
    ]
    changes = {"A": 1.0, "B": 3.0}
    assert internal_fj(causes_of(arcs, 1.0), changes) == pytest.approx((2 + 3 * 15) / 4)
    assert internal_fj(causes_of(arcs, 9.0), {}) == pytest.approx((2 + 20) / 2)
    supplied = [*arcs, Arc((), "VSS", (((0.0,), (0.25,)),))]
    assert internal_fj(causes_of(supplied, 0.0), {"A": 1.0}) == 2.25
    assert internal_fj((), {}) == 0.0


def test_a_netlist_is_numbered(tmp_path: Path) -> None:
    require_tools("yosys")
    library = liberty.prepare([LIBRARY])
    netlist = """\
module half(aclk, \\a[1] , \\a[0] , \\y[0] , \\y[1] , z);
  input aclk;
  input \\a[1] ;
  input \\a[0] ;
  output \\y[0] ;
  output \\y[1] ;
  output z;
  INV \\one[3]  (
    .A(\\a[1] ),
    .Y(\\y[0] )
  );
  DFF two (
    .CK(aclk),
    .D(\\a[0] ),
    .Q(z)
  );
  assign \\y[1]  = \\a[0] ;
endmodule
"""
    gates = read_netlist(netlist, "half", library, tmp_path, 120)
    assert [len(gates.inputs[name]) for name in ("aclk", "a")] == [1, 2]
    assert gates.outputs["y"][1] == gates.inputs["a"][0]
    assert [gate.cell for gate in gates.gates] == ["INV", "DFF"]


@pytest.mark.parametrize(
    ("target", "activity", "message"),
    [
        ("ecp5", "random", r"power is known of standard cells \(asap7, .*not of ecp5"),
        ("nangate45", "randon", r"must be random, random:M,K,N, or an \.npz file .*'randon'"),
        ("nangate45", "random:3,4", r"a product is M,K,N, three integers"),
        ("nangate45", "bad.npz", r"activations must be \(M, K\).*\(2, 3\) and \(4, 5\)"),
    ],
)
def test_what_cannot_be_measured_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    target: str,
    activity: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(TINY)
    np.savez("bad.npz", activations=np.zeros((2, 3), int), weights=np.zeros((4, 5), int))
    assert main(["synth", "--config", "tiny.yaml", "--target", target, "--activity", activity]) == 2
    assert re.search(message, capsys.readouterr().err.replace("\n", " "))


@pytest.mark.slow
@pytest.mark.rotate(16)
def test_power_at_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_tools("yosys", "verilator", technology="nangate45")
    path, data = tmp_path / "tiny.yaml", tmp_path / "zeros.npz"
    path.write_text(TINY)
    np.savez(data, activations=np.zeros((8, 32), int), weights=np.zeros((32, 8), int))
    result = []
    for activity in ("random:8,32,8", str(data)):
        command = ["synth", "--config", str(path), "--target", "nangate45", "--json"]
        assert main([*command, "--activity", activity]) == 0
        result.append(json.loads(capsys.readouterr().out)["power"])
    busy, idle = result
    assert busy["workload"].startswith("random int3 x int2, M,K,N = 8,32,8")
    assert idle["workload"] == "zeros.npz, M,K,N = 8,32,8"
    config = parse_config(TINY)
    expected = cycles(config, 8, 32, 8)
    assert busy["cycles"] == idle["cycles"] == expected
    assert busy["leakage_mw"] == pytest.approx(idle["leakage_mw"], rel=1e-3)
    assert busy["groups"]["clock"] == idle["groups"]["clock"]
    # Products of zeros move nothing but counters.
    for quantity in ("internal_mw", "switching_mw"):
        values = [power["groups"]["combinational"][quantity] for power in result]
        assert values[1] < 0.5 * values[0]
    assert busy["energy_per_operation_fj"] == pytest.approx(
        busy["total_mw"] / 500 * 1e6 * busy["cycles"] / (2 * 8 * 8 * 32)
    )


@pytest.mark.slow
@pytest.mark.rotate(16)
def test_the_netlist_of_a_core(tmp_path: Path) -> None:
    """Toggles are those that Verilator counts; glitches add some; a wrong cell is noticed."""
    require_tools("yosys", "verilator", technology="nangate45")
    config = parse_config(TINY)
    result = synthesize(Design.of(config), "nangate45")
    level = GateLevel(config, result, tmp_path)
    work = workload(config, "random:8,32,8")
    job, operands = level_job(config, work.a, work.w)
    activity = level.simulate(job, operands)

    names = {gate.cell for gate in level.gates.gates}
    models = cell_models(level.library, names, tmp_path)
    design = Design.of(config).with_verilog(design_verilog(level.gates, models))
    run_product(design, work.a, work.w, activity=tmp_path)
    counted, changes = read_saif(tmp_path / ACTIVITY)
    assert counted == activity.cycles == cycles(config, 8, 32, 8)
    inputs = {net for nets in level.gates.inputs.values() for net in nets}
    nets = changes.keys() & activity.toggles.keys() - inputs
    assert len(nets) > 200
    # A net that is 1 at first is one change too many there; registers without a reset begin at
    # random.
    assert all(abs(changes[net] - activity.toggles[net]) <= 2 for net in nets)
    assert sum(activity.toggles[net] for net in nets) > 10 * len(nets)

    glitching = GateLevel(config, result, tmp_path, glitches=True).simulate(job, operands)
    assert glitching.cycles == activity.cycles
    assert all(glitching.toggles[net] >= activity.toggles[net] - 2 for net in nets)
    assert glitching.mean > activity.mean

    broken = result.files["netlist.v"].decode()
    broken = broken.replace("  INV_X1 ", "  BUF_X1 ").replace(".ZN(", ".Z(", 0)
    broken = re.sub(r"(  BUF_X1 [^;]*?)\.ZN\(", r"\1.Z(", broken)
    wrong = replace(result, files={**result.files, "netlist.v": broken.encode()})
    with pytest.raises(CheckFailed, match=r"differ from the golden model|result beats are missing"):
        GateLevel(config, wrong, tmp_path).simulate(job, operands)


def level_job(config: Any, a: np.ndarray, w: np.ndarray) -> tuple[Any, Any]:
    """Return a product as a job, and its operands."""
    return core_of(config).gemm(a.shape[0], a.shape[1], w.shape[1]), gemm_operands(a, w)
