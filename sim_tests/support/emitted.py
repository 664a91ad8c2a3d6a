# SPDX-License-Identifier: Apache-2.0
"""Checks of emitted Verilog: lint, combinational paths, reproducibility, and its modules."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from flows.build.build import Build
from flows.build.design import Design
from flows.simulation.verilator.verilator import lint
from flows.tools.toolchain import require
from hwgen.core.params.base import FamilyConfig
from sim_tests.support.designs import design_of

REGISTERS = re.compile(r"\$(s?dffe?|sdffce|dff|adff|adffe)$")


def write_files(config: FamilyConfig, directory: Path) -> Path:
    """Write the files of a core and return the path of its Verilog."""
    for name, text in Build(design_of(config)).files.items():
        (directory / name).write_text(text, encoding="utf-8")
    return directory / f"{config.name}.v"


def assert_lint_clean(config: FamilyConfig, directory: Path) -> str:
    """Write the files of a core, lint them with Verilator and return the Verilog."""
    source = write_files(config, directory)
    warnings = lint([source.with_suffix(".vlt"), source], config.name)
    assert not warnings, warnings
    return source.read_text(encoding="utf-8")


def assert_clean(config: FamilyConfig, directory: Path) -> None:
    """Check that Verilator has no warning and no path leads from an input to an output."""
    verilog = assert_lint_clean(config, directory)
    paths = combinational_paths(netlist(verilog, config.name, directory))
    assert not paths, paths


def assert_reproducible(config: FamilyConfig, directory: Path) -> None:
    """Check that the files that `assert_clean` wrote are emitted again."""
    for name, text in Build(Design.of(config)).files.items():
        assert (directory / name).read_text(encoding="utf-8") == text, name


def module_text(verilog: str, name: str) -> str:
    """Return the text of one module of a design."""
    module = re.search(rf"^module {name}\(.*?^endmodule", verilog, re.S | re.M)
    assert module, f"no module {name}"
    return module[0]


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


def count_adders(verilog: str, module: str, directory: Path) -> int:
    """Return the number of adders and subtractors of one module of a design."""
    cells = netlist(module_text(verilog, module), module, directory)["cells"].values()
    return sum(cell["type"] in ("$add", "$sub", "$alu", "$macc") for cell in cells)


def combinational_paths(module: dict[str, Any]) -> list[tuple[str, str]]:
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
            directions = cell["port_directions"]
            inputs = [port for port, direction in directions.items() if direction == "input"]
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
    paths = set()
    for name, port in module["ports"].items():
        if port["direction"] != "input" or name == "aclk":
            continue
        reached, pending = set(port["bits"]), list(port["bits"])
        while pending:
            for cell in loads.get(pending.pop(), ()):
                for out, direction in cell["port_directions"].items():
                    if direction == "output":
                        new = [b for b in cell["connections"][out] if b not in reached]
                        reached.update(new)
                        pending += new
        paths |= {(name, outputs[bit]) for bit in reached if bit in outputs}
    return sorted(paths)
