# SPDX-License-Identifier: Apache-2.0
"""Verilator as a `Simulator`.

cocotb's runner would wait for a simulation without a limit and, under pytest, end the process.  It
is asked what it would run, which takes no process: starting one and importing the runner anew took
a third of a second for each simulation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from flows.simulation.programs import compiled
from flows.simulation.simulator import Start, Waves
from flows.simulation.verilator.verilator import (
    FEW_CYCLES_OF_ENGINES,
    LIBRARY_OPTIMISATION,
    PROGRAM_OPTIMISATION,
    QUICK,
    build,
    build_library,
    build_program,
    is_quick,
    program_id,
    toolchain_id,
)
from flows.simulation.verilator.waves import fst_from_vcd, trace_format

_ACTIVITY = ("--trace-saif",)
"""Options of Verilator that record how signals switch."""


class _AskedError(Exception):
    """The program that the runner would run; it ends the runner's work."""

    def __init__(self, command: Sequence[Any], environment: dict[str, str]) -> None:
        super().__init__("asked")
        self.start = Start(tuple(map(str, command)), environment)


@cache
def _runner_class() -> Any:
    from cocotb_tools.runner import Verilator

    class Asked(Verilator):
        def _execute(self, cmds: Sequence[Sequence[Any]], cwd: Any) -> NoReturn:
            (command,) = cmds
            raise _AskedError(command, dict(self.env))

    return Asked


class Verilator:
    """Verilator; see `flows.simulation.simulator.Simulator`."""

    def toolchain_id(self) -> str:
        """Return the versions of everything that shapes a simulation with cocotb."""
        return toolchain_id()

    def compile(
        self, top: str, verilog: str, *, waves: Waves | None = None, library: bool = False
    ) -> Path:
        """Return a directory with the simulation of a module, for cocotb."""
        traced = trace_format(waves)

        def make(work: Path) -> None:
            build([work / f"{top}.v"], top, work, waves=traced, library=library)

        identity = [toolchain_id(), str(traced), *(["library"] if library else [])]
        file = f"{top}.so" if library else top
        return compiled(top, {f"{top}.v": verilog}, identity, make, file=file)

    def start(
        self,
        module: str,
        top: str,
        build_dir: Path,
        work: Path,
        results: Path,
        *,
        seed: int,
        waves: Waves | None,
    ) -> Start:
        """Return the program that runs a cocotb module on a compiled design."""
        for suffix in {waves, trace_format(waves)} - {None}:
            (work / f"dump.{suffix}").unlink(missing_ok=True)
        try:
            _runner_class()().test(
                test_module=module,
                hdl_toplevel=top,
                hdl_toplevel_lang="verilog",
                build_dir=build_dir,
                test_dir=work,
                results_xml=str(results.resolve()),
                seed=seed,
                # Registers without a reset start at random: nothing may depend on how they start.
                plusargs=["+verilator+rand+reset+2", f"+verilator+seed+{seed + 1}"],
                waves=bool(waves),
            )
        except _AskedError as asked:
            environment = asked.start.environment
            # Of a pytest that called us.
            environment.pop("PYTEST_CURRENT_TEST", None)
            for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
                environment.pop(name, None)
            return Start(asked.start.command, environment)
        raise RuntimeError("cocotb's runner has run nothing")

    def finish(self, work: Path, waves: Waves | None) -> None:
        """Complete the waveforms of a run that has ended."""
        if trace_format(waves) != waves and (work / "dump.vcd").is_file():
            fst_from_vcd(work / "dump.vcd", work / "dump.fst")

    def compile_program(
        self,
        top: str,
        sources: Mapping[str, str],
        program: Sequence[str],
        *,
        cycles: int | None = None,
        activity: bool = False,
    ) -> Path:
        """Return a program of a design and C++ that drives its model."""
        options = _ACTIVITY if activity else ()
        optimisation = QUICK if activity or is_quick(cycles) else PROGRAM_OPTIMISATION

        def make(work: Path) -> None:
            build_program(
                [work / f"{top}.v"], top, work, program, arguments=options,
                optimisation=optimisation,
            )  # fmt: skip

        identity = [program_id(), optimisation["OPT_FAST"], *options]
        return compiled(top, sources, identity, make, folder="fast") / top

    def compile_library(
        self,
        top: str,
        sources: Mapping[str, str],
        program: Sequence[str],
        *,
        cycles: int | None = None,
        activity: bool = False,
    ) -> Path:
        """Return a directory with a shared library of a design and C++ that drives its model."""
        options = _ACTIVITY if activity else ()
        quick = activity or is_quick(cycles, FEW_CYCLES_OF_ENGINES)
        optimisation = QUICK if quick else LIBRARY_OPTIMISATION

        def make(work: Path) -> None:
            build_library(
                [work / f"{top}.v"], top, work, program, arguments=options,
                optimisation=optimisation,
            )  # fmt: skip

        identity = [program_id(), "library", optimisation["OPT_FAST"], *options]
        return compiled(top, sources, identity, make, folder="fast")
