# SPDX-License-Identifier: Apache-2.0
"""Running an external tool: output in a file, a time limit, an error that tells the end of it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from flows.toolchain import Found
from hwgen.errors import CheckFailed

LAST_LINES = 10
"""Lines of a tool's output that an error message repeats."""

_running: set[subprocess.Popen[bytes]] = set()


def run(
    found: Found,
    arguments: Sequence[str],
    cwd: Path,
    log: str,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a tool in a directory and return what it printed.

    Parameters
    ----------
    found : Found
        The tool, as `flows.toolchain.require` returns it.
    arguments : sequence of str
        Its arguments; files by names relative to `cwd`, because a WASM tool sees little else.
    cwd : Path
        Where it runs.
    log : str
        Name of the file, in `cwd`, that receives standard output and standard error.
    timeout : float
        Seconds after which it is killed, with everything it started.
    environment : mapping, optional
        Its whole environment; default the present one with what the tool needs.

    Raises
    ------
    CheckFailed
        If it fails or takes too long; the text ends with what the tool said last.
    """
    path = cwd / log
    with path.open("wb") as output:
        process = subprocess.Popen(
            [*found.argv, *arguments],
            cwd=cwd,
            env={**os.environ, **found.environment} if environment is None else environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        _running.add(process)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise CheckFailed(
                _message(f"{found.name} took more than {timeout:g} s", path)
            ) from None
        finally:
            if process.poll() is None:
                _kill(process)
                process.wait()
            _running.discard(process)
    if process.returncode:
        raise CheckFailed(_message(f"{found.name} failed ({found.where})", path))
    return path.read_text(encoding="utf-8", errors="replace")


def kill_all() -> None:
    """Kill every tool that `run` has started in any thread, with everything it started."""
    for process in list(_running):
        if process.returncode is None:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _message(action: str, log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    told = [line for line in lines if "error" in line.lower()] or lines
    return "\n".join([f"{action}:", *told[-LAST_LINES:]])
