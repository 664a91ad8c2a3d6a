# SPDX-License-Identifier: Apache-2.0
"""RTL of the systolic family against its golden and cycle models, over the parameter space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.simulation.runner import compile_design, simulate
from hwgen.config.parameters import either
from hwgen.families.systolic.params import PES, SystolicConfig
from sim_tests.contract.contract import (
    STREAM_CASES,
    Contract,
    Covering,
    Mutations,
    Regressions,
    Steady,
)
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import Mutation
from sim_tests.support.regression import assert_passed

AXES: dict[str, list[Any]] = {
    "dataflow": ["output_stationary", "weight_stationary", "input_stationary"],
    "rows": [1, 2, 5, 8, 17, 33],
    "cols": [1, 3, 7, 8, 18],
    "operands": [
        ("int8", "int8"),
        ("uint8", "int8"),
        ("int5", "uint3"),
        ("int2", "int2"),
        ("uint16", "uint16"),
        ("int16", "ternary"),
    ],
    "accumulator": ["exact", "wrap", "saturate"],
    "pe": [0, 1, 2],
    "broadcast": [1, 3, 16],
    "depth": [1, 2, 7, 64],
    "max_k": [9, 65536],
    "datapath": ["none", "residue"],
}
"""Axes of the covering set: every pair of values of two axes occurs in some configuration."""


def configuration(name: str, values: dict[str, Any]) -> SystolicConfig:
    """Return the configuration of one point of the covering set."""
    activation, weight = values["operands"]
    array = {key: values[key] for key in ("rows", "cols", "dataflow", "broadcast")}
    if values["dataflow"] != "output_stationary":
        array["accumulator_depth"] = values["depth"]
    data: dict[str, Any] = {
        "name": name,
        "activation": activation,
        "weight": weight,
        "max_k": values["max_k"],
        "array": array,
        "pipeline": {"pe": values["pe"]},
        "protect": {"datapath": values["datapath"]},
    }
    if values["accumulator"] != "exact":
        # Narrow enough to overflow often, in a format that the operands allow.
        exact = SystolicConfig.model_validate(data)
        width = exact.product.width + 2
        data["accumulator"] = f"{'' if exact.product.signed else 'u'}int{width}"
        data["overflow"] = values["accumulator"]
    return SystolicConfig.model_validate(data)


def legal(point: list[Any]) -> bool:
    values = dict(zip(AXES, point, strict=False))
    ternary = "ternary" in values.get("operands", ())
    sums_have_residues = values.get("accumulator", "exact") == "exact" and not ternary
    return values.get("datapath") != "residue" or sums_have_residues


COVERING = Covering("cover", AXES, configuration, every=90, legal=legal)


def sized(rows: int, cols: int, dataflow: str) -> SystolicConfig:
    return SystolicConfig.model_validate(
        {
            "name": f"sized_{rows}x{cols}",
            "array": {"rows": rows, "cols": cols, "dataflow": dataflow},
        }
    )


OUTPUT = {"array": {"rows": 4, "cols": 5}}
STATIONARY = {"dataflow": "weight_stationary", "accumulator_depth": 8}
WEIGHT = {"array": {"rows": 4, "cols": 5, **STATIONARY}}
SINGLE = {"array": {"rows": 1, "cols": 5, **STATIONARY}}
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


def at_the_top(name: str, logic: str, case: str, message: str) -> Mutation:
    """Return a mutation of the top module: `logic` between the core and its ports."""
    return Mutation(
        name,
        "",
        r"(?s)\.out__valid\(m_axis_out_tvalid\)(.*?\);)",
        rf".out__valid(raised)\1 wire raised; {logic}",
        OUTPUT,
        (case,),
        message,
    )


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
    Mutation("tvalid falls", "buffer_161", r"else if \(_01_\) o_valid", "else o_valid",
             OUTPUT, ("stalls_5", "stalls_8"), "m_axis_out: tvalid fell before tready"),
    Mutation("beat changes while it waits", "buffer_161", r"if \((\w+)\) o_data <=",
             "o_data <=", OUTPUT, ("stalls_5", "stalls_8"),
             "m_axis_out: a waiting beat changed from 0x"),
    Mutation("tlast of an idle port counts", "",
             r"(?s)\.act__payload\(\{ s_axis_act_tlast,(.*?\);\n)",
             r".act__payload({ s_axis_act_tlast ^ rumour,\1 reg rumour = 0;"
             " always @(posedge aclk) rumour <= s_axis_act_tlast & ~s_axis_act_tvalid;",
             OUTPUT, ("stalls_1", "stalls_2"), "mismatch|no progress"),
    Mutation("tlast missing", "", r"(assign m_axis_out_tlast =) ", r"\1 1'b0 & ", OUTPUT,
             ("shapes_7",), "tlast wrong at result beat"),
    Mutation("slower than the model", "core", r"assign bus_free = draining <= 1'h1",
             "assign bus_free = draining == 1'h0", OUTPUT, ("back_to_back_full_rate",),
             r"took \d+ cycles, the cycle model says \d+"),
]  # fmt: skip


DIGITS: list[dict[str, Any]] = [
    {"name": "digits_columns", "array": {"rows": 3, "cols": 4, "broadcast": 2, "encoding": "ent",
     "carry_spacing": 3}, "pipeline": {"pe": 1}},
    {"name": "digits_rows", "array": {"rows": 18, "cols": 2, "carry_spacing": 1}, "weight": "uint4",
     "accumulator": "int14", "pipeline": {"final_adder": 3}},
    {"name": "digits_unsigned", "array": {"rows": 2, "cols": 3}, "activation": "uint5",
     "weight": "uint16", "pipeline": {"pe": 2}},
    {"name": "digits_steps", "array": {"rows": 3, "cols": 2}, "pipeline": {"final_adder": 1}},
]  # fmt: skip
"""Processing elements that multiply by digits."""


def steady(rows: int, cols: int, dataflow: str) -> Steady:
    """Return 64 tiles of K = 256 back to back."""
    config = sized(rows, cols, dataflow)
    if dataflow == "output_stationary":
        return Steady(config, (8 * rows, 256, 8 * cols))
    # 256 rows of results accumulate over K = 256 for every tile of columns.
    m, k, n = 256, 256 // rows * rows, cols * max(1, 64 * rows // 256)
    return Steady(config, (n, k, m) if dataflow == "input_stationary" else (m, k, n))


CONTRACT = Contract(
    "systolic",
    "systolic",
    small=(sized(4, 5, "output_stationary"),),
    covering=COVERING,
    regressions=(
        Regressions(
            [
                SystolicConfig.model_validate(
                    {**values, "array": {**values["array"], "pe": "carry_save"}}
                )
                for values in DIGITS
            ]
        ),
    ),
    shipped=("systolic*.yaml",),
    shipped_every=9,
    mutations=(
        Mutations(SystolicConfig, STREAM_CASES, MUTATIONS, every=27),
        Mutations(SystolicConfig, (), RULES),
    ),
    steady=tuple(
        steady(rows, cols, dataflow)
        for dataflow in AXES["dataflow"]
        for rows, cols in ((8, 8), (16, 16), (5, 7), (1, 1))
    ),
    refused=(
        (
            "array: {pe: carry_save, dataflow: weight_stationary}",
            "array.pe: carry_save needs dataflow",
        ),
        ("array: {encoding: ent}", "array.encoding: a mac does not multiply by digits"),
        ("array: {pe: same_weight}", f"array.pe: must be {either(list(PES))}, not 'same_weight'"),
        ("pipeline: {final_adder: 1}", "pipeline.final_adder: must be 0 with array.pe mac"),
    ),
)


@pytest.mark.slow
def test_other_drivers_of_streams(tmp_path: Path) -> None:
    """The bus models of cocotbext-axi understand a core as ours do."""
    config = sized(4, 5, "output_stationary")
    plan = {"seed": 4, "sizes": [(9, 20, 13), (1, 33, 7), (17, 5, 40)], "pauses": [0, 0.5]}
    built = compile_design(design_of(config))
    outcomes = simulate(config, built, "sim_tests.simulation.cocotb_axi_stream", plan, tmp_path)
    assert_passed(outcomes)
    assert len(outcomes) == 2
