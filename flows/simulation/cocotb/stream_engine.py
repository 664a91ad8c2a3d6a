# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of the regression of an engine around a stream core: a test for each case."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from flows.simulation.bus.job_bench import JobBench
from flows.simulation.operation_cases import draw_operands
from flows.simulation.stream_engine_regression import StreamEngineCase, stream_engine_cases
from flows.simulation.stream_jobs import place_operation
from hwgen.core.registry import family

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
FAMILY = family(PLAN["config"]["family"])
CONFIG: Any = FAMILY.params_class.model_validate(PLAN["config"])
CORE = FAMILY(CONFIG)
CASES = {case.name: case for case in stream_engine_cases(CONFIG, PLAN["seed"])}


@cocotb.test()
@cocotb.parametrize(index=range(len(PLAN["cases"])))
async def regression(dut: Any, index: int) -> None:
    """Run a case; compare memory, states of jobs, counters and the rules of the bus."""
    await bench_of(dut, CASES[PLAN["cases"][index]]).run()


def bench_of(dut: Any, case: StreamEngineCase) -> JobBench:
    """Return a bench with the operations of a case in its memory."""
    rng = np.random.default_rng([PLAN["seed"], zlib.crc32(case.name.encode())])
    placed, end, timed = [], 0, []
    for spec in case.specs:
        operation, operands, scalars = draw_operands(CONFIG.compute, spec, rng)
        job = CORE.job(operands, scalars, operation=operation.name)
        each, end = place_operation(
            CONFIG, operation, operands, scalars, rng=rng if case.odd else None, base=end,
            title=f"{job.title}, {spec.kind}",
        )  # fmt: skip
        placed.append(each)
        timed.append(job)

    def check(read: Any) -> None:
        for each in placed:
            each.check(read)

    return JobBench(
        dut, CONFIG, case, [job for each in placed for job in each.jobs], check,
        end=end, work=CORE.cycles(timed).number, rng=rng,
    )  # fmt: skip
