# SPDX-License-Identifier: Apache-2.0
"""The pads of an SDRAM: the top module of a board with one, around the design that is simulated."""

from __future__ import annotations

from collections.abc import Iterable

from hwgen.board.model import LINKS
from hwgen.board.sdram import SDRAM_PORTS, sdram_ports

PADS = {
    "BB": (
        "BB {name}(.I({out}), .T({off}), .O({into}), .B({pin}));",
        "ODDRX1F {name}(.D0(1'b0), .D1(1'b1), .SCLK({clock}), .RST(1'b0), .Q({pin}));",
    )
}
"""By primitive: an instance of a pad that is driven or read, and of one of an inverted clock."""

_PRIMITIVES = """\
(* blackbox *)
module BB(input I, input T, output O, inout B);
endmodule
(* blackbox *)
module ODDRX1F(input D0, input D1, input SCLK, input RST, output Q);
endmodule
"""


_OUTPUT = "ODDRX1F {name}(.D0({first}), .D1({second}), .SCLK(sdram_clock), .RST(1'b0), .Q({pin}));"
_DATA = """\
ODDRX1F {name}_out(.D0({first}), .D1({second}), .SCLK(sdram_clock), .RST(1'b0), .Q(out[{bit}]));
  OFS1P3DX {name}_off(.D(off[1]), .SP(1'b1), .SCLK(sdram_clock), .CD(1'b0), .Q(away[{bit}]));
  BB {name}(.I(out[{bit}]), .T(away[{bit}]), .O(into[{bit}]), .B({pin}));
  IDDRX1F {name}_in(.D(into[{bit}]), .SCLK(sdram_clock), .RST(1'b0), .Q0({q0}), .Q1({q1}));"""

_DOUBLE_PRIMITIVES = """\
(* blackbox *)
module OFS1P3DX(input D, input SP, input SCLK, input CD, output Q);
endmodule
(* blackbox *)
module IDDRX1F(input D, input SCLK, input RST, output Q0, output Q1);
endmodule
"""


def pads_of(inner: str, name: str, wires: Iterable[str], primitive: str, ratio: int = 1) -> str:
    """Return the Verilog of a top module with the pins of an SDRAM.

    Parameters
    ----------
    inner : str
        Module inside, with a port for each direction of the data.
    name : str
        Of the top module.
    wires : iterable of str
        Other ports of the module inside, of one bit: ``tx``, ``miso`` and ``led`` are outputs.
    primitive : str
        One of `PADS`.
    ratio : int
        Cycles of the SDRAM in a cycle of the design; 2 takes registers that work at both edges.
    """
    both_ways, clock = PADS[primitive]
    ports = [f"{'output' if wire in _OUTPUTS else 'input'} wire {wire}" for wire in wires]
    inside = [f".{wire}({wire})" for wire in wires]
    for port, bits in SDRAM_PORTS.items():
        width = f"[{bits - 1}:0] " if bits > 1 else ""
        if not port.startswith("dq_"):
            ports.append(f"output wire {width}sdram_{port}")
        inside.append(f".sdram_{port}(sdram_{port})")
    ports += ["output wire sdram_clk", f"inout wire [{SDRAM_PORTS['dq_o'] - 1}:0] sdram_dq"]
    inside.append(".sdram_clock(sdram_clock)")
    if ratio > 1:
        inside.append(".sdram_double(sdram_double)")
        board = f"{inner} board({', '.join(inside)});"
        return _double_pads(f"module {name}({', '.join(ports)});", board)
    lines = [f"module {name}({', '.join(ports)});"]
    for port in ("dq_o", "dq_i"):
        lines.append(f"  wire [{SDRAM_PORTS[port] - 1}:0] sdram_{port};")
    lines += ["  wire sdram_dq_oe;", "  wire sdram_clock;"]
    lines.append(f"  {inner} board({', '.join(inside)});")
    lines.append("  " + clock.format(name="clock_pad", clock="sdram_clock", pin="sdram_clk"))
    for bit in range(SDRAM_PORTS["dq_o"]):
        pad = both_ways.format(
            name=f"data_pad_{bit}", out=f"sdram_dq_o[{bit}]", off="~sdram_dq_oe",
            into=f"sdram_dq_i[{bit}]", pin=f"sdram_dq[{bit}]",
        )  # fmt: skip
        lines.append(f"  {pad}")
    return "\n".join([*lines, "endmodule", _PRIMITIVES])


def _double_pads(heading: str, board: str) -> str:
    """Return the top module with registers in the pads that work at both edges."""
    lines = [heading]
    for port, bits in sdram_ports(2).items():
        lines.append(f"  wire [{bits - 1}:0] double_{port};")
        board = board.replace(f".sdram_{port}(sdram_{port})", f".sdram_{port}(double_{port})")
    words = SDRAM_PORTS["dq_o"]
    lines += [
        "  wire sdram_clock, sdram_double;",
        f"  wire [{words - 1}:0] out, away, into;",
        f"  {board}",
        "  // ODDRX1F has two stages of registers more than the register that ends driving.",
        "  reg [1:0] off = 2'b11;",
        "  always @(posedge sdram_clock) off <= {off[0], ~double_dq_oe[0]};",
    ]
    clock = _OUTPUT.format(name="clock_pad", first="1'b1", second="1'b0", pin="sdram_clk")
    lines.append("  " + clock.replace("sdram_clock", "sdram_double"))
    for port, bits in SDRAM_PORTS.items():
        for bit in range(bits):
            index = f"[{bit}]" if bits > 1 else ""
            names = {
                "first": f"double_{port}[{bit}]", "second": f"double_{port}[{bits + bit}]",
                "bit": bit, "pin": f"sdram_{port}{index}",
            }  # fmt: skip
            if not port.startswith("dq_"):
                lines.append("  " + _OUTPUT.format(name=f"{port}_pad_{bit}", **names))
            elif port == "dq_o":
                names["pin"] = f"sdram_dq[{bit}]"
                names |= {"q0": f"double_dq_i[{bit}]", "q1": f"double_dq_i[{bits + bit}]"}
                lines.append("  " + _DATA.format(name=f"data_pad_{bit}", **names))
    return "\n".join([*lines, "endmodule", _PRIMITIVES + _DOUBLE_PRIMITIVES])


_OUTPUTS = {"led"} | {
    name for pins in LINKS.values() for name, direction in pins.items() if direction == "out"
}
