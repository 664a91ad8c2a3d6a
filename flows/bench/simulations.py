# SPDX-License-Identifier: Apache-2.0
"""Simulations that ``make bench-sim`` times; prints cycles and seconds of simulation."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flows.simulation.engine_host import open_engine
from flows.simulation.engine_memory import place
from flows.simulation.regression import operands
from flows.simulation.runner import case_names, compile_design, simulate
from flows.simulation.stream_program import compile_stream, run_stream
from hwgen.config.load import load_config
from hwgen.families import family
from hwgen.schedules.stream import pack_inputs

_TOTAL = re.compile(r"TESTS=\d+ \D*\d+ \D*\d+ \D*\d+\s+([\d.]+)\s+([\d.]+)")
_PERIOD_NS = 2

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
        cycles, seconds = _engine(config)
    elif mode == "fast":
        cycles, seconds = _fast(config, work)
    else:
        cycles, seconds = _cocotb(config, mode, work)
    sys.stdout.write(f"{cycles} {seconds}\n")


def _operands(config: Any, mode: str) -> tuple[np.ndarray, np.ndarray]:
    m, k, n = 64, 256, config.natural_sizes[2] * 8
    m *= -(-CYCLES[mode] // family(config.family).part("cost").cycles(config, m, k, n))
    return operands(config, (m, k, n), "random", np.random.default_rng(0))


def _fast(config: Any, work: Path) -> tuple[float, float]:
    a, w = _operands(config, "fast")
    parts = family(config.family).part
    plan = parts("schedule").schedule(config, *a.shape, w.shape[1])
    blocks = pack_inputs(plan, a, w)
    expected = family(config.family).cycles_of(config, [(a, w)])
    program = compile_stream(config)
    start = time.perf_counter()
    _, cycles = run_stream(config, program, plan, blocks, expected, work, timeout=3600)
    return cycles, time.perf_counter() - start


def _engine(config: Any) -> tuple[float, float]:
    size = 256, 512, 512
    host = open_engine(config, read_latency=1, write_latency=1)
    with host.model:
        operands_ = [operands(config, size, "random", np.random.default_rng(0))]
        (placed,), _ = place(config, operands_)
        host.put(placed)
        start, before = time.perf_counter(), host.model.traffic.cycles
        host.wait(host.submit(placed.job), 10_000_000)
        return host.model.traffic.cycles - before, time.perf_counter() - start


def _cocotb(config: Any, mode: str, work: Path) -> tuple[float, float]:
    files = {key: str(work / f"{key}.npy") for key in ("activations", "weights")}
    if mode == "run":
        for path, values in zip(files.values(), _operands(config, "run"), strict=True):
            np.save(path, values)
    regression = "engine" if config.buses else "regression"
    modes: dict[str, tuple[str, dict[str, Any]]] = {
        "idle": ("flows.simulation.cocotb_idle", {"cycles": 200_000}),
        "run": ("flows.simulation.cocotb_run", {**files, "beats": str(work / "beats.bin")}),
        "regression": (
            f"flows.simulation.cocotb_{regression}",
            {"seed": 0, "cases": case_names(config, 0)},
        ),
    }
    module, plan = modes[mode]
    lines: list[str] = []
    outcomes = simulate(config, compile_design(config), module, plan, work, on_line=lines.append)
    if not all(outcome.passed for outcome in outcomes):
        raise SystemExit(f"{mode} failed; log in {work}")
    total = next(match for line in lines if (match := _TOTAL.search(line)))
    return float(total[1]) / _PERIOD_NS, float(total[2])


if __name__ == "__main__":
    main()
