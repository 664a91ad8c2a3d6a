# SPDX-License-Identifier: Apache-2.0
"""What all simulations share: Verilator's run-time library and its headers, compiled once.

They depend on the toolchain and its options alone, and for a small design they are nine tenths of
the work: compiling its simulation took 2.9 s of processor time, of which two thirds were the
headers, read twice, and takes 0.7 s.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from flows.process import end, start
from flows.store import Store

_HEADER = "simulation_headers.h"
_LINK = "kept-headers"  # in the build directory, a link to where the library is kept

# What the code of designs and cocotb's main program begin with.
_INCLUDES = ("verilated.h", "verilated_dpi.h", "verilated_vpi.h", "cstdio", "cstdlib", "memory",
             "string", "vector")  # fmt: skip


class Runtime:
    """The run-time library for one set of options.

    Parameters
    ----------
    store : Store
        Where it is, or is to be, kept.
    name : str
        What tells the options apart.
    """

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._objects, self._headers = store, name, f"{name}-headers"

    def take(self, build_dir: Path) -> None:
        """Put what is kept into a build directory.

        Objects that are newer than their sources are not compiled again.
        """
        if kept := self._store.find(self._objects):
            for compiled in kept.glob("*.o"):
                shutil.copyfile(compiled, build_dir / compiled.name)

    def at_once(self, build_dir: Path, optimisation: str, main: Sequence[str]) -> list[str]:
        """Return variables for make with which a small design is compiled as one text.

        Verilator cuts large designs into several, which are compiled side by side with their own
        precompiled headers; for them there is nothing to add.

        Parameters
        ----------
        build_dir : Path
            With the makefiles that Verilator wrote.
        optimisation : str
            The compiler's options for the design.
        main : sequence of str
            C++ files to compile with it; of an executable, because a linker takes from the
            archive of the design only what is missing.
        """
        makefile = (build_dir / "Vtop_classes.mk").read_text(encoding="utf-8")
        if not re.search(r"^VM_PARALLEL_BUILDS = 0$", makefile, re.MULTILINE):
            return []
        variables = []
        if main:
            found = re.search(r"^VM_SUPPORT_SLOW \+= ((?:.*\\\n)*)", makefile, re.MULTILINE)
            own = [name for name in found[1].split() if name != "\\"] if found else []
            stems = [Path(name).stem for name in main]
            variables += ["VM_USER_CLASSES=", f"VM_SUPPORT_SLOW={' '.join([*own, *stems])}"]
        if kept := self._store.find(self._headers):
            link = build_dir / _LINK
            link.unlink(missing_ok=True)
            link.symlink_to(kept, target_is_directory=True)
            variables.append(f"OPT_FAST={optimisation} -include {_LINK}/{_HEADER}")
        return variables

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
            if not self._store.find(self._headers):
                with self._store.workplace() as work:
                    if _precompile(build_dir, work):
                        self._store.keep(work, self._headers, [_HEADER, f"{_HEADER}.gch"])


def _precompile(build_dir: Path, work: Path) -> bool:
    """Compile the headers with the very options with which the design was compiled, if possible."""
    log = (build_dir / "compile.log").read_text(encoding="utf-8", errors="replace")
    own = ["-c", "-o", "Vtop__ALL.o", "Vtop__ALL.cpp"]
    commands = [shlex.split(line) for line in log.splitlines() if "Vtop__ALL.o" in line]
    command = next((words[:-4] for words in commands if words[-4:] == own), None)
    if command is None:
        return False
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
