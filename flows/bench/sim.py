# SPDX-License-Identifier: Apache-2.0
"""Simulated cycles per second of ``hwgen run`` and of the regression: ``make bench-sim``.

``idle`` is the design compiled for cocotb with a testbench that only waits for clock edges: no
cocotb testbench can be faster.  Start-up and preparation (operands, golden results, beats) are
separate.
"""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from flows.bench.common import ROOT, Cell, Row, parser, report, run
from flows.build.design import Design
from flows.build.load import load_config
from flows.simulation.bus.job_host import open_engine
from flows.simulation.operands import draw_matrices
from flows.simulation.placed_products import place
from flows.simulation.runner import case_names, compile_design, simulate
from flows.simulation.stream_program import compile_stream, run_stream
from hwgen.core.operation import GEMM, StreamPlan, gemm_operands
from hwgen.core.registry import core_of

ARRAYS = ((8, "output_stationary"), (16, "output_stationary"), (16, "weight_stationary"))
MODES = ("fast", "run", "idle", "regression")

CYCLES = {"run": 200_000, "fast": 4_000_000}
"""Approximate duration of a product."""

_CASE = re.compile(r"; (\d+) edges in ([\d.]+) s")
_CYCLES = re.compile(r"CYCLES (\d+)")

Timing = tuple[float, float, float]
"""Cycles, the processor seconds that they took, and those of start-up and preparation."""

SPECS = {**dict.fromkeys(MODES, ".1f"), "of idle": ".2f", "start-up, s": ".2f"}


def rows(work: Path) -> Iterator[Row]:
    """Time each mode of each design, in a process of its own."""
    designs = {}
    for size, dataflow in reversed(ARRAYS):
        path = work / f"{size}_{dataflow}.yaml"
        array = f"{{rows: {size}, cols: {size}, dataflow: {dataflow}}}"
        path.write_text(f"name: timed_{path.stem}\nfamily: systolic\narray: {array}\n")
        designs[f"{size} x {size} {dataflow}"] = path
    for name in ("lut_core.yaml", "gemm_stream.yaml"):
        designs[f"configs/{name}"] = ROOT / "configs" / name
    for title, path in designs.items():
        rates: dict[str, float] = {}
        start_up = 0.0
        for mode in MODES:
            if mode == "run" and path.stem == "gemm_stream":
                continue
            command = [
                sys.executable,
                "-m",
                "flows.bench.sim",
                "--time",
                mode,
                str(path),
                str(work),
            ]
            done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
            cycles, seconds, start_up = json.loads(done.stdout.splitlines()[-1])
            rates[mode] = cycles / seconds / 1000
        cells: dict[str, Cell] = {"thousand cycles/s": title}
        cells |= {mode: rates.get(mode) for mode in MODES}
        ratio = rates["regression"] / rates["idle"]
        yield {**cells, "of idle": ratio, "start-up, s": start_up}


def timed(mode: str, path: Path, directory: Path) -> Timing:
    """Time one simulation of a configuration."""
    config: Any = load_config(path)
    work = directory / f"{mode}-{config.name}"
    work.mkdir(parents=True)
    if mode != "fast":
        return cocotb_timing(config, mode, work)
    return engine_timing(config) if config.buses else stream_timing(config, work)


def drawn_operands(config: Any, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Draw the operands of a product of about `CYCLES`."""
    m, k, n = 64, 256, config.natural_sizes[2] * 8
    core = core_of(config)
    m *= -(-CYCLES[mode] // core.cycles([core.gemm(m, k, n)]).number)
    return draw_matrices(config, (m, k, n), "random", np.random.default_rng(0))


def children_seconds() -> float:
    """Return the processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stream_timing(config: Any, work: Path) -> Timing:
    """Time ``hwgen run`` of a stream core."""
    a, w = drawn_operands(config, "fast")
    core, operands = core_of(config), gemm_operands(a, w)
    job = core.gemm(a.shape[0], a.shape[1], w.shape[1])
    plan = core.schedule(job)
    assert isinstance(plan, StreamPlan)
    expected = core.cycles([job], [operands]).number
    program = compile_stream(Design.of(config))
    start, before = time.process_time(), children_seconds()
    _, cycles = run_stream(config, program, plan, plan.pack(operands), expected, work, timeout=3600)
    return cycles, children_seconds() - before, time.process_time() - start


def engine_timing(config: Any) -> Timing:
    """Time ``hwgen run`` of an engine."""
    host = open_engine(Design.of(config), read_latency=1, write_latency=1)
    with host.model:
        drawn = draw_matrices(config, (256, 512, 512), "random", np.random.default_rng(0))
        (placed,), _ = place(config, [drawn])
        host.put(placed)
        start, before = time.process_time(), host.model.traffic.cycles
        host.wait(host.submit(placed.job), 10_000_000)
        return host.model.traffic.cycles - before, time.process_time() - start, 0.0


def cocotb_timing(config: Any, mode: str, work: Path) -> Timing:
    """Time a cocotb testbench."""
    files = {key: str(work / f"{key}.npy") for key in ("activations", "weights")}
    if mode == "run":
        for path, values in zip(files.values(), drawn_operands(config, "run"), strict=True):
            np.save(path, values)
    request = {"operands": files, "operation": GEMM, "scalars": {}, "post": None}
    modules = "flows.simulation.cocotb"
    modes: dict[str, tuple[str, dict[str, Any]]] = {
        "idle": (f"{modules}.idle", {"cycles": 200_000}),
        "run": (f"{modules}.run", {**request, "beats": str(work / "beats.bin")}),
        "regression": (f"{modules}.regression", {"seed": 0, "cases": case_names(config, 0)}),
    }
    module, plan = modes[mode]
    lines: list[str] = []
    program, before = compile_design(Design.of(config)), children_seconds()
    outcomes = simulate(config, program, module, plan, work, on_line=lines.append)
    whole = children_seconds() - before
    if not all(outcome.passed for outcome in outcomes):
        raise SystemExit(f"{mode} failed; log in {work}")
    if mode == "run":
        return next(int(match[1]) for line in lines if (match := _CYCLES.match(line))), whole, 0.0
    cases = [match for line in lines if (match := _CASE.search(line))]
    seconds = sum(float(case[2]) for case in cases)
    return sum(int(case[1]) for case in cases), seconds, whole - seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print ratios to the idle testbench."""
    options = parser("sim", __doc__)
    options.add_argument("--time", nargs=3, metavar=("MODE", "FILE", "DIR"), help="time one only")
    chosen = options.parse_args(arguments)
    if chosen.time:
        mode, path, directory = chosen.time
        click.echo(json.dumps(timed(mode, Path(path), Path(directory))))
        return
    with tempfile.TemporaryDirectory() as name:
        report("simulation, int8, processor time", rows(Path(name)), SPECS, as_json=chosen.json)


if __name__ == "__main__":
    run(main)
