# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of an engine's regression: one test for each case of the plan."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from flows.simulation.bus.job_bench import JobBench
from flows.simulation.engine_memory import Placed, place
from flows.simulation.engine_regression import EngineCase, engine_cases
from flows.simulation.post_cases import columns_of, settings_of
from flows.simulation.regression import operands
from hwgen.core.registry import family

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
CONFIG: Any = family(PLAN["config"]["family"]).params_class.model_validate(PLAN["config"])
CASES = {case.name: case for case in engine_cases(CONFIG, PLAN["seed"])}


@cocotb.test()
@cocotb.parametrize(index=range(len(PLAN["cases"])))
async def regression(dut: Any, index: int) -> None:
    """Run a case; compare memory, states of jobs, counters and the rules of the bus."""
    await bench_of(dut, CASES[PLAN["cases"][index]]).run()


def bench_of(dut: Any, case: EngineCase) -> JobBench:
    """Return a bench with the products of a case in its memory."""
    rng = np.random.default_rng([PLAN["seed"], zlib.crc32(case.name.encode())])
    products: list[Placed] = []
    end = 0
    formats = case.formats or (0,) * len(case.sizes)
    for size, kind, which, number in zip(case.sizes, case.kinds, case.posts, formats, strict=True):
        config = CONFIG.formats[number] if case.formats else CONFIG
        settings = settings_of(config)[which]
        columns = columns_of(settings, size[2], config, rng)
        (placed,), end = place(
            config, [operands(config, size, kind, rng)],
            settings=settings, columns=columns, rng=rng if case.odd else None, base=end,
            least_traffic=case.least_traffic,
        )  # fmt: skip
        products.append(placed)
    macs = sum(m * k * n for m, k, n in case.sizes)
    return JobBench(
        dut,
        CONFIG,
        case,
        products,
        lambda read: _check(products, read),
        end=end,
        work=macs,
        rng=rng,
    )


def _check(products: Sequence[Placed], read: Callable[[int, int], Any]) -> None:
    for index, placed in enumerate(products):
        got = placed.results(read)
        same = got.view(np.uint8) == placed.expected.view(np.uint8)
        if same.all():
            continue
        wrong = np.argwhere(got != placed.expected)
        m, n = (int(i) for i in wrong[0]) if len(wrong) else (0, 0)
        plan = placed.job.plan
        raise AssertionError(
            f"mismatch in job {index} ({plan.m}x{plan.k}x{plan.n}): first C[{m},{n}],"
            f" expected {placed.expected[m, n]}, got {got[m, n]}; {len(wrong)} of"
            f" {got.size} wrong"
        )
