# SPDX-License-Identifier: Apache-2.0
"""Utilisation, traffic and cycles of memory engines, simulated: ``make bench-engine``.

``python -m flows.bench.engine_utilisation [--config FILE] [--size M,K,N ...] [--json]``
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cost_model.families.gemm_stream import plan_cycles
from flows.build.design import Design
from flows.simulation.bus.engine_host import EngineHost, open_engine
from flows.simulation.engine_memory import place
from flows.simulation.regression import operands
from hwgen.core.cycles.job import job_cycles
from hwgen.core.cycles.steps import Places
from hwgen.core.load import load_config, parse_config
from hwgen.errors import HwgenError
from hwgen.families.gemm_stream.schedule import Plan

SIZES = (
    (512, 512, 512), (256, 1024, 1024), (128, 768, 3072), (1, 2560, 2560), (1, 1024, 4096),
    (1, 1000, 1001), (7, 333, 79), (469, 103, 31), (143, 50, 353),
)  # fmt: skip

CUBE = 1024
"""M, K and N of the comparison of traffic."""

TILES = (4, 8, 16, 32, 64)
"""Rows of A and half the columns of W that the replicating scheme holds."""


GOAL = 4
"""How many times less is to be moved."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Memory engines measured in simulation.")
    parser.add_argument("--config", type=Path, default=Path("configs/gemm_stream.yaml"))
    parser.add_argument("--size", metavar="M,K,N", action="append", help="instead of the defaults")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        config: Any = load_config(options.config)
        sizes = [tuple(map(int, text.split(","))) for text in options.size or ()] or SIZES
        rows = measured(config, sizes)
    except HwgenError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_status
    traffic = replicated()
    if options.json:
        sys.stdout.write(json.dumps({"jobs": rows, "traffic": traffic}, indent=2) + "\n")
        return 0
    _print("jobs on a memory that gives and takes a beat a cycle", rows)
    _print(f"traffic of {CUBE} x {CUBE} x {CUBE}, int8, int8 results", traffic)
    return 0


def measured(config: Any, sizes: Sequence[Any]) -> list[dict[str, Any]]:
    """Run a job of each size and return what the engine's counters say."""
    rng, rows = np.random.default_rng(0), []
    host: EngineHost = open_engine(Design(config), read_latency=1, write_latency=1)
    with host.model:
        for size in sizes:
            (placed,), _ = place(config, [operands(config, size, "random", rng)])
            plan = placed.job.plan
            expected = job_cycles(plan, Places.of(placed.job.regions))
            host.put(placed)
            before = host.counters()
            state = host.wait(host.submit(placed.job), 3 * expected + 10_000)
            after = host.counters()
            right = state == "done" and bool((host.results(placed) == placed.expected).all())
            busy, reads, writes = (after[n] - before[n] for n in ("BUSY", "READS", "WRITES"))
            moved = (reads + writes) * config.memory_bytes
            rows.append(
                {
                    "M x K x N": " x ".join(map(str, size)),
                    "cycles": busy,
                    "of the model": expected,
                    "utilisation": round(plan.macs / (config.macs_per_cycle * busy), 4),
                    "reads a cycle": round(reads / busy, 4),
                    "bytes of the plan": round(moved / plan.traffic.total, 4),
                    "right": right,
                }
            )
    return rows


def replicated() -> list[dict[str, Any]]:
    """Compare the least traffic of plans with a scheme that replicates operands in memory.

    That scheme cuts C into blocks of `tile` rows by twice `tile` columns and streams the operands
    of each with the whole reduction, in memory already in that order, so that A is read once for
    every block of columns and W for every block of rows.  Its cores hold the rows twice, because
    two columns of cores share them, and everything twice again, to load while they work.  The
    engine has as many bytes of buffers, divided so that the product takes the fewest cycles of
    those that move `GOAL` times less, or the fewest bytes; results are int8 in both.
    """
    rows = []
    for tile in TILES:
        kib = 8 * tile * CUBE // 1024
        other = CUBE * CUBE * (CUBE // (2 * tile) + CUBE // tile + 1)
        plans = [_least_traffic(*parts) for parts in _divisions(kib)]
        least = min(plan.traffic.total for plan in plans)
        enough = max(least, other // GOAL)
        # Divisions that come to the same plan count once.
        different = {
            (p.block, p.m_inner, p.a_whole, p.w_whole): p
            for p in plans
            if p.traffic.total <= enough
        }
        best = min(different.values(), key=plan_cycles)
        c = best.config
        held = c.buffers
        rows.append(
            {
                "buffers": f"{kib} KiB",
                "A + W + C": f"{held.activation_kib} + {held.weight_kib} + {held.output_kib}",
                "replicated": f"{other / 2**20:.0f} MiB",
                "engine": f"{best.traffic.total / 2**20:.1f} MiB",
                "times less": round(other / best.traffic.total, 2),
                "utilisation": round(best.macs / (c.macs_per_cycle * plan_cycles(best)), 3),
            }
        )
    return rows


def _divisions(kib: int) -> Iterator[tuple[int, int, int]]:
    """Yield sizes of buffers of A, W and C that add up, in sixteenths."""
    part = max(1, kib // 16)
    for a in range(part, kib - part, part):
        for w in range(part, kib - a, part):
            yield a, w, kib - a - w


def _least_traffic(activation: int, weight: int, output: int) -> Plan:
    config: Any = parse_config(
        "name: engine\nfamily: gemm_stream\npost: {columns: false}\n"
        f"buffers: {{activation_kib: {activation}, weight_kib: {weight}, output_kib: {output}}}\n"
    )
    return Plan(config, CUBE, CUBE, CUBE, result_bytes=1, least_traffic=True)


def _print(title: str, rows: Sequence[dict[str, Any]]) -> None:
    output = Console()
    output.width = max(output.width, 110)
    table = Table(*rows[0], title=title, title_justify="left")
    for row in rows:
        table.add_row(*map(str, row.values()))
    output.print(table)


if __name__ == "__main__":
    sys.exit(main())
