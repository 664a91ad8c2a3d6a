# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of the documentation's waveforms: given jobs with given pauses, checked."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from flows.simulation.bench_jobs import make_job
from flows.simulation.bus.stream_bench import Bench, start_clock
from hwgen.core.operation import gemm_operands
from hwgen.core.registry import family

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
FAMILY = family(PLAN["config"]["family"])
CONFIG: Any = FAMILY.params_class.model_validate(PLAN["config"])


@cocotb.test()
async def waveform(dut: Any) -> None:
    """Run the jobs back to back; the output is not ready in the cycles of the plan."""
    jobs = [
        make_job(FAMILY(CONFIG), gemm_operands(np.array(job["a"]), np.array(job["w"])))
        for job in PLAN["jobs"]
    ]
    start_clock(dut)
    bench = Bench(dut, CONFIG, {}, seed=0, noise=False)
    pauses = set(PLAN["pauses"])
    bench.pauses["out"] = (cycle in pauses for cycle in itertools.count())
    await bench.reset()
    await ClockCycles(dut.aclk, 2)  # the testbench's own signals settle
    await bench.run(jobs, limit=1000)
