# SPDX-License-Identifier: Apache-2.0
"""Running an external tool: output in a file, a time limit, an error with the end of the output."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from flows.tools import wasm
from flows.tools.guard import end, scratch, start
from flows.tools.toolchain import Installation
from hwgen.errors import CheckFailed

LAST_LINES = 10
"""Lines of a tool's output that an error message repeats."""

POLL_SECONDS = 1.0
"""Time between looks at the log of a tool that is watched."""


class TimedOut(CheckFailed):
    """A tool that took too long."""


_on_log: ContextVar[Callable[[Path], None] | None] = ContextVar("on_log", default=None)


@contextmanager
def watch_logs(on_log: Callable[[Path], None]) -> Iterator[None]:
    """Call a function with the log of each tool that this thread runs inside, every second."""
    token = _on_log.set(on_log)
    try:
        yield
    finally:
        _on_log.reset(token)


def run(
    tool: Installation,
    arguments: Sequence[str],
    cwd: Path,
    log: str,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a tool in a directory and return what it printed.

    Parameters
    ----------
    tool : Installation
        The tool, as `flows.tools.toolchain.require` returns it.
    arguments : sequence of str
        Its arguments; files by names relative to `cwd`, because a WASM tool sees little else.
    cwd : Path
        Where it runs.
    log : str
        Name of the file, in `cwd`, that receives standard output and standard error.
    timeout : float
        Seconds after which it is killed, with everything it started.  Compiling a WASM tool before
        its first use does not count.
    environment : mapping, optional
        Its whole environment; default the present one with what the tool needs.

    Raises
    ------
    CheckFailed
        If it fails, or (`TimedOut`) takes too long; the text ends with what the tool said last.
    """
    wasm.prepare(tool)
    variables = {**os.environ, **tool.environment} if environment is None else dict(environment)
    if wasm.is_wasm(tool):
        variables |= wasm.environment()
    path = cwd / log
    # What compilers leave in their temporary directory when they are killed goes with it.
    with path.open("wb") as output, scratch(".tmp-", cwd) as temporary:
        process = start(
            [*tool.argv, *arguments],
            cwd=cwd,
            env={**variables, "TMPDIR": str(temporary)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait(process, path, timeout)
        except subprocess.TimeoutExpired:
            error = _failure_of(f"{tool.name} took more than {timeout:g} s", path)
            raise TimedOut(str(error)) from None
        finally:
            end(process)
    if process.returncode:
        raise _failure_of(f"{tool.name} failed ({tool.where})", path)
    return path.read_text(encoding="utf-8", errors="replace")


def _wait(process: subprocess.Popen[bytes], log: Path, timeout: float) -> None:
    """Wait for a tool and show its log meanwhile; raise `TimeoutExpired` when time is over."""
    on_log, deadline = _on_log.get(), time.monotonic() + timeout
    while on_log is not None and (left := deadline - time.monotonic()) > POLL_SECONDS:
        try:
            process.wait(min(POLL_SECONDS, left))
        except subprocess.TimeoutExpired:
            on_log(log)
        else:
            return
    process.wait(max(0.0, deadline - time.monotonic()))


def failure(action: str, said: str) -> CheckFailed:
    """Return the error of a tool, with the end of what it said."""
    lines = said.splitlines()
    told = [line for line in lines if "error" in line.lower()] or lines
    return CheckFailed("\n".join([f"{action}:", *told[-LAST_LINES:]]))


def _failure_of(action: str, log: Path) -> CheckFailed:
    return failure(action, log.read_text(encoding="utf-8", errors="replace"))
