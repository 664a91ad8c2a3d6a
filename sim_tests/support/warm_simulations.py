# SPDX-License-Identifier: Apache-2.0
"""Simulations of tests, started by a process that has imported what they need.

Starting Python in a simulator and importing cocotb, NumPy and configurations took 0.6 s of
processor time, most of what a small regression takes.  Here a design is compiled to a library, and
a process that has imported all of that forks for each simulation and loads the library: the same
main program of cocotb runs in it as in a simulator of its own, which `hwgen sim` starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from flows.simulation.simulator import Start
from flows.tools.guard import start
from flows.tools.servers import Server, Servers

SERVERS = Servers("simulations")


def possible() -> bool:
    """Return whether cocotb would use the very interpreter that runs: its shared library."""
    from find_libpython import find_libpython

    library = find_libpython()
    if sys.platform != "linux" or library is None:
        return False
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return os.path.realpath(library) in maps


def run(library: Path, launch: Start, log: Path, folder: Path, timeout: float) -> bool:
    """Run a simulation as `flows.simulation.runner.Host`; returns whether its time was over."""
    request = {
        "library": str(library.resolve()),
        "command": launch.command,
        "environment": launch.environment,
        "log": str(log.resolve()),
        "folder": str(folder.resolve()),
    }

    def begin() -> Server:
        # cocotb reads some of its variables when it is imported.
        return start(
            [sys.executable, "-m", "sim_tests.support.simulation_server"],
            env={**launch.environment, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    expired = threading.Event()
    with SERVERS.lent(begin) as server:
        SERVERS.tell(server, json.dumps(request))
        pid = SERVERS.answer(server)

        def expire() -> None:
            expired.set()
            with suppress(ProcessLookupError):
                os.kill(pid, 9)

        timer = threading.Timer(timeout, expire)
        timer.start()
        try:
            SERVERS.answer(server)
        finally:
            timer.cancel()
    return expired.is_set()
