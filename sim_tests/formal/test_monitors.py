# SPDX-License-Identifier: Apache-2.0
"""The properties in SystemVerilog: other tools read them, and they refute broken blocks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from flows.formal.block_proof import ports_of
from flows.formal.contracts import contracts_of
from flows.formal.modules import DesignText
from flows.formal.monitors import BIND, property_module, write_properties
from flows.formal.prove import Task
from flows.formal.prover import run_yosys, write_modules
from flows.tools.toolchain import require
from hwgen.cli import main
from hwgen.errors import CheckFailed
from sim_tests.formal.test_buffer_proofs import BLOCKS, BROKEN, verilog
from sim_tests.formal.test_design_proofs import design
from sim_tests.formal.test_engine_proofs import design as engine

SEARCH = """\
read_verilog part.v
read_verilog -formal -sv props.sv top.sv
hierarchy -check -top top
proc
flatten
memory_map
opt -full
async2sync
chformal -cover -remove
sat -verify -set-at 1 rst 1 -seq 1 -set-init-zero -prove-asserts -tempinduct-baseonly -maxsteps {}
"""


def search(name: str, text: str, cycles: int, work: Path) -> None:
    """Search a violation of the assertions of a buffer by Yosys' own solver; raise if there is."""
    block = BLOCKS[name]
    (contract,) = contracts_of(block)
    part = DesignText("dut", text).part(block.module_name)
    ports = ports_of(write_modules(part, work)[part.name])
    sources = property_module("props", contract.make(ports), Task(part, contract, 0))
    (work / "props.sv").write_text(sources)
    inputs = ", ".join(f"input [{p.width - 1}:0] {n}" for n, p in ports.items() if p.inward)
    wires = "".join(f"wire [{p.width - 1}:0] {n};\n" for n, p in ports.items() if not p.inward)
    pairs = ", ".join(f".{name}({name})" for name in ports)
    (work / "top.sv").write_text(
        f"module top({inputs});\n{wires}{part.name} block({pairs});\nprops props({pairs});\n"
        "endmodule\n"
    )
    run_yosys(work, SEARCH.format(cycles), "search")


@pytest.mark.rotate(8)
def test_a_right_buffer_violates_nothing(tmp_path: Path) -> None:
    search("skid", verilog("skid"), 10, tmp_path)


@pytest.mark.rotate(10)
@pytest.mark.parametrize(("name", "text", "change", "broken"), BROKEN)
def test_assertions_refute_a_broken_buffer(
    name: str, text: str, change: str, broken: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckFailed, match="proof did fail"):
        search(name, verilog(name).replace(text, change), 14, tmp_path)
    assert f"assert_{broken.replace(' ', '_')}: assert" in (tmp_path / "props.sv").read_text()


@pytest.mark.parametrize("of_engine", [False, pytest.param(True, marks=pytest.mark.rotate(12))])
def test_other_tools_read_all_properties(of_engine: bool, tmp_path: Path) -> None:
    of = engine() if of_engine else design()
    names = write_properties(of, tmp_path)
    assert names[-1] == BIND
    (tmp_path / "design.v").write_text(of.verilog)
    verilator = require("verilator")
    done = subprocess.run(
        [*verilator.argv, "--lint-only", "--assert", "-Wno-fatal", "--top-module", of.name,
         "design.v", *names],
        cwd=tmp_path, env=dict(verilator.environment), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not any(line.startswith("%") and ".sv:" in line for line in done.stderr.splitlines())
    for name in names[:-1]:
        top = name.removesuffix(".sv")
        script = f"read_verilog -formal -sv {name}\nhierarchy -check -top {top}\nproc\ncheck\n"
        run_yosys(tmp_path, f"{script}select -assert-min 1 t:$check t:$assert %u\n", top)


def test_the_command_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    config = "name: tiny\nfamily: systolic\narray: {rows: 2, cols: 2}\n"
    Path("tiny.yaml").write_text(config)
    assert main(["prove", "-c", "tiny.yaml", "--write-properties", "sv", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert {path.name for path in Path("sv").glob("*.sv")} == set(files)
    assert not Path("build").exists()
