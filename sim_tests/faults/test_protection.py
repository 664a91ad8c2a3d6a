# SPDX-License-Identifier: Apache-2.0
"""Protection: same results in as many cycles, and faults that are corrected or noticed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.design import Design
from flows.build.load import parse_config
from flows.faults.injection import FaultSimulation
from flows.faults.sampling import draw_faults
from flows.faults.workloads import fault_workload
from flows.power.operands import job_of_size, workloads
from flows.simulation.run import check_results, run_job
from flows.synthesis.synth import synthesize
from hwgen.cli import main
from hwgen.core.checksums import with_checksums
from hwgen.core.params.protection import FAULT_OUTPUT
from hwgen.errors import InputError
from hwgen.formats import number_format
from rtl_templates.hdl.protection import check_columns
from sim_tests.synthesis.tools import require_tools

SYSTOLIC = """\
name: little
family: systolic
activation: int4
weight: int2
max_k: 128
array: {rows: 2, cols: 1, dataflow: weight_stationary, accumulator_depth: 64}
target: {technology: nangate45, clock_mhz: 400}
"""
FAMILIES = {
    "systolic": SYSTOLIC,
    "ternary_lut": "name: dut\nfamily: ternary_lut\narray: {group_size: 2, tables: 2,"
                   " fetch_ports: 2}\nmax_k: 64\n",
    "vector": "name: dut\nfamily: vector\ninput: int16\noutput: int8\nparameters: bf16\n"
              "array: {operations: [add, quantise], lanes: 4, longest_row: 8}\n",
    "gemm_stream": "name: dut\nfamily: gemm_stream\ncompute:\n  family: systolic\n  max_k: 128\n"
                   "  array: {rows: 2, cols: 2, accumulator_depth: 64,"
                   " dataflow: weight_stationary}\n"
                   "buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1, column_kib: 1}\n",
}  # fmt: skip
OPTIONS = ("registers: parity", "registers: tmr", "memories: ecc", "datapath: dup",
           "control: parity", "control: tmr", "registers: parity, control: tmr",
           "registers: parity, memories: ecc, datapath: dup")  # fmt: skip


def design_of(text: str, protection: str = "") -> Design:
    """Return a design with protection."""
    return Design.of(parse_config(f"{text}protect: {{{protection}}}\n"))


WITHOUT_MEMORY = SYSTOLIC.replace(", dataflow: weight_stationary, accumulator_depth: 64", "")


def simulation_of(
    protection: str, directory: Path, *, text: str = WITHOUT_MEMORY, checksums: bool = False
) -> FaultSimulation:
    """Return a protected design at work."""
    require_tools("yosys", "g++", technology="nangate45")
    design = design_of(text, protection)
    result = synthesize(design, "nangate45")
    work = fault_workload(design.core, "random:4,32,2", checksums=checksums)
    return FaultSimulation(design.params, result, work, directory)


def effects_of_flips(
    protection: str, directory: Path, *, text: str, seed: int, inside: str = ""
) -> list[str]:
    """Return the effects of those of 4,000 flips that are in registers of a name."""
    directory = directory / (protection[:4] or "none")
    directory.mkdir()
    simulation = simulation_of(protection, directory, text=text)
    rng = np.random.default_rng(seed)
    faults = draw_faults(simulation.circuit, "flip", simulation.cycles, 4000, rng)
    chosen = [fault for fault in faults if inside in str(fault.site.location)]
    return [injection.effect for injection in simulation.inject(chosen, jobs=2)]


@pytest.mark.slow
@pytest.mark.rotate(80)
@pytest.mark.parametrize("protection", OPTIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_results_and_cycles_stay(family: str, protection: str) -> None:
    plain, protected = design_of(FAMILIES[family]), design_of(FAMILIES[family], protection)
    assert FAULT_OUTPUT in protected.verilog
    assert protected.verilog != plain.verilog
    job = job_of_size(protected.core, 60)
    operands = workloads(protected.core, job)["uniform"]
    run = run_job(protected, job, operands)
    check_results(family, run.results, protected.core.golden(job, operands))
    assert run.cycles == run_job(plain, job, operands).cycles


EFFECTS: dict[str, Callable[[dict[str, int]], bool]] = {
    "registers: tmr": lambda n: n["masked"] == 300,
    "registers: parity": lambda n: n["detected"] > 50 and not n["silent"] and not n["hang"],
    "datapath: dup": lambda n: n["detected"] > 20 and n["silent"] + n["hang"] <= 3,
}


@pytest.mark.slow
@pytest.mark.rotate(6)
@pytest.mark.parametrize("protection", EFFECTS)
def test_effects_of_flips(protection: str, tmp_path: Path) -> None:
    """A mapper keeps what is added, and it does what it is for; without it flips are silent."""
    simulation = simulation_of(protection, tmp_path)
    rng = np.random.default_rng(11)
    faults = draw_faults(simulation.circuit, "flip", simulation.cycles, 300, rng)
    effects = [injection.effect for injection in simulation.inject(faults, jobs=2)]
    counts: dict[str, Any] = {name: effects.count(name) for name in
                              ("masked", "corrected", "detected", "silent", "hang")}  # fmt: skip
    assert EFFECTS[protection](counts), counts
    alone = simulation.inject_alone(faults[::30])
    assert [injection.effect for injection in alone] == effects[::30]


@pytest.mark.slow
@pytest.mark.rotate(48)
@pytest.mark.parametrize("family", ["systolic", "ternary_lut"])
def test_flips_outside_of_control_never_hang(family: str, tmp_path: Path) -> None:
    """Control is what it says: flips of all other registers leave every beat in its cycle."""
    text = FAMILIES[family] + "target: {technology: nangate45, clock_mhz: 400}\n" * (
        family != "systolic")  # fmt: skip
    hangs = [
        effects_of_flips(protection, tmp_path, text=text, seed=3).count("hang")
        for protection in ("", "control: tmr")
    ]
    assert hangs[0] > 0
    assert hangs[1] == 0


@pytest.mark.slow
@pytest.mark.rotate(40)
def test_flips_in_checked_memories(tmp_path: Path) -> None:
    """No flip of a stored word reaches a result if words have check bits; without them some do."""
    silent = []
    for protection in ("", "memories: ecc"):
        effects = effects_of_flips(protection, tmp_path, text=SYSTOLIC, seed=11, inside="words")
        assert len(effects) > 500
        silent.append(effects.count("silent"))
    assert silent[0] > 0
    assert silent[1] == 0


@pytest.mark.slow
@pytest.mark.rotate(6)
def test_effects_with_checksums(tmp_path: Path) -> None:
    """Checksums correct or notice what is silent without them."""
    simulation = simulation_of("", tmp_path, checksums=True)
    rng = np.random.default_rng(11)
    for name in ("flip", "stuck"):
        faults = draw_faults(simulation.circuit, name, simulation.cycles, 300, rng)
        effects = [injection.effect for injection in simulation.inject(faults, jobs=2)]
        assert effects.count("silent") <= 3
        assert effects.count("detected") + effects.count("corrected") > 30


@pytest.mark.slow
@pytest.mark.rotate(6)
@pytest.mark.parametrize("protection", ["registers: parity", "registers: tmr", ""])
def test_proofs_of_flips(
    protection: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All flips are noticed or corrected in any state; without protection some are not."""
    require_tools("yosys", "g++", technology="nangate45")
    config = tmp_path / "little.yaml"
    config.write_text(f"{WITHOUT_MEMORY}protect: {{{protection}}}\n")
    arguments = ["faults", "-c", str(config), "--workload", "random:2,8,2", "--prove"]
    status = main([*arguments, "-o", str(tmp_path / "out")])
    said = " ".join(capsys.readouterr())
    document = json.loads((tmp_path / "out" / "proof.json").read_text()) if not status else None
    if protection:
        assert document
        assert document["proven"] == document["flip_flops"] > 100
        assert not document["refuted"] + document["unknown"]
    else:
        assert status == 1
        assert "flip-flops are not proven" in said


@pytest.mark.slow
@pytest.mark.rotate(24)
def test_harden(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cheapest protection that is good enough is written; without one the best is named."""
    require_tools("yosys", "g++", technology="nangate45")
    config, output = tmp_path / "little.yaml", tmp_path / "hard.yaml"
    config.write_text(WITHOUT_MEMORY)
    arguments = ["harden", "-c", str(config), "--workload", "random:4,32,2", "--margin", "0.05"]
    assert main([*arguments, "--silent", "0.03", "--json", "-o", str(output)]) == 0
    document = json.loads(capsys.readouterr().out)
    *cheaper, last = document["trials"]
    assert cheaper
    assert last["silent"] <= 0.03 < min(trial["silent"] for trial in cheaper)
    costs = [trial["estimated_area_um2"] * trial["cycles"] for trial in document["trials"]]
    assert costs == sorted(costs)
    assert parse_config(output.read_text()).name == "little"
    assert main([*arguments, "--silent", "0.0001"]) == 2
    assert "say a smaller --margin" in " ".join(capsys.readouterr().err.split())


def test_columns_of_a_hamming_code() -> None:
    """Syndromes of single errors differ, for words of any width."""
    for bits in (1, 2, 7, 32, 128):
        columns = check_columns(bits)
        checks = max(columns).bit_length()
        syndromes = {*columns, *(1 << bit for bit in range(checks))}
        assert len(syndromes) == bits + checks


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("int8", "int8"),
        ("uint8", "int4"),
        ("int8", "ternary"),
        ("uint4", "uint3"),
        ("int2", "int2"),
    ],
)
def test_checksums_of_products(left: str, right: str) -> None:
    """Sums agree, a wrong result is found and corrected wherever it is, two are noticed."""
    rng = np.random.default_rng(5)
    activation: Any = number_format(left)
    weight: Any = number_format(right)
    for draw in range(30):
        m, k, n = rng.integers(1, 40, 3)
        a = activation.random(rng, (m, k)).astype(activation.dtype)
        w = weight.random(rng, (k, n)).astype(weight.dtype)
        if draw < 5:  # the largest sums
            a[:], w[:] = activation.max, weight.min
        more, wider, checksums = with_checksums(a, w, activation, weight)
        assert (more.max(), wider.max()) <= (activation.max, weight.max)
        assert (more.min(), wider.min()) >= (activation.min, weight.min)
        right_results = a.astype(np.int64) @ w.astype(np.int64)
        results = more.astype(np.int64) @ wider.astype(np.int64)
        found, verdict = checksums.check(results)
        assert verdict == "right"
        assert np.array_equal(found, right_results)
        row, column = rng.integers(len(results)), rng.integers(results.shape[1])
        results[row, column] ^= 1 << int(rng.integers(24))
        found, verdict = checksums.check(results)
        assert verdict == "corrected"
        assert np.array_equal(found, right_results)
        assert checksums.check(np.zeros_like(results))[1] == (
            "wrong" if checksums.total else "right"
        )
        results[(row + 1) % len(results), column] ^= 4
        assert checksums.check(results)[1] != "right"
    assert checksums.overhead > 0
    with pytest.raises(InputError, match="checksums are of integers"):
        with_checksums(a, w, number_format("bf16"), weight)
