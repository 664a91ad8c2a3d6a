# SPDX-License-Identifier: Apache-2.0
"""Yosys and ABC: from Verilog and a checker to an answer.

Three engines search in this order: induction over one and two cycles, as one satisfiability
problem; registers that are always equal (``scorr``); property-directed reachability (``pdr``).  The
first two answer when the property and its lemmas are inductive, whatever the size of a buffer.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from flows.formal.aiger import Aiger, induction_step, parse_aiger
from flows.formal.checker import CHECKER, DUT, PROBE, Checker
from flows.formal.modules import Part
from flows.tools import process
from flows.tools.toolchain import require, version_text
from hwgen.errors import CheckFailed

Status = Literal["proven", "refuted", "unknown"]

INDUCTION = (1, 2)
"""Cycles over which induction is tried."""

_YOSYS_S = 900.0
BIT_LEVEL = """\
opt -full
techmap
simplemap
dfflegalize -cell $_DFF_P_ 01
opt_expr
opt_merge
opt_clean
"""
"""Commands of Yosys: from words to gates of bits and plain registers."""

_READ = """\
read_verilog part.v
hierarchy -top {}
setattr -mod -unset keep_hierarchy
proc
opt_clean
memory_collect
opt_clean
"""
_INDUCTION_S = 30
_CYCLES = (60, 1200)
_WORK = 6_000_000
"""Cycles of a random simulation, and their number times that of gates."""

_REFUTED = re.compile(r"Output \d+ of miter .* was asserted in frame (\d+)")
_INVARIANT = re.compile(r"Invariant F\[(\d+)\] : (\d+) clauses")
_BIT = re.compile(r"(.+)\[(\d+)\]")
_SEARCHED = re.compile(r"No output asserted in (\d+) frames")
_FRAME = re.compile(r"^\s*(\d+) :", re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    """Result of a search.

    Parameters
    ----------
    status : {"proven", "refuted", "unknown"}
    engine : str
        What found it.
    detail : str
        The invariant of a proof, the cycle of a violation, or the depth that was reached.
    seconds : float
    trace : tuple of mapping
        Inputs that are 1, cycle by cycle, of a violation.
    """

    status: Status
    engine: str
    detail: str
    seconds: float
    trace: tuple[Mapping[str, int], ...] = field(default=(), repr=False)


def solver_versions() -> dict[str, str]:
    """Return the versions of the programs that proofs are made with.

    Raises
    ------
    ToolMissing
        If one is missing.
    """
    return {name: version_text(require(name)) for name in ("yosys", "abc")}


def write_modules(part: Part, work: Path) -> dict[str, Any]:
    """Return the modules of a part as word-level netlists, by name.

    Raises
    ------
    ToolMissing
        If there is no Yosys.
    CheckFailed
        If it fails.
    """
    (work / "part.v").write_text(part.text, encoding="utf-8")
    run_yosys(work, f"{_READ.format(part.name)}write_json modules.json\n", "modules")
    document = json.loads((work / "modules.json").read_text(encoding="utf-8"))
    modules: dict[str, Any] = document["modules"]
    return modules


def write_flat(part: Part, work: Path, *, cut: Iterable[str] = ()) -> dict[str, Any]:
    """Return a part as one word-level netlist, the module `DUT`.

    Parameters
    ----------
    part : Part
    work : Path
    cut : iterable of str
        Modules that are replaced by free inputs: their outputs have any value in each cycle.

    Raises
    ------
    ToolMissing, CheckFailed
        As `write_modules`.
    """
    (work / "part.v").write_text(part.text, encoding="utf-8")
    removed = "".join(f"delete */t:{name}\n" for name in cut)
    if removed:  # what only fed a module that was cut stays, for probes
        removed += "setattr -set keep 1 */w:i_valid */w:i_ready */w:strobe */w:upper_half\n"
    script = f"{_READ.format(part.name)}{removed}flatten\nopt_reduce\nopt_clean\n"
    run_yosys(work, f"{script}rename {part.name} {DUT}\nwrite_json flat.json\n", "flat")
    document = json.loads((work / "flat.json").read_text(encoding="utf-8"))
    module: dict[str, Any] = document["modules"][DUT]
    return module


def compile_checker(
    checker: Checker, netlist: Mapping[str, Any], work: Path, *, zero: bool = False
) -> Aiger:
    """Write the circuit of a checker and a flat block to ``circuit.aig`` and return it.

    Registers without a value at reset start at any value, or, with `zero`, at 0.  A probe of a net
    that is not in the netlist has any value: lemmas with it fail, properties do not depend on it.

    Raises
    ------
    ToolMissing, CheckFailed
        As `write_modules`.
    """
    (work / "block.json").write_text(json.dumps({"modules": {DUT: netlist}}), encoding="utf-8")
    (work / "checker.il").write_text(checker.rtlil(), encoding="utf-8")
    connect = "\n".join(
        f"connect -nounset -set \\{PROBE}{name} \\{DUT}.{net}"
        for name, (net, bits) in checker.probes.items()
        if _exists(netlist, net, bits)
    )
    run_yosys(
        work,
        f"""\
read_json block.json
read_rtlil checker.il
hierarchy -top {CHECKER}
proc
flatten
opt_clean
memory_map
delete -input w:{PROBE}*
cd {CHECKER}
{connect}
cd
{"setundef -zero -init" if zero else ""}
setundef -undriven -anyseq
setundef -anyseq
{BIT_LEVEL}setundef -undriven -anyseq
setundef -anyseq
aigmap
opt_clean
write_aiger -zinit -symbols circuit.aig
""",
        "circuit",
    )
    return parse_aiger((work / "circuit.aig").read_bytes())


def _exists(netlist: Mapping[str, Any], net: str, bits: int) -> bool:
    """Return whether a net of a netlist, or the memory of a word, can be probed."""
    memory, word, _ = net.partition(".words[")
    names = netlist["netnames"]
    if not word and (match := _BIT.fullmatch(net)):
        return match[1] in names
    if word:
        return f"{memory}.w_addr" in names
    return len(names.get(net, {"bits": ()})["bits"]) == bits


def solve(circuit: Aiger, output: str, work: Path, seconds: int, first_cycles: int = 10) -> Answer:
    """Search a violation: an input sequence with which an output of ``circuit.aig`` is 1.

    Parameters
    ----------
    circuit : Aiger
    output : str
    work : Path
    seconds : int
        Limit of the search.
    first_cycles : int
        Cycles in which a violation is searched before a proof.

    Raises
    ------
    ToolMissing
        If there is no ABC.
    CheckFailed
        If it fails, or a violation is none in simulation.
    """
    start = time.monotonic()
    answer = _constant(circuit, output) or _induction(circuit, output, work, seconds)
    if answer is None:
        answer = _reachability(circuit, output, work, seconds, first_cycles)
    return Answer(answer[0], answer[1], answer[2], round(time.monotonic() - start, 2), *answer[3:])


def reach(circuit: Aiger, output: str, work: Path, seconds: int) -> Answer:
    """Search inputs with which an output becomes 1; ``refuted`` with a trace if there are."""
    start = time.monotonic()
    if found := _constant(circuit, output):
        return Answer(found[0], found[1], found[2], 0.0)
    cycles = max(_CYCLES[0], min(_CYCLES[1], _WORK // (1 + len(circuit.gates))))
    if simulated := circuit.explore(output, cycles):
        taken = round(time.monotonic() - start, 2)
        detail = f"reached in cycle {len(simulated) - 1}"
        return Answer("refuted", "random simulation", detail, taken, simulated)
    try:
        said, stem = _search(circuit, output, work, f"bmc3 -T {seconds} -F 1000", seconds)
    except process.TimedOut:
        return Answer("unknown", "bmc3", "not reached", round(time.monotonic() - start, 2))
    taken = round(time.monotonic() - start, 2)
    if match := _REFUTED.search(said):
        trace = _trace(circuit, output, work / f"{stem}.cex")
        return Answer("refuted", "bmc3", f"reached in cycle {match[1]}", taken, trace)
    return Answer("unknown", "bmc3", "not reached", taken)


def without_violation(circuit: Aiger, output: str, work: Path, seconds: int) -> int:
    """Return the number of cycles from the first one in which an output is shown not to be 1."""
    try:
        said, _ = _search(circuit, output, work, f"bmc3 -T {seconds} -F 2000", seconds)
    except process.TimedOut:
        return 0
    return max(map(int, _SEARCHED.findall(said)), default=0)


def _constant(circuit: Aiger, output: str) -> Any:
    literal = circuit.output_literals[circuit.outputs.index(output)]
    return ("proven", "synthesis", "constant after synthesis") if literal == 0 else None


def _induction(circuit: Aiger, output: str, work: Path, seconds: int) -> Any:
    """Return a proof by induction over a few cycles, None if there is none."""
    limit = min(seconds, _INDUCTION_S)
    for steps in INDUCTION:
        (work / "step.aig").write_bytes(induction_step(circuit, output, steps))
        try:
            said = _abc(work, "read_aiger step.aig; dsat", "step", limit)
        except process.TimedOut:
            return None
        if "UNSATISFIABLE" not in said:
            continue
        said, stem = _search(circuit, output, work, f"bmc3 -F {steps + 1}", limit)
        if match := _REFUTED.search(said):
            trace = _trace(circuit, output, work / f"{stem}.cex")
            return "refuted", "bmc3", f"violated in cycle {match[1]}", trace
        return "proven", "induction", f"inductive over {steps} cycle{'s' * (steps > 1)}"
    return None


def _reachability(circuit: Aiger, output: str, work: Path, seconds: int, first_cycles: int) -> Any:
    """Return the answer of a search: violations in the first cycles, then a proof."""
    first = f"bmc3 -F {first_cycles} -T {max(2, seconds // 4)}"
    try:
        said, stem = _search(circuit, output, work, first, seconds)
    except process.TimedOut:
        said = ""
    if match := _REFUTED.search(said):
        trace = _trace(circuit, output, work / f"{stem}.cex")
        return "refuted", "bmc3", f"violated in cycle {match[1]}", trace
    search = f"scorr; write_aiger reduced.aig; pdr -v -T {seconds}"
    try:
        said, stem = _search(circuit, output, work, search, seconds)
    except process.TimedOut:
        return "unknown", "scorr; pdr", "no cycle was completed in the time given"
    if "Property proved" in said:
        match = _INVARIANT.search(said)
        detail = f"invariant of {match[2]} clauses" if match else "inductive"
        return "proven", "scorr; pdr", detail
    if match := _REFUTED.search(said):
        trace = _trace(circuit, output, work / f"{stem}.cex")
        return "refuted", "scorr; pdr", f"violated in cycle {match[1]}", trace
    if parse_aiger((work / "reduced.aig").read_bytes()).output_literals == (0,):
        return "proven", "scorr", "registers that are always equal"
    frames = [int(frame) for frame in _FRAME.findall(said)]
    return "unknown", "scorr; pdr", f"no violation in the first {max(frames, default=0)} cycles"


def _search(
    circuit: Aiger, output: str, work: Path, commands: str, seconds: int
) -> tuple[str, str]:
    index = circuit.outputs.index(output)
    stem = re.sub(r"[^a-z0-9]+", "_", output).strip("_")
    (work / f"{stem}.cex").unlink(missing_ok=True)
    said = _abc(
        work,
        f"read_aiger circuit.aig; cone -a -O {index}; {commands}; write_cex -a {stem}.cex",
        stem,
        seconds,
    )
    return said, stem


def _trace(circuit: Aiger, output: str, path: Path) -> tuple[Mapping[str, int], ...]:
    """Return the inputs of a violation, after a simulation has shown that it is one."""
    lines = path.read_text(encoding="utf-8").split()
    cycles = [line for line in lines if len(line) == len(circuit.inputs) and set(line) <= {*"01"}]
    trace = tuple(
        {name: 1 for name, bit in zip(circuit.inputs, cycle, strict=True) if bit == "1"}
        for cycle in cycles
    )
    if not any(values[output] for values in circuit.run(trace)):
        raise CheckFailed(f"ABC's violation of {output} is none in simulation; please report this")
    return trace


def run_yosys(work: Path, script: str, stem: str, seconds: float = _YOSYS_S) -> None:
    """Run a script of Yosys, ``STEM.ys`` in a directory, for so many seconds at most.

    Raises
    ------
    ToolMissing
        If there is no Yosys.
    CheckFailed
        If it fails.
    """
    (work / f"{stem}.ys").write_text(script, encoding="utf-8")
    process.run(require("yosys"), ["-q", f"{stem}.ys"], work, f"{stem}.log", seconds)


def _abc(work: Path, commands: str, stem: str, seconds: int) -> str:
    return process.run(require("abc"), ["-c", commands], work, f"{stem}.log", 10.0 + 1.5 * seconds)
