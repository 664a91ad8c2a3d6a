# SPDX-License-Identifier: Apache-2.0
"""Mutants: what is drawn, what the regression notices, and what is proven to be no change."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.bench.mutation import (
    CONFIGS,
    Score,
    Survivor,
    campaign,
    design_of,
    load_results,
    score_of,
    survivors_table,
    table,
)
from flows.mutation.campaign import Verdict, first_cases, run_mutants
from flows.mutation.equivalence import miter, prove_equal
from flows.mutation.mutants import Mutant, draw_mutants, mutated
from flows.tools import process
from flows.tools.toolchain import require
from hwgen.core.registry import families

NAME = "dut"
FLAT = """\
module dut(aclk, aresetn, s_tdata, s_tvalid, s_tready, m_tdata, m_tvalid, m_tready);
  input aclk, aresetn, s_tvalid, m_tready;
  input [3:0] s_tdata;
  output s_tready;
  output reg [3:0] m_tdata;
  output reg m_tvalid;
  reg copy;
  wire never = m_tvalid & ~copy;
  assign s_tready = ~m_tvalid | m_tready | never;
  always @(posedge aclk) begin
    if (s_tready) m_tdata <= s_tdata;
    if (~aresetn) m_tvalid <= 0; else if (s_tready) m_tvalid <= s_tvalid;
    if (~aresetn) copy <= 0; else if (s_tready) copy <= s_tvalid;
  end
endmodule
"""
"""A register with a handshake, and a gate that is always 0: of two registers that are equal."""


def test_every_family_has_a_design() -> None:
    assert set(CONFIGS) == set(families())


def test_mutants_are_spread_over_modules(tmp_path: Path) -> None:
    design = design_of("systolic")
    mutants = draw_mutants(design, 60, tmp_path)
    modules = [each.module for each in mutants]
    assert len(mutants) == 60
    assert {modules.count(name) for name in set(modules)} <= set(range(1, 12))
    assert len(set(modules)) >= 8
    assert [each.number for each in mutants] == list(range(1, 61))
    assert draw_mutants(design, 60, tmp_path) == mutants
    assert draw_mutants(design, 60, tmp_path, seed=1) != mutants
    classes = {each.module: each.generator for each in mutants}
    assert classes["core"] == "rtl_templates.systolic.core.StationaryCore"
    assert " -ctrl " not in mutants[0].command


@pytest.mark.slow
def test_the_regression_notices_mutants(tmp_path: Path) -> None:
    """A sum that is wrong is noticed; a register of payload that is held in reset is no change."""
    design = design_of("systolic")
    mutants = draw_mutants(design, 6, tmp_path)
    verdicts = run_mutants(mutated(design, mutants, tmp_path), mutants, tmp_path)
    assert set(verdicts) == {each.number for each in mutants}
    assert sum(each.caught for each in verdicts.values()) >= 4
    assert all(each.message for each in verdicts.values() if each.caught)


def write_flat(work: Path, text: str = FLAT) -> None:
    """Write a design as `draw_mutants` does."""
    (work / "design.v").write_text(text)
    (work / "flat.ys").write_text("read_verilog design.v\nproc\nopt_clean\nwrite_rtlil flat.il\n")
    process.run(require("yosys"), ["-q", "flat.ys"], work, "flat.log", 60)


def change(work: Path, mode: str, cell: str, port: str) -> Mutant:
    """Return a change of the cell of a type."""
    for line in (work / "flat.il").read_text().splitlines():
        words = line.split()
        if words[:2] == ["cell", cell]:
            name = words[2]
            break
    command = f"mutate -mode {mode} -module {NAME} -cell {name} -port {port} -portbit 0"
    return Mutant(1, NAME, "", command)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "cell", "port", "proof"),
    [
        ("const0", "$and", "Y", "equal"),  # the gate that is always 0
        ("const1", "$and", "Y", "different"),
        ("inv", "$or", "Y", "different"),
    ],
)
def test_proofs(tmp_path: Path, mode: str, cell: str, port: str, proof: str) -> None:
    write_flat(tmp_path)
    assert prove_equal(NAME, change(tmp_path, mode, cell, port), tmp_path, seconds=10) == proof


@pytest.mark.slow
def test_payload_of_no_token_is_not_compared(tmp_path: Path) -> None:
    """Payload that is not valid may differ."""
    text = FLAT.replace("  wire never = m_tvalid & ~copy;\n", "").replace(" | never", "")
    write_flat(tmp_path, text.replace("<= s_tdata", "<= s_tdata & {4{s_tvalid}}"))
    assert prove_equal(NAME, change(tmp_path, "const1", "$and", "B"), tmp_path) == "equal"
    assert prove_equal(NAME, change(tmp_path, "const1", "$and", "A"), tmp_path) == "different"


def test_miter_assumes_that_offers_stay() -> None:
    ports = {
        "aclk": {"direction": "input", "bits": [2]},
        "aresetn": {"direction": "input", "bits": [3]},
        "s_tdata": {"direction": "input", "bits": [4, 5]},
        "s_tvalid": {"direction": "input", "bits": [6]},
        "s_tready": {"direction": "output", "bits": [7]},
        "m_tdata": {"direction": "output", "bits": [8, 9]},
        "m_tvalid": {"direction": "output", "bits": [10]},
    }
    text = miter(ports)
    assert "(s_twaits & ~s_tvalid)" in text
    assert "(s_twaits & (s_tdata != s_tdata_before))" in text
    assert "(original_m_tvalid & (original_m_tdata != changed_m_tdata))" in text
    assert "(original_s_tready != changed_s_tready)" in text


def test_first_cases_are_of_each_kind() -> None:
    names = ["shapes_0", "shapes_1", "shapes_2", "values_zero", "longest", "ready_after_valid"]
    assert first_cases(names) == ["shapes_1", "values_zero", "longest", "ready_after_valid"]


def test_tables() -> None:
    survivor = Survivor("vector", "core", "rtl.Core", "const0 at Y[0] of core.$and", "unknown")
    equal = survivor._replace(proof="equal")
    mutants = [Mutant(number, f"m{number % 2}", "", "") for number in range(1, 11)]
    verdicts = {number: Verdict("shapes_0" if number > 2 else "") for number in range(1, 11)}
    score = score_of("vector", mutants, verdicts, [survivor, equal])
    assert score == Score("vector", 10, 8, 1, 2)
    assert "| vector | 2 | 10 | 8 | 1 | 1 | 88.9 % |" in table([score])
    assert survivors_table([equal]) == "None."
    assert survivors_table([equal, survivor]).count("vector") == 1


def test_stored_results() -> None:
    scores, survivors = load_results()
    assert {score.family for score in scores} <= set(CONFIGS)
    for score in scores:
        left = sum(s.family == score.family and s.proof != "equal" for s in survivors)
        assert score.caught + score.equal + left == score.mutants


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", [score.family for score in load_results()[0]])
def test_campaign(name: str, seed: int, tmp_path: Path) -> None:
    """A part of a campaign finds few survivors."""
    score, survivors = campaign(name, tmp_path, count=20, seed=seed, seconds=20)
    left = score.mutants - score.caught - score.equal
    assert left <= 4, survivors_table(survivors)
