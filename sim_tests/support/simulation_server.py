# SPDX-License-Identifier: Apache-2.0
"""A process that has imported what cocotb benches need, and forks for each simulation.

See `sim_tests.support.warm_simulations`, which starts it.  Each line on its standard input
describes a simulation; the number of its process is printed, and its status when it has ended.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import sys
from typing import Any

from hwgen.core.registry import families

MODULES = (
    "cocotb._init", "cocotb.clock", "cocotb.logging", "cocotb.regression", "cocotb.triggers",
    "cocotbext.axi", "flows.simulation.bus.axi_lite", "flows.simulation.bus.axi_memory",
    "flows.simulation.bus.axi_monitor", "flows.simulation.placed_products",
    "flows.simulation.cases", "flows.simulation.placement", "flows.simulation.post_cases",
    "flows.simulation.bus.stream_bench", "hwgen.core.register_map",
    "numpy.random", "pydantic",
)  # fmt: skip
"""Of benches those that read the plan of a simulation when they are imported are missing."""


def _prepare() -> None:
    for name in MODULES:
        importlib.import_module(name)
    tuple(families().values())  # imports them
    gc.collect()
    gc.freeze()  # not to be looked at, and so copied, in each simulation


def _simulate(request: dict[str, Any]) -> None:
    """Become a simulation."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    wanted = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [entry for entry in wanted if entry not in sys.path]
    arguments = [argument.encode() for argument in request["command"]]
    # With the interpreter's lock, as cocotb finds it where it starts an interpreter itself.
    library = ctypes.PyDLL(request["library"])
    library.hwgen_simulate(
        len(arguments), (ctypes.c_char_p * (len(arguments) + 1))(*arguments, None)
    )


def main() -> None:
    """Serve until there is no more input: until the process that asks is gone."""
    _prepare()
    for line in iter(sys.stdin.readline, ""):
        if not (pid := os.fork()):
            try:
                _simulate(json.loads(line))
            finally:
                os._exit(1)  # what failed stands in the log
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
