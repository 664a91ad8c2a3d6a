# SPDX-License-Identifier: Apache-2.0
"""Phase-locked loops as instances of the primitives of FPGAs, and models for simulation."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Instance, Signal

from hwgen.board.pll import Pll, Primitive

PORTS: dict[Primitive, tuple[str, str, str]] = {
    "SB_PLL40_PAD": ("PACKAGEPIN", "PLLOUTGLOBAL", "LOCK"),
    "EHXPLLL": ("CLKI", "CLKOP", "LOCK"),
    "rPLL": ("CLKIN", "CLKOUT", "LOCK"),
    "CC_PLL": ("CLK_REF", "CLK0", "USR_PLL_LOCKED"),
}
"""Input, output, and whether it has locked, of each primitive."""

_CONSTANTS: dict[Primitive, dict[str, tuple[int, int]]] = {
    "SB_PLL40_PAD": {"RESETB": (1, 1), "BYPASS": (0, 1)},
    "EHXPLLL": {
        "RST": (0, 1), "STDBY": (0, 1), "PHASESEL0": (0, 1), "PHASESEL1": (0, 1),
        "PHASEDIR": (1, 1), "PHASESTEP": (1, 1), "PHASELOADREG": (1, 1), "PLLWAKESYNC": (0, 1),
        "ENCLKOP": (0, 1),
    },
    "rPLL": {
        "RESET": (0, 1), "RESET_P": (0, 1), "CLKFB": (0, 1), "FBDSEL": (0, 6), "IDSEL": (0, 6),
        "ODSEL": (0, 6), "PSDA": (0, 4), "DUTYDA": (0, 4), "FDLY": (0, 4),
    },
    "CC_PLL": {"CLK_FEEDBACK": (0, 1), "USR_CLK_REF": (0, 1), "USR_LOCKED_STDY_RST": (0, 1)},
}  # fmt: skip
"""Inputs with a constant level: value and width."""

DOUBLE = "CLKOS"
"""Second output of EHXPLLL."""

LOCK_CYCLES = 64
"""Cycles after which a model has locked."""


def instance(
    pll: Pll, source: Signal, clock: Signal, locked: Signal, double: Signal | None = None
) -> Instance:
    """Return a phase-locked loop.

    Parameters
    ----------
    pll : Pll
    source : Signal
        The oscillator.
    clock, locked : Signal
        Its output, and whether it is stable.
    double : Signal, optional
        Its second output, of twice the frequency, if the loop has one.
    """
    into, out, lock = PORTS[pll.primitive]
    wires: dict[str, Any] = {f"p_{name}": value for name, value in pll.parameters}
    wires |= {f"i_{into}": source, f"o_{out}": clock, f"o_{lock}": locked}
    wires |= {
        f"i_{n}": Const(value, width) for n, (value, width) in _CONSTANTS[pll.primitive].items()
    }
    if pll.phase_ns is not None:
        wires[f"o_{DOUBLE}"] = double
    if pll.primitive == "EHXPLLL":
        wires |= {"i_CLKFB": clock, "a_ICP_CURRENT": "12", "a_LPF_RESISTOR": "8",
                  "a_MFG_ENABLE_FILTEROPAMP": "1", "a_MFG_GMCREF_SEL": "2"}  # fmt: skip
    return Instance(pll.primitive, **wires)


def model(pll: Pll, *, locks: bool = True) -> str:
    """Return Verilog that stands for the primitive in a simulation.

    Time is counted in cycles of the output there: the simulated oscillator has its frequency, and
    the output is the input.  A second output has no edges: it leads to a pin, where the model of
    the pads counts them.

    Parameters
    ----------
    pll : Pll
    locks : bool
        Whether it locks after `LOCK_CYCLES`, or never.
    """
    into, out, lock = PORTS[pll.primitive]
    double = "" if pll.phase_ns is None else f"  assign {DOUBLE} = 1'b0;\n"
    return f"""\
{_heading(pll)}
{double}  reg [7:0] count = 8'd0;
  always @(posedge {into}[0]) if (count != 8'd{LOCK_CYCLES}) count <= count + 8'd1;
  assign {out} = {into}[0];
  assign {lock} = {"count == 8'd" + str(LOCK_CYCLES) if locks else "1'b0"};
endmodule
"""


def declaration(pll: Pll) -> str:
    """Return Verilog that declares the primitive, for synthesis."""
    return f"(* blackbox *)\n{_heading(pll)}\nendmodule\n"


def _heading(pll: Pll) -> str:
    into, out, lock = PORTS[pll.primitive]
    inputs = [(into, 1), *((name, width) for name, (_, width) in _CONSTANTS[pll.primitive].items())]
    if pll.primitive == "EHXPLLL":
        inputs.append(("CLKFB", 1))
    ports = [f"input [{width - 1}:0] {name}" for name, width in inputs]
    ports += [f"output {out}", f"output {lock}"]
    if pll.phase_ns is not None:
        ports.append(f"output {DOUBLE}")
    parameters = ", ".join(f"parameter {name} = 0" for name, _ in pll.parameters)
    return f"module {pll.primitive} #({parameters}) ({', '.join(ports)});"
