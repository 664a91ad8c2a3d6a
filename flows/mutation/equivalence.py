# SPDX-License-Identifier: Apache-2.0
"""Proofs that a mutant does what the design does.

A mutant that no case notices may compute the same: a bit that is always 0 is stuck at 0.  Design
and mutant get the same inputs, and ABC proves that no output ever differs: registers that are
always equal are found by induction (``scorr``), and what is left is searched for a difference
(``pdr``).

A payload counts in the cycles in which its valid is high.  Both start with all registers 0 and one
cycle of reset.  Whoever drives an input stream keeps what it offers until it is taken, as AXI
requires; the comparison ends where that is broken.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from flows.formal.aiger import parse_aiger
from flows.formal.prover import BIT_LEVEL, run_yosys
from flows.mutation.mutants import Mutant
from flows.tools import process
from flows.tools.toolchain import require

Proof = Literal["equal", "different", "unknown"]

_TIMEOUT_S = 600.0
_INDUCTION_S = 120.0


def prove_equal(name: str, mutant: Mutant, work: Path, *, seconds: int = 60) -> Proof:
    """Return whether a mutant never differs from its design at a port.

    Parameters
    ----------
    name : str
        Name of the design.
    mutant : Mutant
    work : Path
        Directory in which `flows.mutation.mutants.draw_mutants` has written the flat design.
    seconds : int
        Limit of the search for a difference.

    Returns
    -------
    {"equal", "different", "unknown"}
        ``different`` also where it takes inputs that the regression never gives, such as jobs that
        are not legal.

    Raises
    ------
    ToolMissing
        If there is no Yosys or no ABC.
    CheckFailed
        If one of them fails.
    """
    ports = _ports(name, work)
    (work / "miter.v").write_text(miter(ports), encoding="utf-8")
    script = f"""\
read_rtlil flat.il
rename {name} original
read_rtlil -nooverwrite flat.il
select {name}
{mutant.command}
select -clear
rename {name} changed
read_verilog miter.v
hierarchy -top miter
proc
flatten
memory_map
{BIT_LEVEL}setundef -zero -init
setundef -zero
aigmap
write_aiger -zinit miter.aig
"""
    run_yosys(work, script, "miter", _TIMEOUT_S)
    commands = f"read_aiger miter.aig; scorr; write_aiger reduced.aig; pdr -T {seconds}"
    (work / "reduced.aig").unlink(missing_ok=True)
    try:
        said = process.run(
            require("abc"), ["-c", commands], work, "abc.log", _INDUCTION_S + seconds
        )
    except process.TimedOut:
        return "unknown"
    (differs,) = parse_aiger((work / "reduced.aig").read_bytes()).output_literals
    if differs == 0 or "Property proved" in said:
        return "equal"
    return "different" if "was asserted in frame" in said else "unknown"


def miter(ports: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Verilog that compares the modules ``original`` and ``changed``.

    Parameters
    ----------
    ports : mapping
        Port: its ``direction`` and ``bits``, as in Yosys' JSON.
    """
    inputs = {name: port for name, port in ports.items() if port["direction"] == "input"}
    outputs = {name: port for name, port in ports.items() if port["direction"] == "output"}
    lines = [f"module miter({', '.join(f'input {_range(p)}{n}' for n, p in inputs.items())},"]
    lines += ["  output differs);", "reg started = 0, lawful = 1;"]
    lines += ["always @(posedge aclk) started <= 1;", "wire reset_n = started & aresetn;"]
    for prefix in ("original", "changed"):
        lines += [f"wire {_range(port)}{prefix}_{name};" for name, port in outputs.items()]
        driven = ["reset_n" if name == "aresetn" else name for name in inputs]
        pairs = [f".{name}({value})" for name, value in zip(inputs, driven, strict=True)]
        pairs += [f".{name}({prefix}_{name})" for name in outputs]
        lines.append(f"{prefix} {prefix}_({', '.join(pairs)});")
    broken = []
    for valid in (name for name in inputs if name.endswith("valid")):
        stem = valid.removesuffix("valid")
        ready = f"original_{stem}ready"
        if f"{stem}ready" not in outputs:
            continue
        lines += [f"reg {stem}waits = 0;", f"always @(posedge aclk) {stem}waits <=",
                  f"  reset_n & {valid} & ~{ready};"]  # fmt: skip
        broken.append(f"{stem}waits & ~{valid}")
        for name, port in inputs.items():
            if name.startswith(stem) and name != valid:
                lines += [f"reg {_range(port)}{name}_before = 0;",
                          f"always @(posedge aclk) {name}_before <= {name};"]  # fmt: skip
                broken.append(f"{stem}waits & ({name} != {name}_before)")
    now = f"~({' | '.join(f'({each})' for each in broken)})" if broken else "1'b1"
    lines += [f"wire lawful_now = lawful & ({now} | ~reset_n);"]
    lines += ["always @(posedge aclk) lawful <= lawful_now;"]
    differences = [_difference(name, outputs) for name in outputs]
    lines += [f"assign differs = lawful_now & ({' | '.join(differences)});", "endmodule", ""]
    return "\n".join(lines)


def _difference(name: str, outputs: Mapping[str, Any]) -> str:
    """Return the expression that an output differs, where its value means something."""
    differs = f"(original_{name} != changed_{name})"
    valids = [v for v in outputs if v.endswith("valid") and name.startswith(v[: -len("valid")])]
    valid = max(valids, key=len, default=name)
    return differs if valid == name else f"(original_{valid} & {differs})"


def _range(port: Mapping[str, Sequence[Any]]) -> str:
    return f"[{len(port['bits']) - 1}:0] " if len(port["bits"]) > 1 else ""


def _ports(name: str, work: Path) -> dict[str, dict[str, Any]]:
    script = "read_rtlil flat.il\nwrite_json flat.json\n"
    run_yosys(work, script, "ports", _TIMEOUT_S)
    module = json.loads((work / "flat.json").read_text(encoding="utf-8"))["modules"][name]
    ports: dict[str, dict[str, Any]] = module["ports"]
    return ports
