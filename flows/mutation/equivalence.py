# SPDX-License-Identifier: Apache-2.0
"""Proofs that mutants do what the design does.

A mutant that no case notices may compute the same: a bit that is always 0 is stuck at 0.  Yosys
makes one circuit of all mutants, and ABC answers the questions of `flows.mutation.questions` about
each, the cheapest first.  If one of them is answered with no, the mutant is equal.

A payload counts in the cycles in which its valid is high.  Both start with all registers 0 and one
cycle of reset.  Whoever drives an input stream keeps what it offers until it is taken, as AXI
requires; the comparison ends where that is broken.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from flows.formal.aiger import parse_aiger
from flows.formal.prover import BIT_LEVEL, run_yosys
from flows.mutation.mutants import SELECTOR, WIDTH, Mutant
from flows.mutation.questions import (
    LAWFUL,
    READ_ADDRESS,
    READ_WORD,
    SUM_WORD,
    WRITE_ENABLE,
    WRITE_VALUE,
    Questions,
)
from flows.mutation.sums import same_totals
from flows.tools import process
from flows.tools.toolchain import require
from hwgen.errors import CheckFailed

Proof = Literal["equal", "different", "unknown"]

LARGEST_BITS = 512
"""Bits of memories that are not cut out."""

_RIPPLE = """\
(* techmap_celltype = "$add" *)
module ripple(A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;
  wire [Y_WIDTH-1:0] a, b;
  wire [Y_WIDTH:0] carry;
  \\$pos #(.A_SIGNED(A_SIGNED && B_SIGNED), .A_WIDTH(A_WIDTH), .Y_WIDTH(Y_WIDTH))
    wide_a (.A(A), .Y(a));
  \\$pos #(.A_SIGNED(A_SIGNED && B_SIGNED), .A_WIDTH(B_WIDTH), .Y_WIDTH(Y_WIDTH))
    wide_b (.A(B), .Y(b));
  assign carry[0] = 1'b0;
  genvar i;
  generate
    for (i = 0; i < Y_WIDTH; i = i + 1) begin
      assign Y[i] = a[i] ^ b[i] ^ carry[i];
      assign carry[i + 1] = (a[i] & b[i]) | ((a[i] ^ b[i]) & carry[i]);
    end
  endgenerate
endmodule
"""
"""Adders of full adders, which `flows.mutation.sums` finds."""

_TIMEOUT_S = 900.0
_VIOLATED = re.compile(r"was asserted in frame|is SATISFIABLE|^SATISFIABLE", re.MULTILINE)


def questions_of(name: str, mutants: Sequence[Mutant], work: Path) -> Questions:
    """Return the circuit of mutants, to ask about.

    Parameters
    ----------
    name : str
        Name of the design.
    mutants : sequence of Mutant
    work : Path
        Directory in which `flows.mutation.mutants.draw_mutants` has written the flat design.

    Raises
    ------
    ToolMissing
        If there is no Yosys.
    CheckFailed
        If it fails.
    """
    commands = "\n".join(f"{m.command} -ctrl {SELECTOR} {WIDTH} {m.number}" for m in mutants)
    run_yosys(
        work, f"read_rtlil flat.il\n{commands}\nopt_clean\nwrite_json words.json\n", "words",
        _TIMEOUT_S,
    )  # fmt: skip
    document = json.loads((work / "words.json").read_text(encoding="utf-8"))
    module = document["modules"][name]
    cut_memories(module)
    watch_sums(module)
    (work / "cut.json").write_text(json.dumps({"modules": {name: module}}), encoding="utf-8")
    (work / "environment.v").write_text(environment(name, module["ports"]), encoding="utf-8")
    (work / "ripple.v").write_text(_RIPPLE, encoding="utf-8")
    script = f"""\
read_json cut.json
read_verilog environment.v
hierarchy -top environment
proc
flatten
memory_map
techmap -map ripple.v
setundef -zero -init
setundef -undriven -zero
setundef -zero
{BIT_LEVEL}setundef -zero -init
setundef -zero
aigmap
write_aiger -zinit -symbols mutants.aig
"""
    run_yosys(work, script, "circuit", _TIMEOUT_S)
    return Questions(parse_aiger((work / "mutants.aig").read_bytes()), SELECTOR)


def prove_equal(
    questions: Questions, number: int, work: Path, *, seconds: int = 60
) -> tuple[Proof, str]:
    """Return whether a mutant never differs from its design at a port.

    Parameters
    ----------
    questions : Questions
    number : int
        Of the mutant.
    work : Path
        Directory for the files of ABC.
    seconds : int
        Limit of all searches together.

    Returns
    -------
    proof : {"equal", "different", "unknown"}
        ``different`` also where it takes inputs that the regression never gives, such as jobs that
        are not legal.
    by : str
        The question that was answered.

    Raises
    ------
    ToolMissing
        If there is no ABC.
    """
    deadline = time.monotonic() + seconds
    if (content := questions.step(number)) is None or _search(
        content, "iprove", work, seconds / 2
    ) == "never":
        return "equal", "step"

    def is_never(content: bytes, has_registers: bool) -> bool:
        if (left := deadline - time.monotonic()) < 1:
            raise TimeoutError
        search = "scorr" if has_registers else "iprove"
        return _search(content, search, work, max(1, left / 4)) == "never"

    try:
        if same_totals(questions, number, is_never):
            return "equal", "totals"
    except TimeoutError:
        return "unknown", ""
    everything = frozenset(range(len(questions.circuit.registers)))
    data = everything - questions.control
    none: frozenset[int] = frozenset()
    near = questions.touched(number)
    nearer = questions.touched(number, near)
    every = questions.depending(near)
    far, further = (everything - questions.around(near, levels) for levels in (1, 2))
    for name, doubled, free in (
        ("none differs, far ones free", none, far),
        ("touched ones differ, far ones free", near, far),
        ("none differs, further ones free", none, further),
        ("none differs, data free", none, data),
        ("touched ones differ, data free", near, data),
        ("none differs", none, none),
        ("touched ones differ", near, none),
        ("nearer ones differ, data free", nearer, data),
        ("nearer ones differ", nearer, none),
        ("all differ", every, none),
    ):
        left = deadline - time.monotonic()
        if left < 1:
            break
        content = questions.within(number, doubled, free)
        if content is None:
            return "equal", name
        said = _search(content, "scorr", work, max(1, left / 2))
        if said == "never":
            return "equal", name
        if said == "reached" and doubled == every and not free and questions.exact:
            return "different", name
    return "unknown", ""


def _search(
    content: bytes, search: str, work: Path, seconds: float
) -> Literal["never", "reached", "unknown"]:
    """Return whether the output of a circuit can be 1."""
    (work / "question.aig").write_bytes(content)
    (work / "reduced.aig").unlink(missing_ok=True)
    command = "iprove"
    if search != "iprove":
        command = f"{search}; write_aiger reduced.aig; pdr -T {1 + int(seconds)}"
    try:
        said = process.run(
            require("abc"), ["-c", f"read_aiger question.aig; {command}"], work, "abc.log",
            2.0 + seconds,
        )  # fmt: skip
    except (process.TimedOut, CheckFailed):
        return "unknown"
    if "UNSATISFIABLE" in said or "Property proved" in said:
        return "never"
    if _VIOLATED.search(said):
        return "reached"
    reduced = work / "reduced.aig"
    if reduced.exists() and parse_aiger(reduced.read_bytes()).output_literals == (0,):
        return "never"
    return "unknown"


def cut_memories(module: dict[str, Any]) -> None:
    """Replace memories of more than `LARGEST_BITS` bits by ports.

    Parameters
    ----------
    module : dict
        As Yosys writes it in JSON, changed in place.
    """
    read = write = 0
    for name, cell in list(module["cells"].items()):
        if not _is_cut(cell):
            continue
        parameters, wires = cell["parameters"], cell["connections"]
        width, address = _number(parameters["WIDTH"]), _number(parameters["ABITS"])
        ports = module["ports"]
        for port in range(_number(parameters["RD_PORTS"])):
            ports[f"{READ_ADDRESS}{read}"] = {
                "direction": "output", "bits": _part(wires["RD_ADDR"], port, address),
            }  # fmt: skip
            ports[f"{READ_WORD}{read}"] = {
                "direction": "input", "bits": _part(wires["RD_DATA"], port, width),
            }  # fmt: skip
            read += 1
        for port in range(_number(parameters["WR_PORTS"])):
            enables = _part(wires["WR_EN"], port, width)
            data = _part(wires["WR_DATA"], port, width)
            for enable in dict.fromkeys(enables):
                written = [d for d, e in zip(data, enables, strict=True) if e == enable]
                ports[f"{WRITE_ENABLE}{write}"] = {"direction": "output", "bits": [enable]}
                ports[f"{WRITE_VALUE}{write}"] = {
                    "direction": "output",
                    "bits": _part(wires["WR_ADDR"], port, address) + written,
                }
                write += 1
        del module["cells"][name]
        module.get("memories", {}).pop(name, None)


def watch_sums(module: dict[str, Any]) -> None:
    """Make outputs of the results of all additions, up to the highest bit that is used.

    Parameters
    ----------
    module : dict
        As Yosys writes it in JSON, changed in place.
    """
    cells = list(module["cells"].values())
    used = {
        bit
        for cell in cells
        for port, bits in cell["connections"].items()
        if cell.get("port_directions", {}).get(port) != "output"
        for bit in bits
    } | {bit for port in module["ports"].values() for bit in port["bits"]}
    for number, cell in enumerate(each for each in cells if each["type"] == "$add"):
        bits = list(cell["connections"]["Y"])
        while bits and bits[-1] not in used:
            del bits[-1]
        if not bits:
            continue
        module["ports"][f"{SUM_WORD}{number}"] = {"direction": "output", "bits": bits}


def _is_cut(cell: Mapping[str, Any]) -> bool:
    if not cell["type"].startswith("$mem"):
        return False
    parameters = cell["parameters"]
    if _number(parameters["WIDTH"]) * _number(parameters["SIZE"]) <= LARGEST_BITS:
        return False
    clocked = "1" in str(parameters["RD_CLK_ENABLE"])
    return not clocked and "0" not in str(parameters["WR_CLK_ENABLE"])


def _number(value: str | int) -> int:
    return value if isinstance(value, int) else int(value, 2)


def _part(bits: Sequence[Any], index: int, width: int) -> list[Any]:
    return list(bits[index * width : (index + 1) * width])


def environment(name: str, ports: Mapping[str, Mapping[str, Any]]) -> str:
    """Return Verilog around a design with mutants that says whether its inputs keep the rules.

    Parameters
    ----------
    name : str
        Name of the design.
    ports : mapping
        Port: its ``direction`` and ``bits``, as in Yosys' JSON, with those of memories.
    """
    inputs = {each: port for each, port in ports.items() if port["direction"] == "input"}
    outputs = {each: port for each, port in ports.items() if port["direction"] == "output"}
    declared = [f"input {_range(port)}{each}" for each, port in inputs.items()]
    declared += [f"output {_range(port)}{each}" for each, port in outputs.items()]
    lines = [f"module environment({', '.join([*declared, f'output {LAWFUL}'])});"]
    lines += ["reg started = 0, lawful = 1;", "always @(posedge aclk) started <= 1;"]
    lines += ["wire reset_n = started & aresetn;"]
    wires = [f".{each}({'reset_n' if each == 'aresetn' else each})" for each in ports]
    lines.append(f"{name} design ({', '.join(wires)});")
    broken = []
    for stem, payload in _offers(inputs, outputs):
        lines += [f"reg {stem}waits = 0;", f"always @(posedge aclk) {stem}waits <=",
                  f"  reset_n & {stem}valid & ~{stem}ready;"]  # fmt: skip
        broken.append(f"{stem}waits & ~{stem}valid")
        for each in payload:
            lines += [f"reg {_range(inputs[each])}{each}_before = 0;",
                      f"always @(posedge aclk) {each}_before <= {each};"]  # fmt: skip
            broken.append(f"{stem}waits & ({each} != {each}_before)")
    now = f"~({' | '.join(f'({each})' for each in broken)})" if broken else "1'b1"
    lines += [f"assign {LAWFUL} = lawful & ({now} | ~reset_n);"]
    lines += [f"always @(posedge aclk) lawful <= {LAWFUL};", "endmodule", ""]
    return "\n".join(lines)


def _offers(
    inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the stem of the names of each stream that comes in, and its payload."""
    for valid in (name for name in inputs if name.endswith("valid")):
        stem = valid.removesuffix("valid")
        if f"{stem}ready" in outputs:
            yield stem, [name for name in inputs if name.startswith(stem) and name != valid]


def _range(port: Mapping[str, Sequence[Any]]) -> str:
    return f"[{len(port['bits']) - 1}:0] " if len(port["bits"]) > 1 else ""
