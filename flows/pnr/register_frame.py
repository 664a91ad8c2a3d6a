# SPDX-License-Identifier: Apache-2.0
"""A frame of registers around a core, so that it can be placed alone.

A core has thousands of port bits, more than any package has pins, because it is meant to sit
inside a design.  The frame gives it the surroundings it would have there: every input comes out of
a register, every output goes into one.  The input registers are a shift chain that is fed from one
pin; the output registers are folded, a bit a cycle, into another shift chain whose end is a pin.
Nothing of the core can be optimised away, and no path of the frame has more than one look-up table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SUFFIX = "_frame"
"""The frame's name is that of the core and this."""

PORTS = ("clk", "in", "out")
"""The ports of a frame."""


@dataclass(frozen=True)
class Frame:
    """A frame.

    Parameters
    ----------
    top : str
        Name of its module.
    text : str
        Its Verilog, without the core.
    flip_flops, luts : int
        What it adds to the core.
    """

    top: str
    text: str
    flip_flops: int
    luts: int


def frame(core: str, ports: Mapping[str, tuple[str, int]], clock: str) -> Frame:
    """Return the frame of a core.

    Parameters
    ----------
    core : str
        The core's module.
    ports : mapping
        Its ports: name to direction (``input`` or ``output``) and width.
    clock : str
        Its clock port, which is connected to a pin.
    """
    inputs = sum(w for name, (side, w) in ports.items() if side == "input" and name != clock)
    outputs = sum(w for side, w in ports.values() if side == "output")
    connections = [f".{clock}(clk)"]
    position = {"input": 0, "output": 0}
    for name, (side, width) in ports.items():
        if name == clock:
            continue
        low = position[side]
        position[side] += width
        bus = "stimulus" if side == "input" else "response"
        connections.append(f".{name}({bus}[{low + width - 1}:{low}])")
    top = f"{core}{SUFFIX}"
    joined = ",\n    ".join(connections)
    text = f"""\
module {top}(input clk, input in, output out);
  reg [{inputs}:0] stimulus;
  wire [{outputs - 1}:0] response;
  reg [{outputs - 1}:0] captured;
  reg [{outputs - 1}:0] folded;
  always @(posedge clk) begin
    stimulus <= {{stimulus[{inputs - 1}:0], in}};
    captured <= response;
    folded <= captured ^ {{folded[{outputs - 1}:0], 1'b0}};
  end
  assign out = folded[{outputs - 1}];
  {core} core(
    {joined});
endmodule
"""
    return Frame(top, text, inputs + 1 + 2 * outputs, max(0, outputs - 1))
