# SPDX-License-Identifier: Apache-2.0
"""Checks of emitted Verilog: lint, combinational paths, reproducibility, and its modules."""

from __future__ import annotations

import re
from pathlib import Path

from flows.build.build import Build
from flows.simulation.contract import combinational_paths, flat_netlist
from flows.simulation.verilator.verilator import lint
from hwgen.core.params.base import FamilyConfig
from sim_tests.support.designs import design_of


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
    paths = combinational_paths(flat_netlist(verilog, config.name, directory))
    assert not paths, paths


def module_text(verilog: str, name: str) -> str:
    """Return the text of one module of a design."""
    module = re.search(rf"^module {name}\(.*?^endmodule", verilog, re.S | re.M)
    assert module, f"no module {name}"
    return module[0]


def count_adders(verilog: str, module: str, directory: Path) -> int:
    """Return the number of adders and subtractors of one module of a design."""
    cells = flat_netlist(module_text(verilog, module), module, directory)["cells"].values()
    return sum(cell["type"] in ("$add", "$sub", "$alu", "$macc") for cell in cells)
