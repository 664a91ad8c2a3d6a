# SPDX-License-Identifier: Apache-2.0
"""Checks that the cores of every family must pass, those of plug-ins included.

The tests of a family call them with small configurations: `CHECKS` has all by name.  Each takes a
configuration and an empty directory to work in, and raises `CheckFailed` if the core fails.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from flows.build.build import Build
from flows.build.design import Design
from flows.simulation.runner import regress
from flows.simulation.verilator.verilator import lint
from flows.tools.toolchain import require
from hwgen.core.params.base import FamilyConfig
from hwgen.core.protocols import WeightPacker
from hwgen.core.registry import core_of
from hwgen.errors import CheckFailed

Check = Callable[[FamilyConfig, Path], None]

TOGETHER = ((3, 4, 5), (20, 1, 8), (1, 9, 1))
"""Sizes M, K and N of products that are computed one after the other."""

_REGISTERS = re.compile(r"\$(s?dffe?|sdffce|dff|adff|adffe)$")


def check_resolved(config: FamilyConfig, work: Path) -> None:
    """Check that `resolved` describes a configuration that is equal, digest included.

    The process of the simulator gets the configuration in this form.
    """
    again = type(config).model_validate(config.resolved())
    if again != config or again.digest != config.digest:
        raise CheckFailed(
            f"{config.name}: what resolved() returns validates to another configuration; it must"
            " contain every parameter that has a meaning, and no other"
        )


def check_jobs_together(config: FamilyConfig, work: Path) -> None:
    """Check that products in a list take no more cycles than one by one.

    A core that multiplies no matrices passes.
    """
    if not config.multiplies:
        return
    core = core_of(config)
    jobs = [core.gemm(*size) for size in TOGETHER]
    together, singles = core.cycles(jobs).number, sum(core.cycles([job]).number for job in jobs)
    if together > singles:
        raise CheckFailed(
            f"{config.name}: cycles() of {len(jobs)} products together, {together}, is above"
            f" {singles}, the sum of one by one"
        )


def check_packing(config: FamilyConfig, work: Path) -> None:
    """Check that packed weights are read back, and that M does not matter to them.

    A core whose plans pack no weights passes.
    """
    if not config.multiplies:
        return
    core, rng = core_of(config), np.random.default_rng(0)
    for _, k, n in TOGETHER:
        one, more = (core.schedule(core.gemm(m, k, n)) for m in (1, 5))
        if not isinstance(one, WeightPacker) or not isinstance(more, WeightPacker):
            return
        w = config.weight.random(rng, (k, n))
        image = one.pack_weights(w)
        if not np.array_equal(image, more.pack_weights(w)):
            raise CheckFailed(f"{config.name}: pack_weights() of {k} x {n} weights depends on M")
        if not np.array_equal(one.unpack_weights(image), w):
            raise CheckFailed(
                f"{config.name}: unpack_weights() does not return the {k} x {n} weights that"
                " pack_weights() got"
            )


def check_verilog(config: FamilyConfig, work: Path) -> None:
    """Check that the Verilog is clean, emitted alike again, and free of paths between ports.

    Clean is what has no warning of Verilator.  No combinational path may lead from an input to an
    output.
    """
    first, again = Build(Design.of(config)).files, Build(Design.of(config)).files
    differing = sorted(name for name in first.keys() | again if first.get(name) != again.get(name))
    if differing:
        raise CheckFailed(f"{config.name}: a second build differs in {', '.join(differing)}")
    for name, text in first.items():
        (work / name).write_text(text, encoding="utf-8")
    source = work / f"{config.name}.v"
    warnings = lint([source.with_suffix(".vlt"), source], config.name)
    if warnings:
        raise CheckFailed("\n".join([f"{config.name}: Verilator warns:", *warnings]))
    paths = combinational_paths(flat_netlist(first[source.name], config.name, work))
    if paths:
        listed = ", ".join(f"{start} to {end}" for start, end in paths)
        raise CheckFailed(
            f"{config.name}: combinational paths from {listed}; put a StreamBuffer at the port"
        )


def check_regression(config: FamilyConfig, work: Path) -> None:
    """Check results, handshakes, resets in mid-job and cycles by simulation, as ``hwgen sim``."""
    outcomes = regress(Design.of(config), work)
    failed = [f"{each.name}: {each.message}" for each in outcomes if not each.passed]
    if failed or not outcomes:
        raise CheckFailed("\n".join(failed) or f"{config.name}: the regression has no cases")


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "resolved": check_resolved,
        "jobs_together": check_jobs_together,
        "packing": check_packing,
        "verilog": check_verilog,
        "regression": check_regression,
    }
)
"""The checks by name, quick ones first."""


def flat_netlist(verilog: str, top: str, directory: Path) -> dict[str, Any]:
    """Return the flat netlist of a design: the module in Yosys' JSON.

    Parameters
    ----------
    verilog : str
    top : str
        Top module.
    directory : Path
        For the files that Yosys reads and writes.

    Raises
    ------
    CheckFailed
        If there is a combinational loop, or Yosys rejects the Verilog.
    """
    (directory / "design.v").write_text(verilog, encoding="utf-8")
    script = (
        f"read_verilog design.v; hierarchy -top {top}; proc; flatten; memory_collect; opt_clean;"
        # No loop, which Verilator's warning of one is not trusted to find.
        " check -assert; write_json design.json"
    )
    command = [*require("yosys").argv, "-q", "-p", script]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        raise CheckFailed(f"{top}: Yosys: {(done.stderr or done.stdout).strip()[-2000:]}")
    text = (directory / "design.json").read_text(encoding="utf-8")
    module: dict[str, Any] = json.loads(text)["modules"][top]
    return module


def combinational_paths(module: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the (input, output) pairs of ports with a combinational path between them.

    Conservative: any input of a cell is taken to reach each of its outputs.
    """
    loads: dict[int, list[dict[str, Any]]] = {}
    for cell in module["cells"].values():
        if _REGISTERS.search(cell["type"]):
            continue
        if cell["type"].startswith("$mem"):
            clocked = cell["parameters"]["RD_CLK_ENABLE"]
            assert set(clocked) <= {"0", "1"}
            # Writes are clocked; only an unclocked read leads from its address to its data.
            inputs = ["RD_ADDR"] if "0" in clocked else []
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
