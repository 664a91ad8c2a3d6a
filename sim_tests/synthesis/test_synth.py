# SPDX-License-Identifier: Apache-2.0
"""Synthesis for every kind of target, place and route, their commands and their cache."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.build.design import Design
from flows.build.load import load_config, parse_config
from flows.pnr import register_frame
from flows.pnr.devices import choose, options, placed, placer
from flows.pnr.pnr import bitstream, place_and_route, with_open_inputs
from flows.pnr.pnr import cached_results as recorded_runs
from flows.synthesis import fpga, levels
from flows.synthesis.outline import Outline, separate_modules
from flows.synthesis.synth import synthesize
from flows.tools import parallel, process
from flows.tools.cache import Archive, digest
from flows.tools.toolchain import Installation, forget, probe
from hwgen.cli import main
from hwgen.errors import CheckFailed, InputError
from hwgen.technologies import fpga_family, technology_names
from sim_tests.synthesis.tools import SYSTOLIC, require_tools

TERNARY = """\
name: tinylut
family: ternary_lut
activation: int4
max_k: 256
array: {tables: 2, fetch_ports: 2, accumulator_depth: 4}
"""
SOURCES = {"tiny": SYSTOLIC, "tinylut": TERNARY}


@pytest.fixture(scope="module", autouse=True)
def local_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Keep results of the whole module, and of nobody else, in one cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HWGEN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(SYSTOLIC)
    return path


# -- what is kept --------------------------------------------------------------------------------


def design(**modules: tuple[float, dict[str, int]]) -> Outline:
    gates = {name: own for name, (own, _) in modules.items()}
    inside = {name: children for name, (_, children) in modules.items()}
    return Outline("top", {}, gates, inside)


def test_repeated_modules_are_preserved() -> None:
    array = design(
        top=(10, {"tile": 1}),
        tile=(0, {"row": 8, "drain": 8}),
        row=(5, {"pe": 8}),
        pe=(500, {"bit": 16}),
        bit=(5, {}),
        drain=(200, {}),
    )
    assert separate_modules(array) == ("drain", "pe")  # neither the row around it nor the bit in it
    assert array.instances()["bit"] == 8 * 8 * 16
    assert array.size() == 10 + 8 * (5 + 200) + 64 * (500 + 16 * 5)
    columns = design(
        top=(10, {"column": 8}),
        column=(900, {"fetch": 16}),
        fetch=(160, {}),
    )
    assert separate_modules(columns) == ("column",)  # with its own logic around the fetches
    rare = design(top=(10, {"few": 2, "small": 9}), few=(900, {}), small=(9, {}))
    assert separate_modules(rare) == ()
    few = Outline(
        "top", {}, {"top": 1, "few": 9}, {"top": {"few": 2}, "few": {}}, frozenset({"few"})
    )
    assert separate_modules(few) == ("few",)  # the design says so


def test_a_preserved_module_is_not_inside_another() -> None:
    both = design(top=(0, {"outer": 4, "inner": 4}), outer=(900, {"inner": 1}), inner=(500, {}))
    assert separate_modules(both) == ("outer",)


# -- longest path --------------------------------------------------------------------------------


def cell(cell_type: str, output: list[int], **inputs: list[int]) -> dict[str, Any]:
    directions = {**dict.fromkeys(inputs, "input"), "Q": "output"}
    return {
        "type": cell_type,
        "port_directions": directions,
        "connections": {**inputs, "Q": output},
    }


def test_levels_of_a_netlist() -> None:
    module = {
        "ports": {
            "a": {"direction": "input", "bits": [2]},
            "y": {"direction": "output", "bits": [9]},
        },
        "netnames": {
            "a": {"bits": [2]},
            "y": {"bits": [9]},
            "_3_": {"bits": [4]},
            "held": {"bits": [3, 8]},
            "n$1": {"bits": [5], "hide_name": 1},
        },
        "cells": {
            "reg": cell("FF", [3], D=[2], C=[2]),
            "lut": cell("LUT", [4], A=[3], B=[3]),
            "chain1": cell("CARRY", [5], A=[4]),
            "chain2": cell("CARRY", [6], A=[5]),
            "mux": cell("MUX", [7], A=[6], B=[2]),
            "end": cell("FF", [8], D=[7], C=[2]),
            "loop": cell("LUT", [10], A=[10]),
            "out": cell("LUT", [9], A=[8], B=[10]),
        },
    }
    kinds: dict[str, levels.Role] = {"FF": "state", "LUT": "logic", "CARRY": "carry", "MUX": "free"}
    result = levels.longest(module, kinds.__getitem__)
    assert result == levels.Longest(2, "held[0]", "held[1]")  # a look-up table, and the chain


# -- frame and devices ---------------------------------------------------------------------------


def test_a_frame_connects_every_port() -> None:
    ports = {"clk": ("input", 1), "a": ("input", 3), "b": ("input", 2), "y": ("output", 4)}
    frame = register_frame.frame("core", ports, "clk")
    assert frame.top == "core_frame"
    assert (frame.flip_flops, frame.luts) == (6 + 8, 3)
    for text in (".clk(clk)", ".a(stimulus[2:0])", ".b(stimulus[4:3])", ".y(response[3:0])"):
        assert text in frame.text


def test_devices_have_their_packages() -> None:
    assert {"ecp5", "ice40"} <= set(placed())
    for name in placed():
        assert placer(name).device in placer(name).devices
    assert choose("ecp5", None, None, None) == ("85k", "CABGA756", "6")
    assert choose("ice40", "UP5K", "SG48", None) == ("up5k", "sg48", "")
    with pytest.raises(InputError, match="'90k' is not a device of ecp5; there are 12k"):
        choose("ecp5", "90k", None, None)
    with pytest.raises(InputError, match="'ct256' is not a package of the hx1k; there are tq144"):
        choose("ice40", "hx1k", "ct256", None)
    with pytest.raises(InputError, match="'9' is not a speed grade; there are 6, 7, 8"):
        choose("ecp5", None, None, "9")


def test_parts_are_named_as_nextpnr_wants() -> None:
    def named(family: str, *asked: str | None) -> str:
        return " ".join(options(placer(family), *choose(family, *asked)))

    assert named("ecp5", "45k", None, "8") == "--45k --package CABGA554 --speed 8"
    assert named("ice40", None, None, None) == "--hx8k --package ct256"
    assert named("nexus", "lifcl-17", "mg121", None).endswith("--device LIFCL-17-7MG121C")
    assert named("gowin", "gw1n-9c", None, None).endswith("--vopt family=GW1N-9C")


def test_constant_inputs_are_left_open() -> None:
    def cell(cell_type: str, connections: dict[str, list[int | str]]) -> dict[str, object]:
        ways = {port: "output" if port in "ZO" else "input" for port in connections}
        return {"type": cell_type, "port_directions": ways, "connections": connections}

    cells = {
        "low": cell("LOW", {"Z": [2]}),
        "first": cell("SUM", {"I": [2], "A": [2], "O": [3]}),
        "second": cell("SUM", {"I": [3], "A": ["1"], "O": [4]}),
        "third": cell("SUM", {"I": ["x"], "A": [4], "O": [5]}),
    }
    netlist = json.dumps({"modules": {"top": {"cells": cells}}}).encode()
    assert with_open_inputs(netlist, {}) == netlist
    result = json.loads(with_open_inputs(netlist, {"SUM": "I"}))["modules"]["top"]["cells"]
    left = {name: sorted(each["connections"]) for name, each in result.items()}
    assert left == {"low": ["Z"], "first": ["A", "O"], "second": ["A", "I", "O"],
                    "third": ["A", "O"]}  # fmt: skip


# -- cache and parallel runs ---------------------------------------------------------------------


def test_entries_are_whole_or_absent() -> None:
    entry = Archive("test", digest(["something", 1]))
    assert entry.read() is None
    assert entry.files() == {}
    entry.write({"a": 1}, {"netlist.v": b"module"})
    assert entry.read() == {"a": 1}
    assert entry.files() == {"netlist.v": b"module"}
    assert [path.name for path in entry.path.parent.iterdir()] == [entry.path.name]
    entry.path.write_bytes(entry.path.read_bytes()[:50])
    assert entry.read() is None


def test_a_failing_job_ends_the_others(tmp_path: Path) -> None:
    sleeper = Installation("sleeper", (), "sleeper", "override", ("/bin/sh", "-c"))

    def job(command: str, log: str) -> Callable[[], str]:
        return lambda: process.run(sleeper, [command], tmp_path, log, 60)

    start = time.monotonic()
    with pytest.raises(CheckFailed, match="no luck"):
        parallel.run_all([job("sleep 50", "a"), job("echo no luck; exit 1", "b")], 2)
    assert time.monotonic() - start < 20
    assert parallel.run_all([job("echo x", "a"), job("echo y", "b")], 2) == ["x\n", "y\n"]


# -- synthesis -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    # Those of Xilinx take seconds, and differ by DSP blocks, which neither design uses.
    [(n, t) for t in technology_names("fpga") for n in SOURCES if (n, t) != ("tinylut", "xcup")],
)
@pytest.mark.rotate(9)
def test_fpga_families(name: str, target: str) -> None:
    require_tools("yosys")
    core = parse_config(SOURCES[name])
    result = synthesize(Design.of(core), target)
    assert (result.name, result.target, result.hierarchy) == (name, target, "flatten")
    # The registers are those of the design, however they are mapped; a small memory is optional.
    assert result.flip_flops == 212 if name == "tiny" else 150 < result.flip_flops < 300
    assert result.luts is not None
    assert 100 < result.luts < 800
    assert result.carries
    blocks = ("ecp5", "gowin", "nexus")
    assert result.dsps == (4 if name == "tiny" and target in blocks else 0)
    assert (result.area_um2, result.critical_path_ns, result.fmax_mhz) == (None, None, None)
    assert result.logic_levels is not None
    assert 1 < result.logic_levels < 20
    assert result.path_start
    assert result.path_end
    family = fpga_family(target)
    free = {cell for cell in result.cells if family.use_of(cell) is None}
    assert free <= {"INV", "GND", "VCC", "VHI", "VLO"}, (
        "a cell that the table of the family does not know"
    )
    assert {"map.ys", "netlist.v", "map.log"} <= set(result.files)


@pytest.mark.slow
def test_products_of_logic_are_products(tmp_path: Path) -> None:
    require_tools("yosys")
    yosys = probe("yosys").installation
    assert yosys
    (tmp_path / "products.v").write_text(fpga.PRODUCTS)
    shapes = [(5, 6, 11), (3, 5, 12), (2, 2, 4), (1, 4, 6), (6, 1, 4), (1, 1, 2)]
    design, script = "", ""
    for index, (a, b, y) in enumerate(shapes):
        for sign in ("", "signed"):
            name = f"{sign or 'unsigned'}_{index}"
            design += (
                f"module {name}(input {sign} [{a - 1}:0] a, input {sign} [{b - 1}:0] b,"
                f" output {sign} [{y - 1}:0] y); assign y = a * b; endmodule\n"
            )
            script += (
                f"read_verilog design.v\nhierarchy -top {name}\nproc\nrename {name} gate\n"
                "copy gate gold\ntechmap -map products.v gate\nopt_clean\n"
                "select -assert-none gate/t:$mul gate/t:$__product\n"
                "miter -equiv -flatten -make_assert gold gate both\n"
                "sat -verify -prove-asserts both\ndesign -reset\n"
            )
    (tmp_path / "design.v").write_text(design)
    (tmp_path / "prove.ys").write_text(script)
    process.run(yosys, ["-q", "prove.ys"], tmp_path, "log", 300)


@pytest.mark.slow
@pytest.mark.rotate(12)
def test_deep_memories_are_large_ones_by_a_recipe(tmp_path: Path) -> None:
    require_tools("yosys")
    yosys = probe("yosys").installation
    assert yosys
    design = (
        "module deep(input clk, input [11:0] r, w, input e, input [71:0] d, output reg [71:0] q);"
        " reg [71:0] words [0:4095]; always @(posedge clk) begin if (e) words[w] <= d;"
        " q <= words[r]; end endmodule\n"
    )
    for recipe, large in (("dsp", 0), ("uram", 1)):
        work = tmp_path / recipe
        work.mkdir()
        used = fpga.map_fpga(
            yosys, design, "deep", fpga_family("xcup"), recipe, [], work, 300
        ).resources
        assert used["urams"] == large
        assert bool(used["brams"]) != bool(large)


@pytest.mark.slow
def test_hierarchy_on_an_fpga() -> None:
    require_tools("yosys")
    core = parse_config(SYSTOLIC)
    result = synthesize(Design.of(core), "ecp5", hierarchy="keep", recipe="logic")
    instances = {module.name: module.instances for module in result.modules}
    assert instances == {"tiny": 1, "tiny_pe": 4}
    assert sum(m.instances * (m.flip_flops or 0) for m in result.modules) == result.flip_flops
    assert sum(m.instances * (m.luts or 0) for m in result.modules) == result.luts
    assert result.dsps == 0


@pytest.mark.slow
def test_without_a_timer_levels_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    require_tools("yosys", technology="nangate45")
    monkeypatch.setenv("HWGEN_OPENSTA", "/none")
    forget()
    try:
        result = synthesize(Design.of(parse_config(TERNARY)), "nangate45", hierarchy="keep")
    finally:
        monkeypatch.undo()
        forget()
    assert result.timing_source == "levels"
    assert "opensta" in result.timing_note
    assert (result.critical_path_ns, result.fmax_mhz) == (None, None)
    assert result.logic_levels is not None
    assert 5 < result.logic_levels < 60
    assert result.area_um2


# -- commands ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_writes_everything(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_tools("yosys")
    out = tmp_path / "out"
    arguments = ["synth", "--config", str(config), "--target", "ecp5", "--clock-mhz", "100"]
    assert main([*arguments, "--output", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((out / "result.json").read_text())
    assert printed["clock_target_mhz"] == 100
    assert printed["area_um2"] is None
    assert {"design.v", "map.ys", "map.log", "netlist.v"} <= {path.name for path in out.iterdir()}
    assert "module tiny" in (out / "netlist.v").read_text()
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "212 flip-flops" in text
    assert "levels" in text
    assert main([*arguments, "--hierarchy", "keep"]) == 0
    assert "tiny_pe" in capsys.readouterr().out
    assert main([*arguments, "--check"]) == 1
    assert "cannot be checked" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "synth --target ecp7",
            "no technology or device is called 'ecp7' (did you mean 'ecp5'?); there is",
        ),
        ("synth --target ecp5 --recipe nf", "'nf' is not a recipe for ecp5; there are dsp, logic"),
        ("synth --target nangate45 --recipe dsp", "'dsp' is not a recipe for nangate45"),
        ("synth --target ecp5 --effort best", "the effort 'best' is for standard cells"),
        ("synth --target ecp5 --liberty x.lib", "a Liberty file is for standard cells"),
        ("synth --target ihp-sg13g2 --full-adders", "ihp-sg13g2 has no full-adder cell"),
        ("synth --target ecp5 --clock-mhz nan", "the clock target must be 1..5000 MHz, not nan"),
        ("synth --target ecp5 --hierarchy some", "'keep', 'flatten'"),
        ("synth --target nangate45 --liberty none.lib", "there is no such Liberty file"),
        ("pnr", "there is no place and route for 'nangate45'; there is for " + ", ".join(placed())),
        ("pnr --target xc7", "there is no place and route for 'xc7'"),
        ("pnr --target ice40 --device 25k", "'25k' is not a device of ice40"),
        ("pnr --target ice40 --recipe dsp", "the hx8k has no DSP blocks"),
        ("pnr --target machxo2 --recipe dsp", "has no DSP blocks; no device of the family has"),
        ("pnr --target machxo2 --bitstream x", "hwgen knows no program that makes bitstreams for"),
        ("pnr --target ice40 --seeds 0", "the number of seeds must be 1..1000, not 0"),
        ("pnr --target ice40 --clock-mhz 1e9", "the clock target must be 1..5000 MHz"),
        ("pnr --target ecp5 --pins tiny.yaml", "use --io pins"),
    ],
)
def test_bad_options(
    arguments: str,
    message: str,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    require_tools("yosys")
    monkeypatch.chdir(config.parent)
    command, *options = arguments.split()
    assert main([command, "--config", "tiny.yaml", *options]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "variable", "message"),
    [
        ("synth --target ecp5", "HWGEN_YOSYS", "yosys >= 0.40 is needed to synthesise"),
        ("synth --target sky130hd", "HWGEN_PDK_DIR", "Set HWGEN_PDK_DIR to the directory"),
        ("pnr --target ecp5", "HWGEN_NEXTPNR_ECP5", "nextpnr-ecp5 >= 0.4 is needed"),
        ("pnr --target nexus", "HWGEN_NEXTPNR_NEXUS", "pip install 'hwgen[nexus]'"),
        ("pnr --target gowin", "HWGEN_NEXTPNR_HIMBAECHEL_GOWIN", "pip install 'hwgen[gowin]'"),
        ("pnr --target machxo2", "HWGEN_NEXTPNR_MACHXO2", "pip install 'hwgen[machxo2]'"),
        ("pnr --target gatemate", "HWGEN_NEXTPNR_HIMBAECHEL_GATEMATE", "'hwgen[gatemate]'"),
        ("pnr --target ice40 --bitstream x", "HWGEN_ICEPACK", "pip install 'hwgen[fpga]'"),
    ],
)
def test_missing_tools(
    arguments: str,
    variable: str,
    message: str,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if variable != "HWGEN_YOSYS":
        require_tools("yosys")
    monkeypatch.setenv(variable, "/none")
    forget()
    try:
        command, *options = arguments.split()
        assert main([command, "--config", str(config), *options]) == 3
    finally:
        monkeypatch.undo()
        forget()
    assert message in capsys.readouterr().err


def test_verilog_needs_a_top_and_a_clock() -> None:
    require_tools("yosys")
    with pytest.raises(InputError, match="has no clock target of its own"):
        synthesize("module x; endmodule", "ecp5", top="x")
    with pytest.raises(InputError, match="the top module of the Verilog must be named"):
        synthesize("module x; endmodule", "ecp5", clock_mhz=100)
    with pytest.raises(CheckFailed, match=r"yosys failed.*:\n(.*\n)*.*ERROR"):
        synthesize("module x(input a; endmodule", "ecp5", top="x", clock_mhz=100)
    with pytest.raises(InputError, match="x has no port aclk"):
        place_and_route(
            "module x(input a, output b); assign b = a; endmodule",
            "ecp5",
            top="x",
            clock_mhz=100,
        )


@pytest.mark.slow
def test_an_interrupted_run_leaves_nothing(config: Path, tmp_path: Path) -> None:
    require_tools("yosys")
    cache, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    environment = {
        **os.environ,
        "HWGEN_CACHE_DIR": str(cache),
        "TMPDIR": str(temporary),
    }
    command = ["synth", "--config", str(config), "--target", "xc7", "--output", str(tmp_path / "o")]
    running = subprocess.Popen(
        [sys.executable, "-m", "hwgen", *command],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts background jobs deaf to SIGINT, and the test may be in one.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 60
    while not list(temporary.glob("hwgen-synth-*/map.ys")) and time.monotonic() < deadline:
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, text = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "interrupted" in text
    assert list(temporary.glob("hwgen-*")) == []
    assert not (tmp_path / "o").exists()
    kept = {path.parent.name for path in cache.rglob("*") if path.is_file()}
    # Which Verilog it was, of which sources, is known by then.
    assert kept <= {"sources", "verilog"}


# -- place and route -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.rotate(6)
def test_place_and_route(
    config: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_tools("yosys", "nextpnr-ice40")
    bits = tmp_path / "core.bin"
    arguments = ["pnr", "--config", str(config), "--target", "ice40", "--clock-mhz", "100"]
    packed = probe("icepack").installation is not None
    extra = ["--bitstream", str(bits)] if packed else []
    assert main([*arguments, "--seeds", "2", "--json", *extra]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["device"], result["package"], result["io"]) == ("hx8k", "ct256", "frame")
    figures = sorted(seed["fmax_mhz"] for seed in result["seeds"])
    assert [seed["seed"] for seed in result["seeds"]] == [1, 2]
    assert figures == [result["fmax_min_mhz"], result["fmax_max_mhz"]]
    assert result["fmax_median_mhz"] == pytest.approx(sum(figures) / 2)
    assert 30 < figures[0] < 400
    assert all(seed["path_start"] and seed["path_end"] for seed in result["seeds"])
    logic = result["utilization"]["ICESTORM_LC"]
    assert 400 < logic["used"] < logic["available"] == 7680
    assert result["frame_flip_flops"] == 94
    if packed:
        assert bits.stat().st_size > 100_000
    assert result["frame_luts"] == 35
    # Seeds that are there are not run again, a further one is.
    started: list[str] = []
    run = process.run

    def follow(tool: Installation, *rest: Any) -> str:
        started.append(tool.name)
        return run(tool, *rest)

    monkeypatch.setattr("flows.tools.process.run", follow)
    assert main([*arguments, "--seeds", "3", "--check"]) in (0, 1)
    assert started.count("nextpnr-ice40") == 1
    assert "over 3 seeds" in capsys.readouterr().out
    (placed,) = recorded_runs(Design.of(load_config(config)), "ice40")
    assert [seed.fmax_mhz for seed in placed.seeds[:2]] == [s["fmax_mhz"] for s in result["seeds"]]
    assert len(placed.seeds) == 3


@pytest.mark.slow
@pytest.mark.parametrize("target", [name for name in placed() if name not in ("ecp5", "ice40")])
def test_place_and_route_of_further_families(target: str) -> None:
    chosen = placer(target)
    require_tools("yosys", chosen.tool)
    result = place_and_route(Design.of(parse_config(TERNARY)), target, seeds=1, clock_mhz=50)
    assert result.device == chosen.device
    assert result.fmax_median_mhz is not None
    assert 20 < result.fmax_median_mhz < 700
    assert all(row["used"] <= row["available"] for row in result.utilization.values())
    assert f"{result.name}_frame" not in str(result.seeds)
    if chosen.packer and probe(chosen.packer).installation:
        assert len(bitstream(result)) > 30_000


@pytest.mark.slow
def test_a_design_that_does_not_fit(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_tools("yosys", "nextpnr-ice40")
    arguments = ["pnr", "--config", str(config), "--target", "ice40", "--device", "lp384"]
    assert main([*arguments, "--seeds", "1"]) == 1
    text = capsys.readouterr().err
    assert "ERROR" in text
    assert "The lp384 may be too small" in text


@pytest.mark.slow
def test_pins_instead_of_a_frame() -> None:
    require_tools("yosys", "nextpnr-ecp5")
    core = parse_config(TERNARY)
    result = place_and_route(
        Design.of(core), "ecp5", device="25k", seeds=1, io="pins", clock_mhz=50
    )
    assert result.frame_luts is None
    assert result.utilization["TRELLIS_IO"]["used"] > 50
    assert result.best.seed == 1
    if probe("ecppack").installation:
        assert len(bitstream(result)) > 100_000
