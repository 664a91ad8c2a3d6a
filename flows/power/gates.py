# SPDX-License-Identifier: Apache-2.0
"""A mapped netlist as something that can be simulated.

The names in a netlist are those of the design, escaped, and differ from tool to tool.  Here nets
and cells are numbered instead, so that what a simulator records of a net can be found.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.synthesis.liberty import Library
from flows.tools import process
from flows.tools.toolchain import require
from hwgen.errors import CheckFailed

MODULE = "hwgen_gates"
"""Name of the module of cells."""

_BIT = re.compile(r"(.*)\[(\d+)\]")


@dataclass(frozen=True)
class Gate:
    """An instance of a cell.

    Parameters
    ----------
    name, cell : str
    inputs, outputs : mapping
        Pin: net.
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
    models : str
        Verilog of the cells, from their functions in the Liberty files.
    """

    top: str
    inputs: Mapping[str, tuple[str, ...]]
    outputs: Mapping[str, tuple[str, ...]]
    gates: tuple[Gate, ...]
    models: str

    def netlist(self) -> str:
        """Return the Verilog of the module `MODULE`; its ports have the names of nets."""
        inputs, outputs = self._ports()
        lines = [f"module {MODULE}({', '.join([*inputs, *outputs])});"]
        lines += [f"  input {net};" for net in inputs]
        lines += [f"  output {net};" for net in outputs]
        made = {net for gate in self.gates for net in gate.outputs.values()}
        lines += [f"  wire {net};" for net in sorted(made - set(outputs), key=_number)]
        for gate in self.gates:
            pins = {**gate.inputs, **gate.outputs}
            joined = ", ".join(f".{pin}({net})" for pin, net in pins.items())
            lines.append(f"  {gate.cell} {gate.name} ({joined});")
        return "\n".join([*lines, "endmodule", ""])

    def design(self) -> str:
        """Return Verilog that stands for the design: its ports, the netlist, and the cells.

        Verilator traces ports and nets, and nothing inside the cells.
        """
        inputs, outputs = self._ports()
        ports = [
            f"{direction} [{len(nets) - 1}:0] {name}" if len(nets) > 1 else f"{direction} {name}"
            for direction, group in (("input", self.inputs), ("output", self.outputs))
            for name, nets in group.items()
        ]
        sources = {net: index for index, net in _places(self.inputs)}
        lines = [f"module {self.top}({', '.join(ports)});"]
        lines += [f"  wire {net};" for net in outputs]
        lines += [
            f"  assign {index} = {sources.get(net, net)};" for index, net in _places(self.outputs)
        ]
        pins = [f".{net}({sources[net]})" for net in inputs]
        pins += [f".{net}({net})" for net in outputs]
        lines += [f"  {MODULE} gates({', '.join(pins)});", "endmodule", ""]
        quiet = "/* verilator tracing_off */\n"
        return "\n".join(lines) + self.netlist() + quiet + self.models

    def _ports(self) -> tuple[list[str], list[str]]:
        """Return the nets that come in, and those of cells that go out, each once."""
        inputs = dict.fromkeys(net for _, net in _places(self.inputs))
        made = {net for gate in self.gates for net in gate.outputs.values()}
        outputs = dict.fromkeys(net for _, net in _places(self.outputs) if net in made)
        return [*inputs], [*outputs]


def _places(ports: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    for name, nets in ports.items():
        for index, net in enumerate(nets):
            yield (f"{name}[{index}]" if len(nets) > 1 else name), net


def _number(net: str) -> int:
    return int(net[1:])


def read_netlist(netlist: str, top: str, library: Library, work: Path, timeout: float) -> Gates:
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

    Raises
    ------
    ToolMissing
        If there is no Yosys.
    CheckFailed
        If it fails, or a cell has no function to simulate.
    """
    (work / "netlist.v").write_text(netlist, encoding="utf-8")
    (work / "cells.lib").write_text(library.text, encoding="utf-8")
    used = sorted(set(re.findall(r"^  (\w+) \S+ +\($", netlist, re.MULTILINE)) & set(library.cells))
    script = f"""\
read_liberty -ignore_miss_func cells.lib
select -set used {" ".join(used)}
select -clear
delete =* @used %d
read_verilog netlist.v
select {top}
write_json -selected netlist.json
select -clear
delete {top}
write_verilog -noattr models.v
"""
    (work / "gates.ys").write_text(script, encoding="utf-8")
    process.run(require("yosys"), ["-q", "-T", "gates.ys"], work, "gates.log", timeout)
    module = json.loads((work / "netlist.json").read_text(encoding="utf-8"))["modules"][top]
    models = (work / "models.v").read_text(encoding="utf-8")
    modelled = set(re.findall(r"^module (\w+)\(", models, re.MULTILINE))
    # A cell that Yosys read without its module has no directions of its pins either.
    used += sorted({cell["type"] for cell in module["cells"].values()} - set(used))
    if missing := [cell for cell in used if cell not in modelled]:
        raise CheckFailed(f"cells without a function in the Liberty files: {', '.join(missing)}")
    groups = _ports(module)
    return Gates(
        top,
        groups["input"],
        groups["output"],
        tuple(_gate(i, cell) for i, cell in enumerate(module["cells"].values())),
        models,
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


def _gate(index: int, cell: Mapping[str, Any]) -> Gate:
    pins: dict[str, dict[str, str]] = {"input": {}, "output": {}}
    for pin, bits in cell["connections"].items():
        if bits:
            pins[cell["port_directions"][pin]][pin] = _net(bits[0])
    return Gate(f"g{index}", cell["type"], pins["input"], pins["output"])


def _net(bit: int | str) -> str:
    return f"n{bit}" if isinstance(bit, int) else f"1'b{bit}"
