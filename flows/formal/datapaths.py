# SPDX-License-Identifier: Apache-2.0
"""Datapaths equal their arithmetic definition, for all operands.

The definition is Verilog with plain ``+``, ``*`` and comparisons; that of floating-point numbers is
the exact real value, rounded.  Yosys makes one combinational circuit of both, whose output is 1 if
they differ, and ABC's SAT solver shows that it never is.  Registers of a pipeline are taken as
wires: operands stand still until the result is there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flows.build.verilog import block_to_verilog
from flows.formal.aiger import Aiger, parse_aiger
from flows.formal.block_proof import Result
from flows.formal.equivalence import search_difference
from flows.formal.modules import Part
from flows.formal.prover import run_yosys
from rtl_templates.hdl.hierarchy import Block

GROUP = "datapaths"
DIFFERS = "differs"
"""Output of a comparison."""

_PREFIX = "dut"
_PORT = re.compile(r"^  (input|output)\s+(?:(?:signed\s+)?\[(\d+):0\] )?(\w+);", re.MULTILINE)
_TIED = {"clk": "1'b0", "rst": "1'b0", "run": "1'b1", "step": "1'b1"}
_WIRES = """\
module \\$dff (CLK, D, Q);
  parameter WIDTH = 1;
  parameter CLK_POLARITY = 1;
  input CLK;
  input [WIDTH-1:0] D;
  output [WIDTH-1:0] Q;
  assign Q = D;
endmodule
"""
_SCRIPT = """\
read_verilog compared.v
hierarchy -top compared
proc
flatten
opt_expr
opt_clean
techmap -map wires.v t:$dff
opt -full
wreduce
opt -full
techmap
simplemap
opt -full
aigmap
opt_clean
write_aiger -symbols compared.aig
"""


@dataclass(frozen=True)
class Datapath:
    """A block with its definition.

    Parameters
    ----------
    name : str
        Of the block's type, in words.
    case : str
        Its formats or widths.
    block : Block
    definition : str
        Verilog that reads the block's ports by their names and declares the wire ``right``.
    tied : tuple of (str, str)
        Inputs with a constant value, besides enables.
    split : tuple of str
        Bits of inputs whose values are cases that are proven one by one.
    """

    name: str
    case: str
    block: Block
    definition: str
    tied: tuple[tuple[str, str], ...] = ()
    split: tuple[str, ...] = ()

    @property
    def part(self) -> Part:
        """Emitted Verilog of the block and of those below it."""
        name = f"{_PREFIX}_{self.block.module_name}"
        return Part(name, block_to_verilog(self.block, _PREFIX))


def prove_datapath(
    datapath: Datapath, work: Path, seconds: int, part: Part | None = None
) -> Result:
    """Prove that a datapath equals its definition.

    Parameters
    ----------
    datapath : Datapath
    work : Path
        Directory for the files of Yosys and ABC.
    seconds : int
        Limit of the search.
    part : Part, optional
        The block in a design, by default as it is emitted alone.

    Raises
    ------
    ToolMissing
        If there is no Yosys or no ABC.
    CheckFailed
        If one of them fails.
    """
    start = time.monotonic()
    circuit = _compare(datapath, part or datapath.part, work)
    answer = search_difference(circuit, DIFFERS, work, seconds, datapath.split)
    return Result(
        GROUP,
        f"{datapath.name} {datapath.case}",
        "the result equals its arithmetic definition for all operands",
        answer.status,
        answer.engine,
        answer.detail,
        round(time.monotonic() - start, 2),
        [_operands(each) for each in answer.trace],
    )


def _compare(datapath: Datapath, part: Part, work: Path) -> Aiger:
    """Return the circuit that compares a block with its definition, ``compared.aig``."""
    text = re.search(rf"^module {part.name}\b.*?^endmodule$", part.text, re.MULTILINE | re.DOTALL)
    assert text, f"no module {part.name}"
    tied = _TIED | dict(datapath.tied)
    ports = [(way, int(high or 0), name) for way, high, name in _PORT.findall(text[0])]
    heads = [f"input [{high}:0] {name}" for way, high, name in ports
             if way == "input" and name not in tied]  # fmt: skip
    lines = [f"module compared({', '.join(heads)}, output {DIFFERS});"]
    lines += [f"wire [{high}:0] {name};" for way, high, name in ports if way == "output"]
    lines += [f"wire [{high}:0] {name} = {tied[name]};" for way, high, name in ports
              if way == "input" and name in tied]  # fmt: skip
    lines.append(f"{part.name} dut({', '.join(f'.{name}({name})' for *_, name in ports)});")
    lines += [datapath.definition, f"assign {DIFFERS} = !right;", "endmodule", ""]
    (work / "compared.v").write_text("\n".join([part.text, *lines]), encoding="utf-8")
    (work / "wires.v").write_text(_WIRES, encoding="utf-8")
    run_yosys(work, _SCRIPT, "compared")
    return parse_aiger((work / "compared.aig").read_bytes())


def _operands(bits: Iterable[str]) -> dict[str, int]:
    """Return the values of inputs from those bits that are 1."""
    values: dict[str, int] = {}
    for name in bits:
        port, _, bit = name.rstrip("]").partition("[")
        values[port] = values.get(port, 0) | 1 << int(bit or 0)
    return values
