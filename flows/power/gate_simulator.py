# SPDX-License-Identifier: Apache-2.0
"""Simulation of a mapped netlist in the place of a Verilated design.

The C++ that drives a Verilated model drives a netlist instead: `GateSimulator` compiles it
with ``cpp/gates.cpp``, which interprets a table (`flows.power.gate_tables`).  Stimulus and
checks are those of every other simulation, and nothing is compiled of the netlist itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from flows.power.gate_tables import GateTable
from flows.power.gates import Gates
from flows.simulation.programs import compiled
from flows.tools.process import run
from flows.tools.toolchain import require, version_text

HARNESS = Path(__file__).parent / "cpp"
FILES = ("gates.h", "gates.cpp", "table.h", "verilated.h", "verilated_saif_c.h")
OPTIONS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-DVM_TRACE_SAIF=1", "-I.")
TIMEOUT_S = 600.0

_BASE = ("aclk", "aresetn")
"""Ports that every design has."""
_RESERVED = {"interrupt": "__SYM__interrupt"}
"""Names of ports that Verilator changes."""
_TYPES = ((8, "CData"), (16, "SData"), (32, "IData"), (64, "QData"))


class GateSimulator:
    """Compiles a netlist; see `flows.simulation.simulator.ModelCompiler`.

    Parameters
    ----------
    gates : Gates
        The netlist.
    table : GateTable
        Of it.
    work : Path
        Directory for the table and what is compiled.

    Attributes
    ----------
    fault_file, trace_file : Path
        What the simulations that are compiled look for when they start: see ``cpp/gates.h``.
    """

    def __init__(self, gates: Gates, table: GateTable, work: Path) -> None:
        self._gates, self._work = gates, work
        self._compiled: dict[str, str] = {}
        self._table = work / "gates.bin"
        self._table.write_bytes(table.words)
        self.fault_file = work / "gates.bin.fault"
        self.trace_file = work / "gates.bin.trace"

    def compile_program(
        self,
        top: str,
        sources: Mapping[str, str],
        program: Sequence[str],
        *,
        cycles: int | None = None,
        activity: bool = False,
    ) -> Path:
        """Return a program of the netlist and C++ that drives it."""
        return self._compile(top, sources, program, ())

    def compile_library(
        self,
        top: str,
        sources: Mapping[str, str],
        program: Sequence[str],
        *,
        cycles: int | None = None,
        activity: bool = False,
    ) -> Path:
        """Return a directory with a shared library of the netlist and C++ that drives it."""
        # Named like an entry of the cache of compiled models.
        return self._compile(top, sources, program, ("-shared",)).parent

    def _compile(
        self, top: str, sources: Mapping[str, str], program: Sequence[str], options: Sequence[str]
    ) -> Path:
        directory = self._work / f"{top}-gates"
        directory.mkdir(exist_ok=True)
        harness = {name: text for name, text in sources.items() if not name.endswith(".v")}
        harness |= {name: _read(name) for name in FILES if name.endswith(".h")}
        harness["Vtop.h"] = self._model()
        if self._compiled == harness:
            return directory / top
        for name, text in harness.items():
            (directory / name).write_text(text, encoding="utf-8")
        arguments = [*OPTIONS, "-O1", *options, *program, str(_interpreter()), "-o", top]
        run(require("g++"), arguments, directory, "compile.log", TIMEOUT_S)
        self._compiled = harness
        return directory / top

    def _model(self) -> str:
        """Return the class that has the ports of the design."""
        members, names = [], []
        nets_of = {**self._gates.inputs, **self._gates.outputs}
        for name in self._gates.ports:
            member = _RESERVED.get(name, name)
            names.append(member)
            if name not in _BASE:
                members.append(f"    {_type(len(nets_of[name]))} {member}{{}};")
        path = str(self._table).replace("\\", "\\\\").replace('"', '\\"')
        return "\n".join([
            '#pragma once\n#include "gates.h"\n#include "verilated_saif_c.h"',
            "struct Vtop : Gates {",
            *members,
            f'    explicit Vtop(VerilatedContext* context) : Gates(context, "{path}") {{',
            *(f"        bind({name});" for name in names),
            "    }",
            "    void trace(VerilatedSaifC* saif, int) { saif->attach(this); }",
            "};",
            "",
        ])  # fmt: skip


def _type(bits: int) -> str:
    for most, name in _TYPES:
        if bits <= most:
            return name
    return f"VlWide<{-(-bits // 32)}>"


def _read(name: str) -> str:
    return (HARNESS / name).read_text(encoding="utf-8")


def _interpreter() -> Path:
    """Return the compiled interpreter, which is the same for all netlists."""
    compiler = require("g++")
    name = "gates.o"

    def make(work: Path) -> None:
        arguments = [*OPTIONS, "-O3", "-c", "gates.cpp", "-o", name]
        run(compiler, arguments, work, "compile.log", TIMEOUT_S)

    sources = {file: _read(file) for file in FILES}
    identity = [version_text(compiler), *OPTIONS]
    return compiled("gates", sources, identity, make, folder="gates", file=name) / name
