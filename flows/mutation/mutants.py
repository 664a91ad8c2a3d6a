# SPDX-License-Identifier: Apache-2.0
"""Mutants: copies of a design with one small change, all in one Verilog text.

Yosys lists changes of single bits of a flat design (an input or output of a cell stuck, inverted,
or changed when a neighbouring bit has a value) and applies them, each switched on by a number at an
input port that is added.  So one compiled simulation has all mutants of a design.
"""

from __future__ import annotations

import bisect
import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.build.design import Design
from flows.formal.prover import run_yosys
from hwgen.errors import CheckFailed
from rtl_templates.hdl.generators import generate
from rtl_templates.hdl.hierarchy import block_classes
from rtl_templates.hdl.shell import AxiShell

SELECTOR = "mutant"
"""The input port with the number of the mutant; 0 is the design itself."""

WIDTH = 16
"""Bits of the selector."""

_CANDIDATES = 25
"""Changes that are listed for each one that is drawn."""

_MODULE = re.compile(r"^module (\w+)", re.MULTILINE)
_OPTION = re.compile(r"-(\w+) (\S+)")
_SOURCE = re.compile(r"-src design\.v:(\d+)")
_CLOCK = re.compile(r"-port (RD_|WR_)?CLK ")
_UNUSED = re.compile(r"-port (RD_EN|RD_ARST|RD_SRST) ")
"""Pins of the reads of memories, all of which are asynchronous: Yosys has them constant."""

_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Mutant:
    """A change of a design.

    Parameters
    ----------
    number : int
        What switches it on, from 1.
    module : str
        Module of the emitted Verilog in which it is, without the name of the design.
    generator : str
        Class that generates the module.
    command : str
        Command of Yosys that makes the change in the flat design.
    """

    number: int
    module: str
    generator: str
    command: str

    @property
    def change(self) -> str:
        """The change in words, e.g. ``const1 at Y[20] of core.array.col_1.$add``."""
        options = dict(_OPTION.findall(self.command))
        cell = options["cell"].replace("$flatten", "").replace("\\", "")
        cell = re.sub(r"design\.v:\d+", "", cell)
        port = options["port"].replace("\\", "")
        text = f"{options['mode']} at {port}[{options['portbit']}] of {cell}"
        return f"{text} by bit {options['ctrlbit']}" if "ctrlbit" in options else text


def draw_mutants(design: Design, count: int, work: Path, *, seed: int = 0) -> list[Mutant]:
    """Return mutants of a design, spread evenly over its modules; clocks stay as they are.

    Parameters
    ----------
    design : Design
    count : int
        How many; fewer if the design has not so many bits.
    work : Path
        Directory for the files of Yosys; `mutated` needs what is written there.
    seed : int

    Raises
    ------
    ToolMissing
        If there is no Yosys.
    CheckFailed
        If it fails.
    """
    verilog = design.verilog
    (work / "design.v").write_text(verilog, encoding="utf-8")
    run_yosys(
        work,
        f"""\
read_verilog design.v
hierarchy -top {design.name}
proc
setattr -mod -unset keep_hierarchy *
flatten
opt_clean
memory_collect
opt_clean
write_rtlil flat.il
mutate -list {_CANDIDATES * count} -seed {seed + 1} -o candidates.txt
""",
        "flat",
        _TIMEOUT_S,
    )
    lines = (work / "candidates.txt").read_text(encoding="utf-8").splitlines()
    starts = [(verilog.count("\n", 0, m.start()) + 1, m[1]) for m in _MODULE.finditer(verilog)]
    by_module = defaultdict(list)
    for line in dict.fromkeys(lines):
        if _CLOCK.search(line):
            continue
        if source := _SOURCE.search(line):
            at = bisect.bisect(starts, (int(source[1]), "~")) - 1
            by_module[starts[at][1]].append(line)
    rng = random.Random(seed)
    for group in by_module.values():
        rng.shuffle(group)
    chosen: list[tuple[str, str]] = []
    while len(chosen) < count and any(by_module.values()):
        for module in sorted(by_module):
            if by_module[module] and len(chosen) < count:
                command = by_module[module].pop()
                if not _UNUSED.search(command):
                    chosen.append((module, command))
    classes = generators(design)
    return [
        Mutant(number, module.removeprefix(f"{design.name}_"), _class_of(module, classes), command)
        for number, (module, command) in enumerate(chosen, 1)
    ]


def generators(design: Design) -> dict[str, str]:
    """Return the class that generates each module of a design."""
    core = generate(design.core)
    shell = AxiShell(core)
    classes = block_classes(shell, design.name, shell.ports)
    classes[f"{design.name}_core"] = type(core)
    return {name: f"{each.__module__}.{each.__qualname__}" for name, each in classes.items()}


def _class_of(module: str, classes: Mapping[str, str]) -> str:
    """Return the class that generates a module; one that is no block is of the block around it."""
    return classes[max((name for name in classes if module.startswith(name)), key=len)]


def mutated(design: Design, mutants: Sequence[Mutant], work: Path) -> Design:
    """Return the design with mutants and the port `SELECTOR`.

    Parameters
    ----------
    design : Design
    mutants : sequence of Mutant
        From `draw_mutants` with the same `work`.
    work : Path

    Raises
    ------
    ToolMissing, CheckFailed
        As `draw_mutants`.
    """
    if len(mutants) >= 1 << WIDTH:
        raise CheckFailed(f"{len(mutants)} mutants do not fit a selector of {WIDTH} bits")
    commands = [f"{each.command} -ctrl {SELECTOR} {WIDTH} {each.number}" for each in mutants]
    script = ["read_rtlil flat.il", *commands, "opt_clean", "write_verilog -noattr mutants.v"]
    run_yosys(work, "\n".join([*script, ""]), "mutants", _TIMEOUT_S)
    return design.with_verilog((work / "mutants.v").read_text(encoding="utf-8"))
