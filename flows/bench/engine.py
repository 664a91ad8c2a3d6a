# SPDX-License-Identifier: Apache-2.0
"""Utilisation, traffic and cycles of a memory engine, simulated: ``make bench-engine``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from flows.bench.common import ROOT, Row, parser, report, run
from flows.build.design import Design
from flows.build.load import load_config, parse_config
from flows.simulation.bus.job_host import open_engine
from flows.simulation.operands import draw_matrices
from flows.simulation.placed_products import place
from hwgen.families.gemm_stream.cycles.job import job_cycles
from hwgen.families.gemm_stream.cycles.job import job_cycles as plan_cycles
from hwgen.families.gemm_stream.cycles.steps import Regions
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.families.gemm_stream.schedule import Plan

SIZES = (
    (512, 512, 512), (256, 1024, 1024), (128, 768, 3072), (1, 2560, 2560), (1, 1024, 4096),
    (1, 1000, 1001), (7, 333, 79), (469, 103, 31), (143, 50, 353),
)  # fmt: skip

CUBE = 1024
"""M, K and N of the comparison of traffic."""

TILES = (4, 8, 16, 32, 64)
"""Rows of A and half the columns of W in a block of the replicating scheme."""

GOAL = 4
"""Ratio by which the engine is to move less."""

SPECS = {"utilisation": ".3f", "reads a cycle": ".3f", "bytes of the plan": ".3f"}


def job_rows(config: GemmStreamConfig) -> Iterator[Row]:
    """Run a job of each size and yield the figures of the engine's counters."""
    rng = np.random.default_rng(0)
    host = open_engine(Design.of(config), read_latency=1, write_latency=1)
    with host.model:
        for size in SIZES:
            (placed,), _ = place(config, [draw_matrices(config, size, "random", rng)])
            plan = placed.job.plan
            expected = job_cycles(plan, Regions.of(placed.job.regions))
            host.put(placed)
            before = host.counters()
            state = host.wait(host.submit(placed.job), 3 * expected + 10_000)
            after = host.counters()
            busy, reads, writes = (after[n] - before[n] for n in ("BUSY", "READS", "WRITES"))
            moved = (reads + writes) * config.memory_bytes
            yield {
                "M x K x N": " x ".join(map(str, size)),
                "cycles": busy,
                "of the model": expected,
                "utilisation": plan.macs / (config.macs_per_cycle * busy),
                "reads a cycle": reads / busy,
                "bytes of the plan": moved / plan.traffic.total,
                "right": state == "done" and bool((host.results(placed) == placed.expected).all()),
            }


def traffic_rows() -> Iterator[Row]:
    """Compare the least traffic of plans with a scheme that replicates operands in memory.

    That scheme cuts C into blocks of `tile` rows by twice `tile` columns and streams the operands
    of each with the whole reduction, in memory already in that order, so that A is read once for
    every block of columns and W for every block of rows.  Its cores hold the rows twice, because
    two columns of cores share them, and everything twice again, to load while they work.  The
    engine has as many bytes of buffers, divided so that the product takes the fewest cycles of
    those that move `GOAL` times less, or the fewest bytes; results are int8 in both.
    """
    for tile in TILES:
        kib = 8 * tile * CUBE // 1024
        other = CUBE * CUBE * (CUBE // (2 * tile) + CUBE // tile + 1)
        part = max(1, kib // 16)
        plans = [
            least_traffic(a, w, kib - a - w)
            for a in range(part, kib - part, part)
            for w in range(part, kib - a, part)
        ]
        enough = max(min(plan.traffic.total for plan in plans), other // GOAL)
        # Divisions that come to the same plan count once.
        different = {
            (p.block, p.m_inner, p.a_whole, p.w_whole): p
            for p in plans
            if p.traffic.total <= enough
        }
        best = min(different.values(), key=plan_cycles)
        buffers, cycles = best.config.buffers, plan_cycles(best)
        kibs = (buffers.activation_kib, buffers.weight_kib, buffers.output_kib)
        yield {
            "buffers": f"{kib} KiB",
            "A + W + C": " + ".join(map(str, kibs)),
            "replicated": f"{other / 2**20:.0f} MiB",
            "engine": f"{best.traffic.total / 2**20:.1f} MiB",
            "times less": other / best.traffic.total,
            "utilisation": best.macs / (best.config.macs_per_cycle * cycles),
        }


def least_traffic(activation: int, weight: int, output: int) -> Plan:
    """Plan the product with buffers of these sizes, in KiB."""
    config = parse_config(
        "name: engine\nfamily: gemm_stream\npost: {columns: false}\n"
        f"buffers: {{activation_kib: {activation}, weight_kib: {weight}, output_kib: {output}}}\n"
    )
    assert isinstance(config, GemmStreamConfig)
    return Plan(config, CUBE, CUBE, CUBE, result_bytes=1, least_traffic=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parser("engine", __doc__)
    options.add_argument("--config", type=Path, default=ROOT / "configs" / "gemm_stream.yaml")
    chosen = options.parse_args(arguments)
    config = load_config(chosen.config)
    assert isinstance(config, GemmStreamConfig)
    report("jobs, a beat a cycle", job_rows(config), SPECS, as_json=chosen.json)
    title = f"traffic of {CUBE} x {CUBE} x {CUBE}, int8, int8 results"
    report(title, traffic_rows(), SPECS, as_json=chosen.json)


if __name__ == "__main__":
    run(main)
