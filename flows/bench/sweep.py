# SPDX-License-Identifier: Apache-2.0
"""Configurations of the ternary-LUT family a second in sweeps, end to end: ``make bench-sweep``.

Costs are fitted to netlists first.  Then the sweep enumerates, applies constraints and specs,
evaluates fits, and keeps the Pareto set and the best points.  The baseline is the evaluation alone,
called with blocks of arrays that are in memory already.  The speed with fitting takes the time in
which netlists are found in the cache, if an earlier run has computed them.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cost_model.sweep.document import SweepFile, read_sweep
from cost_model.sweep.engine import run_sweep
from cost_model.sweep.fitted import Fitted, fitted
from cost_model.sweep.journal import Journal
from cost_model.sweep.netlists import Netlists
from cost_model.sweep.plan import metrics_of
from cost_model.sweep.probe import probe
from cost_model.sweep.reduce import BLOCK
from cost_model.sweep.samples import pools
from flows.bench.common import Row, mebibytes, parser, report, run
from flows.build.costs import NetlistCosts
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

RUNS = ((160, 1), (1600, 1), (16000, 2))
"""Depths and processes: two formats, 5 group sizes, 100 tables and 100 ports for each depth."""

WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def baseline(file: SweepFile, evaluate: Fitted) -> float:
    """Return the points that the bare model evaluates in a second of a processor."""
    subspace = file.plan.space.subspaces[0]
    values = {**subspace.settled([0]), **subspace.columns(np.arange(BLOCK))}
    repeat = 200
    start = time.process_time()
    for _ in range(repeat):
        metrics_of(evaluate, subspace.family, values, file.plan, BLOCK)
    return repeat * BLOCK / (time.process_time() - start)


def processor_s() -> float:
    """Return the processor time of this process and its finished workers."""
    usages = (resource.getrusage(who) for who in WHO)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def sweep_row(folder: Path, depth: int, jobs: int) -> Row:
    """Run a sweep and return its speed and memory."""
    path = folder / "sweep.yaml"
    path.write_text(SWEEP.format(depth=depth))
    file = read_sweep(path, __version__)
    busy = processor_s()
    evaluate = fitted(file.plan, pools(file.plan), Netlists(NetlistCosts()), LocalProcesses(jobs))
    fitting = processor_s() - busy
    bare = baseline(file, evaluate)
    start, busy = time.perf_counter(), processor_s()
    probed = probe(file, Fitted())
    with Journal(folder / f"journal_{depth}_{jobs}", probed.fingerprint) as journal:
        outcome = run_sweep(file, probed, evaluate, LocalProcesses(jobs), journal)
    seconds, busy = time.perf_counter() - start, processor_s() - busy
    speed = outcome.evaluated / busy
    # The largest worker counts for every one of them.
    parent, worker = (mebibytes(resource.getrusage(who).ru_maxrss) for who in WHO)
    return {
        "points": f"{outcome.evaluated:.0e}",
        "processes": jobs,
        "wall s": seconds,
        "processor s": busy,
        "million a processor s": speed / 1e6,
        "netlists": evaluate.samples,
        "fitting s": fitting,
        "million with fitting": outcome.evaluated / (busy + fitting) / 1e6,
        "of the model": speed / bare,
        "front": len(outcome.front),
        "MiB": parent + (jobs * worker if jobs > 1 else 0),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print ratios to the bare model."""
    options = parser("sweep", __doc__).parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        rows = (sweep_row(Path(name), depth, jobs) for depth, jobs in RUNS)
        report("sweeps of the ternary-LUT family", rows, {"MiB": ".0f"}, as_json=options.json)


if __name__ == "__main__":
    run(main)
