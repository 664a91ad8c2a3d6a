# SPDX-License-Identifier: Apache-2.0
"""Phase-locked loops as instances of the primitives of FPGAs, and models for simulation."""

from __future__ import annotations

from collections.abc import Sequence
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

MEMORY_PORTS: dict[Primitive, tuple[str, str]] = {"EHXPLLL": ("CLKOS", "CLKOS2")}
"""Outputs of the primitives that make a clock of a memory: the controller's, and the chip's."""

LOCK_CYCLES = 64
"""Cycles after which a model has locked."""


def instance(
    pll: Pll, source: Signal, clock: Signal, locked: Signal, memory: Sequence[Signal] = ()
) -> Instance:
    """Return a phase-locked loop.

    Parameters
    ----------
    pll : Pll
    source : Signal
        The oscillator.
    clock, locked : Signal
        Its output, and whether it is stable.
    memory : sequence of Signal
        Clocks of `MEMORY_PORTS`, if it has them.
    """
    into, out, lock = PORTS[pll.primitive]
    wires: dict[str, Any] = {f"p_{name}": value for name, value in pll.parameters}
    wires |= {f"i_{into}": source, f"o_{out}": clock, f"o_{lock}": locked}
    if memory:
        wires |= {f"o_{n}": s for n, s in zip(MEMORY_PORTS[pll.primitive], memory, strict=True)}
    wires |= {
        f"i_{n}": Const(value, width) for n, (value, width) in _CONSTANTS[pll.primitive].items()
    }
    if pll.primitive == "EHXPLLL":
        wires |= {"i_CLKFB": clock, "a_ICP_CURRENT": "12", "a_LPF_RESISTOR": "8",
                  "a_MFG_ENABLE_FILTEROPAMP": "1", "a_MFG_GMCREF_SEL": "2"}  # fmt: skip
    return Instance(pll.primitive, **wires)


def model(pll: Pll, *, locks: bool = True) -> str:
    """Return Verilog that stands for the primitive in a simulation.

    Time is counted in cycles of the fastest output there: the simulated oscillator has its
    frequency, and this output is the input.  Of another output, each edge is an edge of that one.

    Parameters
    ----------
    pll : Pll
    locks : bool
        Whether it locks after `LOCK_CYCLES`, or never.
    """
    into, _, lock = PORTS[pll.primitive]
    return f"""\
{_heading(pll)}
  reg [7:0] count = 8'd0;
  always @(posedge {into}[0]) if (count != 8'd{LOCK_CYCLES}) count <= count + 8'd1;
{_outputs(pll)}
  assign {lock} = {"count == 8'd" + str(LOCK_CYCLES) if locks else "1'b0"};
endmodule
"""


def _outputs(pll: Pll) -> str:
    """Return the assignments of the clocks of a model."""
    into, out, _ = PORTS[pll.primitive]
    if pll.memory_ratio == 1:
        return f"  assign {out} = {into}[0];"
    fast, chip = MEMORY_PORTS[pll.primitive]
    return f"""\
  reg second = 1'b0;
  always @(negedge {into}[0]) second <= ~second;
  assign {out} = {into}[0] & second;
  assign {fast} = {into}[0];
  assign {chip} = {into}[0];"""


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
    if pll.memory_ratio > 1:
        ports += [f"output {name}" for name in MEMORY_PORTS[pll.primitive]]
    parameters = ", ".join(f"parameter {name} = 0" for name, _ in pll.parameters)
    return f"module {pll.primitive} #({parameters}) ({', '.join(ports)});"
