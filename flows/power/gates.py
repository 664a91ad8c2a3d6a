# SPDX-License-Identifier: Apache-2.0
"""A mapped netlist as something that can be simulated.

The names in a netlist are those of the design, escaped, and differ from tool to tool.  Here nets
and cells are numbered instead, so that what a simulator records of a net can be found.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.synthesis.liberty import Library
from flows.tools import process
from flows.tools.toolchain import require
from hwgen.errors import CheckFailed

_BIT = re.compile(r"(.*)\[(\d+)\]")


@dataclass(frozen=True)
class Gate:
    """An instance of a cell.

    Parameters
    ----------
    name, cell : str
    inputs, outputs : mapping
        Pin: net; a bit of a bus of an SRAM macro is ``PIN[BIT]``.
    """

    name: str
    cell: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@dataclass(frozen=True)
class Gates:
    """A flat netlist.

    Parameters
    ----------
    top : str
        The top module of the design.
    inputs, outputs : mapping
        Port of the design: its nets, bit 0 first.
    gates : tuple of Gate
    names : mapping
        Net: its name in the design, where it has one.
    """

    top: str
    inputs: Mapping[str, tuple[str, ...]]
    outputs: Mapping[str, tuple[str, ...]]
    gates: tuple[Gate, ...]
    names: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def ports(self) -> list[str]:
        """Names of the ports of the design, inputs first."""
        return [*self.inputs, *self.outputs]


def read_netlist(
    netlist: str, top: str, library: Library, work: Path, timeout: float, macros: str = ""
) -> Gates:
    """Read the netlist that `flows.synthesis.standard_cells` writes.

    Parameters
    ----------
    netlist : str
        Text of ``netlist.v``: flat, with ports of single bits.
    top : str
    library : Library
    work : Path
        Directory to work in.
    timeout : float
        Seconds for Yosys.
    macros : str
        Verilog declarations of the SRAM macros in it.

    Raises
    ------
    ToolMissing
        If there is no Yosys.
    CheckFailed
        If it fails, or the Liberty files do not say which pins of a cell are outputs.
    """
    (work / "netlist.v").write_text(netlist, encoding="utf-8")
    (work / "macros.v").write_text(macros, encoding="utf-8")
    (work / "cells.lib").write_text(library.text, encoding="utf-8")
    script = f"""\
read_liberty -ignore_miss_func cells.lib
read_verilog macros.v
read_verilog netlist.v
select {top}
write_json -selected netlist.json
"""
    (work / "gates.ys").write_text(script, encoding="utf-8")
    process.run(require("yosys"), ["-q", "-T", "gates.ys"], work, "gates.log", timeout)
    module = json.loads((work / "netlist.json").read_text(encoding="utf-8"))["modules"][top]
    cells = module["cells"].values()
    if missing := sorted({cell["type"] for cell in cells if "port_directions" not in cell}):
        raise CheckFailed(f"cells without a function in the Liberty files: {', '.join(missing)}")
    groups = _ports(module)
    return Gates(
        top,
        groups["input"],
        groups["output"],
        tuple(_gate(i, cell) for i, cell in enumerate(cells)),
        _names(module),
    )


def _ports(module: Mapping[str, Any]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the ports by direction, the bits of each together again."""
    ports: dict[str, dict[str, dict[int, str]]] = {
        "input": defaultdict(dict),
        "output": defaultdict(dict),
    }
    for name, port in module["ports"].items():
        match = _BIT.fullmatch(name)
        base, index = (match[1], int(match[2])) if match else (name, 0)
        ports[port["direction"]][base][index] = _net(port["bits"][0])
    return {
        direction: {name: tuple(bits[i] for i in range(len(bits))) for name, bits in named.items()}
        for direction, named in ports.items()
    }


def _names(module: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of nets in the design, not those that a tool made up."""
    return {
        _net(entry["bits"][0]): name
        for name, entry in module["netnames"].items()
        if len(entry["bits"]) == 1 and not re.fullmatch(r"_\d+_", name)
    }


def _gate(index: int, cell: Mapping[str, Any]) -> Gate:
    pins: dict[str, dict[str, str]] = {"input": {}, "output": {}}
    for pin, bits in cell["connections"].items():
        group = pins[cell["port_directions"][pin]]
        for position, bit in enumerate(bits):
            group[pin if len(bits) == 1 else f"{pin}[{position}]"] = _net(bit)
    return Gate(f"g{index}", cell["type"], pins["input"], pins["output"])


def _net(bit: int | str) -> str:
    return f"n{bit}" if isinstance(bit, int) else f"1'b{bit}"
