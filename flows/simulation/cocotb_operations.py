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

from flows.simulation.operation_cases import OperationCase, draw_operands, operation_cases
from flows.simulation.operations import sizes_text
from flows.simulation.testbench import Bench, OperationJob, start_clock
from hwgen.families import family

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
FAMILY = family(PLAN["config"]["family"])
CONFIG: Any = FAMILY.config.model_validate(PLAN["config"])
CASES = {case.name: case for case in operation_cases(CONFIG, PLAN["seed"])}


@cocotb.test()
@cocotb.parametrize(index=range(len(PLAN["cases"])))
async def regression(dut: Any, index: int) -> None:
    """Run a case and compare results, ``tlast``, handshakes and, at full rate, cycles."""
    await run_case(dut, CASES[PLAN["cases"][index]])


async def run_case(dut: Any, case: OperationCase) -> None:
    """Run one case of the regression."""
    rng = np.random.default_rng([PLAN["seed"], zlib.crc32(case.name.encode())])
    jobs, timed = [], []
    for spec in case.jobs:
        operation, operands, scalars = draw_operands(CONFIG, spec, rng)
        sizes = operation.check_operands(operands)
        plan = FAMILY.part("schedule").job(CONFIG, operation, operands, scalars)
        expected = FAMILY.part("golden").operate(CONFIG, operation, operands, scalars)
        title = f"{operation.name} of {sizes_text(sizes)}, {spec.kind}"
        jobs.append(OperationJob(CONFIG, title, plan, expected))
        timed.append((operation, sizes, scalars))
    full_rate = FAMILY.cycles_of_jobs(CONFIG, timed)
    # Nine of ten cycles idle on all ports at once leave one in thousands.
    limit = 1000 + full_rate * (4 if case.full_rate else 400)
    start_clock(dut)
    bench = Bench(
        dut, FAMILY, CONFIG, dict(case.idle), int(rng.integers(1 << 31)), patient=case.patient
    )
    await bench.reset()
    for cut in case.resets:
        bench.send(jobs)
        await bench.serve(cut)
        await bench.reset(cycles=1)
    await bench.run(jobs, limit)
    cycles = bench.cycles()
    dut._log.info(
        "CASE %s cycles=%d model=%d; %d edges in %.6f s",
        case.name,
        cycles,
        full_rate,
        bench.edges,
        bench.seconds,
    )
    if case.full_rate:
        assert cycles == full_rate, f"took {cycles} cycles, the cycle model says {full_rate}"
