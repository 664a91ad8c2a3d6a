# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of ``hwgen sim`` for operations that are no products of matrices."""

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
from flows.simulation.operation_cases import OperationCase, draw_operands, operation_cases
from hwgen.core.registry import family

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
FAMILY = family(PLAN["config"]["family"])
CONFIG: Any = FAMILY.params_class.model_validate(PLAN["config"])
CORE = FAMILY(CONFIG)
CASES = {case.name: case for case in operation_cases(CONFIG, PLAN["seed"])}


@cocotb.test()
@cocotb.parametrize(index=range(len(PLAN["cases"])))
async def regression(dut: Any, index: int) -> None:
    """Run a case and compare results, ``tlast``, handshakes and, at full rate, cycles."""
    await run_case(dut, CASES[PLAN["cases"][index]])


async def run_case(dut: Any, case: OperationCase) -> None:
    """Run one case of the regression."""
    rng = np.random.default_rng([PLAN["seed"], zlib.crc32(case.name.encode())])
    jobs = []
    for spec in case.jobs:
        operation, operands, scalars = draw_operands(CONFIG, spec, rng)
        jobs.append(make_job(CORE, operands, scalars, operation=operation.name, note=spec.kind))
    full_rate = CORE.cycles([each.job for each in jobs]).number
    await run_jobs(dut, CONFIG, case, jobs, full_rate, int(rng.integers(1 << 31)))
