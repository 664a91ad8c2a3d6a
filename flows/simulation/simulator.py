# SPDX-License-Identifier: Apache-2.0
"""The protocol that each simulator follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Waves = Literal["fst", "vcd"]
"""Formats of waveforms."""


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


class ModelCompiler(Protocol):
    """Compiles a design and C++ that drives its model, the class ``Vtop``.

    Both methods raise `ToolMissing` if a tool is missing, and `CheckFailed` if something does not
    compile.
    """

    def compile_program(
        self,
        top: str,
        sources: Mapping[str, str],
        program: Sequence[str],
        *,
        cycles: int | None = None,
        activity: bool = False,
    ) -> Path:
        """Return a program of a design and C++ that drives its model.

        Parameters
        ----------
        top : str
            The top module; its text is ``TOP.v`` of `sources`.
        sources : mapping
            Files by name: Verilog, C++ and headers.
        program : sequence of str
            The C++ files.
        cycles : int, optional
            How many it is for: a program for few is compiled sooner and runs slower.
        activity : bool
            Whether it can record how signals switch.
        """

    def compile_library(
        self,
        top: str,
        sources: Mapping[str, str],
        program: Sequence[str],
        *,
        cycles: int | None = None,
        activity: bool = False,
    ) -> Path:
        """Return a directory with a shared library ``TOP``; see `compile_program`."""


class Simulator(ModelCompiler, Protocol):
    """A simulator: compiles Verilog, for cocotb or with C++ that drives the model.

    Every method raises `ToolMissing` if a tool is missing, and those that compile `CheckFailed`
    if something does not compile.  What is compiled is cached.
    """

    def toolchain_id(self) -> str:
        """Return the versions of everything that shapes a simulation with cocotb."""

    def compile(
        self, top: str, verilog: str, *, waves: Waves | None = None, library: bool = False
    ) -> Path:
        """Return a directory with the simulation of a module, for cocotb.

        Parameters
        ----------
        top : str
            The top module.
        verilog : str
        waves : {"fst", "vcd"}, optional
            Whether it can write waveforms.
        library : bool
            Whether to make a library ``TOP.so`` instead of a program, with a function
            ``hwgen_simulate(argc, argv)`` that does the same and ends the process; only without
            waveforms.
        """

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
        """Return the program that runs a cocotb module on a compiled design.

        Parameters
        ----------
        module : str
            The cocotb module.
        top : str
            The top module of the design.
        build_dir : Path
            From `compile`.
        work : Path
            Where it is to be run; old waveforms there are removed.
        results : Path
            File for the results.
        seed : int
            Of cocotb, and of registers without a reset, which start at random.
        waves : {"fst", "vcd"}, optional
            Write ``dump.fst`` or ``dump.vcd``.
        """

    def finish(self, work: Path, waves: Waves | None) -> None:
        """Complete the waveforms of a run that has ended."""
