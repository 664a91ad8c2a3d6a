# SPDX-License-Identifier: Apache-2.0
"""Random jobs on a simulated engine that multiplies: results in memory, and cycles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.simulation.bus.job_host import JobHost
from flows.simulation.operands import draw_matrices
from flows.simulation.placed_products import Placed, place
from flows.simulation.post_cases import columns_of, settings_of
from hwgen.families.gemm_stream.cycles.job import job_cycles
from hwgen.families.gemm_stream.cycles.steps import Regions


def drawn_job(
    config: Any, rng: np.random.Generator, most: int, *, number: int = 0,
    patterns: Sequence[str] = ("random",), base: int = 0, size: tuple[int, int, int] | None = None,
) -> tuple[Placed, int]:  # fmt: skip
    """Return a job of a size, or any up to `most`, of any format, and the address after it.

    Jobs of different `number` have different settings and `patterns` of values.  Three of four have
    odd addresses and strides, whatever their number: settings with and without columns alternate.
    """
    if config.formats[1:]:
        config = config.formats[rng.integers(len(config.formats))]
    longest = config.max_k if config.in_blocks else most
    drawn = np.exp(rng.uniform(0, np.log((most, longest, most))))
    m, k, n = size or (int(x) for x in drawn)
    size, choices = (m, min(k, config.max_k), n), settings_of(config)
    post, aligned = choices[number % len(choices)], not rng.integers(4)
    (placed,), end = place(
        config, [draw_matrices(config, size, patterns[number % len(patterns)], rng)], settings=post,
        columns=columns_of(post, n, config, rng), rng=None if aligned else rng, base=base,
        least_traffic=bool(rng.integers(2)),
    )  # fmt: skip
    return placed, end


def check_results(
    host: JobHost, count: int, rng: np.random.Generator, most: int, slower: int,
    patterns: Sequence[str] = ("random",),
) -> None:  # fmt: skip
    """Run jobs, as many at once as the queue takes, and check what stands in memory.

    Each may take so much longer than the cycle model says, which knows nothing of stalls.
    """
    config, run = host.config, 0
    while run < count:
        batch: list[Placed] = []
        base = 0
        for _ in range(int(rng.integers(1, config.queue + 1))):
            number = run + len(batch)
            placed, base = drawn_job(config, rng, most, number=number, patterns=patterns, base=base)
            batch.append(placed)
            host.put(placed)
        numbers = [host.submit(placed.job) for placed in batch]
        for number, placed in zip(numbers, batch, strict=True):
            plan = placed.job.plan
            state = host.wait(number, 100_000 + slower * job_cycles(plan))
            assert state == "done", f"{plan.m}x{plan.k}x{plan.n} ended as {state}"
        for placed in batch:
            got, plan = host.results(placed), placed.job.plan
            assert placed.expected is not None
            same = got.tobytes() == placed.expected.tobytes()
            assert same, f"{plan.m}x{plan.k}x{plan.n}, {placed.job.settings}"
        run += len(batch)


def check_cycles(host: JobHost, placed: Placed, *, read_latency: int, write_latency: int) -> None:
    """Compare the cycles of a job on an idle engine with the model; memory must not pause."""
    host.put(placed)
    before, job = host.counter("BUSY"), placed.job
    latencies = {"read_latency": read_latency, "write_latency": write_latency}
    expected = job_cycles(job.plan, Regions.of(job.regions), **latencies)
    assert host.wait(host.submit(job), 2 * expected + 10_000) == "done"
    plan = job.plan
    assert host.counter("BUSY") - before == expected, (plan.m, plan.k, plan.n, latencies)
