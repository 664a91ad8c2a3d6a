# SPDX-License-Identifier: Apache-2.0
"""Tests of the tests: the regression must notice RTL that is broken on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.simulation.runner import regress
from hwgen.families.systolic.params import SystolicConfig
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import Mutation, assert_noticed

CASES = (
    "shapes_7",
    "values_highest",
    "values_opposite",
    "stalls_4",
    "reset_0",
    "back_to_back_full_rate",
)
"""Cases that run first; those that a mutation needs come on top."""


OUTPUT = {"array": {"rows": 4, "cols": 5}}
WEIGHT = {
    "array": {
        "rows": 4,
        "cols": 5,
        "dataflow": "weight_stationary",
        "accumulator_depth": 8,
    },
}
SINGLE = {
    "array": {
        "rows": 1,
        "cols": 5,
        "dataflow": "weight_stationary",
        "accumulator_depth": 8,
    },
}
STEPS = {"array": {**OUTPUT["array"], "pe": "carry_save"}, "pipeline": {"final_adder": 1}}
CLAMPED = {**OUTPUT, "accumulator": "int18", "overflow": "saturate"}

MUTATIONS = [
    Mutation("unsigned operand", "pe", r"\$signed\(x\)", "x", OUTPUT),
    Mutation("sum not cleared", "pe", r"clear \? 32'd0 : total", "total", OUTPUT),
    Mutation("clamped to the wrong end", "pe", r"18'h1ffff", "18'h1fffe", CLAMPED),
    Mutation("frozen row still adds", "array", r"if \(\S+\) x_edge <= 32'd0;\s*else ", "", OUTPUT,
             ("stalls_5", "stalls_8")),
    Mutation("column operand moves while frozen", "pe", r"if \(run\) y_out", "y_out", OUTPUT,
             ("stalls_5", "stalls_8")),
    Mutation("skew one cycle short", "skew_x4", r"o = \{ lane_3\[23:16\]",
             "o = { lane_3[15:8]", OUTPUT),
    Mutation("beat dropped", "core", r"assign fire = ", "assign fire = ~starting & ", OUTPUT),
    Mutation("end of tile lost", "core", r"\.i_data\(\{ \S+, results \}\)",
             ".i_data({ 1'b0, results })", OUTPUT),
    Mutation("one credit too many", "core", r"credits <= 2'h2", "credits <= 2'h3", OUTPUT,
             ("stalls_5", "stalls_8")),
    Mutation("carry between steps dropped", "resolve_1", r"\bi\[16\]", "1'b0", STEPS),
    Mutation("a credit too many in front of steps", "core", r"credits <= 2'h2", "credits <= 2'h3",
             STEPS, ("stalls_5", "stalls_8")),
    Mutation("state kept over a reset", "core", r"if \(rst\) draining <= 3'h0;\s*else ", "", OUTPUT,
             ("reset_1", "reset_2", "reset_3")),
    Mutation("old total not forwarded", "accumulators", r"again \? ", "1'b0 ? ", SINGLE,
             tuple(f"shapes_{i}" for i in range(12))),
    Mutation("total not restarted", "accumulators", r"starts_reg \? \d+'[hd]0+ : ", "", WEIGHT),
    Mutation("shadow loads a wrong row", "core",
             r"position <= \{ position\[2:0\], position\[3\] \}",
             "position <= { position[0], position[3:1] }", WEIGHT),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_noticed(mutation: Mutation, tmp_path: Path) -> None:
    assert_noticed(mutation, SystolicConfig, CASES, tmp_path)


def at_the_top(name: str, logic: str, case: str, message: str) -> Any:
    """Return a mutation of the top module: `logic` between the core and its ports."""
    module = Mutation(
        name,
        "",
        r"(?s)\.out__valid\(m_axis_out_tvalid\)(.*?\);)",
        rf".out__valid(raised)\1 wire raised; {logic}",
        OUTPUT,
        (case,),
    )
    return pytest.param(module, message, id=name)


RULES = [
    at_the_top("tvalid waits for tready",
               "assign m_axis_out_tvalid = raised & m_axis_out_tready;",
               "ready_after_valid", "no progress: 0 of"),
    at_the_top("valid in reset", "assign m_axis_out_tvalid = raised | ~aresetn;",
               "shapes_0", "m_axis_out: tvalid in reset"),
    at_the_top("a beat that nobody asked for",
               "reg last = 0; always @(posedge aclk) last <= raised & m_axis_out_tlast;"
               " assign m_axis_out_tvalid = raised | last;",
               "shapes_0", "result beats too many"),
    pytest.param(
        Mutation("tvalid falls", "buffer_161", r"else if \(_01_\) o_valid", "else o_valid",
                 OUTPUT, ("stalls_5", "stalls_8")),
        "m_axis_out: tvalid fell before tready", id="tvalid falls"),
    pytest.param(
        Mutation("beat changes while it waits", "buffer_161", r"if \((\w+)\) o_data <=",
                 "o_data <=", OUTPUT, ("stalls_5", "stalls_8")),
        "m_axis_out: a waiting beat changed from 0x", id="beat changes"),
    pytest.param(
        Mutation("tlast of an idle port counts", "",
                 r"(?s)\.act__payload\(\{ s_axis_act_tlast,(.*?\);\n)",
                 r".act__payload({ s_axis_act_tlast ^ rumour,\1 reg rumour = 0;"
                 " always @(posedge aclk) rumour <= s_axis_act_tlast & ~s_axis_act_tvalid;",
                 OUTPUT, ("stalls_1", "stalls_2")),
        "mismatch|no progress", id="tlast of an idle port"),
    pytest.param(
        Mutation("tlast missing", "", r"(assign m_axis_out_tlast =) ", r"\1 1'b0 & ", OUTPUT,
                 ("shapes_7",)),
        "tlast wrong at result beat", id="tlast missing"),
    pytest.param(
        Mutation("slower than the model", "core", r"assign bus_free = draining <= 1'h1",
                 "assign bus_free = draining == 1'h0", OUTPUT, ("back_to_back_full_rate",)),
        r"took \d+ cycles, the cycle model says \d+", id="slower"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("mutation", "message"), RULES)
def test_each_check_notices_what_it_is_for(
    mutation: Mutation, message: str, tmp_path: Path
) -> None:
    assert_noticed(mutation, SystolicConfig, (), tmp_path, message)


@pytest.mark.slow
@pytest.mark.parametrize("values", [OUTPUT, WEIGHT, CLAMPED], ids=["output", "weight", "clamped"])
def test_unbroken(values: dict[str, Any], tmp_path: Path) -> None:
    """The cores that the mutations start from are right."""
    config = SystolicConfig.model_validate({"name": "mutant", **values})
    assert all(outcome.passed for outcome in regress(design_of(config), tmp_path))
