# SPDX-License-Identifier: Apache-2.0
"""Estimates of Verilog that hwgen did not emit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.bench import external as bench
from hwgen.cli import main

Run = Callable[..., tuple[int, str, str]]

MAC = """\
module mac(input clk, input [7:0] a, b, output reg [19:0] sum);
  wire [15:0] product;
  times #(8) inner(a, b, product);
  always @(posedge clk) sum <= sum + product;
endmodule
module times #(parameter W = 4) (input [W-1:0] a, b, output [2*W-1:0] y);
  assign y = a * b;
endmodule
"""


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that estimates Verilog and returns status, output and errors."""

    def run(text: str, *options: str, top: str = "mac") -> tuple[int, str, str]:
        path = tmp_path / "file.v"
        path.write_text(text)
        code = main(["estimate", "--verilog", str(path), "--top", top, *options])
        return code, *capsys.readouterr()

    return run


def test_estimate_of_verilog(run: Run) -> None:
    code, out, _ = run(MAC, "--json")
    assert code == 0
    entry = json.loads(out)
    components = {part["part"]: part["components"] for part in entry["breakdown"]}
    assert components["(top)"]["register_bit"] == 20
    assert "booth_bit" in components["times"] or "product_bit" in components["times"]
    assert 300e-6 < entry["metrics"]["area_mm2"] < 900e-6
    assert entry["metrics"]["fmax_mhz"] > 100
    assert entry["metrics"]["power_w"] > 0
    assert all("within" in entry["certainty"][name] for name in ("area_mm2", "fmax_mhz", "power_w"))
    code, out, _ = run(MAC, "--target", "ecp5-25f")
    assert code == 0
    assert "ecp5-25f: fits: yes" in out
    assert "DSP blocks" in out


BLACK_BOX = """\
(* blackbox *) module ram(input a, output y); endmodule
module mac(input a, output y); ram inner(a, y); endmodule
"""
CLOCKS = """\
module mac(input clk, other, a, output reg x, y);
always @(posedge clk) x <= a;
always @(posedge other) y <= a;
endmodule
"""
DIVIDER = """\
module mac(input clk, input [7:0] a, b, output reg [7:0] x);
always @(posedge clk) x <= a / b;
endmodule
"""
EDGES = CLOCKS.replace("posedge other", "negedge clk")
LATCH = "module mac(input e, a, output reg x); always @* if (e) x = a; endmodule"


@pytest.mark.parametrize(
    ("text", "top", "problem"),
    [
        (MAC, "other", "--top: there is no module other"),
        (MAC.partition("module times")[0], "mac", "module times, which mac instantiates, is not"),
        (MAC.replace("assign y", "assing y"), "times", "Yosys cannot read times: "),
        (BLACK_BOX, "mac", "module ram is a black box"),
        (CLOCKS, "mac", "module mac has 2 clocks (clk, other)"),
        (EDGES, "mac", "module mac has 2 clocks (clk, clk (falling edge))"),
        (LATCH, "mac", "module mac has a latch"),
        (DIVIDER, "mac", "module mac has a cell of the type div"),
    ],
)
def test_verilog_that_is_refused(run: Run, text: str, top: str, problem: str) -> None:
    code, _, errors = run(text, top=top)
    assert code == 2
    assert problem in " ".join(errors.split())


def test_options_of_verilog(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, problem in (
        ([], "--config FILE, or --verilog FILE"),
        (["--verilog", __file__], "needs --top"),
        (["--verilog", __file__, "--top", "a", "--config", __file__], "not both"),
        (["--verilog", __file__, "--top", "a", "--gemm", "1,2,3"], "--gemm: does not belong"),
    ):
        assert main(["estimate", *arguments]) == 2
        assert problem in " ".join(capsys.readouterr().err.split())


def test_table_of_external_designs() -> None:
    row = {"class": "basic", "design": "mac",
           "estimated": {"area_um2": 95.0, "fmax_mhz": 125.0},
           "measured": {"area_um2": 100.0, "fmax_mhz": 100.0}}  # fmt: skip
    lines = list(bench.summary([row]))
    assert "| basic | area | 1 | 5.0 % | 5.0 % | -5.0 % | -5.0 % | 5.0 % |" in lines
    assert "| all | Fmax | 1 | 25.0 % | 25.0 % | +25.0 % | +25.0 % | 25.0 % |" in lines
    assert list(bench.table([row]))[-1] == (
        "| basic | mac | 100 | 95 | -5.0 % | 100 | 125 | +25.0 % |"
    )
