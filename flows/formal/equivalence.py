# SPDX-License-Identifier: Apache-2.0
"""Search of inputs with which an output of a combinational circuit becomes 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from flows.formal.aiger import Aiger, cofactor
from flows.formal.prover import Answer, Status
from flows.tools import process
from flows.tools.toolchain import require
from hwgen.errors import CheckFailed

_CYCLES = 8
"""Of a random simulation before the search, with 256 inputs in each."""

_STEM = "difference"


def search_difference(
    circuit: Aiger, output: str, work: Path, seconds: int, split: Sequence[str] = ()
) -> Answer:
    """Return ``proven`` if an output of a circuit without registers is never 1.

    Parameters
    ----------
    circuit : Aiger
    output : str
    work : Path
        Directory for the files of ABC.
    seconds : int
        Limit of each search.
    split : sequence of str
        Inputs whose values are cases: each is searched alone.

    Raises
    ------
    ToolMissing
        If there is no ABC.
    CheckFailed
        If it fails, or a difference is none in simulation.
    """
    if circuit.output_literals[circuit.outputs.index(output)] == 0:
        return Answer("proven", "synthesis", "constant after synthesis", 0.0)
    if simulated := circuit.explore(output, _CYCLES):
        return Answer("refuted", "random simulation", "inputs that differ", 0.0, simulated[-1:])
    cases = 1 << len(split)
    size = f"{len(circuit.gates)} gates" + (f", {cases} cases" if split else "")
    for values in product((0, 1), repeat=len(split)):
        fixed = dict(zip(split, values, strict=True))
        status, trace = _search(circuit, output, fixed, work, seconds)
        if status == "refuted":
            return Answer("refuted", "SAT", f"inputs that differ, {size}", 0.0, (trace,))
        if status == "unknown":
            return Answer("unknown", "SAT", f"not decided in {seconds} s, {size}", 0.0)
    return Answer("proven", "SAT", f"unsatisfiable, {size}", 0.0)


def _search(
    circuit: Aiger, output: str, fixed: Mapping[str, int], work: Path, seconds: int
) -> tuple[Status, Mapping[str, int]]:
    """Return the answer of a case, and the inputs that are 1 of a difference."""
    free, content = cofactor(circuit, output, fixed)
    (work / f"{_STEM}.aig").write_bytes(content)
    found = work / f"{_STEM}.cex"
    found.unlink(missing_ok=True)
    commands = f"read_aiger {_STEM}.aig; strash; dc2; fraig; dsat; write_cex -a {_STEM}.cex"
    try:
        said = process.run(require("abc"), ["-c", commands], work, f"{_STEM}.log", seconds)
    except process.TimedOut:
        return "unknown", {}
    if "UNSATISFIABLE" in said:
        return "proven", {}
    if "SATISFIABLE" not in said:
        return "unknown", {}
    lines = found.read_text(encoding="utf-8").split()
    bits = [line for line in lines if len(line) == len(free) and set(line) <= {*"01"}]
    ones = {name for name, bit in zip(free, bits[-1], strict=True) if bit == "1"} if bits else set()
    trace = {name: 1 for name in circuit.inputs if name in ones or fixed.get(name)}
    if not any(values[output] for values in circuit.run([trace])):
        raise CheckFailed(f"ABC's inputs for {output} are none in simulation; please report this")
    return "refuted", trace
