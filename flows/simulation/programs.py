# SPDX-License-Identifier: Apache-2.0
"""Compiled simulations: kept on disk, and run as processes with a time limit."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.tools.cache import Directories, text_digest
from flows.tools.guard import end, start
from hwgen.progress import compiling


def compiled(
    name: str,
    sources: Mapping[str, str],
    identity: Sequence[str],
    make: Callable[[Path], None],
    folder: str = "sim",
    file: str | None = None,
) -> Path:
    """Return a directory with a program, compiled now or earlier.

    Parameters
    ----------
    name : str
        Name of the program.
    sources : mapping
        Files that it is made from: name to text.
    identity : sequence of str
        What else shapes it: toolchain, options.
    make : callable
        Compiles the sources that are in the given directory, into it.
    folder : str
        Folder of the cache.
    file : str, optional
        What `make` makes; default a file called `name`.
    """
    parts = [*(text for source in sorted(sources.items()) for text in source), *identity]
    key = text_digest("\n".join(parts))
    programs, entry = Directories(folder), f"{name}-{key}"
    if cached := programs.find(entry):
        return cached
    with programs.workspace() as work:
        for source, text in sources.items():
            (work / source).write_text(text, encoding="utf-8")
        with compiling(f"the RTL of {name}"):
            make(work)
        return programs.add(work, entry, [file or name])


@dataclass(frozen=True)
class Ended:
    """End of a process.

    Parameters
    ----------
    status : int
        Its exit status, negative the signal that ended it.
    expired : bool
        Whether it was ended because its time was over.
    """

    status: int
    expired: bool


def follow(
    command: Sequence[str],
    environment: Mapping[str, str] | None,
    log: Path,
    *,
    on_line: Callable[[str], None] | None,
    timeout: float,
    files: Sequence[int] = (),
    cwd: Path | None = None,
) -> Ended:
    """Run a program to its end.

    Parameters
    ----------
    command : sequence of str
    environment : mapping, optional
        Its whole environment; default the present one.
    log : Path
        File that receives what it prints.
    on_line : callable, optional
        Gets every line that it prints.
    timeout : float
        Seconds.
    files : sequence of int
        Open files that the program gets under the same numbers; closed here once it has them.
    cwd : Path, optional
        Where it runs.
    """
    try:
        process = start(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=files,
        )
    finally:
        for number in files:
            os.close(number)
    timer = _Deadline(process, timeout)
    with process, log.open("w", encoding="utf-8") as file:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                file.write(line)
                if on_line:
                    on_line(line)
            process.wait()
        finally:
            expired = timer.stop()
            end(process)
    return Ended(process.returncode, expired)


class _Deadline:
    """Ends a process and all it started when its time is over."""

    def __init__(self, process: subprocess.Popen[Any], seconds: float) -> None:
        self._process, self._expired = process, False
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def _expire(self) -> None:
        self._expired = True
        end(self._process)

    def stop(self) -> bool:
        self._timer.cancel()
        return self._expired
