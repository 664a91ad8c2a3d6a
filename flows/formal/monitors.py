# SPDX-License-Identifier: Apache-2.0
"""The property library in SystemVerilog: monitors that users bind to the modules of a design.

A monitor is the checker of a block without the block.  It is synthesisable Verilog; a module
around it has the assertions, assumptions and covers.  Properties are those that are proven, except
searches in the netlist and lemmas, which look inside a block.
"""

from __future__ import annotations

import re
from pathlib import Path

from flows.build.design import Design
from flows.build.verilog import rtlil_to_verilog
from flows.formal.block_proof import LEMMA, ports_of
from flows.formal.checker import BROKEN, CLOCKS, REACHED, Checker
from flows.formal.modules import DesignText
from flows.formal.prove import Task, tasks_of
from flows.formal.prover import write_modules
from flows.tools.guard import scratch

BIND = "bind.sv"
"""File that binds all monitors to their modules."""

_RESETS = {"rst": "rst", "aresetn": "!aresetn"}


def write_properties(design: Design, directory: Path) -> list[str]:
    """Write a monitor for each contract of the modules of a design, and `BIND`.

    Parameters
    ----------
    design : Design
    directory : Path

    Returns
    -------
    list of str
        Names of the files; `BIND` is the last.

    Raises
    ------
    ToolMissing
        If there is no Yosys.
    CheckFailed
        If it fails.
    """
    with scratch() as work:
        modules = write_modules(DesignText(design.name, design.verilog).part(""), work)
    names, binds = [], []
    for task in tasks_of(design):
        if task.contract.needs_netlist or task.contract.cut_datapath:
            continue  # what is stated of nets inside the block
        checker = task.contract.make(ports_of(modules[task.part.name]))
        name = f"{design.name}_{task.part.name}_{task.contract.group}"
        text = property_module(name, checker, task)
        (directory / f"{name}.sv").write_text(text, encoding="utf-8")
        names.append(f"{name}.sv")
        binds.append(
            f"bind {design.name}_{task.part.name} {name} properties_of_{task.contract.group} (.*);"
        )
    (directory / BIND).write_text("\n".join([*binds, ""]), encoding="utf-8")
    return [*names, BIND]


def property_module(name: str, checker: Checker, task: Task) -> str:
    """Return a module with the properties of a checker, and the monitor in it."""
    monitor = rtlil_to_verilog([checker.monitor(f"{name}_monitor")])
    clock = next(each for each in CLOCKS if each in checker.ports)
    reset = next(each for each in _RESETS if each in checker.ports)
    ports = [f"  input wire {_range(port.width)}{each}" for each, port in checker.ports.items()]
    connected = ["clk", "free_reset", *checker.observed, *checker.free, BROKEN, REACHED]
    values = {"clk": clock, "free_reset": _RESETS[reset]}
    values |= {free: f"any_{free}" for free in checker.free}
    declared = re.findall(r"^  (?:input|output) (?:\[\d+:0\] )?\\?(\w+) ?;", monitor, re.MULTILINE)
    pairs = [
        f".{port}({values.get(each, each)})"
        for each in connected
        for port in [f"any_{each}" if each in checker.free else each]
        if port in declared
    ]
    lines = [
        "// verilator lint_off WIDTH",
        "// verilator lint_off UNSIGNED",
        "// verilator lint_off CASEOVERLAP",  # of conditions with priority
        f"// {task.contract.group} of {task.part.name}; see docs/formal-proofs.md of hwgen.",
        f"module {name} (",
        ",\n".join(ports),
        ");",
    ]
    for free, signal in checker.free.items():
        lines += [
            "`ifdef FORMAL",
            f"  (* anyseq *) wire {_range(len(signal))}any_{free};",
            "`else",
            f"  reg {_range(len(signal))}any_{free} = 0;",
            f"  always @(posedge {clock}) any_{free} <= {len(signal)}'($urandom);",
            "`endif",
        ]
    lines += [
        f"  wire {_range(len(checker.properties))}{BROKEN};",
        f"  wire {_range(max(1, len(checker.covers)))}{REACHED};",
        f"  {name}_monitor monitor ({', '.join(pairs)});",
        "  reg active = 0;  // there was a reset",
        f"  always @(posedge {clock}) if ({_RESETS[reset]}) active <= 1;",
        f"  always @(posedge {clock}) if (active && !({_RESETS[reset]})) begin",
    ]
    for statements, output, word, sign in (
        (checker.properties, BROKEN, "assert", "!"), (checker.covers, REACHED, "cover", ""),
    ):  # fmt: skip
        for index, each in enumerate(statements):
            if not each.name.startswith(LEMMA):
                label = f"{word}_{re.sub(r'[^a-z0-9]+', '_', each.name.lower()).strip('_')}"
                lines.append(f"    {label}: {word} ({sign}{output}[{index}]);  // {each.about}")
    for each in checker.assumptions:
        lines.append(f"    // Assumed, checked no longer once it is violated: {each.about}")
    return "\n".join([
        *lines, "  end", "endmodule", "", monitor.rstrip(),
        "// verilator lint_on UNSIGNED", "// verilator lint_on WIDTH", "",
    ])  # fmt: skip


def _range(width: int) -> str:
    return f"[{width - 1}:0] "
