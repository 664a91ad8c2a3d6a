# SPDX-License-Identifier: Apache-2.0
"""Fault injection: the two simulations agree, effects are those of faults whose effect is known."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from flows.build.design import Design
from flows.build.load import parse_config
from flows.faults.campaign import run_campaign, wilson
from flows.faults.circuit import Location, Site, location_of
from flows.faults.injection import FaultSimulation, Injection
from flows.faults.logic import COPY, NOT, SELECT, Step, decomposed
from flows.faults.picture import picture
from flows.faults.sampling import (
    CLASSES,
    FLIP,
    PULSE,
    STUCK_0,
    STUCK_1,
    Fault,
    draw_faults,
    population_of,
    sample_size,
)
from flows.faults.workloads import fault_workload
from flows.synthesis.synth import synthesize
from flows.tools.guard import scratch
from hwgen.cli import main
from sim_tests.synthesis.tools import require_tools

SMALL = """\
name: little
family: systolic
activation: int4
weight: int2
accumulator: int16
max_k: 128
array: {rows: 2, cols: 1}
target: {technology: nangate45, clock_mhz: 400}
"""
ENGINE = """\
name: engine
family: gemm_stream
compute:
  family: systolic
  max_k: 128
  activation: int4
  weight: int4
  array: {rows: 2, cols: 2, accumulator_depth: 64, dataflow: weight_stationary}
buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}
target: {technology: nangate45, clock_mhz: 400}
"""
TOOLS = ("yosys", "g++")


def simulation_of(text: str, workload: str, directory: Path) -> FaultSimulation:
    """Return a design at work."""
    config = parse_config(text)
    design = Design.of(config)
    result = synthesize(design, "nangate45")
    return FaultSimulation(config, result, fault_workload(design.core, workload), directory)


@pytest.fixture(scope="module")
def small() -> Iterator[FaultSimulation]:
    require_tools(*TOOLS, technology="nangate45")
    with scratch("hwgen-test-") as directory:
        yield simulation_of(SMALL, "random:4,32,2", directory)


def value_of(steps: tuple[Step, ...], inputs: int, index: int) -> int:
    """Return the output of a decomposed table for an index."""
    values = [index >> i & 1 for i in range(inputs)]
    for step in steps:
        a, b, c = (*(values[i] for i in step.operands), 0, 0)[:3]
        if step.code in (NOT, COPY):
            values.append(a ^ (step.code == NOT))
        elif step.code == SELECT:
            values.append(b if c else a)
        else:
            values.append(step.code >> a + 2 * b & 1)
    return values[-1]


def test_gates_of_truth_tables() -> None:
    """Gates of two inputs compute every table of three inputs, and drawn ones of up to six."""
    draw = random.Random(1)
    for inputs in range(1, 7):
        tables = [draw.getrandbits(1 << inputs) for _ in range(60)] if inputs > 3 else None
        for table in tables or range(1, (1 << (1 << inputs)) - 1):
            steps = decomposed(inputs, table)
            found = sum(value_of(steps, inputs, i) << i for i in range(1 << inputs))
            assert found == table
    assert len(decomposed(3, 0b10010110)) == 2  # the sum of a full adder
    with pytest.raises(ValueError, match="constant"):
        decomposed(2, 0b1111)


def test_sample_sizes() -> None:
    """A known example, all of a small population, and an interval that holds the share."""
    assert sample_size(10**9, 0.01, 0.95) == 9604
    assert sample_size(10**6, 0.05, 0.95) == 384
    assert sample_size(20, 0.001, 0.95) == 20
    assert wilson(0, 100, 0.95) == pytest.approx((0, 0.037), abs=0.001)
    assert wilson(50, 100, 0.95) == pytest.approx((0.404, 0.596), abs=0.001)


def test_names_of_locations() -> None:
    """Paths, bits, names that a tool made up, and modules without the numbers of instances."""
    location = location_of("core.array.row_2.col_13.sum[7]")
    assert location == Location("core.array.row_2.col_13", "sum", 7)
    assert location.module == "core.array.row_*.col_*"
    assert str(location) == "core.array.row_2.col_13.sum[7]"
    assert location_of("core.array._00_[3]") == Location("core.array", "", 3)
    assert location_of("tdata[0]").module == "top"


@pytest.mark.parametrize("name", ["flip", "pulse", "stuck"])
@pytest.mark.rotate(6)
def test_draws(name: str, small: FaultSimulation) -> None:
    """Faults differ, are sorted, lie within the job, and come again for the same seed."""
    circuit, cycles = small.circuit, small.cycles
    draws = [draw_faults(circuit, name, cycles, 500, np.random.default_rng(3)) for _ in range(2)]
    assert draws[0] == draws[1]
    assert len(set(draws[0])) == 500
    assert [fault.cycle for fault in draws[0]] == sorted(fault.cycle for fault in draws[0])
    assert {fault.cycle for fault in draws[0]} <= set(cycles)
    assert population_of(circuit, name, len(cycles)) > 500


@pytest.mark.rotate(4)
def test_two_simulations_agree(small: FaultSimulation) -> None:
    """Faults simulated together and alone have the same effect, for each class."""
    rng = np.random.default_rng(7)
    for name in ("flip", "pulse", "stuck"):
        faults = draw_faults(small.circuit, name, small.cycles, 300, rng)
        together = small.inject(faults, jobs=2)
        assert len({injection.effect for injection in together}) >= 2
        chosen = range(0, 300, 25)
        alone = small.inject_alone([faults[i] for i in chosen])
        assert alone == [together[i] for i in chosen]


@pytest.mark.slow
@pytest.mark.rotate(18)
def test_lanes_without_results(tmp_path: Path) -> None:
    """Beats may be wrong where a lane belongs to no result; that is masked, not silent."""
    require_tools(*TOOLS, technology="nangate45")
    simulation = simulation_of(SMALL.replace("cols: 1", "cols: 2"), "random:3,16,3", tmp_path)
    rng = np.random.default_rng(7)
    faults = draw_faults(simulation.circuit, "flip", simulation.cycles, 255, rng)
    ends = simulation._together(faults, 1, lambda done, of: None)
    effects = simulation.inject(faults)
    padding = [i for i, each in enumerate(effects) if each.effect == "masked" and ends[i].beats]
    assert len(padding) > 5
    assert simulation.inject_alone([faults[i] for i in padding[:4]]) == [
        effects[i] for i in padding[:4]
    ]
    for index in padding:  # no packet ends elsewhere
        assert not simulation._ends_differ(ends[index].beats)
    beat = np.zeros(len(ends[padding[0]].beats.popitem()[1]), np.uint8)
    assert simulation._ends_differ({10**6: beat})


def test_certain_effects(small: FaultSimulation) -> None:
    """A result bit that is stuck is silent, a handshake that is stuck hangs, an idle net is masked.

    The last of a batch of 255 is simulated like the first one.
    """
    nets = {str(site.location): site for site in small.circuit.nets}
    begin = small.cycles[0]
    data = [nets["m_axis_out_tdata[0]"]] * 2
    faults = [
        Fault(STUCK_0, data[0], begin),
        Fault(STUCK_1, data[1], begin),
        Fault(STUCK_0, nets["m_axis_out_tvalid"], begin),
        Fault(STUCK_0, nets["s_axis_act_tready"], begin),
        *[Fault(PULSE, nets["m_axis_out_tready"], begin)] * 300,
        Fault(PULSE, nets["m_axis_out_tdata[0]"], small.cycles[-1]),
    ]
    effects = [injection.effect for injection in small.inject(faults)]
    assert effects[:4] == ["silent", "silent", "hang", "hang"]
    assert effects[4:304] == ["masked"] * 300
    assert effects[304] == "silent"


def test_a_changed_sum_is_another_result(small: FaultSimulation) -> None:
    """A bit of a sum that flips before it is drained changes one result by a power of two."""
    sums = [s for s in small.circuit.flip_flops if "totals" in str(s.location)]
    assert sums
    middle = small.cycles[len(small.cycles) // 2]
    (site, *_) = sums
    (injection,) = small.inject([Fault(FLIP, site, middle)])
    assert injection in small.inject_alone([Fault(FLIP, site, middle)])
    assert injection.application == (injection.effect != "masked")


def test_a_campaign(small: FaultSimulation) -> None:
    """Shares add up, modules and bits hold every fault, and the picture shows them."""
    config = parse_config(SMALL)
    work = fault_workload(Design.of(config).core, "random:4,32,2")
    campaign = run_campaign(
        small, work, name="little", target="nangate45", margin=0.05, jobs=2, seed=2
    )
    assert list(campaign.classes) == ["flip", "pulse", "stuck"]  # there is no memory
    for name, share in campaign.classes.items():
        assert sum(share.effects.values()) == share.faults
        assert share.faults == sample_size(share.population, 0.05, 0.95)
        assert sum(each.faults for each in campaign.modules[name].values()) == share.faults
    flips = campaign.classes["flip"]
    assert sum(n for signal in campaign.signals for n, _ in signal.bits.values()) == flips.faults
    document = json.loads(json.dumps(campaign.document()))
    low, high = document["classes"]["flip"]["intervals"]["silent"]
    assert low < flips.of_effect("silent") < high
    assert picture(document).count("<text") > 10
    lines = campaign.table().splitlines()
    assert len(lines) == 1 + sum(share.faults for share in campaign.classes.values())
    with pytest.raises(ValueError, match="no flips"):
        picture({**document, "signals": []})


@pytest.mark.slow
@pytest.mark.rotate(9)
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It reports every class, writes three files, and gives the same for the same seed."""
    require_tools(*TOOLS, technology="nangate45")
    config = tmp_path / "little.yaml"
    config.write_text(SMALL)
    arguments = ["faults", "-c", str(config), "--workload", "digits", "--margin", "0.1"]
    assert main([*arguments, "-o", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "reads 16 handwritten digits" in said
    assert all(f"  {name} " in said for name in ("flip", "pulse", "stuck"))
    files = {path.name for path in (tmp_path / "out").iterdir() if path.name[0] != "."}
    assert files == {"faults.json", "faults.csv", "faults.svg"}
    document = json.loads((tmp_path / "out" / "faults.json").read_text())
    assert main([*arguments, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert {**again, "seconds": 0} == {**document, "seconds": 0}
    assert again["classes"].keys() == CLASSES.keys() - {"memory"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "ecp5"], "faults are simulated in standard cells"),
        (["--workload", "nothing"], "--workload: must be digits, random"),
        (["--class", "memory", "--margin", "0.2", "--workload", "random:2,8,2"], "no SRAM macros"),
    ],
)
def test_refusals(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_tools(*TOOLS, technology="nangate45")
    config = tmp_path / "little.yaml"
    config.write_text(SMALL)
    arguments = ["faults", "-c", str(config), "-o", str(tmp_path / "out"), *options]
    assert main(arguments) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_an_engine(tmp_path: Path) -> None:
    """On an engine with SRAM macros the two simulations agree, and errors are detected."""
    require_tools(*TOOLS, technology="nangate45")
    simulation = simulation_of(ENGINE, "random:4,16,4", tmp_path)
    rng = np.random.default_rng(5)
    for name in CLASSES:
        faults = draw_faults(simulation.circuit, name, simulation.cycles, 40, rng)
        together = simulation.inject(faults, jobs=2)
        assert simulation.inject_alone(faults, jobs=2) == together
    address = [s for s in simulation.circuit.nets if "araddr[30]" in str(s.location)]
    fault = Fault(STUCK_1, Site(address[0].number, address[0].location), simulation.cycles[0])
    assert simulation.inject([fault]) == [Injection(fault, "detected", False)]
