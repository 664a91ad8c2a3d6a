# SPDX-License-Identifier: Apache-2.0
"""Utilisation, traffic and cycles of memory engines, simulated: ``make bench-engine``.

``python -m sim_tests.bench_engine [--config FILE] [--size M,K,N ...] [--json]``
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cost_model.families.gemm_stream import cycles
from hwgen.config.load import load_config, parse_config
from hwgen.errors import HwgenError
from hwgen.schedules.gemm_stream import Plan
from sim_tests.engine import place
from sim_tests.host import EngineHost, open_engine
from sim_tests.regression import operands

SIZES = ((512, 512, 512), (256, 1024, 1024), (128, 768, 3072), (1, 2560, 2560), (1, 1024, 4096))

CUBE = 1024
"""M, K and N of the comparison of traffic."""

TILES = (4, 8, 16, 32, 64)
"""Rows of A and columns of W that the replicating scheme holds, each with the whole reduction."""


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
    _print(f"traffic of {CUBE} x {CUBE} x {CUBE}, int8, results of 32 bits", traffic)
    return 0


def measured(config: Any, sizes: Sequence[Any]) -> list[dict[str, Any]]:
    """Run a job of each size and return what the engine's counters say."""
    rng, found = np.random.default_rng(0), []
    host: EngineHost = open_engine(config, read_latency=1, write_latency=1)
    with host.model:
        for size in sizes:
            (placed,), _ = place(config, [operands(config, size, "random", rng)])
            plan, expected = placed.job.plan, cycles(config, *size)
            host.put(placed)
            before = host.counters()
            state = host.wait(host.submit(placed.job), 3 * expected + 10_000)
            after = host.counters()
            right = state == "done" and bool((host.results(placed) == placed.expected).all())
            busy, reads, writes = (after[n] - before[n] for n in ("BUSY", "READS", "WRITES"))
            moved = (reads + writes) * config.memory_bytes
            found.append(
                {
                    "M x K x N": " x ".join(map(str, size)),
                    "cycles": busy,
                    "of the model": f"{100 * (expected / busy - 1):+.2f} %",
                    "utilisation": round(plan.macs / (config.macs_per_cycle * busy), 4),
                    "reads a cycle": round(reads / busy, 4),
                    "bytes of the plan": round(moved / plan.traffic.total, 4),
                    "right": right,
                }
            )
    return found


def replicated() -> list[dict[str, Any]]:
    """Compare the plan's traffic with a scheme that holds whole rows and columns.

    That scheme keeps `tile` rows of A and `tile` columns of W with the whole reduction on the
    chip, and reads all of A for every two column tiles and all of W for every row tile, because
    the operands lie replicated in memory.  The engine has as many bytes of buffers.
    """
    found = []
    for tile in TILES:
        kib = 2 * tile * CUBE // 1024
        other = CUBE * CUBE * (CUBE / (2 * tile) + CUBE / tile) + 4 * CUBE * CUBE
        activation, weight = max(1, kib // 16), max(1, kib // 8)
        config: Any = parse_config(
            "name: engine\nfamily: gemm_stream\npost: {columns: false}\n"
            f"buffers: {{activation_kib: {activation}, weight_kib: {weight},"
            f" output_kib: {kib - activation - weight}}}\n"
        )
        ours = Plan(config, CUBE, CUBE, CUBE, result_bytes=4).traffic.total
        found.append(
            {
                "buffers": f"{kib} KiB",
                "replicated": f"{other / 2**20:.0f} MiB",
                "engine": f"{ours / 2**20:.0f} MiB",
                "times less": round(other / ours, 2),
            }
        )
    return found


def _print(title: str, rows: Sequence[dict[str, Any]]) -> None:
    output = Console()
    output.width = max(output.width, 110)
    table = Table(*rows[0], title=title, title_justify="left")
    for row in rows:
        table.add_row(*map(str, row.values()))
    output.print(table)


if __name__ == "__main__":
    sys.exit(main())
