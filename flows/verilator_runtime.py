# SPDX-License-Identifier: Apache-2.0
"""What all simulations share: Verilator's run-time library and its headers, compiled once.

They depend on the toolchain and its options alone, and for a small design they are nine tenths of
the work: compiling its simulation took 2.9 s of processor time, of which two thirds were the
headers, read twice, and takes 0.7 s.  Of a large one they were 6 s, for Verilator has them
precompiled for each design.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from flows.process import end, start
from flows.store import Store

_HEADER = "simulation_headers.h"
_LINK = "kept-headers"  # in the build directory, links to where the headers of each speed are kept

SPEEDS = {"fast": "OPT_FAST", "slow": "OPT_SLOW"}
"""What is compiled alike in Verilator's makefiles, and the variable with its options: code that
runs in each cycle, and code that runs once."""

# What the code of designs and cocotb's main program begin with.
_INCLUDES = ("verilated.h", "verilated_dpi.h", "verilated_vpi.h", "cstdio", "cstdlib", "memory",
             "string", "vector")  # fmt: skip


class Runtime:
    """The run-time library for one set of options.

    Parameters
    ----------
    store : Store
        Where it is, or is to be, kept.
    objects, headers : str
        What tells the options apart with which the library and its headers are compiled.
    """

    def __init__(self, store: Store, objects: str, headers: str) -> None:
        self._store, self._objects, self._name = store, objects, headers

    def _headers(self, speed: str) -> str:
        return f"{self._name}-{speed}-headers"

    def take(self, build_dir: Path) -> None:
        """Put what is kept into a build directory.

        Objects that are newer than their sources are not compiled again.
        """
        if kept := self._store.find(self._objects):
            for compiled in kept.glob("*.o"):
                shutil.copyfile(compiled, build_dir / compiled.name)

    def arguments(
        self, build_dir: Path, optimisation: Mapping[str, str], main: Sequence[str]
    ) -> list[str]:
        """Return arguments for make with which what is shared is not compiled again.

        Verilator has a small design compiled as one text.  It cuts a large one into several, which
        are compiled side by side with two precompiled headers of its own; in their place come
        those that are kept here, which lack the few lines of the design.

        Parameters
        ----------
        build_dir : Path
            With the makefiles that Verilator wrote.
        optimisation : mapping
            The compiler's options by the variables of `SPEEDS`.
        main : sequence of str
            C++ files to compile with a small design; of an executable, because a linker takes from
            the archive of the design only what is missing.
        """
        makefile = (build_dir / "Vtop_classes.mk").read_text(encoding="utf-8")
        whole = re.search(r"^VM_PARALLEL_BUILDS = 0$", makefile, re.MULTILINE) is not None
        arguments = []
        if whole and main:
            found = re.search(r"^VM_SUPPORT_SLOW \+= ((?:.*\\\n)*)", makefile, re.MULTILINE)
            own = [name for name in found[1].split() if name != "\\"] if found else []
            stems = [Path(name).stem for name in main]
            arguments += ["VM_USER_CLASSES=", f"VM_SUPPORT_SLOW={' '.join([*own, *stems])}"]
        for speed, variable in SPEEDS.items():
            if whole and speed != "fast":
                continue
            if kept := self._store.find(self._headers(speed)):
                link = build_dir / f"{_LINK}-{speed}"
                link.unlink(missing_ok=True)
                link.symlink_to(kept, target_is_directory=True)
                arguments.append(
                    f"{variable}={optimisation[variable]} -include {link.name}/{_HEADER}"
                )
                if not whole:
                    arguments += [f"VK_PCH_I_{speed.upper()}=", "-o", f"Vtop__pch.h.{speed}.gch"]
        return arguments

    def keep(self, build_dir: Path) -> None:
        """Keep what was compiled, if it is not kept yet.

        Without it everything works, only slower; and of two writers the first is as good.
        """
        with suppress(OSError):
            if not self._store.find(self._objects):
                with self._store.workplace() as work:
                    objects = [path.name for path in build_dir.glob("verilated*.o")]
                    for compiled in objects:
                        shutil.copyfile(build_dir / compiled, work / compiled)
                    self._store.keep(work, self._objects, objects)
            for speed in SPEEDS:
                command = _command(build_dir, speed)
                if command is None or self._store.find(self._headers(speed)):
                    continue
                with self._store.workplace() as work:
                    if _precompile(command, build_dir, work):
                        self._store.keep(work, self._headers(speed), [_HEADER, f"{_HEADER}.gch"])


def _command(build_dir: Path, speed: str) -> list[str] | None:
    """Return how code of a speed was compiled, without the files; None if it was not."""
    log = (build_dir / "compile.log").read_text(encoding="utf-8", errors="replace")
    whole = ["-c", "-o", "Vtop__ALL.o", "Vtop__ALL.cpp"]
    header = ["-x", "c++-header", "Vtop__pch.h", "-o", f"Vtop__pch.h.{speed}.gch"]
    for line in log.splitlines():
        words = shlex.split(line) if "Vtop__" in line else []
        for end_of_command in (whole, header) if speed == "fast" else (header,):
            if words[-len(end_of_command) :] == end_of_command:
                return words[: -len(end_of_command)]
    return None


def _precompile(command: Sequence[str], build_dir: Path, work: Path) -> bool:
    """Compile the headers with the very options with which a design was compiled, if possible."""
    includes = "".join(f"#include <{name}>\n" for name in _INCLUDES)
    header = work / _HEADER
    header.write_text(includes, encoding="utf-8")
    process = start(
        [*command, "-x", "c++-header", "-o", f"{header}.gch", str(header)],
        cwd=build_dir,
        env={**os.environ, "TMPDIR": str(work)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return process.wait() == 0
    finally:
        end(process)
