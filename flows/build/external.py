# SPDX-License-Identifier: Apache-2.0
"""Netlists of Verilog that hwgen did not emit, for estimates of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cost_model.estimate.analysis import Analysis
from cost_model.netlist import read
from cost_model.netlist.model import OPERATORS, TOP, is_full_adder
from cost_model.netlist.netlist import Netlist
from flows.build.analysis import CachedAnalysis
from flows.build.fingerprint import converter_versions
from flows.tools import process
from flows.tools.cache import Document, digest
from flows.tools.guard import scratch
from flows.tools.toolchain import require
from hwgen.errors import CheckFailed, InputError

_NAMES = "short"
"""Names of modules in what is cached."""

TIMEOUT = 300.0
"""Seconds that Yosys may take to read a design."""

_PREPARE = """\
hierarchy -check -top {top}
proc
attrmap -remove init
opt_expr
opt_clean -purge
opt -full
wreduce
peepopt
opt_clean -purge
opt_dff
opt_clean -purge
memory_collect
memory_map -rom-only
bmuxmap
demuxmap
opt -full
opt_clean -purge
write_json words.json
flatten
opt_clean
write_json flat.json
"""

_CLOCKED = frozenset((
    "$dff", "$dffe", "$sdff", "$sdffe", "$sdffce", "$adff", "$adffe", "$aldff", "$aldffe",
    "$dffsr", "$dffsre",
))  # fmt: skip
_LATCHES = frozenset(("$dlatch", "$adlatch", "$dlatchsr", "$sr"))


@dataclass(frozen=True)
class External:
    """A design from Verilog files.

    Parameters
    ----------
    top : str
        Its top module.
    analysis : Analysis
    clock : str
        The port with its clock, empty if it has no registers.
    """

    top: str
    analysis: Analysis
    clock: str


def read_verilog(paths: Sequence[Path], top: str) -> External:
    """Read Verilog or SystemVerilog as Yosys does.

    Raises
    ------
    InputError
        If Yosys cannot read it, a module is missing or a black box, or the design has several
        clocks or latches: with the name of the module.
    ToolMissing
        If Yosys is not there.
    """
    if not re.fullmatch(r"[A-Za-z_][\w$]*", top):
        raise InputError(f"--top: must be the name of a module, not {top[:80]!r}")
    texts = [_text(path) for path in paths]
    key = digest([texts, top, _PREPARE, _NAMES, *converter_versions()])[:32]
    modules, clock = Document("external", key).recall(
        lambda: _converted(paths, texts, top), list, _checked
    )
    read_module = read.module_of
    netlist = Netlist({name: read_module(name, entry, str) for name, entry in modules.items()}, key)
    _check(netlist, top)
    return External(top, CachedAnalysis(key, lambda: netlist), clock)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def _checked(document: list[Any]) -> list[Any]:
    modules, clock = document
    return [dict(modules), str(clock)]


def _converted(paths: Sequence[Path], texts: Sequence[str], top: str) -> list[Any]:
    """Return the modules in Yosys's JSON, and the clock's port."""
    with scratch("external-") as folder:
        lines = []
        for number, (path, text) in enumerate(zip(paths, texts, strict=True)):
            name = f"{number}_{re.sub(r'[^A-Za-z0-9.]', '_', path.name)}"
            (folder / name).write_text(text, encoding="utf-8")
            lines.append(f"read_verilog -defer -sv {name}")
        script = "\n".join([*lines, _PREPARE.format(top=top)])
        (folder / "read.ys").write_text(script, encoding="utf-8")
        try:
            process.run(require("yosys"), ["-q", "read.ys"], folder, "read.log", TIMEOUT)
        except CheckFailed as error:
            log = folder / "read.log"
            text = log.read_text(errors="replace") if log.exists() else str(error)
            raise InputError(_refusal(text, top)) from None
        words = json.loads((folder / "words.json").read_text())["modules"]
        flat = json.loads((folder / "flat.json").read_text())["modules"]
    for name, module in words.items():
        if module.get("attributes", {}).get("blackbox") or module["attributes"].get("whitebox"):
            raise InputError(f"module {_plain(name)} is a black box: its contents are not known")
    return [_renamed(words, top), _clock(flat[top], top)]


def _renamed(modules: Mapping[str, Any], top: str) -> dict[str, Any]:
    """Return modules by short names, in instances too: Yosys's own begin as those of its cells."""
    short = _short_names(modules, top)
    return {
        short[name]: {
            **module,
            "cells": {
                label: {**cell, "type": short.get(cell["type"], cell["type"])}
                for label, cell in module["cells"].items()
            },
        }
        for name, module in modules.items()
    }


def _refusal(log: str, top: str) -> str:
    """Return why Yosys refuses a file, in one line that names the module."""
    missing = re.search(r"Module `\\?([^']+)' referenced in module `\\?([^']+)'", log)
    if missing:
        return (
            f"module {_plain(missing[1])}, which {_plain(missing[2])} instantiates, is not in the"
            " files: its contents are not known"
        )
    if re.search(rf"Module `\\?{re.escape(top)}' not found", log):
        return f"--top: there is no module {top} in the files"
    errors = [line for line in log.splitlines() if "ERROR" in line]
    text = errors[-1].replace("ERROR: ", "") if errors else "it fails without a message"
    return f"Yosys cannot read {top}: {text.strip()}"


def _plain(name: str) -> str:
    r"""Return the name of a module without Yosys's prefix of parameters.

    >>> _plain("$paramod$ab12\\mac"), _plain(r"$paramod\mac\W=s32'1"), _plain(r"\mac")
    ('mac', 'mac', 'mac')
    """
    parts = [part for part in name.split("\\") if part]
    return parts[1] if len(parts) > 1 and parts[0].startswith("$paramod") else parts[-1]


def _short_names(modules: Mapping[str, Any], top: str) -> dict[str, str]:
    """Return a name for each module: its own, and a number where several are called so."""
    result: dict[str, str] = {}
    for name in modules:
        plain = short = _plain(name)
        # One called like hwgen's full adder need not be one.
        plain = short = f"{plain}_module" if is_full_adder(plain) else plain
        number = 1
        while short in result.values():
            number += 1
            short = f"{plain}_{number}"
        result[name] = TOP if name == top else short
    return result


def _clock(flat: Mapping[str, Any], top: str) -> str:
    """Return the name of the only clock of a design without hierarchy."""
    names = {bit: name for name, entry in reversed(list(flat["netnames"].items()))
             for bit in entry["bits"]}  # fmt: skip
    names |= {bit: name for name, entry in flat["ports"].items() for bit in entry["bits"]}
    clocks: dict[tuple[Any, str], str] = {}
    for label, cell in flat["cells"].items():
        pins, parameters = cell["connections"], cell["parameters"]
        if cell["type"] in _LATCHES:
            raise InputError(f"module {top} has a latch, {label}: estimates are of registers")
        if cell["type"] in _CLOCKED:
            edge = str(parameters.get("CLK_POLARITY", "1"))[-1:]
            clocks.setdefault((pins["CLK"][0], edge), label)
        elif cell["type"].startswith("$mem"):
            edges = str(parameters["WR_CLK_POLARITY"])
            for bit in pins["WR_CLK"]:
                clocks.setdefault((bit, edges[-1:]), label)
    if len(clocks) > 1:
        words = {"1": "", "0": " (falling edge)"}
        listed = sorted(f"{names.get(bit, bit)}{words[edge]}" for bit, edge in clocks)
        raise InputError(
            f"module {top} has {len(clocks)} clocks ({', '.join(listed)}): estimates are of one"
        )
    for bit, _ in clocks:
        name = str(names.get(bit, bit))
        if name not in flat["ports"]:
            raise InputError(f"module {top} has a clock, {name}, that is none of its ports")
        return name
    return ""


def _check(netlist: Netlist, top: str) -> None:
    """Refuse cells that the cost model does not know."""
    for name, module in netlist.modules.items():
        for cell in module.cells:
            if cell.operator not in OPERATORS or cell.operator == "divide":
                label = top if name == TOP else name
                raise InputError(
                    f"module {label} has a cell of the type {cell.type}, whose costs are not known"
                )
