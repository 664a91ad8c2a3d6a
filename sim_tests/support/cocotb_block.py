# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of `sim_tests.support.blocks`: arrays through a block, one row a cycle."""

from __future__ import annotations

import json
import os
import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import Timer

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))


@cocotb.test()
async def vectors(dut: Any) -> None:
    """Drive the inputs, a row a cycle, and write the outputs of each row to a file."""
    arrays = {name: np.load(path, mmap_mode="r") for name, path in PLAN["inputs"].items()}
    inputs = [(getattr(dut, name), array) for name, array in arrays.items()]
    rows = len(inputs[0][1])
    latency = PLAN["latency"]
    stalls = random.Random(PLAN["stalls"]) if PLAN["stalls"] else None
    half = Timer(1, unit="ns")
    dut.clk.value = 0
    if PLAN["run"]:
        dut.run.value = 1
    with ExitStack() as stack:
        outputs = [
            (getattr(dut, name), PLAN["bytes"][name], stack.enter_context(Path(path).open("wb")))
            for name, path in PLAN["outputs"].items()
        ]
        row = 0
        while row < rows + latency:
            stalled = PLAN["run"] and stalls is not None and stalls.random() < 0.35
            # In a stalled cycle and behind the last row the inputs are those of some row, which
            # must not show.
            shown = stalls.randrange(rows) if stalled and stalls else row % rows
            for handle, array in inputs:
                handle.value = int.from_bytes(array[shown].tobytes(), "little")
            if PLAN["run"] and stalls is not None:
                dut.run.value = int(not stalled)
            await half
            if not stalled:
                if row >= latency:
                    for handle, size, file in outputs:
                        file.write(int(handle.value).to_bytes(size, "little"))
                row += 1
            dut.clk.value = 1
            await half
            dut.clk.value = 0
