# SPDX-License-Identifier: Apache-2.0
"""Verilator: compiling a design for cocotb or with C++ of one's own, and linting it.

`build_program` and `build_library` compile a design together with C++ sources.  `build` compiles
it into a program that `cocotb_tools.runner.Verilator.test` runs.  It stands in for the runner's own
``build`` for three reasons: the runner makes every signal of the design public, which keeps
Verilator from optimising; it compiles Verilator's run-time library anew for each design; and it
fails where a directory has a space in its name.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from flows.simulation.simulator import Waves
from flows.simulation.verilator.runtime import Runtime
from flows.simulation.verilator.sharing import GROWTH, repeated
from flows.tools.cache import Directories
from flows.tools.process import run
from flows.tools.toolchain import require, version_text
from hwgen.errors import CheckFailed, ToolMissing

# Compiling takes longer than simulating some ten thousand cycles under cocotb.  Processor seconds
# to compile and to run the 50 cases of an array, with -O1 and with -O0: 8x8 1.3 0.5, 0.8 0.5; 16x16
# 2.2 0.9, 1.4 1.3.  Larger designs gain more: an engine 13 6, 3.5 5.4; serial PEs 17 10, 4 13.  The
# run-time library is slow at reading and writing ports without optimisation: 16x16 1.3 2.2.
OPTIMISATION: Mapping[str, str] = {"OPT_FAST": "-O0", "OPT_SLOW": "-O0", "OPT_GLOBAL": "-O1"}
"""Compiler options by kind of source, as Verilator's makefile names them."""

# With C++ that drives the model itself (thousand cycles per second of processor on 8x8 and 16x16
# arrays and on configs/lut_core.yaml): -O1 3900 920 95, -O2 5100 1290 98, -O3 5100 1000 90.  -O2
# takes a tenth longer to compile than -O1.
PROGRAM_OPTIMISATION: Mapping[str, str] = {
    "OPT_FAST": "-O2",
    "OPT_SLOW": "-O0",
    "OPT_GLOBAL": "-O1",
}
"""The same for `build_program`."""

# An engine does little in a cycle for its size: its library takes 24 s of processor time to compile
# with -O2, 17 with -O1.
LIBRARY_OPTIMISATION: Mapping[str, str] = {**PROGRAM_OPTIMISATION, "OPT_FAST": "-O1"}
"""The same for `build_library`."""

QUICK: Mapping[str, str] = {**PROGRAM_OPTIMISATION, "OPT_FAST": "-O0"}
"""The same where compiling is most of the work: for few cycles."""

FEW_CYCLES = 100_000
"""Cycles up to which it is.  A 16x16 array: 3.5 s to compile with -O2, 2.2 with -O0, and 1220 and
100 thousand cycles per second."""

FEW_CYCLES_OF_ENGINES = 500_000
"""The same for `build_library`.  The engine of configs/gemm_stream.yaml: 33 s of processor time to
compile with -O1, 10 with -O0, and then 37 thousand cycles per second."""

# What is not optimised compiles in a time that headers are much of, so it is cut into pieces late.
# Processor seconds to compile with pieces as by default (20000 statements) and with 100000:
# configs/gemm_stream.yaml 13.1 7.7, lut_core.yaml 15.1 10.5; with 100000 and in one piece: an
# engine of four cubes (10 MB of C++) 27 22.
_LATE_SPLIT = ("--output-split", "300000")

# Unknown values: nothing at run time for those in expressions, but registers without a reset can
# be started at random by the program's argument +verilator+rand+reset+2.
#
# Eliminating wires ties the instances of a module together: longer code.  Instructions a cycle with
# and without it: 8x8 array 2850 2720, 16x16 10010 7800, 16x16 weight-stationary 9030 7880,
# configs/lut_core.yaml 95600 98100.
VERILATE = ("--x-assign", "fast", "--x-initial", "unique", "-fno-gate", "-Wno-fatal")
"""Options of Verilator itself."""

TIMEOUT_S = 3600.0
"""Limit of one step of compiling a design."""

# A program's `main` as a function of a library; what a simulation leaves when it is over is not for
# the process that has loaded it.
_ENTRY = """
#include <unistd.h>
extern "C" __attribute__((visibility("default"))) void hwgen_simulate(int argc, char** argv) {
    const int status = main(argc, argv);
    fflush(nullptr);
    _exit(status);
}
"""

# One run-time library serves programs, libraries and simulations with cocotb.
_HIDDEN = ("-CFLAGS", "-fPIC -fvisibility=hidden")

_ROOT = "verilator-root"  # in the build directory, a link to Verilator; no design has this name
_PLAIN = re.compile(r"[\w@%+=:,./~-]+")
_MESSAGE = re.compile(r"%(Warning|Error)")


def simulation_environment() -> dict[str, str]:
    """Return the environment in which cocotb's runner finds Verilator and can compile with it.

    It is a whole environment, made from the present one.  `build` does not need it.  The runner
    cannot compile where a path has a space; `build` can.

    Raises
    ------
    ToolMissing
        If Verilator, make, the compiler or cocotb is not there.
    """
    result = require("verilator")
    for name in ("make", "g++", "cocotb"):
        require(name)
    environment = {**os.environ, **result.environment}
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # of a make that may have called us
        environment.pop(name, None)
    if variables := list(_missing_make_variables()):
        if _PLAIN.fullmatch(sys.executable):  # the wheel's makefile asks for plain `python`
            variables.append(f"PYTHON3={sys.executable}")
        # The only way past the runner, which calls make without variables.
        environment["MAKEFLAGS"] = "-- " + " ".join(variables)
    return environment


def program_id() -> str:
    """Return the part of a cache key of `build_program` that is not sources."""
    options = [*VERILATE, *PROGRAM_OPTIMISATION.values(), *LIBRARY_OPTIMISATION.values()]
    return f"{compiler_id()}, {' '.join(options)}"


def is_quick(cycles: int | None, few: int = FEW_CYCLES) -> bool:
    """Return whether so many cycles, None if nobody knows, are too few to optimise for."""
    return cycles is not None and cycles <= few


@cache
def compiler_id() -> str:
    """Return the versions of what compiles a simulation."""
    tools = [require(name) for name in ("verilator", "g++")]
    require("make")  # needed as well, but shapes nothing
    versions = [f"{tool.name} {version_text(tool)}" for tool in tools]
    return ", ".join([*versions, f"{platform.system()} {platform.machine()}"])


@cache
def toolchain_id() -> str:
    """Return the part of a cache key of compiled simulations that is not the design.

    Versions, and the place of cocotb's libraries, to which the program is linked.
    """
    compiler, cocotb = compiler_id(), require("cocotb")
    require("cocotbext-axi")  # needed as well, but shapes nothing
    from cocotb_tools import config

    return f"{compiler}, cocotb {version_text(cocotb)}, libraries in {config.libs_dir}"


def lint(files: Sequence[Path], top: str, waivers: Sequence[str] = ()) -> list[str]:
    """Return Verilator's warnings about a design.

    Parameters
    ----------
    files : sequence of Path
        Verilog files, and ``.vlt`` files of waivers.
    top : str
        The top module.
    waivers : sequence of str
        Warnings that do not count, e.g. ``DECLFILENAME``.

    Returns
    -------
    list of str
        One line each, as Verilator prints them; empty for a clean design.

    Raises
    ------
    CheckFailed
        If the design is not legal Verilog.
    """
    verilator = require("verilator")
    options = ["--lint-only", "-Wall", "-Wno-fatal", "--top-module", top]
    command = [*verilator.argv, *options, *(f"-Wno-{name}" for name in waivers)]
    done = subprocess.run(
        [*command, *(str(path.resolve()) for path in files)],
        env={**os.environ, **verilator.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=TIMEOUT_S,
        check=False,
    )
    messages = [line for line in done.stderr.splitlines() if _MESSAGE.match(line)]
    if done.returncode:
        raise CheckFailed("\n".join(messages) or f"{verilator.where}: {done.stderr.strip()}")
    return messages


def build(
    sources: Sequence[Path],
    top: str,
    build_dir: Path,
    *,
    waves: Waves | None = None,
    internals: bool = False,
    jobs: int | None = None,
    arguments: Sequence[str] = (),
    library: bool = False,
) -> Path:
    """Compile a design for cocotb.

    Parameters
    ----------
    sources : sequence of Path
        Verilog files, and ``.vlt`` files.
    top : str
        The top module.
    build_dir : Path
        Where to work; created if missing.  The runner's ``test`` takes it as `build_dir`, with
        ``hdl_toplevel_lang="verilog"`` because it has not seen the sources.
    waves : {"fst", "vcd"}, optional
        Whether the program can write waveforms, and in which format; see
        `flows.simulation.verilator.waves.trace_format`.
    internals : bool
        Whether a testbench sees more than the signals of the top module; slows the simulation
        down.
    jobs : int, optional
        Compilers that run at once; default one per processor.
    arguments : sequence of str
        More options for Verilator.
    library : bool
        Whether to make a shared library ``TOP.so`` instead of a program.  Its function
        ``hwgen_simulate(argc, argv)`` does what the program would do and ends the process.

    Returns
    -------
    Path
        The program, or the library.

    Raises
    ------
    ToolMissing
        If a tool, or for FST a C library, is not there.
    CheckFailed
        If the design does not compile; the text ends with what the tool said.
    """
    from cocotb_tools import config as cocotb

    if waves == "fst" and not writes_fst():
        raise ToolMissing(
            "zlib.h and lz4.h are needed to write FST waveforms: the compiler does not find them."
            " To get them: your system's zlib and lz4 development packages (zlib1g-dev,"
            " liblz4-dev); or pip install 'hwgen[sim]' (Linux x86-64, up to Python 3.13), which"
            " works without them; VCD waveforms need nothing"
        )
    build_dir.mkdir(parents=True, exist_ok=True)
    main_program = cocotb.share_dir / "lib" / "verilator" / "verilator.cpp"
    shutil.copyfile(main_program, build_dir / "verilator.cpp")
    if library:
        with (build_dir / "verilator.cpp").open("a", encoding="utf-8") as file:
            file.write(_ENTRY)
    control = build_dir / "public.vlt"
    control.write_text(f'`verilator_config\npublic_flat_rw -module "{top}" -var "*"\n')

    public = ["--public-flat-rw"] if internals else [control.name]
    trace = [f"--trace-{waves}"] if waves else []
    link = ["-LDFLAGS", _link_options(Path(cocotb.libs_dir), build_dir)]
    if library:
        link = ["-LDFLAGS", "-shared -Wl,-u,hwgen_simulate", *link]
    verilate = ["--vpi", *trace, *arguments, *_HIDDEN, *link, "verilator.cpp", *public]
    name, main = f"{top}.so" if library else top, ["verilator.cpp"]
    return _compile(sources, verilate, name, top, build_dir, OPTIMISATION, jobs, main)


def build_program(
    sources: Sequence[Path],
    top: str,
    build_dir: Path,
    program: Sequence[str],
    *,
    jobs: int | None = None,
    arguments: Sequence[str] = (),
    optimisation: Mapping[str, str] = PROGRAM_OPTIMISATION,
) -> Path:
    """Compile a design together with C++ that drives its model, the class ``Vtop``.

    Parameters
    ----------
    sources : sequence of Path
        Verilog files, and ``.vlt`` files.
    top : str
        The top module.
    build_dir : Path
        Where to work.
    program : sequence of str
        C++ files in `build_dir`; they find headers that are there, ``Vtop.h`` and Verilator's.
    jobs : int, optional
        Compilers that run at once; default one per processor.
    arguments : sequence of str
        More options for Verilator.
    optimisation : mapping
        Compiler options, e.g. `QUICK`.

    Returns
    -------
    Path
        The program, which has the name of the top module.

    Raises
    ------
    ToolMissing
        If a tool is not there.
    CheckFailed
        If something does not compile; the text ends with what the tool said.
    """
    verilate = [*_HIDDEN, *arguments, *program]
    return _compile(sources, verilate, top, top, build_dir, optimisation, jobs, program)


def build_library(
    sources: Sequence[Path],
    top: str,
    build_dir: Path,
    program: Sequence[str],
    *,
    arguments: Sequence[str] = (),
    optimisation: Mapping[str, str] = LIBRARY_OPTIMISATION,
) -> Path:
    """Compile a design and C++ around it into a shared library; see `build_program`.

    It shows the functions that are declared with default visibility, and nothing else, so that
    one process can load several.
    """
    verilate = [*_HIDDEN, *arguments, "-LDFLAGS", "-shared", *program]
    return _compile(sources, verilate, top, top, build_dir, optimisation, None, program)


def _compile(
    sources: Sequence[Path],
    arguments: Sequence[str],
    name: str,
    top: str,
    build_dir: Path,
    optimisation: Mapping[str, str],
    jobs: int | None,
    main: Sequence[str],
) -> Path:
    """Run Verilator and the compiler, and return the file `name` that they make.

    `main` are those C++ files that may be compiled together with the design.
    """
    verilator, make, compiler = require("verilator"), require("make"), require("g++")
    environment = {**os.environ, **verilator.environment}
    for variable in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        environment.pop(variable, None)
    if root := verilator.environment.get("VERILATOR_ROOT"):
        # Verilator's makefiles do not quote their paths, so they are only told this one.
        environment["VERILATOR_ROOT"] = _link(build_dir / _ROOT, Path(root))
    # No dependency files (--no-MMD): make stumbles over the spaces in them.
    verilate = [
        "--cc", "--exe", "-Mdir", ".", "--prefix", "Vtop", "-o", name,
        "--top-module", top, "--no-MMD", *VERILATE,
        *(_LATE_SPLIT if optimisation["OPT_FAST"] == "-O0" else ()), *arguments,
        *(str(path.resolve()) for path in sources),
    ]  # fmt: skip
    count = jobs or os.cpu_count() or 1
    programs = {"CXX": compiler.argv[0], "LINK": compiler.argv[0], "PYTHON3": sys.executable}
    variables = [f"{key}={shlex.quote(path)}" for key, path in programs.items()]
    variables += _missing_make_variables()
    # Verilator's makefile refuses a directory with a space in its name, though all its paths are
    # relative to it: it is not told the name.
    variables.append("CURDIR=.")

    def translate(*more: str) -> int:
        run(verilator, [*verilate, *more], build_dir, "verilate.log", TIMEOUT_S, environment)
        return sum(path.stat().st_size for path in build_dir.glob("Vtop*.cpp"))

    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    shared = repeated(text, top)
    for options in (*(shared.attempts if shared else ()), ()):
        for path in set(build_dir.glob("Vtop*")).difference(map(build_dir.joinpath, sources)):
            path.unlink()
        size = translate(*options)
        if shared is None or size <= GROWTH * shared.bytes:
            break
    variables += [f"{key}={value}" for key, value in optimisation.items()]
    makefile = ["-f", "Vtop.mk", *variables]
    plan = run(make, ["-n", *makefile], build_dir, "compile.plan", TIMEOUT_S, environment)
    identity = f"{compiler_id()}, {verilator.where}"
    cache = Directories("verilator")
    cached = Runtime(cache, identity, compiler, build_dir, plan, count)
    if (arguments_at_once := cached.directly(main, name)) is not None:
        run(compiler, arguments_at_once, build_dir, "compile.log", TIMEOUT_S, environment)
        return build_dir / name
    cached.install()
    compilation = ["-j", str(count), *makefile, *cached.arguments(optimisation, main)]
    run(make, compilation, build_dir, "compile.log", TIMEOUT_S, environment)
    return build_dir / name


def writes_fst() -> bool:
    """Return whether the compiler finds the C libraries that FST files are compressed with."""
    return _finds(require("g++").argv[0], ("zlib.h", "lz4.h"))


@cache
def _finds(compiler: str, headers: tuple[str, ...]) -> bool:
    options = [option for name in headers for option in ("-include", name)]
    done = subprocess.run(
        [compiler, "-E", *options, "-x", "c++", os.devnull],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def _link(link: Path, target: Path) -> str:
    """Make `link` point to `target` and return its name."""
    with suppress(FileNotFoundError):
        link.unlink()
    link.symlink_to(target, target_is_directory=True)
    return link.name


def _link_options(libraries: Path, build_dir: Path) -> str:
    """Return the linker's options for cocotb; a link in the build directory avoids quoting."""
    path = str(libraries)
    if not _PLAIN.fullmatch(path):
        # $ORIGIN, the folder of the program: quoted for make, for the shell and for neither.
        path = _link(build_dir / "cocotb-libs", libraries)
        return f"-Wl,-rpath,'$$ORIGIN/{path}' -L{path} -lcocotbvpi_verilator"
    return f"-Wl,-rpath,{path} -L{path} -lcocotbvpi_verilator"


@cache
def _missing_make_variables() -> tuple[str, ...]:
    """Return the settings that Verilator's makefile should have, but lacks.

    The wheel was configured for no compiler in particular.  Without them precompiled headers are
    built and then not found by the compiler, which stops larger designs from compiling.
    """
    root = require("verilator").environment.get("VERILATOR_ROOT")
    if root is None:
        return ()
    settings = {
        "CFG_CXXFLAGS_PCH_I": "-include",
        "CFG_CXXFLAGS_STD": "-std=gnu++17",
        "CFG_LDLIBS_THREADS": "-pthread",
    }
    makefile = (Path(root) / "include" / "verilated.mk").read_text(encoding="utf-8")
    return tuple(
        f"{name}={value}"
        for name, value in settings.items()
        if re.search(rf"^{name}\s*=[ \t]*$", makefile, re.MULTILINE)
    )
