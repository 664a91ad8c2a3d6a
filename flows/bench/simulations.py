# SPDX-License-Identifier: Apache-2.0
"""Simulations that ``make bench-sim`` times.

Prints cycles, the processor seconds that they took, and those of start-up and preparation besides.
"""

from __future__ import annotations

import argparse
import re
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flows.build.design import Design
from flows.simulation.bus.engine_host import open_engine
from flows.simulation.engine_memory import place
from flows.simulation.regression import operands
from flows.simulation.runner import case_names, compile_design, simulate
from flows.simulation.stream_program import compile_stream, run_stream
from hwgen.core.load import load_config
from hwgen.core.registry import family
from hwgen.core.schedule.stream import pack_inputs

_CASE = re.compile(r"; (\d+) edges in ([\d.]+) s")
_CYCLES = re.compile(r"CYCLES (\d+)")

CYCLES = {"run": 200_000, "fast": 4_000_000}
"""About how long a product takes."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one simulation."""
    parser = argparse.ArgumentParser(prog="python -m flows.bench.simulations", description=__doc__)
    parser.add_argument(
        "mode", choices=("idle", "run", "fast", "regression"), help="an engine has no `run`"
    )
    parser.add_argument("configuration", type=Path)
    parser.add_argument("directory", type=Path, help="where to work")
    options = parser.parse_args(arguments)
    mode: str = options.mode
    config: Any = load_config(options.configuration)
    work = options.directory / f"{mode}-{config.name}"
    work.mkdir(parents=True)
    if config.buses and mode == "fast":
        found = _engine(config)
    elif mode == "fast":
        found = _fast(config, work)
    else:
        found = _cocotb(config, mode, work)
    sys.stdout.write(f"{' '.join(map(str, found))}\n")


def _operands(config: Any, mode: str) -> tuple[np.ndarray, np.ndarray]:
    m, k, n = 64, 256, config.natural_sizes[2] * 8
    m *= -(-CYCLES[mode] // family(config.family).part("cost").cycles(config, m, k, n))
    return operands(config, (m, k, n), "random", np.random.default_rng(0))


def _children() -> float:
    """Return the processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _fast(config: Any, work: Path) -> tuple[float, float, float]:
    a, w = _operands(config, "fast")
    parts = family(config.family).part
    plan = parts("schedule").schedule(config, *a.shape, w.shape[1])
    blocks = pack_inputs(plan, a, w)
    expected = family(config.family).cycles_of(config, [(a, w)])
    program = compile_stream(Design(config))
    start, before = time.process_time(), _children()
    _, cycles = run_stream(config, program, plan, blocks, expected, work, timeout=3600)
    return cycles, _children() - before, time.process_time() - start


def _engine(config: Any) -> tuple[float, float, float]:
    size = 256, 512, 512
    host = open_engine(Design(config), read_latency=1, write_latency=1)
    with host.model:
        operands_ = [operands(config, size, "random", np.random.default_rng(0))]
        (placed,), _ = place(config, operands_)
        host.put(placed)
        start, before = time.process_time(), host.model.traffic.cycles
        host.wait(host.submit(placed.job), 10_000_000)
        return host.model.traffic.cycles - before, time.process_time() - start, 0.0


def _cocotb(config: Any, mode: str, work: Path) -> tuple[float, float, float]:
    files = {key: str(work / f"{key}.npy") for key in ("activations", "weights")}
    if mode == "run":
        for path, values in zip(files.values(), _operands(config, "run"), strict=True):
            np.save(path, values)
    regression = "engine" if config.buses else "regression"
    modes: dict[str, tuple[str, dict[str, Any]]] = {
        "idle": ("flows.simulation.cocotb.idle", {"cycles": 200_000}),
        "run": ("flows.simulation.cocotb.run", {**files, "beats": str(work / "beats.bin")}),
        "regression": (
            f"flows.simulation.cocotb.{regression}",
            {"seed": 0, "cases": case_names(config, 0)},
        ),
    }
    module, plan = modes[mode]
    lines: list[str] = []
    program, before = compile_design(Design(config)), _children()
    outcomes = simulate(config, program, module, plan, work, on_line=lines.append)
    whole = _children() - before
    if not all(outcome.passed for outcome in outcomes):
        raise SystemExit(f"{mode} failed; log in {work}")
    if mode == "run":
        cycles = next(int(found[1]) for line in lines if (found := _CYCLES.match(line)))
        return cycles, whole, 0.0
    cases = [found for line in lines if (found := _CASE.search(line))]
    seconds = sum(float(case[2]) for case in cases)
    return sum(int(case[1]) for case in cases), seconds, whole - seconds


if __name__ == "__main__":
    main()
