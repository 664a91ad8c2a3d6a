# SPDX-License-Identifier: Apache-2.0
"""Mutants: what is drawn, what the regression notices, and what is proven to be no change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.bench.draws import draw
from flows.bench.mutation import (
    CONFIGS,
    NAME,
    SUMS,
    Score,
    Survivor,
    campaign,
    design_of,
    load_results,
    repeat,
    score_of,
    survivors_table,
    table,
)
from flows.build.design import Design
from flows.formal.aiger import Aiger
from flows.mutation.campaign import Verdict, first_cases, run_mutants
from flows.mutation.equivalence import cut_memories, environment, prove_equal, questions_of
from flows.mutation.mutants import Mutant, draw_mutants, mutated
from flows.mutation.questions import Questions
from flows.tools import process
from flows.tools.toolchain import require
from hwgen.core.registry import families
from hwgen.errors import CheckFailed
from sim_tests.support.selection import commit_seed

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
def test_constant_pins_of_memories_are_not_changed(tmp_path: Path) -> None:
    """Reads are asynchronous: Yosys refuses an enable or a reset of them that varies."""
    commands = [each.command for each in draw_mutants(design_of("stream_engine"), 200, tmp_path)]
    assert len(commands) == 200
    assert any(".words" in each for each in commands)
    assert not [c for c in commands if "RD_EN" in c or "RD_SRST" in c or "RD_ARST" in c]


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
    steps = ("read_verilog design.v", "hierarchy -top dut", "proc", "flatten", "opt_clean",
             "write_rtlil flat.il")  # fmt: skip
    (work / "flat.ys").write_text("\n".join([*steps, ""]))
    process.run(require("yosys"), ["-q", "flat.ys"], work, "flat.log", 60)


def change(work: Path, mode: str, cell: str, port: str, line: int = 0) -> Mutant:
    """Return a change of the first cell of a type, or of that on a line of the Verilog."""
    for text in (work / "flat.il").read_text().splitlines():
        words = text.split()
        if words[:2] == ["cell", cell] and (not line or f"design.v:{line}$" in words[2]):
            name = words[2]
            break
    command = f"mutate -mode {mode} -module {NAME} -cell {name} -port {port} -portbit 0"
    return Mutant(1, NAME, "", command)


def proof_of(work: Path, mutant: Mutant) -> str:
    """Return whether a mutant is the design in `work`."""
    questions = questions_of(NAME, [mutant], work)
    return prove_equal(questions, mutant.number, work, seconds=60)[0]


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
    assert proof_of(tmp_path, change(tmp_path, mode, cell, port)) == proof


@pytest.mark.slow
def test_payload_of_no_token_is_not_compared(tmp_path: Path) -> None:
    """Payload that is not valid may differ."""
    text = FLAT.replace("  wire never = m_tvalid & ~copy;\n", "").replace(" | never", "")
    write_flat(tmp_path, text.replace("<= s_tdata", "<= s_tdata & {4{s_tvalid}}"))
    assert proof_of(tmp_path, change(tmp_path, "const1", "$and", "B")) == "equal"
    assert proof_of(tmp_path, change(tmp_path, "const1", "$and", "A")) == "different"


LATE = """\
module dut(aclk, aresetn, s_tdata, s_tvalid, s_tready, m_tdata, m_tvalid, m_tready);
  input aclk, aresetn, s_tvalid, m_tready;
  input [3:0] s_tdata;
  output s_tready;
  output reg [3:0] m_tdata;
  output reg m_tvalid;
  reg [3:0] first;
  reg first_valid;
  wire go = ~m_tvalid | m_tready;
  wire [3:0] next = first & {4{first_valid}};
  assign s_tready = go;
  always @(posedge aclk) if (go) begin first <= s_tdata; m_tdata <= next; end
  always @(posedge aclk)
    if (~aresetn) begin first_valid <= 0; m_tvalid <= 0; end
    else if (go) begin first_valid <= s_tvalid; m_tvalid <= first_valid; end
endmodule
"""
"""Two registers; those of payload differ where they are not valid, if the AND is changed."""


@pytest.mark.slow
def test_registers_that_differ_for_a_while(tmp_path: Path) -> None:
    """A register may hold another value as long as nothing looks at it."""
    write_flat(tmp_path, LATE)
    mutant = change(tmp_path, "const1", "$and", "B")
    questions = questions_of(NAME, [mutant], tmp_path)
    assert questions.step(1) is not None  # a register takes another value
    assert len(questions.touched(1)) == 1
    assert prove_equal(questions, 1, tmp_path, seconds=60)[0] == "equal"
    assert proof_of(tmp_path, change(tmp_path, "inv", "$and", "Y")) == "different"


SAVED = """\
module full_adder(a, b, c, sum, carry);
  input a, b, c;
  output sum, carry;
  wire half = a ^ b;
  assign sum = half ^ c;
  assign carry = (a & b) | (half & c);
endmodule

module dut(aclk, aresetn, s_tdata, s_tvalid, s_tready, m_tdata, m_tvalid, m_tready);
  input aclk, aresetn, s_tvalid, m_tready;
  input [4:0] s_tdata;
  output s_tready, m_tvalid;
  output [5:0] m_tdata;
  assign s_tready = m_tready;
  assign m_tvalid = 1;
  reg [3:0] factor;
  reg clear, one, negative;
  always @(posedge aclk) begin
    factor <= s_tdata[3:0];
    clear <= ~aresetn;
    one <= s_tdata[4];
    negative <= s_tdata[3] & s_tdata[4];
  end
  wire [5:0] row = {2'b0, factor & {4{one}}} ^ {6{negative}};
  reg [5:0] saved, total;
  wire [5:0] old = total & {6{~clear}};
  wire [5:0] low, high;
  wire [5:0] first = {saved[4:0] & {5{~clear}}, negative};
  genvar i;
  generate
    for (i = 0; i < 6; i = i + 1) begin
      full_adder add(row[i], old[i], first[i], low[i], high[i]);
    end
  endgenerate
  always @(posedge aclk) begin
    total <= low;
    saved <= high;
  end
  assign m_tdata = total + {saved[4:0], 1'b0};
endmodule
"""
"""A carry-save accumulator that adds a number, subtracts it, or adds zero.

Zeros are positive.  Negative ones would do as well: all bits of the row are 1, and 1 is added.
"""


@pytest.mark.rotate(32)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "port", "before", "after", "is_equal"),
    [
        ("const1", "B", "", "", True),  # zeros are negative, too
        ("const1", "A", "", "", False),  # nothing is added, only subtracted
        ("const0", "Y", "", "", False),  # nothing is subtracted
        ("const1", "B", "{6{negative}}", "{1'b0, {5{negative}}}", False),  # no negative zero
        ("const1", "B", ", negative};", ", 1'b0};", False),  # -1 instead of a negative zero
        ("const1", "B", "saved <= high", "saved <= high & 6'd31", True),  # a carry that is lost
        ("const1", "B", "saved <= high", "saved <= high & 6'd15", False),  # one that is not
    ],
)
def test_totals_of_carry_save_adders(
    tmp_path: Path, mode: str, port: str, before: str, after: str, is_equal: bool
) -> None:
    """Two vectors that differ and whose sum does not are equal, and sums that differ are not."""
    verilog = SAVED.replace(before, after) if before else SAVED
    write_flat(tmp_path, verilog)
    line = verilog[: verilog.index("negative <=")].count("\n") + 1
    mutant = change(tmp_path, mode, "$and", port, line)
    questions = questions_of(NAME, [mutant], tmp_path)
    proof, question = prove_equal(questions, mutant.number, tmp_path, seconds=120)
    assert (proof, question) == ("equal", "totals") if is_equal else proof != "equal"


@pytest.mark.long
@pytest.mark.parametrize("family", ["systolic", "broadcast_2d"])
def test_no_mutant_that_is_caught_is_proven_equal(family: str, tmp_path: Path) -> None:
    """Cases that notice a mutant show a difference, so that a proof of it would be wrong."""
    design = design_of(family)
    mutants = draw_mutants(design, 60, tmp_path)
    verdicts = run_mutants(mutated(design, mutants, tmp_path), mutants, tmp_path)
    caught = [each for each in mutants if verdicts[each.number].caught]
    assert len(caught) > 40
    questions = questions_of(NAME, caught, tmp_path)
    for mutant in caught[::4]:
        proof, question = prove_equal(questions, mutant.number, tmp_path, seconds=10)
        assert proof != "equal", (mutant.change, question)


def test_an_affected_address_reads_another_word() -> None:
    """Words that are read at the same address are the same; at another one they are any."""
    inputs = ("mutant", "lawful", "memory_read_word_0")
    # The address is the selector's bit; the output is the word.
    circuit = Aiger(
        inputs,
        ("lawful_now", "memory_read_address_0", "m_tdata"),
        (),
        (4, 2, 6),
        (),
    )
    questions = Questions(circuit, "mutant")
    assert questions.step(1) is not None
    circuit = Aiger(inputs, circuit.outputs, (), (4, 0, 6), ())
    assert Questions(circuit, "mutant").step(1) is None


def test_memories_are_cut() -> None:
    """Large memories become ports; what is written together has one enable."""
    parameters = {"WIDTH": 2, "SIZE": 512, "ABITS": 1, "RD_PORTS": 1, "WR_PORTS": 1,
                  "RD_CLK_ENABLE": "0", "WR_CLK_ENABLE": "1"}  # fmt: skip
    wires = {"RD_ADDR": [2], "RD_DATA": [3, 4], "WR_EN": [5, 5], "WR_DATA": [6, 7],
             "WR_ADDR": [8]}  # fmt: skip
    cell = {"type": "$mem_v2", "parameters": parameters, "connections": wires}
    module: dict[str, Any] = {"ports": {}, "cells": {"words": cell, "small": {
        **cell, "parameters": {**parameters, "SIZE": 4}}}}  # fmt: skip
    cut_memories(module)
    assert set(module["cells"]) == {"small"}
    assert {name: (port["direction"], port["bits"]) for name, port in module["ports"].items()} == {
        "memory_read_address_0": ("output", [2]),
        "memory_read_word_0": ("input", [3, 4]),
        "memory_write_enable_0": ("output", [5]),
        "memory_write_value_0": ("output", [8, 6, 7]),
    }


def test_environment_assumes_that_offers_stay() -> None:
    ports = {
        "aclk": {"direction": "input", "bits": [2]},
        "aresetn": {"direction": "input", "bits": [3]},
        "s_tdata": {"direction": "input", "bits": [4, 5]},
        "s_tvalid": {"direction": "input", "bits": [6]},
        "s_tready": {"direction": "output", "bits": [7]},
        "m_tdata": {"direction": "output", "bits": [8, 9]},
        "m_tvalid": {"direction": "output", "bits": [10]},
    }
    text = environment("dut", ports)
    assert "(s_twaits & ~s_tvalid)" in text
    assert "(s_twaits & (s_tdata != s_tdata_before))" in text
    assert "m_twaits" not in text


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


def test_survivors_of_a_design_that_has_changed_are_refused(tmp_path: Path) -> None:
    score = Score("systolic", 20, 18, 0, 9)
    gone = Survivor("systolic", "core", "rtl.Core", "const0 at Y[0] of core.$gone", "unknown")
    with pytest.raises(CheckFailed, match=r"systolic has changed: .*no mutant .*core\.\$gone"):
        repeat(score, [gone], tmp_path)


@pytest.mark.long
def test_survivors_run_again(tmp_path: Path) -> None:
    """One that is caught by now counts as such; what had been proven equal stays."""
    mutants = draw_mutants(design_of("systolic"), 20, tmp_path, seed=3)
    verdicts = run_mutants(mutated(design_of("systolic"), mutants, tmp_path), mutants, tmp_path)
    caught = next(each for each in mutants if verdicts[each.number].caught)
    alive = Survivor("systolic", caught.module, caught.generator, caught.change, "unknown")
    equal = alive._replace(change="proven before", proof="equal")
    score, left = repeat(Score("systolic", 20, 18, 1, 9, 3), [alive, equal], tmp_path)
    assert score == Score("systolic", 20, 19, 1, 9, 3)
    assert left == [equal]


def test_stored_results() -> None:
    scores, survivors = load_results()
    assert {score.family for score in scores} <= set(CONFIGS)
    for score in scores:
        left = sum(s.family == score.family and s.proof != "equal" for s in survivors)
        assert score.caught + score.equal + left == score.mutants


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", sorted(SUMS))
def test_campaign(name: str, seed: int, tmp_path: Path) -> None:
    """A part of a campaign finds few survivors."""
    score, survivors = campaign(name, tmp_path, count=20, seed=seed, seconds=20)
    left = score.mutants - score.caught - score.equal
    assert left <= 4, survivors_table(survivors)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SUMS))
def test_mutants_of_a_drawn_configuration(
    name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Most of a handful are noticed or proven equal; the others are listed in the report."""
    seed = commit_seed()
    choices = {"max_k": [64]}  # as long as sums of the regression may be
    (config,) = draw(seed, 1, 1_000.0, names=(name,), choices=choices)
    design = Design.of(config.model_copy(update={"name": NAME}))
    score, survivors = campaign(name, tmp_path, count=6, seed=seed, seconds=5, design=design)
    left = [each for each in survivors if each.proof != "equal"]
    for each in left:
        record_property("survivor", f"{each.module}: {each.change}, {each.proof}")
    assert score.mutants == 6
    assert score.caught + score.equal + len(left) == 6
    assert len(left) <= 3, f"{survivors_table(survivors)}\n{config.model_dump_json()}"
