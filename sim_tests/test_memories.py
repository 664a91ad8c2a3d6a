# SPDX-License-Identifier: Apache-2.0
"""Memories in the cost model: macros, DRAM, and what engines do with them."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest

from cost_model.estimate import estimate
from cost_model.families.gemm_stream_memory import buffers, use
from cost_model.memories import Buffer, Use, buffer_costs, energy_mj, library, macro_form
from cost_model.structure.components import components
from cost_model.technology import technology
from flows.estimates import estimated
from flows.structures import structure_of
from hwgen.cli import main
from hwgen.config.load import parse_config
from hwgen.config.off_chip import OffChip
from hwgen.families.gemm_stream import GemmStreamConfig
from hwgen.schedules.gemm_stream import Plan
from hwgen.technologies import technologies
from hwgen.technologies.off_chip import memory_kinds

ENGINE = """\
name: engine
family: gemm_stream
compute: {family: %s, activation: int8, weight: %s, array: %s}
buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1}
memory: {data_width: 64}
"""
ENGINES = [
    ENGINE % ("systolic", "int8", "{rows: 4, cols: 3, dataflow: weight_stationary}"),
    ENGINE % ("systolic", "int4", "{rows: 2, cols: 4, dataflow: output_stationary}"),
    ENGINE % ("ternary_lut", "ternary", "{group_size: 2, tables: 4, fetch_ports: 4}"),
]


def engine(text: str) -> GemmStreamConfig:
    config = parse_config(text)
    assert isinstance(config, GemmStreamConfig)
    return config


@pytest.mark.parametrize("name", [name for name in technologies() if library(name)])
def test_closed_forms_are_near_the_published_macros(name: str) -> None:
    form, published = macro_form(name), library(name)
    assert form is not None
    assert published is not None
    for macro in published.macros:
        found = form.macro(macro.words, macro.width)
        assert found.area_um2 == pytest.approx(macro.area_um2, rel=0.1)
        assert found.access_pj == pytest.approx(macro.access_pj, rel=0.25)
        assert found.leakage_nw == pytest.approx(macro.leakage_nw, rel=0.02)


@pytest.mark.parametrize("name", [name for name in technologies() if library(name)])
def test_large_memories_are_several_macros(name: str) -> None:
    form = macro_form(name)
    assert form is not None
    one = form.macro(form.words, form.width)
    deep, wide = form.macro(2 * form.words, form.width), form.macro(form.words, 3 * form.width)
    assert deep.area_um2 == pytest.approx(2 * one.area_um2)
    assert deep.access_pj == pytest.approx(one.access_pj)  # one of them is accessed
    assert wide.area_um2 == pytest.approx(3 * one.area_um2)
    assert wide.access_pj == pytest.approx(3 * one.access_pj)  # all of them are
    areas = [form.macro(64, width).area_um2 for width in (1, 2, 8, 63, 64, 65, 128)]
    assert areas == sorted(areas)


def test_unknown_memories_are_unknown() -> None:
    assert macro_form("sky130hd") is None
    buffer = Buffer("b", 1, 64, 8)
    for form, where in (("sram", "sky130hd"), ("flip_flops", "sky130hd")):
        (cost,) = buffer_costs([buffer], form, where, None)  # type: ignore[arg-type]
        assert math.isnan(cost["area_um2"])
    assert memory_kinds()["lpddr5"].energy_pj_per_bit is None


def test_flip_flops_cost_what_the_technology_says() -> None:
    nangate = technology("nangate45")
    (cost,) = buffer_costs([Buffer("b", 3, 64, 8)], "flip_flops", "nangate45", nangate)
    words = 3 * 64
    area, energy = (
        words * (8 * prices["memory_bit"] + prices["memory_word"])
        for prices in (nangate.costs["area_um2"], nangate.costs["energy_fj"])
    )
    assert cost["area_um2"] == pytest.approx(area)
    assert cost["clock_pj"] == pytest.approx(energy * 1e-3)


def test_energy_is_the_sum_of_its_parts() -> None:
    cost = {"buffer": "b", "access_pj": 2.0, "clock_pj": 0.5, "leakage_nw": 1e6}
    found = energy_mj([cost], Use(1000, {"b": 10**9}), 10**6, 100.0, 4.0)
    assert found["off_chip"] == pytest.approx(1000 * 8 * 4e-9)
    # 1e9 accesses of 2 pJ, 1e6 cycles of 0.5 pJ, 10 ms of 1 mW
    assert found["on_chip"] == pytest.approx(2.0 + 0.5e-3 + 0.01)


@pytest.mark.parametrize("text", ENGINES)
@pytest.mark.parametrize(
    "size", [(1, 1, 1), (7, 13, 5), (64, 64, 64), (33, 129, 65), (5, 700, 3)], ids=str
)
def test_accesses_are_those_of_all_steps(text: str, size: tuple[int, int, int]) -> None:
    config = engine(text)
    plan = Plan(config, *size)
    nest, expected = config.loop_nest, Counter[str]()
    for block in plan.steps():
        expected["activations"] += plan.beats(nest.act, block) * config.act_banks
        expected["weights"] += plan.beats(nest.wgt, block) * config.wgt_banks
        results = plan.beats(nest.out, block)
        expected["results"] += results + results * (not block.first) + results * block.last
    found = use(config, [size])
    assert found.moved_bytes == plan.traffic.total
    assert found.accesses["results"] == expected["results"]
    shapes = {buffer.name: buffer for buffer in buffers(config)}
    for name, moved, bytes_ in (
        ("activations", plan.traffic.activations, config.activation_bytes),
        ("weights", plan.traffic.weights, config.weight_bytes),
    ):
        written = found.accesses[name] - expected[name]
        width = config.weight_width if name == "weights" else config.activation.width
        assert (written - 1) * shapes[name].width < moved // bytes_ * width
        assert moved // bytes_ * width <= written * shapes[name].width
    twice = use(config, [size, size])
    assert twice.accesses["weights"] == 2 * found.accesses["weights"]


def test_buffers_hold_what_the_configuration_says() -> None:
    config = engine(ENGINES[0])
    for buffer in buffers(config)[:3]:
        assert 0.9 < buffer.bits / 8192 <= 1.0


def test_estimates_of_engines_say_which_memories() -> None:
    config = engine(ENGINES[0])
    sizes = {"w": [(64, 64, 64)]}
    sram = estimate(
        config, "nangate45", workloads=sizes, buffers="sram", behind=OffChip(kind="hbm2")
    )
    registers = estimate(config, "nangate45", workloads=sizes)
    assert sram["memory"]["form"] == "sram"
    assert "fakeram45" in sram["memory"]["form_source"]
    assert registers["memory"]["form"] == "flip_flops"
    assert sram["memory"]["area_mm2"] < registers["memory"]["area_mm2"]
    moved = Plan(config, 64, 64, 64).traffic.total
    use_of = sram["memory"]["workloads"]["w"]
    assert use_of["moved_bytes"] == moved
    assert use_of["off_chip_mj"] == pytest.approx(moved * 8 * 3.92e-9)
    assert sram["metrics"]["memory_energy_mj(w)"] == pytest.approx(
        use_of["off_chip_mj"] + use_of["on_chip_mj"]
    )
    unknown = estimate(config, "nangate45", workloads=sizes, behind=OffChip(kind="lpddr5"))
    assert unknown["metrics"]["memory_energy_mj(w)"] is None
    given = estimate(config, "nangate45", workloads=sizes, behind=OffChip(pj_per_bit=5.0))
    assert given["memory"]["off_chip_pj_per_bit"] == 5.0
    assert given["roofline"] is None  # an energy, but no bandwidth
    assert registers["metrics"]["memory_energy_mj(w)"] is None  # no memory is named
    assert estimate(parse_config("name: a\nfamily: systolic\n"))["memory"] is None


@pytest.mark.parametrize("text", ENGINES)
def test_buffers_are_memories_of_the_hardware(text: str) -> None:
    config = engine(text)
    design = structure_of(config)
    for buffer in buffers(config):
        memories = design.modules[buffer.module].memories
        assert sum(m.width * m.depth for m in memories) == buffer.bits
        assert {m.width for m in memories} == {buffer.width}


def test_memories_of_macros_are_counted_once() -> None:
    config = engine(ENGINES[0])
    sizes = {"w": [(64, 64, 64)]}
    found = estimated(config, "nangate45", 100.0, sizes, buffers="sram")
    plain = estimated(config, "nangate45", 100.0, sizes)
    after, before = (
        {part["part"]: part for part in entry["breakdown"]} for entry in (found, plain)
    )
    made = {f"{buffer.name}, SRAM" for buffer in buffers(config)}
    assert after.keys() == before.keys() | made
    for name in after.keys() - made:
        # Only what the bits of memories were, and what drives them, is no longer there.
        fewer, more = after[name]["components"], before[name]["components"]
        assert all(fewer.get(kind, 0) <= more[kind] for kind in more)
        if name not in {buffer.module for buffer in buffers(config)}:
            assert {k: n for k, n in fewer.items() if k != "buffer"} == {
                k: n for k, n in more.items() if k != "buffer"
            }
    for buffer, cost in zip(buffers(config), found["memory"]["buffers"], strict=True):
        part, module = after[f"{buffer.name}, SRAM"], buffer.module
        assert part["area_um2"] == pytest.approx(cost["area_um2"], rel=1e-12)
        assert part["leakage_nw"] == pytest.approx(cost["leakage_nw"], rel=1e-12)
        assert part["energy_fj"] == pytest.approx(1000 * buffer.memories * cost["access_pj"])
        bits = [part[module]["components"].get("register_bit", 0) for part in (before, after)]
        clocked = sum(
            memory.width for memory in structure_of(config).modules[module].memories
            for read in memory.reads if read.clocked
        )  # fmt: skip
        assert bits[0] - bits[1] == buffer.bits + clocked
    metrics, clock = found["metrics"], min(100.0, found["metrics"]["fmax_mhz"])
    parts = found["breakdown"]
    assert metrics["area_mm2"] == pytest.approx(sum(p["area_um2"] for p in parts) * 1e-6)
    leakage, energy = (sum(p[key] for p in parts) for key in ("leakage_nw", "energy_fj"))
    assert metrics["power_w"] == pytest.approx((leakage + energy * clock) * 1e-9)
    assert metrics["fmax_mhz"] == plain["metrics"]["fmax_mhz"]
    # A workload accesses what it accesses.
    logic = sum(p["energy_fj"] for p in parts if p["part"] not in made)
    accesses = use(config, sizes["w"]).accesses
    words = sum(accesses[c["buffer"]] * c["access_pj"] for c in found["memory"]["buffers"])
    assert metrics["energy_mj(w)"] == pytest.approx(
        metrics["latency_ms(w)"] * (leakage + logic * clock) * 1e-9 + words * 1e-9
    )
    # How far off macros are, nobody has measured.
    assert found["uncertainty"]["area_mm2"] is None
    assert plain["uncertainty"]["area_mm2"] is not None


def test_without_known_macros_buffers_stay_flip_flops() -> None:
    config = engine(ENGINES[0])
    found = estimated(config, "sky130hd", 100.0, buffers="sram")
    plain = estimated(config, "sky130hd", 100.0)
    assert found["breakdown"] == plain["breakdown"]
    assert found["metrics"] == plain["metrics"]
    (note,) = found["notes"]
    assert note.startswith("no SRAM macros of sky130hd are known: area and power are those of")


def test_a_buffer_that_is_not_there_is_refused() -> None:
    design = structure_of(engine(ENGINES[0]))
    with pytest.raises(ValueError, match="no module nowhere with a memory"):
        components(design, {"nowhere"})


def test_the_command_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "engine.yaml"
    path.write_text(ENGINES[0])
    command = ["estimate", "--config", str(path), "--gemm", "8,8,8"]
    assert main([*command, "--buffers", "sram", "--memory", "7.5"]) == 0
    out = capsys.readouterr().out
    assert "buffers, SRAM macros" in out
    assert "7.5 pJ a bit" in out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory"]["off_chip"] is None
    assert main([*command, "--memory", "hbm9"]) == 2
    assert "hbm2e or hbm3, or pJ per bit, 0 or more, not 'hbm9'" in capsys.readouterr().err
