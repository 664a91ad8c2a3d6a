# SPDX-License-Identifier: Apache-2.0
"""A netlist of cells as Verilog for Verilator, with which simulations of netlists are compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from flows.power.gates import Gates
from flows.synthesis.liberty import Library
from flows.tools import process
from flows.tools.toolchain import require

MODULE = "hwgen_gates"
"""Name of the module of cells."""

_NET = re.compile(r"\((n\d+) ([^\n]*)\)$", re.MULTILINE)
_CHANGES = re.compile(r"\(TC (\d+)\)")


def design_verilog(gates: Gates, models: str) -> str:
    """Return Verilog that stands for the design: its ports, the netlist, and the cells.

    Verilator traces ports and nets, and nothing inside the cells.
    """
    made = {net for gate in gates.gates for net in gate.outputs.values()}
    inputs = list(dict.fromkeys(net for _, net in _bits(gates.inputs)))
    outputs = list(dict.fromkeys(net for _, net in _bits(gates.outputs) if net in made))
    ports = [
        f"{direction} [{len(nets) - 1}:0] {name}" if len(nets) > 1 else f"{direction} {name}"
        for direction, group in (("input", gates.inputs), ("output", gates.outputs))
        for name, nets in group.items()
    ]
    sources = {net: index for index, net in _bits(gates.inputs)}
    lines = [f"module {gates.top}({', '.join(ports)});"]
    lines += [f"  wire {net};" for net in outputs]
    lines += [f"  assign {bit} = {sources.get(net, net)};" for bit, net in _bits(gates.outputs)]
    pins = [f".{net}({sources[net]})" for net in inputs]
    pins += [f".{net}({net})" for net in outputs]
    lines += [f"  {MODULE} gates({', '.join(pins)});", "endmodule", ""]
    lines += [f"module {MODULE}({', '.join([*inputs, *outputs])});"]
    lines += [f"  input {net};" for net in inputs]
    lines += [f"  output {net};" for net in outputs]
    lines += [f"  wire {net};" for net in sorted(made - set(outputs))]
    for gate in gates.gates:
        joined = ", ".join(f".{pin}({net})" for pin, net in {**gate.inputs, **gate.outputs}.items())
        lines.append(f"  {gate.cell} {gate.name} ({joined});")
    return "\n".join([*lines, "endmodule", "/* verilator tracing_off */", models])


def cell_models(library: Library, names: set[str], work: Path) -> str:
    """Return Verilog of cells, which Yosys makes of their functions in the Liberty file."""
    (work / "cells.lib").write_text(library.text, encoding="utf-8")
    script = f"""\
read_liberty -ignore_miss_func cells.lib
select -set used {" ".join(sorted(names))}
select -clear
delete =* @used %d
write_verilog -noattr models.v
"""
    (work / "models.ys").write_text(script, encoding="utf-8")
    process.run(require("yosys"), ["-q", "-T", "models.ys"], work, "models.log", 300)
    return (work / "models.v").read_text(encoding="utf-8")


def read_saif(path: Path) -> tuple[int, dict[str, int]]:
    """Return the cycles of a SAIF file by Verilator, a unit of time a cycle, and changes of nets.

    It counts a net that is 1 at first as one change too many.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    duration = re.search(r"\(DURATION (\d+)\)", text)
    changes = {net: _CHANGES.search(text_of_net) for net, text_of_net in _NET.findall(text)}
    assert duration
    return int(duration[1]), {net: int(match[1]) for net, match in changes.items() if match}


def _bits(ports: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    for name, nets in ports.items():
        for index, net in enumerate(nets):
            yield (f"{name}[{index}]" if len(nets) > 1 else name), net
