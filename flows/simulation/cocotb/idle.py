# SPDX-License-Identifier: Apache-2.0
"""A testbench that only waits for clock edges: the baseline of simulation speed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from flows.simulation.bus.stream_bench import start_clock

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))


@cocotb.test()
async def idle(dut: Any) -> None:
    """Wait."""
    start_clock(dut)
    edge, began = RisingEdge(dut.aclk), time.process_time()
    for _ in range(PLAN["cycles"]):
        await edge
    dut._log.info("CASE idle; %d edges in %.6f s", PLAN["cycles"], time.process_time() - began)
