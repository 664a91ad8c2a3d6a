# SPDX-License-Identifier: Apache-2.0
"""The emitted files: accepted by other tools, reproducible, small, and free of through paths."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.build import files_of, forget, verilog_of
from flows.simulation.verilator.verilator import lint
from flows.tools.toolchain import require
from hwgen.core.load import load_config
from hwgen.core.params.base import FamilyConfig
from hwgen.families.systolic.params import SystolicConfig
from sim_tests.families.test_systolic import COVERING, sized
from sim_tests.support.paths import ROOT

ENGINE = ROOT / "configs" / "gemm_stream.yaml"

SAMPLE = [
    *COVERING[::5],
    *(
        sized(rows, 9, dataflow)
        for rows in (4, 18)
        for dataflow in ("output_stationary", "weight_stationary", "input_stationary")
    ),
]


def names(config: SystolicConfig) -> str:
    return f"{config.name}-{config.array.dataflow}"


def write(config: FamilyConfig, directory: Path) -> Path:
    for name, text in files_of(config).items():
        (directory / name).write_text(text, encoding="utf-8")
    return directory / f"{config.name}.v"


def assert_lint_clean(config: FamilyConfig, directory: Path) -> str:
    """Write the files of a core, of which Verilator has nothing to say, and return its Verilog."""
    source = write(config, directory)
    assert lint([source.with_suffix(".vlt"), source], config.name) == []
    return source.read_text(encoding="utf-8")


def assert_clean(config: FamilyConfig, directory: Path) -> None:
    """Verilator has nothing to say, and no path leads from an input to an output."""
    verilog = assert_lint_clean(config, directory)
    assert through_paths(netlist(verilog, config.name, directory)) == []


def assert_reproducible(config: FamilyConfig, directory: Path) -> None:
    """What `assert_clean` has written is what is emitted again."""
    forget()
    for name, text in files_of(config).items():
        assert (directory / name).read_text(encoding="utf-8") == text, name


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; the Verilog is not tried with it")
    return found


@pytest.mark.parametrize("config", SAMPLE, ids=names)
def test_verilator_has_nothing_to_say(config: SystolicConfig, tmp_path: Path) -> None:
    assert_lint_clean(config, tmp_path)


def test_verilator_has_nothing_to_say_about_engines(tmp_path: Path) -> None:
    assert_lint_clean(load_config(ENGINE), tmp_path)


@pytest.mark.parametrize("config", SAMPLE[::2], ids=names)
def test_icarus_accepts_it_as_verilog_2001(config: SystolicConfig, tmp_path: Path) -> None:
    source = write(config, tmp_path)
    done = subprocess.run(
        [tool("iverilog"), "-g2001", "-t", "null", "-s", config.name, str(source)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("config", SAMPLE[::2], ids=names)
def test_yosys_accepts_it(config: SystolicConfig, tmp_path: Path) -> None:
    source = write(config, tmp_path)
    script = f"read_verilog {source.name}; hierarchy -check -top {config.name}; proc; check -assert"
    done = subprocess.run(
        [*require("yosys").argv, "-q", "-p", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("config", SAMPLE, ids=names)
def test_ports_are_what_the_manifest_says(config: SystolicConfig) -> None:
    files = files_of(config)
    manifest = json.loads(files[f"{config.name}.json"])
    top = re.search(
        rf"^module {config.name}\(.*?^endmodule", files[f"{config.name}.v"], re.S | re.M
    )
    assert top
    found = {}
    for direction, high, name in re.findall(
        r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", top[0], re.M
    ):
        found[name] = (direction[:-3], int(high or 0) + 1)
    assert found == {p["name"]: (p["direction"], p["width"]) for p in manifest["ports"]}
    assert manifest["config"] == config.resolved()
    assert SystolicConfig.model_validate(manifest["config"]) == config


def test_every_text_carries_the_digest_and_no_date() -> None:
    config = sized(4, 4, "output_stationary")
    for name, text in files_of(config).items():
        assert config.digest in text, name
        assert not re.search(r"\b20\d\d-\d\d|\bYosys\b", text), name


def test_fusesoc_description_is_yaml() -> None:
    config = sized(4, 4, "output_stationary")
    files = files_of(config)
    core = yaml.safe_load(files[f"{config.name}.core"])
    listed = {name for fileset in core["filesets"].values() for name in fileset["files"]}
    assert listed <= set(files)
    assert core["targets"]["lint"]["toplevel"] == config.name


def test_c_header_compiles(tmp_path: Path) -> None:
    config = sized(4, 4, "output_stationary")
    write(config, tmp_path)
    program = tmp_path / "use.c"
    program.write_text(
        f'#include "{config.name}_regs.h"\n#include "{config.name}_regs.h"\n'
        f"int main(void) {{ return {config.name.upper()}_ACT_LANES == 4 ? 0 : 1; }}\n"
    )
    subprocess.run(
        [tool("cc"), "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o",
         str(tmp_path / "use"), str(program)],
        check=True, timeout=60,
    )  # fmt: skip
    assert subprocess.run([str(tmp_path / "use")], timeout=10, check=False).returncode == 0


def test_builds_are_byte_identical(tmp_path: Path) -> None:
    """Two processes with different hash seeds, in different directories."""
    config = tmp_path / "c.yaml"
    config.write_text("name: same\nfamily: systolic\narray: {rows: 5, cols: 19, broadcast: 4}\n")
    outputs = []
    for seed in ("1", "2"):
        directory = tmp_path / f"out{seed}"
        subprocess.run(
            [sys.executable, "-m", "hwgen", "build", "--config", str(config),
             "--output", str(directory)],
            env={**os.environ, "PYTHONHASHSEED": seed}, check=True, timeout=120, cwd=tmp_path,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        outputs.append({p.name: p.read_bytes() for p in sorted(directory.iterdir())})
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("dataflow", "ratio"),
    # In a weight-stationary array rows differ by the width of their sums.
    [("output_stationary", 3.0), ("weight_stationary", 3.5)],
)
def test_text_grows_with_different_modules_only(dataflow: str, ratio: float) -> None:
    small, large = (len(verilog_of(sized(n, n, dataflow))) for n in (8, 64))
    assert large <= ratio * small
    modules = re.findall(r"^module (\w+)", verilog_of(sized(64, 64, dataflow)), re.M)
    assert len(modules) == len(set(modules))


@pytest.mark.parametrize("config", SAMPLE[::2], ids=names)
def test_no_path_from_an_input_to_an_output(config: SystolicConfig, tmp_path: Path) -> None:
    """Every path through the core crosses a register, ``tready`` included."""
    module = netlist(verilog_of(config), config.name, tmp_path)
    assert module["cells"]
    assert through_paths(module) == []


def netlist(verilog: str, top: str, directory: Path) -> dict[str, Any]:
    """Return the flat netlist of a design as Yosys' JSON."""
    (directory / "design.v").write_text(verilog, encoding="utf-8")
    script = (
        f"read_verilog design.v; hierarchy -top {top}; proc; flatten; memory_collect; opt_clean;"
        # No loop, which Verilator's warning of one is not trusted to find.
        " check -assert; write_json design.json"
    )
    subprocess.run(
        [*require("yosys").argv, "-q", "-p", script], cwd=directory, check=True, timeout=300
    )
    text = (directory / "design.json").read_text(encoding="utf-8")
    module: dict[str, Any] = json.loads(text)["modules"][top]
    return module


REGISTERS = re.compile(r"\$(s?dffe?|sdffce|dff|adff|adffe)$")


def through_paths(module: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the (input, output) pairs of ports with a combinational path between them.

    Conservative: any input of a cell is taken to reach each of its outputs.
    """
    loads: dict[int, list[dict[str, Any]]] = {}
    for cell in module["cells"].values():
        if REGISTERS.search(cell["type"]):
            continue
        if cell["type"].startswith("$mem"):
            assert set(cell["parameters"]["RD_CLK_ENABLE"]) <= {"0", "1"}
            # Writes are clocked; only an unclocked read leads from its address to its data.
            inputs = ["RD_ADDR"] if "0" in cell["parameters"]["RD_CLK_ENABLE"] else []
        else:
            inputs = [p for p, way in cell["port_directions"].items() if way == "input"]
        for port in inputs:
            for bit in cell["connections"][port]:
                if isinstance(bit, int):
                    loads.setdefault(bit, []).append(cell)
    outputs = {
        bit: name
        for name, port in module["ports"].items()
        if port["direction"] == "output"
        for bit in port["bits"]
    }
    found = []
    for name, port in module["ports"].items():
        if port["direction"] != "input" or name == "aclk":
            continue
        reached, pending = set(port["bits"]), list(port["bits"])
        while pending:
            for cell in loads.get(pending.pop(), ()):
                for out, way in cell["port_directions"].items():
                    if way == "output":
                        new = [b for b in cell["connections"][out] if b not in reached]
                        reached.update(new)
                        pending += new
        found += [(name, outputs[bit]) for bit in reached if bit in outputs]
    return sorted(set(found))


def test_the_path_finder_finds_a_path(tmp_path: Path) -> None:
    text = (
        "module t(input a, input b, output y, output z, input aclk);\n"
        "reg r; always @(posedge aclk) r <= b; assign y = ~a; assign z = r;\nendmodule\n"
    )
    assert through_paths(netlist(text, "t", tmp_path)) == [("a", "y")]
