# SPDX-License-Identifier: Apache-2.0
"""Residue codes of sums: what they notice, what they cost, and cores that cannot have them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from flows.build.build import Build, retarget
from flows.build.design import Design
from flows.build.load import parse_config
from flows.faults.injection import FaultSimulation
from flows.faults.sampling import FLIP, Fault
from flows.faults.workloads import fault_workload
from flows.power.operands import job_of_size, workloads
from flows.simulation.bus.job_host import open_engine
from flows.simulation.run import check_results, run_job
from flows.simulation.runner import regress
from flows.synthesis.synth import synthesize
from hwgen.core.params.protection import FAULT_OUTPUT
from hwgen.core.register_map import FAULT_COUNTERS
from hwgen.errors import InputError
from sim_tests.engines.test_every_position import ENGINE
from sim_tests.faults.test_fault_counters import run_job as run_engine_job
from sim_tests.support.emitted import module_text
from sim_tests.support.mutations import mutated
from sim_tests.synthesis.tools import require_tools

ARRAYS = {
    "output_stationary": "{rows: 2, cols: 3}",
    "weight_stationary": "{rows: 2, cols: 2, dataflow: weight_stationary, accumulator_depth: 4}",
    "carry_save": "{rows: 2, cols: 2, pe: carry_save}",
}
SUMS = re.compile(r"totals|psums|results|words")
"""Registers of sums: accumulators, partial sums on their way, and the memory of rows."""


def design_of(array: str, datapath: str, family: str = "systolic") -> Design:
    return Design.of(
        parse_config(
            f"name: dut\nfamily: {family}\nactivation: int4\nweight: int4\nmax_k: 64\n"
            f"array: {array}\ntarget: {{technology: nangate45, clock_mhz: 400}}\n"
            f"protect: {{datapath: {datapath}}}\n"
        )
    )


def effects_of_flips(design: Design, work: Path) -> Counter[str]:
    """Count the effects of a flip of each bit of a sum in each cycle."""
    require_tools("yosys", "g++", technology="nangate45")
    job = fault_workload(design.core, "random:4,12,6")
    simulation = FaultSimulation(design.params, synthesize(design, "nangate45"), job, work)
    sites = [
        site
        for site in simulation.circuit.flip_flops
        if SUMS.search(str(site.location)) and "residue" not in str(site.location)
    ]
    assert len(sites) > 50
    faults = [Fault(FLIP, site, cycle) for cycle in simulation.cycles for site in sites]
    return Counter(injection.effect for injection in simulation.inject(faults))


@pytest.mark.slow
@pytest.mark.rotate(24)
@pytest.mark.parametrize("name", ARRAYS)
def test_every_flip_of_a_sum_is_noticed(name: str, tmp_path: Path) -> None:
    """No flip of an accumulator in any cycle is silent or hangs; without residues they are."""
    effects = effects_of_flips(design_of(ARRAYS[name], "residue"), tmp_path)
    assert set(effects) == {"masked", "detected"}, effects
    plain = tmp_path / "plain"
    plain.mkdir()
    without = effects_of_flips(design_of(ARRAYS[name], "none"), plain)
    assert set(without) == {"masked", "silent"}, without
    assert without["silent"] > 500
    assert abs(effects["detected"] - without["silent"]) < 0.02 * without["silent"]


@pytest.mark.slow
@pytest.mark.rotate(12)
def test_a_dead_comparison_is_noticed(tmp_path: Path) -> None:
    """The test of flips fails if nothing is compared."""
    design = design_of(ARRAYS["output_stationary"], "residue")
    module = module_text(design.verilog, "dut_residue_check")
    dead = mutated(module, rf"assign {FAULT_OUTPUT} = [^;]*;", f"assign {FAULT_OUTPUT} = 1'b0;")
    effects = effects_of_flips(design.with_verilog(design.verilog.replace(module, dead)), tmp_path)
    assert effects["silent"] > 500
    assert not effects["detected"]


BROKEN = {
    "product": ("{rows: 2, cols: 3}", "systolic", "pe", r"whole_product = x \* y_out",
                "whole_product = x + y_out"),
    "clear": ("{rows: 2, cols: 3}", "systolic", "pe", r"clear \? 4'h0 : total", "total"),
    "totals": (ARRAYS["weight_stationary"], "systolic", "accumulators",
               r"starts_reg \? 4'h0 : ", ""),
    "order": (ARRAYS["weight_stationary"], "systolic", "pe_4", r"active <= shadow",
              "active <= ~shadow"),
    "depth": ("{rows: 2, cols: 3, depth: 3}", "cube", "pe", r"product_1 = x\[7:4\]",
              "product_1 = x[3:0]"),
    "late reset": ("{rows: 2, cols: 3}", "systolic", "", r"\.rst\(late_resets\[\d\]\)",
                   ".rst(1'b0)"),
}  # fmt: skip
"""Faults of the core of residues: an array, its family, a module, and what changes in it."""


@pytest.mark.slow
@pytest.mark.rotate(6)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_core_of_residues_is_noticed(name: str, tmp_path: Path) -> None:
    """The regression says that a design reports a fault that it does not have."""
    array, family, module, pattern, replacement = BROKEN[name]
    design = design_of(array, "residue", family)
    text = module_text(design.verilog, f"dut_residue_check{'_' * bool(module)}{module}")
    broken = design.with_verilog(design.verilog.replace(text, mutated(text, pattern, replacement)))
    cases = ("shapes_7", "stalls_4", "reset_0", "back_to_back_full_rate")
    messages = [outcome.message for outcome in regress(broken, tmp_path, names=cases)
                if not outcome.passed]  # fmt: skip
    assert any(f"{FAULT_OUTPUT} without a fault" in message for message in messages), messages


@pytest.mark.slow
@pytest.mark.rotate(8)
@pytest.mark.parametrize(
    ("family", "array"),
    [("systolic", ARRAYS["weight_stationary"]), ("cube", "{rows: 2, cols: 2, depth: 2}")],
)
def test_results_and_cycles_stay(family: str, array: str) -> None:
    plain, protected = (design_of(array, value, family) for value in ("none", "residue"))
    job = job_of_size(plain.core, 60)
    operands = workloads(plain.core, job)["uniform"]
    run = run_job(protected, job, operands)
    check_results(family, run.results, plain.core.golden(job, operands))
    assert run.cycles == run_job(plain, job, operands).cycles


@pytest.mark.slow
@pytest.mark.rotate(16)
def test_an_engine_counts_mismatches() -> None:
    """Jobs count nothing; a core whose residues are wrong is counted, and results stay right."""
    text = f"{ENGINE}protect: {{datapath: residue}}\n"
    design = Design.of(parse_config(text))
    assert FAULT_OUTPUT in design.verilog
    names = re.findall(
        r"module (dut_residue_check_accumulators|dut_residue_check_pe)\(", design.verilog
    )
    module = module_text(design.verilog, names[0])
    broken = mutated(module, r"(assign added_sum_0 = )", r"\1 5'h1 + ")
    wrong = design.with_verilog(design.verilog.replace(module, broken))
    for changed, counts in ((design, False), (wrong, True)):
        host = open_engine(changed, read_latency=2, write_latency=3)
        with host.model:
            run_engine_job(host)
            noticed, corrected = (host.counter(name) for name in FAULT_COUNTERS)
            assert bool(noticed) == counts
            assert not corrected


def test_residues_cost_less_than_a_second_core() -> None:
    """Estimates count the core of residues."""
    areas = []
    for datapath in ("none", "residue", "dup"):
        design = design_of("{rows: 8, cols: 8}", datapath)
        target = retarget(design.params.target, "nangate45")
        areas.append(Build(design, target).estimate()["metrics"]["area_mm2"])
    none, residue, dup = np.array(areas) / areas[0]
    assert none < residue < 1.3
    assert dup > 1.9


REFUSED = {
    "family: systolic\naccumulator: int20\n": "accumulator int20 may overflow with max_k 65536",
    "family: systolic\nactivation: mxfp8_e4m3\nweight: mxfp8_e4m3\n": "scaled blocks",
    "family: systolic\nweight: ternary\n": "ternary codes that are no weights",
    "family: cube\narray: {rows: 2, cols: 2, depth: 4, pe: serial_digit}\n":
        "cycles depend on digits",
    "family: cube\nactivation: uint4\nweight: int4\narray: {rows: 2, cols: 4, depth: 3,"
    " packing: over}\ntarget: {technology: xc7}\n": "low bits of products are off",
    "family: ternary_lut\n": "read from tables",
    "family: vector\n": "no sums of integer products",
    "family: attention\n": "no sums of integer products",
    "family: stream_engine\n": "no sums of integer products",
    "family: transformer\n": "results of some units",
    "family: gemm_stream\ncompute: {family: ternary_lut}\n": "read from tables",
    "family: gemm_stream\ncompute: {family: systolic, accumulator: int20}\n": "may overflow",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_refused_with_the_reason(text: str) -> None:
    reason = f"protect.datapath: must not be residue: .*{REFUSED[text]}"
    with pytest.raises(InputError, match=reason):
        parse_config(f"name: dut\n{text}protect: {{datapath: residue}}\n")
    parse_config(f"name: dut\n{text}protect: {{datapath: dup}}\n")
