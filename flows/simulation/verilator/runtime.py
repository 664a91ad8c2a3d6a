# SPDX-License-Identifier: Apache-2.0
"""Verilator's run-time library and its headers, compiled once for all simulations.

They depend on the toolchain and its options alone, and for a small design they are nine tenths of
the work: compiling its simulation took 2.9 s of processor time, of which two thirds were the
headers, read twice, and takes 0.6 s.  Of a large one they were 6 s, for Verilator has them
precompiled for each design.

Each object and each precompiled header is kept under the command that makes it, as make says it
would run it.  So programs, libraries and simulations with cocotb have in common what they can: one
library for all, and headers for each level of optimisation.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import dropwhile
from pathlib import Path

from flows.tools.cache import Directories, text_digest
from flows.tools.parallel import run_all
from flows.tools.process import run
from flows.tools.toolchain import Installation
from hwgen.errors import CheckFailed

_HEADER = "simulation_headers.h"
_LINK = "kept-headers"  # in the build directory, links to where the headers of each speed are kept
_TIMEOUT_S = 3600.0

SPEEDS = {"fast": "OPT_FAST", "slow": "OPT_SLOW"}
"""What is compiled alike in Verilator's makefiles, and the variable with its options: code that
runs in each cycle, and code that runs once."""

# What the code of designs and cocotb's main program begin with.
_INCLUDES = ("verilated.h", "verilated_dpi.h", "verilated_vpi.h", "cstdio", "cstdlib", "memory",
             "string", "vector")  # fmt: skip

# Designs hide their functions from others in the same process, but this is what cocotb calls.
_SHOWN = "verilated_vpi.o"

# What writes waveforms.
_WRITERS = ("verilated_fst", "verilated_saif", "verilated_vcd")


class Runtime:
    """The run-time library for one design: what of it is missing is made when this is.

    Parameters
    ----------
    programs : Directories
        Where it is, or is to be, kept.
    identity : str
        What else tells libraries apart: the toolchain.
    compiler : Installation
    build_dir : Path
        With the makefiles that Verilator wrote.
    plan : str
        What make would run there.
    jobs : int
        Compilers that run at once.

    Raises
    ------
    CheckFailed
        If the library does not compile.
    """

    def __init__(
        self,
        programs: Directories,
        identity: str,
        compiler: Installation,
        build_dir: Path,
        plan: str,
        jobs: int,
    ) -> None:
        self._programs, self._identity, self._compiler = programs, identity, compiler
        self._build_dir, self._classes = build_dir, _classes(build_dir)
        lines = plan.replace("\\\n", " ").splitlines()
        self._link_command = next(
            (line for line in lines if re.search(r" Vtop__ALL\.a .* -o \S+ *$", line)), ""
        )
        self._objects: dict[str, list[str]] = {}
        self._compile: dict[str, list[str]] = {}
        for line in lines:
            if " -c " in line or " c++-header " in line:
                self._sort(shlex.split(line))
        self._prepare(jobs)

    def _sort(self, words: list[str]) -> None:
        """Take from a command how a part of the library, or code of a speed, is compiled."""
        # The compiler comes first, after what keeps its results if there is any.
        words = list(dropwhile(lambda word: not word.startswith("-"), words))
        if len(words) < 4:
            return
        *options, flag, name, source = words
        if flag == "-o" and Path(source).name.startswith("verilated"):
            shown = ["-fvisibility=default"] * (name == _SHOWN)
            cached = [option for option in options[:-1] if not _is_of_waves(option, name)]
            self._objects[name] = [*cached, *shown, "-c", source]
        elif source == "Vtop__ALL.cpp":
            self._compile["fast"] = _plain(options[:-1])
        for speed in SPEEDS:
            header = ["-x", "c++-header", "Vtop__pch.h", "-o", f"Vtop__pch.h.{speed}.gch"]
            if words[-len(header) :] == header:
                self._compile[speed] = _plain(words[: -len(header)])

    # -- what is kept ----------------------------------------------------------------------------

    def _key(self, name: str, options: Sequence[str]) -> str:
        key = text_digest("\n".join([self._identity, *_plain(options)]), 16)
        return f"{name.partition('.')[0]}-{key}"

    def _object(self, name: str) -> Path | None:
        return self._programs.find(self._key(name, self._objects[name]))

    def _headers(self, speed: str) -> Path | None:
        return self._programs.find(self._key(_HEADER, self._compile[speed]))

    def _missing(self) -> tuple[list[str], list[str]]:
        """Return the objects that are not kept, and the speeds of which headers are not."""
        different = {" ".join(options): speed for speed, options in self._compile.items()}
        return (
            [name for name in self._objects if self._object(name) is None],
            [speed for speed in different.values() if self._headers(speed) is None],
        )

    def _prepare(self, jobs: int) -> None:
        """Compile what is not kept; of several processes one does, and the others wait for it."""
        if not any(self._missing()):
            return
        with self._programs.exclusive():
            objects, speeds = self._missing()
            work = [partial(self._precompile, speed) for speed in speeds]
            # What takes longest begins first.
            work += [partial(self._make, name) for name in sorted(objects, reverse=True)]
            run_all(work, jobs)

    def _make(self, name: str) -> None:
        options = self._objects[name]
        with self._programs.workspace() as work:
            self._run([*options, "-o", str(work / name)], f"{name}.log")
            self._programs.add(work, self._key(name, options), [name])

    def _precompile(self, speed: str) -> None:
        """Compile the headers with the very options of a design; a header alone will do."""
        with self._programs.workspace() as work:
            header, compiled = work / _HEADER, f"{_HEADER}.gch"
            header.write_text("".join(f"#include <{name}>\n" for name in _INCLUDES))
            options = [*self._compile[speed], "-x", "c++-header"]
            files = [_HEADER, compiled]
            try:
                self._run([*options, "-o", str(work / compiled), str(header)], f"{speed}.log")
            except CheckFailed:  # what is wrong shows where it is included
                files.remove(compiled)
                (work / compiled).unlink(missing_ok=True)
            self._programs.add(work, self._key(_HEADER, self._compile[speed]), files)

    def _run(self, arguments: Sequence[str], log: str) -> None:
        run(self._compiler, arguments, self._build_dir, log, _TIMEOUT_S)

    # -- what is made of it ----------------------------------------------------------------------

    def install(self) -> None:
        """Put the objects into the build directory.

        Those that are newer than their sources are not compiled again by make.
        """
        for name in self._objects:
            if cached := self._object(name):
                shutil.copyfile(cached / name, self._build_dir / name)

    def arguments(self, optimisation: Mapping[str, str], main: Sequence[str]) -> list[str]:
        """Return arguments for make with which what is shared is not compiled again.

        Verilator has a small design compiled as one text.  It cuts a large one into several, which
        are compiled side by side with two precompiled headers of its own; in their place come
        those that are kept here, which lack the few lines of the design.

        Parameters
        ----------
        optimisation : mapping
            The compiler's options by the variables of `SPEEDS`.
        main : sequence of str
            C++ files to compile with a small design; of an executable, because a linker takes from
            the archive of the design only what is missing.
        """
        arguments = []
        if self._classes is not None and main:
            own, stems = self._classes["SUPPORT_SLOW"], [Path(name).stem for name in main]
            arguments += ["VM_USER_CLASSES=", f"VM_SUPPORT_SLOW={' '.join([*own, *stems])}"]
        for speed in self._compile:
            if cached := self._headers(speed):
                link, variable = _link(self._build_dir / f"{_LINK}-{speed}", cached), SPEEDS[speed]
                arguments.append(f"{variable}={optimisation[variable]} -include {link}/{_HEADER}")
                if self._classes is None:
                    arguments += [f"VK_PCH_I_{speed.upper()}=", "-o", f"Vtop__pch.h.{speed}.gch"]
        return arguments

    def directly(self, main: Sequence[str], name: str) -> list[str] | None:
        """Return arguments with which the compiler makes all of a small design at once.

        They are those of make.  It and its shells, the separate archive and the linker's own start
        took a quarter of the time.

        Parameters
        ----------
        main : sequence of str
            C++ files that belong to it.
        name : str
            File to make.

        Returns
        -------
        list of str or None
            None where make is needed: for a design in pieces.
        """
        objects = {file: self._object(file) for file in self._objects}
        headers = self._headers("fast") if "fast" in self._compile else None
        if self._classes is None or not main or not self._link_command or headers is None:
            return None
        kinds = ("CLASSES_FAST", "SUPPORT_FAST", "CLASSES_SLOW", "SUPPORT_SLOW")
        texts = [*(f"{stem}.cpp" for kind in kinds for stem in self._classes[kind]), *main]
        whole = ["#define VL_INCLUDE_OPT include", *(f'#include "{text}"' for text in texts), ""]
        (self._build_dir / "Vtop__ALL.cpp").write_text("\n".join(whole), encoding="utf-8")
        words = shlex.split(self._link_command)
        link = words[words.index("Vtop__ALL.a") + 1 : -2]
        return [
            *self._compile["fast"], "-include", f"{headers}/{_HEADER}", "Vtop__ALL.cpp",
            *(f"{cached}/{file}" for file, cached in objects.items() if cached),
            # `-pthread` would be the compiler's, too, which then could not use the headers.
            *("-lpthread" if word == "-pthread" else word for word in link), *_linker(),
            "-o", name,
        ]  # fmt: skip


def _is_of_waves(option: str, name: str) -> bool:
    """Return whether an option says which waveforms are written, to an object that writes none.

    To the rest of the library it says nothing, and what is the same is compiled once.
    """
    return option.startswith("-DVM_TRACE") and not name.startswith(_WRITERS)


def _plain(options: Sequence[str]) -> list[str]:
    """Return options of the compiler without those that have it write other files."""
    return [option for option in options if option != "-MMD"]


def _classes(build_dir: Path) -> dict[str, list[str]] | None:
    """Return the C++ files of a design by kind, without endings; None if it is cut into pieces."""
    makefile = (build_dir / "Vtop_classes.mk").read_text(encoding="utf-8")
    if not re.search(r"^VM_PARALLEL_BUILDS = 0$", makefile, re.MULTILINE):
        return None
    lists = re.findall(r"^VM_(\w+) \+= ((?:.*\\\n)*)", makefile, re.MULTILINE)
    return {kind: [stem for stem in text.split() if stem != "\\"] for kind, text in lists}


@cache
def _linker() -> tuple[str, ...]:
    """Return the option for a linker that takes a third of the time, if it is installed."""
    return ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()


def _link(link: Path, target: Path) -> str:
    """Make `link` point to a directory and return its name."""
    link.unlink(missing_ok=True)
    link.symlink_to(target, target_is_directory=True)
    return link.name
