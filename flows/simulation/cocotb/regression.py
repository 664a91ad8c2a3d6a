# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of ``hwgen sim``: one test for each case of the plan."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from flows.simulation.bench_jobs import make_job
from flows.simulation.bus.stream_bench import run_jobs
from flows.simulation.post_cases import columns_of, settings_of
from flows.simulation.regression import Case, cases, operands
from hwgen.core.operation import gemm_operands
from hwgen.core.registry import family

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
FAMILY = family(PLAN["config"]["family"])
CONFIG: Any = FAMILY.params_class.model_validate(PLAN["config"])
CORE = FAMILY(CONFIG)
CASES = {case.name: case for case in cases(CONFIG, PLAN["seed"])}


@cocotb.test()
@cocotb.parametrize(index=range(len(PLAN["cases"])))
async def regression(dut: Any, index: int) -> None:
    """Run a case and compare results, ``tlast``, handshakes and, at full rate, cycles."""
    await run_case(dut, CASES[PLAN["cases"][index]])


async def run_case(dut: Any, case: Case) -> None:
    """Run one case of the regression."""
    seed = [PLAN["seed"], zlib.crc32(case.name.encode())]
    rng = np.random.default_rng(seed)
    jobs = []
    for index, (size, kind) in enumerate(zip(case.sizes, case.operands, strict=True)):
        a, w = operands(CONFIG, size, kind, rng)
        settings, columns = None, None
        if case.posts:
            settings = settings_of(CONFIG)[case.posts[index]]
            columns = columns_of(settings, size[2], CONFIG, rng)
        jobs.append(make_job(CORE, gemm_operands(a, w, columns), post=settings))
    full_rate = CORE.cycles([each.job for each in jobs], [each.operands for each in jobs]).number
    await run_jobs(dut, CONFIG, case, jobs, full_rate, int(rng.integers(1 << 31)))
