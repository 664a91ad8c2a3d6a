# SPDX-License-Identifier: Apache-2.0
"""Command and environment of a compiled simulation, as cocotb's runner would start it.

The runner itself would wait without a limit and, under pytest, end the process.  It is asked what
it would run, which takes no process of its own: starting one and importing the runner anew took a
third of a second for each simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn


@dataclass(frozen=True)
class Start:
    """A program to run.

    Parameters
    ----------
    command : tuple of str
    environment : dict
        The whole environment.
    """

    command: tuple[str, ...]
    environment: dict[str, str]


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


def start_of(
    module: str, top: str, build_dir: Path, work: Path, results: Path, *, seed: int, waves: bool
) -> Start:
    """Return the program that runs a cocotb module on a compiled design.

    Parameters
    ----------
    module : str
        The cocotb module.
    top : str
        The top module of the design.
    build_dir : Path
        With the compiled design.
    work : Path
        Where it is to be run.
    results : Path
        File for the results.
    seed : int
        Of cocotb, and of registers without a reset.
    waves : bool
        Whether waveforms are written.
    """
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
            waves=waves,
        )
    except _AskedError as asked:
        environment = asked.start.environment
        # Of a pytest that called us.
        environment.pop("PYTEST_CURRENT_TEST", None)
        for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
            environment.pop(name, None)
        return Start(asked.start.command, environment)
    raise RuntimeError("cocotb's runner has run nothing")
