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

from flows.simulation.bus import job_bench, list_bench, stream_bench
from flows.simulation.cases import Case, cases
from hwgen.core.core import Core
from hwgen.core.protocols import ListCore
from hwgen.core.registry import core_of, family

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
CORE: Core[Any] = core_of(
    family(PLAN["config"]["family"]).params_class.model_validate(PLAN["config"])
)
CASES = {case.name: case for case in cases(CORE, PLAN["seed"])}


@cocotb.test()
@cocotb.parametrize(index=range(len(PLAN["cases"])))
async def regression(dut: Any, index: int) -> None:
    """Run a case; check results, the rules of the ports and, at full rate, cycles."""
    await run_case(dut, CASES[PLAN["cases"][index]])


async def run_case(dut: Any, case: Case) -> None:
    """Run one case of the regression, at the streams of a core or from memory to memory."""
    rng = np.random.default_rng([PLAN["seed"], zlib.crc32(case.name.encode())])
    if isinstance(CORE, ListCore):
        await list_bench.run_case(dut, CORE, case, rng)
    elif CORE.buses:
        await job_bench.run_case(dut, CORE, case, rng)
    else:
        await stream_bench.run_case(dut, CORE, case, rng)
