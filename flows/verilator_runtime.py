# SPDX-License-Identifier: Apache-2.0
"""What all simulations share: Verilator's run-time library and its headers, compiled once.

They depend on the toolchain and its options alone, and for a small design they are nine tenths of
the work: compiling its simulation took 2.9 s of processor time, of which two thirds were the
headers, read twice, and takes 0.7 s.  Of a large one they were 6 s, for Verilator has them
precompiled for each design.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from flows.process import end, start
from flows.store import Store

_HEADER = "simulation_headers.h"
_LINK = "kept-headers"  # in the build directory, links to where the headers of each speed are kept
_OBJECTS = "kept-objects"  # the same, to where the objects are
_COMMANDS = "commands.json"  # with which make compiled and linked a design with these headers

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
        classes = _classes(build_dir)
        whole = classes is not None
        arguments = []
        if classes is not None and main:
            own, stems = classes["SUPPORT_SLOW"], [Path(name).stem for name in main]
            arguments += ["VM_USER_CLASSES=", f"VM_SUPPORT_SLOW={' '.join([*own, *stems])}"]
        for speed, variable in SPEEDS.items():
            if whole and speed != "fast":
                continue
            if kept := self._store.find(self._headers(speed)):
                link = _link(build_dir / f"{_LINK}-{speed}", kept)
                arguments.append(f"{variable}={optimisation[variable]} -include {link}/{_HEADER}")
                if not whole:
                    arguments += [f"VK_PCH_I_{speed.upper()}=", "-o", f"Vtop__pch.h.{speed}.gch"]
        return arguments

    def directly(self, build_dir: Path, main: Sequence[str], name: str) -> list[str] | None:
        """Return arguments with which the compiler makes all of a small design at once.

        They are those of an earlier make.  It and its shells, the separate archive and the linker's
        own start took a quarter of the time.

        Parameters
        ----------
        build_dir : Path
            With what Verilator wrote; gets the text of the whole design.
        main : sequence of str
            C++ files that belong to it.
        name : str
            File to make.

        Returns
        -------
        list of str or None
            None where make is needed: for a design in pieces, and as long as nothing is kept.
        """
        classes = _classes(build_dir)
        objects, headers = self._store.find(self._objects), self._store.find(self._headers("fast"))
        if classes is None or not main or not objects or not headers:
            return None
        try:
            commands = json.loads((headers / _COMMANDS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        kinds = ("CLASSES_FAST", "SUPPORT_FAST", "CLASSES_SLOW", "SUPPORT_SLOW")
        texts = [*(f"{stem}.cpp" for kind in kinds for stem in classes[kind]), *main]
        whole = ["#define VL_INCLUDE_OPT include", *(f'#include "{text}"' for text in texts), ""]
        (build_dir / "Vtop__ALL.cpp").write_text("\n".join(whole), encoding="utf-8")
        included = _link(build_dir / f"{_LINK}-fast", headers)
        linked = _link(build_dir / _OBJECTS, objects)
        return [
            *commands["compile"], "-include", f"{included}/{_HEADER}", "Vtop__ALL.cpp",
            *(f"{linked}/{file}" for file in commands["objects"]), *commands["link"], *_linker(),
            "-o", name,
        ]  # fmt: skip

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
                        found = json.dumps(_commands(build_dir, command))
                        (work / _COMMANDS).write_text(found, encoding="utf-8")
                        files = [_HEADER, f"{_HEADER}.gch", _COMMANDS]
                        self._store.keep(work, self._headers(speed), files)


def _classes(build_dir: Path) -> dict[str, list[str]] | None:
    """Return the C++ files of a design by kind, without endings; None if it is cut into pieces."""
    makefile = (build_dir / "Vtop_classes.mk").read_text(encoding="utf-8")
    if not re.search(r"^VM_PARALLEL_BUILDS = 0$", makefile, re.MULTILINE):
        return None
    lists = re.findall(r"^VM_(\w+) \+= ((?:.*\\\n)*)", makefile, re.MULTILINE)
    return {kind: [stem for stem in text.split() if stem != "\\"] for kind, text in lists}


@cache
def _linker() -> tuple[str, ...]:
    """Return what chooses a linker that takes a third of the usual one's time, if it is there."""
    return ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()


def _link(link: Path, target: Path) -> str:
    """Make `link` point to a directory and return its name."""
    link.unlink(missing_ok=True)
    link.symlink_to(target, target_is_directory=True)
    return link.name


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


def _commands(build_dir: Path, command: Sequence[str]) -> dict[str, Any]:
    """Return how a design was compiled and linked; nothing of it is a design's own."""
    log = (build_dir / "compile.log").read_text(encoding="utf-8", errors="replace")
    lines = [line for line in log.splitlines() if re.search(r" Vtop__ALL\.a .* -o \S+ *$", line)]
    words = shlex.split(lines[-1]) if lines else []
    at = words.index("Vtop__ALL.a") if words else 0
    return {
        "compile": [word for word in command[1:] if word != "-MMD"],
        "objects": [word for word in words[1:at] if word.startswith("verilated")],
        # `-pthread` would be the compiler's, too, which then could not use the headers.
        "link": ["-lpthread" if word == "-pthread" else word for word in words[at + 1 : -2]],
    }


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
