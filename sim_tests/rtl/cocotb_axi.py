# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of `sim_tests.rtl.test_axi`: requests through the engines of the probe."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import cocotb

from sim_tests.rtl.axi_bench import PLAN, Bench
from sim_tests.rtl.axi_reads import READ_CASES, ReadBench
from sim_tests.rtl.axi_writes import WRITE_CASES, WriteBench

CASES: dict[str, tuple[type[Bench], Callable[[Any], Awaitable[None]]]] = {
    **{case.__name__: (ReadBench, case) for case in READ_CASES},
    **{case.__name__: (WriteBench, case) for case in WRITE_CASES},
}


@cocotb.test()
@cocotb.parametrize(name=PLAN["cases"])
async def engines(dut: Any, name: str) -> None:
    kind, case = CASES[name]
    bench = kind(dut, zlib.crc32(name.encode()))
    await bench.reset()
    await case(bench)
