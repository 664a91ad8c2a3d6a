# SPDX-License-Identifier: Apache-2.0
"""SRAM macros in the place of memories: wrappers, their libraries, and synthesis with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cost_model.memories.macros import composed, library
from flows.build.design import Design
from flows.build.load import parse_config
from flows.simulation.runner import regress
from flows.synthesis import macros
from flows.synthesis.macro_files import macro_files_of
from flows.synthesis.synth import synthesize
from hwgen.cli import main
from hwgen.core.memories import ram_of
from hwgen.errors import InputError
from hwgen.technologies.model import Macro, Memories
from sim_tests.support.designs import design_of
from sim_tests.support.regression import assert_passed
from sim_tests.synthesis.tools import require_tools

ENGINE = """\
name: engine
family: gemm_stream
compute: {family: systolic, array: {rows: 3, cols: 4, dataflow: weight_stationary,
  accumulator_depth: 9}}
buffers: {activation_kib: 1, weight_kib: 1, output_kib: 1}
memory: {data_width: 64}
"""
CORE = """\
name: core
family: ternary_lut
array: {tables: 2, fetch_ports: 4, accumulator_depth: 24}
"""


def published(name: str) -> Memories:
    result = library(name)
    assert result is not None
    return result


def with_macros(text: str, technology: str) -> tuple[str, macros.Chosen]:
    """Return the Verilog of a configuration, all memories that can be made of macros being so."""
    config = parse_config(text)
    verilog, memories = design_of(config).verilog, published(technology)
    chosen = {}
    for line in verilog.splitlines():
        name = line.split("(")[0].removeprefix("module ")
        ram = ram_of(name) if line.startswith("module ") else None
        made = composed(ram, memories) if ram else None
        if made is not None:
            chosen[name] = made
    return macros.replaced(verilog, chosen, memories), chosen


def model_of(macro: Macro, memories: Memories) -> str:
    """Return a macro that works, whose data do not stay where they need not."""
    pins = macros.pins_of(macro, memories)
    by_role = {role: pin for pin, role in reversed(pins)}
    clock, data, result = (by_role[role] for role in ("clock", "data", "result"))
    read_address = by_role.get("read_address", by_role.get("address"))
    write_address = by_role.get("write_address", by_role.get("address"))
    write = by_role.get("write") or f"~{by_role['not_write']}"
    if macro.ports == "1rw":
        write = f"{by_role['enable']} & {write}"
    reads = by_role.get("read") or (f"~{by_role['not_read']}" if "not_read" in by_role else "")
    read = reads or f"{by_role['enable']} & ~{by_role['write']}"
    box = macros.black_boxes([macro], memories).split("\n")[1]
    other = "" if memories.holds else f" else value <= ~value ^ {{{macro.width}{{{read}}}}};"
    return (
        f"{box}\n"
        f"  reg [{macro.width - 1}:0] words [0:{macro.words - 1}], value;\n"
        f"  assign {result} = value;\n"
        f"  always @(posedge {clock}) begin\n"
        f"    if ({write}) words[{write_address}] <= {data};\n"
        f"    if ({read}) value <= words[{read_address}];{other}\n"
        "  end\nendmodule\n"
    ).replace(f"words [0:{macro.words - 1}], value", f"value, words [0:{macro.words - 1}]")


@pytest.mark.parametrize(
    ("text", "technology", "arrangements"),
    [
        pytest.param(ENGINE, "nangate45", {"halves", "copies"}, id="one port"),
        pytest.param(ENGINE, "ihp-sg13g2", {"halves", "ports"}, id="both"),
        pytest.param(CORE, "sky130hd", {"ports"}, id="two ports"),
        pytest.param(CORE, "asap7", {"copies"}, id="one port that keeps its data"),
    ],
)
@pytest.mark.slow
@pytest.mark.rotate(10)
def test_designs_with_macros_pass_their_regression(
    tmp_path: Path, text: str, technology: str, arrangements: set[str]
) -> None:
    verilog, chosen = with_macros(text, technology)
    memories = published(technology)
    assert arrangements <= {made.arrangement for made in chosen.values()} | {"ports"}
    verilog += "".join(model_of(macro, memories) for macro in macros.used(chosen))
    assert_passed(regress(design_of(parse_config(text)).with_verilog(verilog), tmp_path))


def test_memories_that_are_no_macros_stay_as_they_are() -> None:
    config = parse_config(ENGINE)
    verilog, memories = design_of(config).verilog, published("nangate45")
    chosen = macros.choose(verilog, "engine", memories, "nangate45", 2048)
    assert chosen
    for name, made in chosen.items():
        assert made.ram.capacity >= 2048
        assert made.ram == ram_of(name)
    assert macros.choose(verilog, "engine", memories, "nangate45", 1 << 20) == {}
    after = macros.replaced(verilog, chosen, memories)
    jobs = next(line for line in verilog.splitlines() if "_async_" in line and "module" in line)
    assert jobs in after
    # The smallest macro of sky130hd is larger than the registers of small memories.
    for made in macros.choose(verilog, "engine", published("sky130hd"), "sky130hd", 0).values():
        assert made.ram.words >= 256


def liberty_file(path: Path, pins: str, memory: str) -> Path:
    path.write_text(
        'library (mine) {\n  time_unit : "1ns";\n  capacitive_load_unit (1, ff);\n'
        f"  cell (my_ram) {{\n    area : 700;\n{memory}{pins}  }}\n}}\n",
        encoding="utf-8",
    )
    return path


MEMORY = "    memory () { type : ram; address_width : 6; word_width : 20; }\n"
PINS = "".join(
    f"    pin ({name}) {{ direction : input; }}\n"
    for name in ("clk", "ce_in", "we_in", "addr_in", "wd_in", "rd_out", "VDD")
)


def test_macros_of_liberty_files(tmp_path: Path) -> None:
    path = liberty_file(tmp_path / "mine.lib", PINS, MEMORY)
    result = macro_files_of((str(path),), "nangate45")
    (macro,) = result.macros
    assert (macro.name, macro.words, macro.width) == ("my_ram", 64, 20)
    assert macro.area_um2 == 700
    assert macro.lacks == ("w_mask_in",)


def test_bad_files_of_macros(tmp_path: Path) -> None:
    for name, pins, memory, said in (
        (
            "none",
            PINS,
            "",
            "has no cell that is a memory, with a group `memory` that has",
        ),
        (
            "pins",
            PINS.replace("ce_in", "cen"),
            MEMORY,
            "the macro my_ram does not fit: it must",
        ),
    ):
        path = liberty_file(tmp_path / f"{name}.lib", pins, memory)
        with pytest.raises(InputError, match=said):
            macro_files_of((str(path),), "nangate45")
    with pytest.raises(InputError, match=r"nowhere\.lib: there is no such Liberty file"):
        macro_files_of((str(tmp_path / "nowhere.lib"),), "nangate45")


def test_bad_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config, path = tmp_path / "core.yaml", liberty_file(tmp_path / "mine.lib", PINS, MEMORY)
    config.write_text(CORE, encoding="utf-8")
    small = tmp_path / "small.yaml"
    small.write_text(CORE.replace("24", "2"), encoding="utf-8")
    for where, options, said in (
        (config, ["--target", "ecp5", "--macros", str(path)], "for standard cells, not for ecp5"),
        (config, ["--memories", "registers", "--macros", str(path)], "of no use where memories"),
        (
            config,
            ["--macros", str(path), "--activity", "random"],
            "energies of the macros in Liberty files are not read",
        ),
        (config, ["--macros", str(tmp_path / "x")], "x: there is no such Liberty file"),
        (small, ["--macros", str(path)], "no memory of core is made of these macros; one must"),
    ):
        assert main(["synth", "--config", str(where), *options]) == 2
        assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.rotate(10)
def test_synthesis_with_and_without_macros() -> None:
    require_tools("yosys", technology="nangate45")
    config = parse_config(CORE)
    made = synthesize(Design.of(config), "nangate45")
    registers = synthesize(Design.of(config), "nangate45", memories="registers")
    assert made.memories == "macros"
    assert registers.memories == "registers"
    assert registers.macros == {}
    (ram,) = (count for count in made.macros.values())
    assert made.macro_area_um2 is not None
    assert made.area_um2 is not None
    assert registers.area_um2 is not None
    assert 0 < made.macro_area_um2 < made.area_um2 < registers.area_um2
    assert ram % 2 == 0
    assert made.flip_flops < registers.flip_flops
    if made.timing_source == "opensta":
        assert made.critical_path_ns
