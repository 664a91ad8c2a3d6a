# SPDX-License-Identifier: Apache-2.0
"""Simulation of cells: what circuits compute, and how often their nets change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from flows.power.cell_functions import function_of, reduced
from flows.power.gate_simulator import GateSimulator
from flows.power.gate_tables import Delays, gate_table, read_counts
from flows.power.gates import Gate, Gates
from flows.synthesis import liberty
from hwgen.errors import CheckFailed
from hwgen.technologies import cell_library
from sim_tests.synthesis.tools import require_tools


def library_of(**functions: str) -> liberty.Library:
    """Return a library of gates with the output Y, and of a flip-flop DFF."""
    cells = []
    for name, function in functions.items():
        pins = "".join(
            f"pin ({pin}) {{ direction : input; capacitance : 1; }}"
            for pin in function_of(function).inputs
        )
        output = f'pin (Y) {{ direction : output; function : "{function}"; }}'
        cells.append(f"cell ({name}) {{ area : 1; {pins} {output} }}")
    register = """
      cell (DFF) { area : 1; ff (IQ, IQN) { clocked_on : "CK"; next_state : "D"; clear : "!RN"; }
        pin (D) { direction : input; } pin (CK) { direction : input; clock : true; }
        pin (RN) { direction : input; }
        pin (Q) { direction : output; function : "IQ"; }
        pin (QN) { direction : output; function : "IQN"; } }"""
    text = f"library (l) {{ capacitive_load_unit (1, ff); {''.join(cells)} {register} }}"
    return liberty.prepare([text])


DRIVER = """
#include "Vtop.h"
int main(int, char** argv) {
    VerilatedContext context;
    Vtop top{&context};
    VerilatedSaifC saif;
    top.trace(&saif, 0);
    saif.open(argv[1]);
    for (int cycle = 0; cycle < CYCLES; ++cycle) {
        INPUTS
        top.aclk = 0;
        top.eval();
        OUTPUTS
        if (cycle >= SKIPPED) saif.dump(cycle);
        top.aclk = 1;
        top.eval();
    }
    saif.dump(0);
    saif.close();
}
"""


def simulate(
    work: Path,
    gates: Gates,
    library: liberty.Library,
    cycles: int,
    *,
    inputs: str = "",
    outputs: str = "",
    skipped: int = 2,
    delays: Delays | None = None,
) -> tuple[dict[str, int], np.ndarray, list[int]]:
    """Return the changes of each net, accesses of macros, and what the driver prints.

    Of so many cycles those that are skipped are not counted.  `inputs` and `outputs` are C++.
    """
    require_tools("g++")
    memories = cell_library("nangate45").memories
    table = gate_table(gates, library, "aclk", memories=memories, delays=delays)
    text = DRIVER.replace("CYCLES", str(cycles + skipped)).replace("SKIPPED", str(skipped))
    text = text.replace("INPUTS", inputs).replace("OUTPUTS", outputs)
    program = GateSimulator(gates, table, work).compile_program(
        gates.top, {"driver.cpp": text}, ["driver.cpp"]
    )
    done = subprocess.run([program, work / "counts"], capture_output=True, check=True, text=True)
    counted, changes, accesses = read_counts(work / "counts", table)
    assert counted == cycles
    printed = [int(word) for word in done.stdout.split()]
    return dict(zip(table.nets, changes.tolist(), strict=True)), accesses, printed


def counter(bits: int) -> Gates:
    """Return a counter: bit i changes when all below it are 1."""
    gates, carry = [], "1'b1"
    for bit in range(bits):
        state, following = f"n{10 + bit}", f"n{30 + bit}"
        pins = {"D": following, "CK": "n2", "RN": "1'b1"}
        gates.append(Gate(f"r{bit}", "DFF", pins, {"Q": state}))
        gates.append(Gate(f"x{bit}", "XOR", {"A": state, "B": carry}, {"Y": following}))
        gates.append(Gate(f"a{bit}", "AND", {"A": state, "B": carry}, {"Y": f"n{50 + bit}"}))
        carry = f"n{50 + bit}"
    states = tuple(f"n{10 + bit}" for bit in range(bits))
    return Gates("counter", {"aclk": ("n2",), "aresetn": ("n3",)}, {"value": states}, tuple(gates))


def test_a_counter(tmp_path: Path) -> None:
    """Bit i of a counter changes once in 2^i cycles, the carry behind it twice in 2^(i + 1)."""
    library = library_of(XOR="A^B", AND="A*B")
    changes, _, _ = simulate(tmp_path, counter(6), library, 1024)
    for bit in range(6):
        assert changes[f"n{10 + bit}"] == changes[f"n{30 + bit}"] == 1024 >> bit
        assert changes[f"n{50 + bit}"] == 1024 >> bit


def test_glitches(tmp_path: Path) -> None:
    """A pulse comes of paths of different delays, if it is not shorter than the cell's delay."""
    library = library_of(XOR="A^B", BUF="A", INV="!A")
    nets = {"aclk": ("n2",), "aresetn": ("n3",)}
    register = {"D": "n5", "CK": "n2", "RN": "1'b1"}
    gates = (
        Gate("r", "DFF", register, {"QN": "n5", "Q": "n6"}),  # changes in every cycle
        Gate("b", "BUF", {"A": "n6"}, {"Y": "n7"}),
        Gate("x", "XOR", {"A": "n6", "B": "n7"}, {"Y": "n8"}),
    )
    circuit = Gates("glitch", nets, {"y": ("n8",)}, gates)

    def delays(late: int) -> Delays:
        return lambda gate, source, output, rises: {"BUF": late, "XOR": 20}.get(gate.cell, 5)

    settled, _, _ = simulate(tmp_path, circuit, library, 100)
    assert [settled[net] for net in ("n6", "n7", "n8")] == [100, 100, 0]
    for late, pulses in ((30, 200), (10, 0)):
        changes, _, _ = simulate(tmp_path, circuit, library, 100, delays=delays(late))
        assert [changes[net] for net in ("n6", "n7", "n8")] == [100, 100, pulses]


def test_a_cell_of_many_inputs(tmp_path: Path) -> None:
    function = "(A*B)|(C*D)|!(E|F)^(G*H)"
    library = library_of(WIDE=function)
    pins = dict(zip("ABCDEFGH", [f"n{10 + i}" for i in range(8)], strict=True))
    nets = {"aclk": ("n2",), "aresetn": ("n3",), "x": tuple(pins.values())}
    gates = Gates("wide", nets, {"y": ("n20",)}, (Gate("g", "WIDE", pins, {"Y": "n20"}),))
    _, _, printed = simulate(
        tmp_path, gates, library, 254, inputs="top.x = cycle;", outputs='printf("%d ", top.y);'
    )
    bits = [[value >> i & 1 for i in range(8)] for value in range(256)]
    expected = [a & b | c & d | ((not (e | f)) ^ (g & h)) for a, b, c, d, e, f, g, h in bits]
    assert printed == list(map(int, expected))


def test_a_macro(tmp_path: Path) -> None:
    """A macro of 32 words keeps what is written; its reads and writes are counted."""
    widths = {"ce_in": 1, "we_in": 1, "addr_in": 5, "wd_in": 32, "w_mask_in": 32, "rd_out": 32}
    nets: dict[str, tuple[str, ...]] = {}
    pins: dict[str, str] = {"clk": "n2"}
    for name, width in widths.items():
        first = 10 + sum(map(len, nets.values()))
        nets[name] = tuple(f"n{first + i}" for i in range(width))
        pins |= {f"{name}[{i}]" if width > 1 else name: net for i, net in enumerate(nets[name])}
    outputs = {pin: net for pin, net in pins.items() if pin.startswith("rd_out")}
    inputs = {pin: net for pin, net in pins.items() if pin not in outputs}
    ports: dict[str, tuple[str, ...]] = {"aclk": ("n2",), "aresetn": ("n3",)}
    ports |= {name: bits for name, bits in nets.items() if name != "rd_out"}
    macro = Gate("m", "fakeram45_32x32", inputs, outputs)
    gates = Gates("memory", ports, {"rd_out": nets["rd_out"]}, (macro,))
    changes, accesses, printed = simulate(
        tmp_path, gates, library_of(BUF="A"), 64, skipped=0,
        inputs="top.ce_in = 1; top.we_in = cycle < 32; top.addr_in = cycle % 32;"
        " top.wd_in = 7 * cycle;",
        outputs='printf("%u ", top.rd_out);',
    )  # fmt: skip
    assert printed[33:] == [7 * word for word in range(31)]
    assert accesses.tolist() == [[32, 32]]
    assert changes[nets["rd_out"][0]] == 31  # odd multiples of 7 are odd


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ((Gate("a", "INV", {"A": "n4"}, {"Y": "n4"}),), "1 cells are in or behind a loop"),
        ((Gate("a", "NONE", {"A": "n4"}, {"Y": "n5"}),), "cells without a function .*NONE"),
        ((Gate("r", "DFF", {"D": "n4", "CK": "n4", "RN": "1'b1"}, {"Q": "n5"}),), "its clock is"),
        ((Gate("r", "DFF", {"D": "n4", "CK": "n2", "RN": "n3"}, {"Q": "n5"}),), "asynchronous"),
    ],
)
def test_what_cannot_be_simulated(gates: tuple[Gate, ...], message: str) -> None:
    circuit = Gates("bad", {"aclk": ("n2",), "aresetn": ("n3",), "x": ("n4",)}, {}, gates)
    with pytest.raises(CheckFailed, match=message):
        gate_table(circuit, library_of(INV="!A"), "aclk")


def test_nothing_was_counted(tmp_path: Path) -> None:
    table = gate_table(counter(1), library_of(XOR="A^B", AND="A*B"), "aclk")
    with pytest.raises(CheckFailed, match="no activity of nets"):
        read_counts(tmp_path / "counts", table)


def test_functions() -> None:
    mux = function_of("(A & !S) | (B & S)")
    assert mux.inputs == ("A", "S", "B")
    assert mux.table == 0b11100010 or mux.table == sum(
        (b if s else a) << (a | s << 1 | b << 2) for a in (0, 1) for s in (0, 1) for b in (0, 1)
    )
    assert reduced(mux, [None, 1, None]).table == 0b1100
    assert function_of("1").table == 1
