# SPDX-License-Identifier: Apache-2.0
"""Bills of components against netlists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cost_model.closed_forms.closed_forms import view_of
from cost_model.closed_forms.component_counts import COMPONENTS
from cost_model.netlist.fabric.fabric import Fabric, delays, fabric
from flows.bench.cost_points import compare
from flows.calibration.parts import parts_of, separate_modules
from flows.calibration.points import config_of, core
from flows.tools import process
from flows.tools.toolchain import require
from sim_tests.support.designs import design_of

BUILT = [
    core("systolic", array__rows=3, array__cols=5, array__broadcast=2, pipeline__pe=1),
    core("systolic", array__rows=18, array__cols=2, activation="int4", weight="uint6"),
    core("systolic", array__rows=1, array__cols=2, array__dataflow="weight_stationary"),
    core("systolic", array__rows=3, array__cols=4, array__dataflow="input_stationary",
         array__accumulator_depth=5, array__broadcast=2, pipeline__pe=2),
    core("ternary_lut", array__tables=5, array__fetch_ports=2, array__accumulator_depth=1,
         pipeline__reduce=3, pipeline__table=2, array__group_size=3),
    core("ternary_lut", array__tables=3, array__fetch_ports=4, array__accumulator_depth=5,
         array__clusters=2, weight="int3", pipeline__reduce=1),
    core("ternary_lut", array__tables=5, array__fetch_ports=2, array__reduction="adders",
         array__fetch="binary", activation="uint6", pipeline__reduce=2),
    core("ternary_lut", array__tables=4, array__fetch_ports=2, array__method="select",
         array__group_size=1, accumulator="int16", overflow="saturate"),
    core("systolic", array__rows=3, array__cols=5, array__broadcast=2, array__pe="carry_save"),
    core("systolic", array__rows=18, array__cols=2, array__pe="carry_save", activation="uint6",
         weight="uint8", array__carry_spacing=4, array__encoding="ent", pipeline__pe=2),
    core("broadcast_2d", array__rows=3, array__cols=2, accumulator="int24", overflow="saturate",
         max_k=1 << 24, pipeline__pe=1),
    core("systolic", array__rows=3, array__cols=5, array__pe="carry_save", pipeline__final_adder=1),
    core("systolic", array__rows=2, array__cols=3, array__broadcast=2, array__pe="carry_save",
         array__carry_spacing=3, pipeline__pe=1, pipeline__final_adder=3),
    core("broadcast_2d", array__rows=1, array__cols=2, array__pe="carry_save"),
    core("broadcast_2d", array__rows=2, array__cols=2, array__pe="carry_save",
         array__carry_spacing=1, pipeline__final_adder=1),
    core("broadcast_2d", array__rows=3, array__cols=2, array__pe="carry_save", activation="uint8",
         array__encoding="ent", pipeline__pe=1),
    core("adder_tree", array__cols=2, array__depth=6, activation="int5", weight="uint6",
         pipeline__pe=2),
    core("adder_tree", array__cols=2, array__depth=5, array__pe="same_weight", activation="uint6",
         weight="uint5", array__carry_spacing=3, pipeline__pe=1),
    core("cube", array__rows=2, array__cols=2, array__depth=9, array__pe="carry_save",
         array__encoding="ent", pipeline__pe=2),
    core("cube", array__rows=2, array__cols=2, array__depth=3, array__pe="same_weight"),
    core("cube", array__rows=2, array__cols=2, array__depth=3, array__pe="same_weight",
         pipeline__final_adder=2),
    core("broadcast_2d", array__rows=2, array__cols=3, array__pe="serial_column"),
    core("broadcast_2d", array__rows=1, array__cols=2, array__pe="serial_digit", array__queue=1,
         activation="uint6", weight="uint5", array__encoding="ent", pipeline__pe=1),
    core("cube", array__rows=2, array__cols=2, array__depth=12, array__pe="serial_group",
         array__carry_spacing=1, pipeline__pe=2),
    core("adder_tree", array__cols=1, array__depth=8, array__pe="serial_group", array__queue=4,
         activation="int2", weight="uint4", array__encoding="ent", pipeline__pe=1,
         post__outputs=["int8"]),
    core("broadcast_2d", array__rows=2, array__cols=3, accumulator="int48",
         post__outputs=["int8"]),
    core("systolic", array__rows=2, array__cols=2, accumulator="int24",
         post__outputs=["int8", "raw"], post__activations=["none", "relu", "leaky"],
         post__roundings=["half_even", "floor"]),
    core("systolic", array__rows=2, array__cols=2, array__dataflow="input_stationary",
         array__accumulator_depth=1, post__outputs=["int16", "int4"], post__roundings=["floor"]),
]  # fmt: skip


@pytest.mark.parametrize("values", BUILT, ids=range(len(BUILT)))
@pytest.mark.rotate(4)
def test_component_counts_are_those_of_netlists(values: dict[str, Any], tmp_path: Path) -> None:
    config = config_of(values)
    total: dict[str, float] = {}
    view = view_of(config)
    for part in parts_of(config):
        for component, count in part.counts(view).items():
            assert component in COMPONENTS
            total[component] = total.get(component, 0.0) + float(count)
    assert netlist(config, tmp_path) == (
        total["flip_flop"],
        total.get("full_adder", 0),
        total.get("memory_bit", 0),
    )


FPGA_BUILT = [
    core("systolic", array__rows=2, array__cols=3, accumulator="int24", pipeline__pe=1),
    core("systolic", array__rows=3, array__cols=3, array__dataflow="weight_stationary",
         array__accumulator_depth=40, array__broadcast=2),
    core("ternary_lut", array__tables=3, array__fetch_ports=3, array__accumulator_depth=5,
         array__fetch="binary", array__reduction="adders", pipeline__reduce=2),
]  # fmt: skip


XC7_BUILT = [
    core("systolic", array__rows=6, array__cols=2, activation="int5", pipeline__pe=1),
    core("systolic", array__rows=3, array__cols=5, array__dataflow="weight_stationary",
         array__accumulator_depth=40, array__broadcast=2),
]  # fmt: skip
"""With shift registers, and registers and adders in DSP blocks."""


@pytest.mark.parametrize(
    ("family", "values"),
    [*(("ecp5", values) for values in FPGA_BUILT), *(("xc7", values) for values in XC7_BUILT)],
    ids=str,
)
@pytest.mark.rotate(2)
def test_estimates_of_an_fpga_are_what_is_mapped(family: str, values: dict[str, Any]) -> None:
    point = compare(config_of(values), family, closed_forms=True)
    for metric in ("flip_flops", "carries", "dsps", "brams", "lutrams"):
        assert point.estimated[metric] == point.measured[metric], metric
    assert point.error("luts") == pytest.approx(0, abs=0.05)


def rules_of(family: str) -> Fabric:
    result = fabric(family)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("width", "depth", "clocked", "component", "count"),
    [
        (75, 16, False, "lutram", 19),
        (75, 33, True, "lutram", 57),
        (75, 64, True, "bram", 3),
        (32, 1025, True, "bram", 3),
        (75, 2049, True, "bram", 12),
    ],
)
def test_memories_of_an_fpga(
    width: int, depth: int, clocked: bool, component: str, count: int
) -> None:
    result = rules_of("ecp5").memory(width, depth, clocked=clocked)
    assert result[component] == count
    assert result["bram" if component == "lutram" else "lutram"] == 0


@pytest.mark.parametrize(
    ("width", "depth", "clocked", "component", "count"),
    [
        (75, 28, False, "lutram", 13),
        (75, 64, True, "lutram", 25),
        (20, 128, True, "lutram", 14),
        (24, 128, True, "bram", 1),
        (37, 1025, True, "bram", 4),
    ],
)
def test_memories_of_xc7(width: int, depth: int, clocked: bool, component: str, count: int) -> None:
    result = rules_of("xc7").memory(width, depth, clocked=clocked)
    assert result[component] == count
    assert result["bram" if component == "lutram" else "lutram"] == 0
    assert result["flip_flop"] == width * (clocked and component == "lutram")


@pytest.mark.parametrize(
    ("cycles", "registers", "shifts"),
    [(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 0, 1), (16, 0, 1), (17, 1, 1), (18, 0, 1), (32, 0, 1),
     (33, 1, 1), (34, 0, 2), (40, 0, 2), (49, 1, 2)],
)  # fmt: skip
def test_delays_of_xc7_are_shift_registers(cycles: int, registers: int, shifts: int) -> None:
    result = delays(rules_of("xc7"), cycles, 1)
    assert (result["flip_flop"], result["shift"]) == (registers, shifts)
    assert delays(None, cycles, 1) == {"flip_flop": cycles}


def test_a_fifo_of_ice40_may_be_a_block_memory() -> None:
    small = rules_of("ice40").memory(75, 4, clocked=False)
    assert small["memory_bit"] == small["flip_flop"] == 75 * 4
    assert small["bram"] == 0
    large = rules_of("ice40").memory(577, 6, clocked=False)
    assert (large["bram"], large["memory_bit"], large["flip_flop"]) == (37, 0, 575)


def netlist(config: Any, work: Path) -> tuple[int, int, int]:
    """Return the register bits, the full adders and the memory bits of a design.

    Registers that are constant or equal to others are removed as by synthesis, which does not look
    into or out of modules that repeat.
    """
    verilog, top = design_of(config).verilog, config.name
    alone = " ".join(f"{top}_{prefix}*" for prefix in separate_modules(config))
    script = f"""\
read_verilog design.v
hierarchy -top {top}
proc
setattr -mod -unset keep_hierarchy *_cluster
setattr -mod -set keep_hierarchy 1 *_full_adder {alone}
flatten
memory -nordff -nomap
opt -nodffe -nosdff
simplemap
opt -nodffe -nosdff
setattr -mod -unset keep_hierarchy {alone}
flatten
opt_clean -purge
write_json netlist.json
"""
    (work / "design.v").write_text(verilog, encoding="utf-8")
    (work / "script.ys").write_text(script, encoding="utf-8")
    process.run(require("yosys"), ["-q", "script.ys"], work, "yosys.log", 60)
    cells = json.loads((work / "netlist.json").read_text())["modules"][top]["cells"].values()
    registers = adders = bits = 0
    for cell in cells:
        component, parameters = cell["type"], cell.get("parameters", {})
        if component.startswith("$mem"):
            bits += int(parameters["WIDTH"], 2) * int(parameters["SIZE"], 2)
        registers += "DFF" in component
        adders += component.endswith("full_adder")
    return registers, adders, bits
