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

import pytest
import yaml

from flows.build.build import Build
from flows.build.load import load_config
from flows.simulation.contract import combinational_paths, flat_netlist
from flows.tools.toolchain import require
from hwgen.families.systolic.params import SystolicConfig
from sim_tests.families.test_systolic import COVERING, sized
from sim_tests.support.designs import design_of
from sim_tests.support.emitted import assert_lint_clean, module_text, write_files
from sim_tests.support.paths import ROOT

ENGINE = ROOT / "configs" / "gemm_stream.yaml"

SAMPLE = [
    *COVERING.configs[::5],
    *(
        sized(rows, 9, dataflow)
        for rows in (4, 18)
        for dataflow in ("output_stationary", "weight_stationary", "input_stationary")
    ),
]


def names(config: SystolicConfig) -> str:
    return f"{config.name}-{config.array.dataflow}"


def tool(name: str) -> str:
    result = shutil.which(name)
    if result is None:
        pytest.skip(f"{name} is not installed; the Verilog is not tried with it")
    return result


@pytest.mark.parametrize("config", SAMPLE, ids=names)
def test_verilator_has_nothing_to_say(config: SystolicConfig, tmp_path: Path) -> None:
    assert_lint_clean(config, tmp_path)


def test_verilator_has_nothing_to_say_about_engines(tmp_path: Path) -> None:
    assert_lint_clean(load_config(ENGINE), tmp_path)


@pytest.mark.parametrize("config", SAMPLE[::2], ids=names)
def test_icarus_accepts_it_as_verilog_2001(config: SystolicConfig, tmp_path: Path) -> None:
    source = write_files(config, tmp_path)
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
    source = write_files(config, tmp_path)
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
    files = Build(design_of(config)).files
    manifest = json.loads(files[f"{config.name}.json"])
    top = module_text(files[f"{config.name}.v"], config.name)
    result = {}
    for direction, high, name in re.findall(
        r"^  (input|output) (?:\[(\d+):0\] )?(\w+);", top, re.M
    ):
        result[name] = (direction[:-3], int(high or 0) + 1)
    assert result == {p["name"]: (p["direction"], p["width"]) for p in manifest["ports"]}
    assert manifest["config"] == config.resolved()
    assert SystolicConfig.model_validate(manifest["config"]) == config


def test_every_text_carries_the_digest_and_no_date() -> None:
    config = sized(4, 4, "output_stationary")
    for name, text in Build(design_of(config)).files.items():
        assert config.digest in text, name
        assert not re.search(r"\b20\d\d-\d\d|\bYosys\b", text), name


def test_fusesoc_description_is_yaml() -> None:
    config = sized(4, 4, "output_stationary")
    files = Build(design_of(config)).files
    core = yaml.safe_load(files[f"{config.name}.core"])
    listed = {name for fileset in core["filesets"].values() for name in fileset["files"]}
    assert listed <= set(files)
    assert core["targets"]["lint"]["toplevel"] == config.name


def test_c_header_compiles(tmp_path: Path) -> None:
    config = sized(4, 4, "output_stationary")
    write_files(config, tmp_path)
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
    small, large = (len(design_of(sized(n, n, dataflow)).verilog) for n in (8, 64))
    assert large <= ratio * small
    modules = re.findall(r"^module (\w+)", design_of(sized(64, 64, dataflow)).verilog, re.M)
    assert len(modules) == len(set(modules))


@pytest.mark.parametrize("config", SAMPLE[::2], ids=names)
def test_no_path_from_an_input_to_an_output(config: SystolicConfig, tmp_path: Path) -> None:
    """Every path through the core crosses a register, ``tready`` included."""
    module = flat_netlist(design_of(config).verilog, config.name, tmp_path)
    assert module["cells"]
    assert combinational_paths(module) == []


def test_the_path_finder_finds_a_path(tmp_path: Path) -> None:
    text = (
        "module t(input a, input b, output y, output z, input aclk);\n"
        "reg r; always @(posedge aclk) r <= b; assign y = ~a; assign z = r;\nendmodule\n"
    )
    assert combinational_paths(flat_netlist(text, "t", tmp_path)) == [("a", "y")]
