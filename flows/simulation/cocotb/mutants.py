# SPDX-License-Identifier: Apache-2.0
"""Cases of the regression on mutants of a design: one test for each mutant and case.

What follows the first case that fails is left out.  A case that takes much longer than it takes the
design has failed.  After a mutant, the design itself has to pass
a case, which shows that no state of the mutant is left.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import SimTimeoutError, with_timeout
from cocotb.utils import get_sim_time

from flows.mutation.campaign import DURATIONS, SLOWER
from flows.mutation.mutants import SELECTOR
from flows.simulation.cocotb.regression import CASES, PLAN, run_case

RUNS = [
    run
    for number in PLAN["mutants"]
    for run in [*((number, case) for case in PLAN["cases"]), (0, PLAN["cases"][0])]
]
_failed: set[int] = set()
_durations: dict[str, int] = {}


@cocotb.test()
@cocotb.parametrize(index=range(len(RUNS)))
async def mutant(dut: Any, index: int) -> None:
    """Run a case on a mutant, unless one has failed before."""
    number, case = RUNS[index]
    if number in _failed:
        return
    getattr(dut, SELECTOR).value = number
    start = get_sim_time("step")
    try:
        if number and (design_takes := PLAN["durations"].get(case)):
            limit = SLOWER * design_takes
            try:
                await with_timeout(run_case(dut, CASES[case]), limit, "step")
            except SimTimeoutError:
                raise AssertionError(f"takes more than {SLOWER} times as long") from None
        else:
            await run_case(dut, CASES[case])
            _durations[case] = int(get_sim_time("step") - start)
            path = Path(os.environ["HWGEN_PLAN"]).with_name(DURATIONS)
            path.write_text(json.dumps(_durations), encoding="utf-8")
    except BaseException:
        if number:
            _failed.add(number)
        raise
