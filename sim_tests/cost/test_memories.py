# SPDX-License-Identifier: Apache-2.0
"""Memories in the cost model: macros, DRAM, and what engines do with them."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

import cost_model.memories.macros
import cost_model.memories.memories
from cost_model.estimate.estimate import estimate
from cost_model.estimate.technology import technology
from cost_model.memories.macros import Fit, composed, fits, library
from cost_model.memories.memories import RATES, Made, energy_mj
from cost_model.netlist.components import components
from cost_model.netlist.memories import MemoryUse, memories_of
from flows.build.build import Build
from flows.build.load import parse_config
from hwgen.cli import main
from hwgen.core.memories import HOLDS, Ram, Use, ram_of
from hwgen.core.params.off_chip import OffChip
from hwgen.core.registry import core_of
from hwgen.families.gemm_stream.core import GemmStreamCore
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.families.gemm_stream.schedule import Plan
from hwgen.technologies import technologies
from hwgen.technologies.model import Memories
from hwgen.technologies.off_chip import memory_types
from sim_tests.support.designs import design_of, estimate_of

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


WITH_MACROS = [name for name in technologies() if library(name)]

# What fits of the published macros gave elsewhere: coefficients, and in per cent the largest error
# and the root mean square.
FITS: list[tuple[str, str, dict[str, float], float, float]] = [
    ("nangate45", "area_um2", {"bits": 0.539, "width": 5.65, "words": 1.69}, 21, 11),
    ("nangate45", "leakage_nw", {"bits": 22.5, "width": 847, "words": 200}, 24, 15),
    ("nangate45", "clk_to_q_ns", {"1": 0.153, "sqrt(bits)": 0.000905}, 8, 5),
    ("nangate45", "min_period_ns", {"1": 0.125, "sqrt(bits)": 0.000856}, 14, 5),
    ("ihp-sg13g2", "area_um2", {"bits": 3.133, "width": 631, "words": 14.8}, 15, 6),
]


def published(name: str) -> Memories:
    result = library(name)
    assert result is not None
    return result


def single_port_fits(name: str) -> Mapping[str, Fit]:
    """Return the closed forms of the macros of a technology that have one port."""
    return fits([macro for macro in published(name).macros if macro.ports == "1rw"])


@pytest.mark.parametrize(("name", "metric", "terms", "worst", "rms"), FITS)
def test_closed_forms_are_those_of_the_published_macros(
    name: str, metric: str, terms: dict[str, float], worst: float, rms: float
) -> None:
    result = single_port_fits(name)[metric]
    assert result.terms.keys() == terms.keys()
    for term, value in terms.items():
        assert result.terms[term] == pytest.approx(value, rel=0.01)
    assert 100 * result.worst == pytest.approx(worst, abs=0.6)
    assert 100 * result.rms == pytest.approx(rms, abs=0.6)


def test_energies_are_no_further_off_than_documented() -> None:
    for name, worst, rms in (("nangate45", 0.25, 0.14), ("ihp-sg13g2", 0.11, 0.05)):
        for metric in ("read_pj", "write_pj"):
            result = single_port_fits(name)[metric]
            assert result.worst < worst
            assert result.rms < rms


def test_energies_of_asap7_are_those_of_45_nm_carried_down() -> None:
    """By the ratios that its data file states, of the closed forms of nangate45's macros."""
    memories, forms = published("asap7"), single_port_fits("nangate45")
    source = memories.energy_source
    assert source is not None
    energy, leakage = (float(ratio) for ratio in re.findall(r" x (0\.\d+)", source))
    # CACTI's ratio of write energies at 22 and 45 nm, and the root below.
    assert energy == pytest.approx(0.2536 * math.sqrt(7 / 22), abs=5e-4)
    stored = {
        name: technology(name).structure["costs"]["leakage_nw"]["register_bit"]
        for name in ("asap7", "nangate45")
    }
    assert leakage == pytest.approx(stored["asap7"] / stored["nangate45"], rel=5e-3)
    for macro in memories.macros:
        n, w = macro.words, macro.width
        accessed = energy * forms["read_pj"].of(n, w)
        assert macro.read_pj == macro.write_pj == pytest.approx(accessed, abs=6e-4)
        assert macro.leakage_nw is not None
        assert macro.leakage_nw == pytest.approx(leakage * forms["leakage_nw"].of(n, w), rel=5e-3)
        # Within the factor is a bit that leaks as much as a flip-flop, which has more transistors.
        assert memories.energy_factor is not None
        assert stored["asap7"] < memories.energy_factor * macro.leakage_nw / (n * w)


def test_the_factor_of_energies_covers_what_they_were_checked_against() -> None:
    """Scaling equations of CMOS, and what the cells of both libraries take."""
    memories = published("asap7")
    assert memories.energy_source is not None
    assert memories.energy_factor is not None
    ratio = float(re.findall(r" x (0\.\d+)", memories.energy_source)[0])

    def factor(volt: float, squared: float, linear: float, constant: float) -> float:
        return squared * volt**2 + linear * volt + constant

    # Stillmaker and Baas (2017), table 5: from 45 nm at 1.0 V to 7 nm at 0.7 V.
    fast = factor(0.7, 0.1776, -0.09097, 0.02447) / factor(1.0, 1.018, -0.3107, 0.1539)
    frugal = factor(0.7, 0.09365, -0.03409, 0.02043) / factor(1.0, 1.103, -0.362, 0.2767)
    assert fast == pytest.approx(0.0555, abs=1e-4)
    assert frugal == pytest.approx(0.0417, abs=1e-4)
    small, large = (
        technology(name).structure["costs"]["energy_fj"] for name in ("asap7", "nangate45")
    )
    kinds = ("register_bit", "enable_bit", "read_bit", "mux_bit")
    for other in (fast, frugal, *(small[kind] / large[kind] for kind in kinds)):
        assert 1 / memories.energy_factor < other / ratio < memories.energy_factor


def test_power_is_as_uncertain_as_the_energies_of_its_macros() -> None:
    config = parse_config("name: a\nfamily: ternary_lut\n")
    result = estimate_of(config, "asap7")
    logic = estimate_of(config, "asap7", made_of="registers")["uncertainty"]["power_w"]
    factor = published("asap7").energy_factor
    assert factor is not None
    (memory,) = result["memories"]
    clock = min(result["clock_mhz"], result["metrics"]["fmax_mhz"])
    macro = {m.name: m for m in published("asap7").macros}[memory["macro"]]
    assert macro.leakage_nw is not None
    own = memory["macros"] * macro.leakage_nw
    own += (memory["read_pj"] + memory["write_pj"]) * 1e3 * clock
    share = own * 1e-9 / result["metrics"]["power_w"]
    within = result["uncertainty"]["power_w"]
    assert share * (factor - 1) < within < share * (factor - 1) + 2 * logic
    assert result["certainty"]["power_w"] == {"basis": "modelled", "within": within}
    assert result["uncertainty"]["area_mm2"] is None
    assert any("may be off by a factor of 4 either way" in note for note in result["notes"])


def test_energy_of_an_access_is_that_of_one() -> None:
    """Of nangate45 one clock edge, of ihp-sg13g2 a read alone."""
    by_name = {m.name: m for name in WITH_MACROS for m in published(name).macros}
    fake, real = by_name["fakeram45_1024x32"], by_name["RM_IHPSG13_1P_1024x64_c2_bm_bist"]
    assert fake.read_pj == fake.write_pj == 3.566
    assert (real.read_pj, real.write_pj, real.write_through_pj) == (91.8, 110.9, 118.1)
    assert real.leakage_nw == pytest.approx(0.01209 * 65536, rel=1e-3)


def test_areas_follow_the_sides_of_the_layouts() -> None:
    for macro in published("ihp-sg13g2").macros:
        n, w = macro.words, macro.width
        if macro.ports == "2rw":
            sides = (54.17 + 0.32344 * n, (137.07 if n <= 256 else 119.73) + 17.68 * w)
        elif "_c4" in macro.name:
            sides = (618.3, 1520.16)
        elif "_c3" in macro.name:
            sides = (37.82 + 0.14172 * n, 56.96 + 22.48 * w)
        else:
            sides = (46.22 + 0.28344 * n, 56.96 + 11.24 * w + (8.16 if w == 64 else 0))
        assert macro.area_um2 == pytest.approx(sides[0] * sides[1], rel=2e-4)
    height = {256: 9.612, 512: 16.0, 1024: 30.348}
    for macro in published("asap7").macros:
        exact = height[macro.words] * (1.08 * macro.width + 8.64)
        assert macro.area_um2 == pytest.approx(exact, abs=0.06)


@pytest.mark.parametrize("name", WITH_MACROS)
def test_memories_of_any_size_are_made_of_macros(name: str) -> None:
    halves = Ram(4096, 128, halves=True)
    for ram in (Ram(64, 800), Ram(3, 1), Ram(5000, 77), halves, Ram(6, 9, halves=True)):
        made = composed(ram, published(name))
        assert made is not None
        assert made.wide * made.macro.width >= ram.bits
        words = made.deep * made.macro.words
        assert words * (2 if made.arrangement == "halves" else 1) >= ram.words
        assert made.groups == (1 if made.arrangement == "ports" else 2)
        assert made.area_um2 == pytest.approx(made.count * made.macro.area_um2)
        assert (made.macro.ports == "1rw") == (made.arrangement != "ports")
        # One bit of an address is the half only if halves are powers of two.
        assert made.arrangement != "halves" or ram == halves
    assert composed(Ram(64, 8, asynchronous=True), published(name)) is None
    assert composed(Ram(64, 8, reads=2), published(name)) is None


def test_logic_around_macros_is_counted() -> None:
    made = composed(Ram(64, 800), published("nangate45"))
    assert made is not None
    assert (made.macro.name, made.count, made.arrangement) == ("fakeram45_64x32", 50, "copies")
    glue, held = made.glue(stable=False), made.glue(stable=True)
    # One of two copies has the latest value of each of 64 words, and one of them was read last.
    assert glue["register_bit"] == 64 + 1
    assert glue["read_bit"] == 63
    assert glue["mux_bit"] == 800 + 2 * 6
    assert held["register_bit"] == 64 + 1 + 801
    ports = composed(Ram(64, 64), published("ihp-sg13g2"))
    assert ports is not None
    assert ports.glue(stable=True) == (
        {} if ports.arrangement == "ports" else ports.glue(stable=False)
    )


def test_memories_without_data_have_no_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert library("ecp5") is None
    assert memory_types()["lpddr5"].energy_pj_per_bit is None
    known = published("asap7")
    silent = known.model_copy(
        update={
            "no_energy": "none is published",
            "energy_source": None,
            "energy_factor": None,
            "macros": tuple(
                macro.model_copy(update={"read_pj": None, "write_pj": None, "leakage_nw": None})
                for macro in known.macros
            ),
        }
    )
    for module in (cost_model.memories.macros, cost_model.memories.memories):
        monkeypatch.setattr(module, "library", lambda _: silent)
    result = estimate_of(parse_config("name: a\nfamily: ternary_lut\n"), "asap7")
    (memory,) = result["memories"]
    assert memory["form"] == "macros"
    assert memory["read_pj"] is None
    assert result["metrics"]["area_mm2"] > 0
    assert result["metrics"]["power_w"] is None
    assert result["uncertainty"]["power_w"] is None
    silent_note, no_margin = result["notes"]
    assert silent_note == (
        "energies of the SRAM macros of asap7 are not known, nor is power: none is published"
    )
    assert no_margin.startswith("no ± is stated for area and power: the design contains SRAM")


def test_energies_that_are_modelled_have_a_factor() -> None:
    given = published("asap7").model_dump()
    for field in ("energy_source", "energy_factor"):
        with pytest.raises(ValueError, match="needed with energy_source, and only with it"):
            Memories.model_validate(given | {field: None})


def test_energy_is_the_sum_of_its_parts() -> None:
    use = MemoryUse("ram_1r1w_64x8", 1, {"b": 1}, stable=True)
    made = composed(use.ram, published("nangate45"))
    cost = Made(
        use, made, read_pj=2.0, write_pj=1.0, area_um2=1.0, leakage_nw=1e6, energy_fj=3500.0,
        glue={},
    )  # fmt: skip
    assert cost.clock_pj == pytest.approx(0.5)
    result = energy_mj([cost], Use(1000, {"b": 10**9}, {"b": 10**8}), 10**6, 100.0, 4.0)
    assert result["off_chip"] == pytest.approx(1000 * 8 * 4e-9)
    # 0.9e9 reads of 2 pJ, 0.1e9 writes of 1 pJ, 1e6 cycles of 0.5 pJ, 10 ms of 1 mW
    assert result["on_chip"] == pytest.approx(1.9 + 0.5e-3 + 0.01)


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
    core = GemmStreamCore(config)
    result = core.memory_use([core.gemm(*size)])
    assert result.moved_bytes == plan.traffic.total
    assert result.accesses["results"] == expected["results"]
    shapes = {buffer.name: buffer for buffer in GemmStreamCore(config).buffers()}
    for name, moved, bytes_, width in (
        ("activations", plan.traffic.activations, config.activation_bytes, config.act_rows),
        ("weights", plan.traffic.weights, config.weight_bytes, config.wgt_rows),
    ):
        written = result.accesses[name] - expected[name]
        bits = moved // bytes_ * width.item_bits
        assert (written - 1) * shapes[name].width < bits <= written * shapes[name].width
    twice = core.memory_use([core.gemm(*size), core.gemm(*size)])
    assert twice.accesses["weights"] == 2 * result.accesses["weights"]


def test_buffers_hold_what_the_configuration_says() -> None:
    config = engine(ENGINES[0])
    for buffer in GemmStreamCore(config).buffers()[:3]:
        assert 0.9 < buffer.bits / 8192 <= 1.0


def test_estimates_of_engines_say_which_memories() -> None:
    config = engine(ENGINES[0])
    sizes = {"w": [(64, 64, 64)]}
    macros = estimate_of(config, "nangate45", workloads=sizes, off_chip=OffChip(kind="hbm2"))
    registers = estimate_of(config, "nangate45", workloads=sizes, made_of="registers")
    assert "fakeram45" in macros["memories_source"]
    assert registers["memories_source"] is None
    assert {each["form"] for each in registers["memories"]} == {"registers"}
    assert macros["memory"]["area_mm2"] < registers["memory"]["area_mm2"]
    moved = Plan(config, 64, 64, 64).traffic.total
    use_of = macros["memory"]["workloads"]["w"]
    assert use_of["moved_bytes"] == moved
    assert use_of["off_chip_mj"] == pytest.approx(moved * 8 * 3.92e-9)
    assert macros["metrics"]["memory_energy_mj(w)"] == pytest.approx(
        use_of["off_chip_mj"] + use_of["on_chip_mj"]
    )
    unknown = estimate_of(config, "nangate45", workloads=sizes, off_chip=OffChip(kind="lpddr5"))
    assert unknown["metrics"]["memory_energy_mj(w)"] is None
    given = estimate_of(config, "nangate45", workloads=sizes, off_chip=OffChip(pj_per_bit=5.0))
    assert given["memory"]["off_chip_pj_per_bit"] == 5.0
    assert given["roofline"] is None  # an energy, but no bandwidth
    assert registers["metrics"]["memory_energy_mj(w)"] is None  # no memory is named
    assert estimate(core_of(parse_config("name: a\nfamily: systolic\n")))["memory"] is None


@pytest.mark.parametrize("text", ENGINES)
def test_buffers_are_memories_of_the_hardware(text: str) -> None:
    config = engine(text)
    uses = memories_of(design_of(config).netlist)
    assert {name for use in uses for name in use.holds} <= HOLDS.keys()
    for buffer in GemmStreamCore(config).buffers():
        (result,) = (use for use in uses if buffer.name in use.holds)
        assert result.holds[buffer.name] == buffer.memories
        assert (result.ram.words, result.ram.bits) == (buffer.words, buffer.width)


def test_memories_are_modules_of_their_own() -> None:
    for text in (*ENGINES, "name: a\nfamily: ternary_lut\n"):
        for name, module in design_of(parse_config(text)).netlist.modules.items():
            ram = ram_of(name)
            if ram is None:
                assert not module.memories
                continue
            (memory,) = module.memories
            assert (memory.depth, memory.width) == (ram.words, ram.bits)
            assert [read.clocked for read in memory.reads] == [not ram.asynchronous] * ram.reads
            assert ram.module == name
            assert not module.cells
            assert not module.instances


def test_the_manifest_lists_memories() -> None:
    config = parse_config("name: core\nfamily: ternary_lut\narray: {accumulator_depth: 8}\n")
    text = Build(design_of(config)).files
    (entry,) = json.loads(text["core.json"])["memories"]
    assert f"module {entry['module']}(" in text["core.v"]
    assert entry["ports"] == "1r1w"
    assert (entry["words"], entry["read_latency"], entry["instances"]) == (8, 1, 1)
    assert entry["holds"] == [HOLDS["rows"]]
    plain = Build(design_of(parse_config("name: core\nfamily: systolic\n"))).files
    assert json.loads(plain["core.json"])["memories"] == []


def test_small_memories_stay_registers() -> None:
    text = "name: core\nfamily: ternary_lut\narray: {accumulator_depth: 8}\n"
    config = parse_config(text)
    (ram,) = (each.ram for each in memories_of(design_of(config).netlist))
    for below, form in ((ram.capacity, "macros"), (ram.capacity + 1, "registers")):
        other = parse_config(f"{text}memories: {{registers_below: {below}}}\n")
        (memory,) = estimate_of(other, "nangate45")["memories"]
        assert memory["form"] == form
        assert other.digest != config.digest
    plain = parse_config(f"{text}memories: {{registers_below: 2048}}\n")
    assert plain.digest == config.digest


def test_memories_of_macros_are_counted_once() -> None:
    config = engine(ENGINES[0])
    sizes = {"w": [(64, 64, 64)]}
    result = estimate_of(config, "nangate45", 100.0, sizes)
    plain = estimate_of(config, "nangate45", 100.0, sizes, made_of="registers")
    after, before = (
        {part["part"]: part for part in entry["breakdown"]} for entry in (result, plain)
    )
    made = {each["module"]: each for each in result["memories"] if each["form"] == "macros"}
    held = {name for each in made.values() for name in each["holds"]}
    assert {"activations", "weights", "results"} <= held
    assert after.keys() == before.keys()
    for name, memory in made.items():
        assert after[name]["area_um2"] == pytest.approx(memory["area_um2"], rel=1e-12)
        bits = memory["count"] * memory["words"] * memory["bits"]
        assert after[name]["components"]["sram_bit"] == bits
    for name in after.keys() - made.keys():
        # What drives the bits of registers is no longer there; the rest is as it was.
        fewer, more = after[name]["components"], before[name]["components"]
        assert {k: n for k, n in fewer.items() if k != "buffer"} == {
            k: n for k, n in more.items() if k != "buffer"
        }
        assert fewer.get("buffer", 0) <= more.get("buffer", 0)
    metrics, clock = result["metrics"], min(100.0, result["metrics"]["fmax_mhz"])
    parts = result["breakdown"]
    assert metrics["area_mm2"] == pytest.approx(sum(p["area_um2"] for p in parts) * 1e-6)
    leakage, energy = (sum(p[key] for p in parts) for key in ("leakage_nw", "energy_fj"))
    assert metrics["power_w"] == pytest.approx((leakage + energy * clock) * 1e-9)
    # A workload accesses what it accesses.
    core = GemmStreamCore(config)
    told = core.memory_use([core.gemm(*size) for size in sizes["w"]])
    full = words = 0.0
    for memory in made.values():
        for name, count in memory["holds"].items():
            reads, writes = RATES.get(name, (1.0, 1.0))
            if name in {buffer.name for buffer in GemmStreamCore(config).buffers()}:
                full += count * (reads * memory["read_pj"] + writes * memory["write_pj"])
                read = told.accesses.get(name, 0) - told.writes.get(name, 0)
                words += read * memory["read_pj"]
                words += told.writes.get(name, 0) * memory["write_pj"]
    assert full > 0
    assert metrics["energy_mj(w)"] == pytest.approx(
        metrics["latency_ms(w)"] * (leakage + (energy - full * 1e3) * clock) * 1e-9 + words * 1e-9
    )
    # How far off macros are, nobody has measured.
    assert result["uncertainty"]["area_mm2"] is None
    assert plain["uncertainty"]["area_mm2"] is not None


def test_macros_are_in_the_paths() -> None:
    config = parse_config("name: core\nfamily: ternary_lut\n")
    result = [
        estimate_of(config, "ihp-sg13g2", 200.0, made_of=form) for form in ("macros", "registers")
    ]
    slow, fast = (entry["metrics"]["fmax_mhz"] for entry in result)
    assert slow < fast
    path = result[0]["limiting_path"]
    assert sum(stage["ns_by_step"].get("macro", 0.0) for stage in path["stages"]) >= 3.0
    assert "rows" in path["start"]


def test_memories_that_registers_make_smaller_stay_registers() -> None:
    """The smallest macro of sky130hd has 256 words."""
    config = parse_config("name: core\nfamily: ternary_lut\n")
    result = estimate_of(config, "sky130hd", 50.0)
    assert [memory["form"] for memory in result["memories"]] == ["registers"]


def test_a_buffer_that_is_not_there_is_refused() -> None:
    design = design_of(engine(ENGINES[0])).netlist
    with pytest.raises(ValueError, match="no module nowhere with a memory"):
        components(design, {"nowhere"})


def test_the_command_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "engine.yaml"
    path.write_text(ENGINES[0])
    command = ["estimate", "--config", str(path), "--gemm", "8,8,8"]
    assert main([*command, "--memory", "7.5"]) == 0
    out = capsys.readouterr().out
    assert "fakeram45" in out
    assert "small memories of registers" in out
    assert "no ± is stated for area and power: the design contains SRAM macros" in out
    assert "7.5 pJ a bit" in out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["memory"]["off_chip"] is None
    assert main([*command, "--memories", "registers"]) == 0
    out = capsys.readouterr().out
    assert "fakeram45" not in out
    assert "no ± is stated" not in out
    assert main([*command, "--memories", "sram"]) == 2
    assert "'macros', 'registers'" in capsys.readouterr().err
    assert main([*command, "--memory", "hbm9"]) == 2
    assert (
        "hbm3, sdr or sdr_double, or pJ per bit, 0 or more, not 'hbm9'" in capsys.readouterr().err
    )
