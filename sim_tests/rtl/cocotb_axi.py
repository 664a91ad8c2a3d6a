# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of `sim_tests.rtl.test_axi`: requests through the engines of the probe."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import cocotb

from sim_tests.rtl.axi_bench import PLAN, SHARED_CASES, Bench
from sim_tests.rtl.axi_reads import READ_CASES, ReadBench
from sim_tests.rtl.axi_writes import WRITE_CASES, WriteBench

CASES: dict[str, tuple[type[Bench], Callable[[Any], Awaitable[None]]]] = {
    f"{kind.PORT}_{case.__name__}": (kind, case)
    for kind, cases in ((ReadBench, READ_CASES), (WriteBench, WRITE_CASES))
    for case in (*cases, *SHARED_CASES)
}


@cocotb.test()
@cocotb.parametrize(name=PLAN["cases"])
async def engines(dut: Any, name: str) -> None:
    kind, case = CASES[name]
    bench = kind(dut, zlib.crc32(name.encode()))
    await bench.reset()
    await case(bench)
