# SPDX-License-Identifier: Apache-2.0
"""Cases of the regression on mutants of a design: one test for each mutant and case.

What follows the first case that fails is left out.  After a mutant, the design itself has to pass
a case, which shows that no state of the mutant is left.
"""

from __future__ import annotations

from typing import Any

import cocotb

from flows.mutation.mutants import SELECTOR
from flows.simulation.cocotb.regression import CASES, PLAN, run_case

RUNS = [
    run
    for number in PLAN["mutants"]
    for run in [*((number, case) for case in PLAN["cases"]), (0, PLAN["cases"][0])]
]
_failed: set[int] = set()


@cocotb.test()
@cocotb.parametrize(index=range(len(RUNS)))
async def mutant(dut: Any, index: int) -> None:
    """Run a case on a mutant, unless one has failed before."""
    number, case = RUNS[index]
    if number in _failed:
        return
    getattr(dut, SELECTOR).value = number
    try:
        await run_case(dut, CASES[case])
    except BaseException:
        if number:
            _failed.add(number)
        raise
