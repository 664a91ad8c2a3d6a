# SPDX-License-Identifier: Apache-2.0
"""``make bench-sweep``: configurations of the ternary-LUT family a second, end to end.

The sweep enumerates, applies constraints and specs, evaluates costs, and keeps the Pareto set and
the best points.  The baseline is the calibrated cost model alone, called with blocks of arrays that
are there already.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cost_model.closed_forms.closed_forms import evaluate
from cost_model.sweep.document import SweepFile, read_sweep
from cost_model.sweep.engine import run_sweep
from cost_model.sweep.journal import Journal
from cost_model.sweep.plan import metrics_of
from cost_model.sweep.probe import probe
from cost_model.sweep.reduce import BLOCK
from flows.bench.measure import parser, report
from flows.tools.executors import LocalProcesses
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
targets: {{technology: nangate45, clock_mhz: 500}}
constraints:
  - array.group_size * array.tables <= 256
  - array.tables * array.fetch_ports <= 8192
workloads:
  decode: [{{m: 1, k: 4096, n: 4096}}]
specs: [area_mm2 <= 2.0]
objectives: {{minimize: [area_mm2, latency_ms(decode)], maximize: [tops_per_w]}}
top: 10
"""


def baseline(file: SweepFile) -> float:
    """Return the points that the bare model does in a second of a processor."""
    subspace = file.plan.space.subspaces[0]
    values = {**subspace.settled([0]), **subspace.columns(np.arange(BLOCK))}
    repeat = 200
    start = time.process_time()
    for _ in range(repeat):
        metrics_of(evaluate, subspace.family, values, file.plan, BLOCK)
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
    probed = probe(file, evaluate)
    with Journal(folder / f"journal_{depth}_{jobs}", probed.fingerprint) as journal:
        outcome = run_sweep(file, probed, evaluate, LocalProcesses(jobs), journal)
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print ratios to the bare model."""
    options = parser("sweep", __doc__).parse_args(arguments)
    # Two formats, 5 group sizes, 100 tables and 100 ports: 10^5 points for each depth.
    with tempfile.TemporaryDirectory() as name:
        rows = [sweep(Path(name), depth, jobs) for depth, jobs in ((160, 1), (1600, 1), (16000, 2))]
    columns = [
        "sweep", "wall s", "processor s", "million a processor s", "of the model", "front", "MiB"
    ]  # fmt: skip
    report("sweeps of the ternary-LUT family", columns, rows, as_json=options.json)


if __name__ == "__main__":
    main()
