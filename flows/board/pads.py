# SPDX-License-Identifier: Apache-2.0
"""The pads of an SDRAM: the top module of a board with one, around the design that is simulated."""

from __future__ import annotations

from collections.abc import Iterable

from hwgen.board.model import LINKS
from hwgen.board.sdram import SDRAM_PORTS

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


def pads_of(inner: str, name: str, wires: Iterable[str], primitive: str) -> str:
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


_OUTPUTS = {"led"} | {
    name for pins in LINKS.values() for name, direction in pins.items() if direction == "out"
}
