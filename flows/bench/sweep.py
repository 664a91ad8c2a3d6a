# SPDX-License-Identifier: Apache-2.0
"""``make bench-sweep``: configurations of the ternary-LUT family a second, end to end.

The sweep enumerates, applies constraints and specs, evaluates costs, and keeps the Pareto set and
the best points.  The cost model here is a stand-in of some 80 operations of NumPy a block, so that
the figures say how fast the sweep itself is.  The baseline is that model alone, called with
blocks of arrays that are there already.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.sweep.document import SweepFile, read_sweep
from cost_model.sweep.engine import run_sweep
from cost_model.sweep.journal import Journal
from cost_model.sweep.plan import metrics_of
from cost_model.sweep.probe import probe
from cost_model.sweep.reduce import BLOCK
from flows.bench.measure import report
from flows.executors import LocalProcesses
from hwgen import __version__

SWEEP = """
name: bench
family: ternary_lut
parameters:
  activation: [int4, int8]
  array:
    group_size: {{from: 1, to: 5}}
    tables: {{from: 1, to: 100}}
    fetch_ports: {{from: 1, to: 100}}
    accumulator_depth: {{from: 16, to: {depth}, step: 16}}
constraints:
  - array.group_size * array.tables <= 256
  - array.tables * array.fetch_ports <= 8192
workloads:
  decode: [[1, 4096, 4096]]
specs: [area_mm2 <= 2.0]
objectives: {{minimize: [area_mm2, latency_ms(decode)], maximize: [tops_per_w]}}
top: 10
"""


def model(
    family: str,
    fixed: Mapping[str, Any],
    varying: Mapping[str, NDArray[Any]],
    technology: str,
    workloads: Mapping[str, Sequence[tuple[int, int, int]]],
) -> dict[str, NDArray[Any]]:
    """Return metrics that are made up, with as many operations as a cost model has."""
    values = {**fixed, **varying}
    g, t, f, d = (
        np.asarray(values[f"array.{name}"], np.float64)
        for name in ("group_size", "tables", "fetch_ports", "accumulator_depth")
    )
    bits = float(values["activation"].removeprefix("int"))
    terms = t * g
    entries = (3.0**g - 1) * 0.5
    growth = np.ceil(np.log2(terms))
    width = bits + growth
    accumulator = width + 12
    areas = [
        t * entries * (bits + g) * 4.5,
        t * entries * bits * 3.1,
        f * t * (entries - 1) * (bits + 1) * 0.9,
        f * t * (bits + 2) * 1.7,
        f * (t - 1) * (width - growth * 0.5) * 4.2,
        f * accumulator * 5.5,
        f * accumulator * d * 0.35 + f * np.sqrt(d) * 11.0,
        (t * bits * g + f * t * (1 + g * 1.6)) * 4.5,
    ]
    area = sum(areas[1:], areas[0])
    energy = sum((a * (0.5 + 0.05 * i) for i, a in enumerate(areas[1:], 1)), areas[0] * 0.5)
    delay = 0.08 + 0.021 * np.log2(entries + 1) * 2 + 0.035 * np.log2(t) + 0.012 * width
    fmax = 1000 / np.maximum(delay, 0.15 + 0.01 * np.sqrt(d) + 0.008 * np.log2(f))
    clock = np.minimum(fmax, 1000.0)
    leakage = area * 2.5e-8
    power = energy * clock * 1e-9 + leakage
    tops = 2e-6 * terms * f * clock
    found = {
        "area_mm2": area * 1e-6,
        "power_w": power,
        "fmax_mhz": fmax,
        "tops": tops,
        "tops_per_w": tops / power,
        "tops_per_mm2": tops / (area * 1e-6),
    }
    for name, gemms in workloads.items():
        beats = [m * np.ceil(k / terms) * np.ceil(n / f) for m, n, k in gemms]
        cycles = sum(beats[1:], beats[0]) + 4
        found[f"cycles({name})"] = cycles
        found[f"latency_ms({name})"] = cycles / clock * 1e-3
        found[f"energy_mj({name})"] = cycles / clock * 1e-3 * power
    return {**found, "valid": np.ones(len(area), np.bool_)}


def baseline(file: SweepFile) -> float:
    """Return the points that the bare model does in a second of a processor."""
    subspace = file.plan.space.subspaces[0]
    values = {**subspace.settled([0]), **subspace.columns(np.arange(BLOCK))}
    repeat = 200
    start = time.process_time()
    for _ in range(repeat):
        metrics_of(model, subspace.family, values, file.plan, BLOCK)
    return repeat * BLOCK / (time.process_time() - start)


def processor_s() -> float:
    """Return the time that this process and its finished workers have had a processor."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def sweep(folder: Path, depth: int, jobs: int) -> list[Any]:
    """Run a sweep; return a row of the report."""
    path = folder / "sweep.yaml"
    path.write_text(SWEEP.format(depth=depth))
    file = read_sweep(path, __version__)
    bare = baseline(file)
    start, busy = time.perf_counter(), processor_s()
    probed = probe(file, model)
    with Journal(folder / f"journal_{depth}_{jobs}", probed.fingerprint) as journal:
        outcome = run_sweep(file, probed, model, LocalProcesses(jobs), journal)
    seconds, busy = time.perf_counter() - start, processor_s() - busy
    speed = outcome.evaluated / busy
    # The largest worker counts for every one of them.
    scale = 1024 * 1024 if sys.platform == "darwin" else 1024
    own, worker = (
        resource.getrusage(who).ru_maxrss / scale
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return [
        f"{outcome.evaluated:.0e} points, {jobs} process{'es' if jobs > 1 else ''}",
        seconds,
        busy,
        speed / 1e6,
        speed / bare,
        len(outcome.front),
        round(own + (jobs * worker if jobs > 1 else 0)),
    ]


def main() -> None:
    """Measure, and print ratios to the bare model."""
    # Two formats, 5 group sizes, 100 tables and 100 ports: 10^5 points for each depth.
    with tempfile.TemporaryDirectory() as name:
        rows = [sweep(Path(name), depth, jobs) for depth, jobs in ((160, 1), (1600, 1), (16000, 2))]
    columns = [
        "sweep", "wall s", "processor s", "million a processor s", "of the model", "front", "MiB"
    ]  # fmt: skip
    report("sweeps of the ternary-LUT family", columns, rows)


if __name__ == "__main__":
    main()
