# SPDX-License-Identifier: Apache-2.0
"""Bench of `sim_tests.support.stream_blocks`: words through a block with a stream in and out."""

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
async def words(dut: Any) -> None:
    """Offer words and take results with random stalls; write what came to files.

    An offered word stays until it is taken and a result must stay until it is taken; while nothing
    is offered the inputs hold anything.  A reset in mid-stream drops what is inside.
    """
    arrays = {name: np.load(path, mmap_mode="r") for name, path in PLAN["inputs"].items()}
    inputs = [(getattr(dut, name), array) for name, array in arrays.items()]
    count = len(inputs[0][1])
    results = PLAN["results"] or [1] * count
    draw = random.Random(PLAN["seed"])
    idle, stall, reset_at = PLAN["idle"], PLAN["stall"], PLAN["reset_at"]
    limit = int((max(count, sum(results)) + 100) * 3 / ((1 - idle) * (1 - stall))) + 100
    half = Timer(1, unit="ns")
    with ExitStack() as stack:
        outputs = [
            (getattr(dut, name), PLAN["bytes"][name], stack.enter_context(Path(path).open("wb")))
            for name, path in PLAN["outputs"].items()
        ]
        report: dict[str, Any] = {"kept": None, "first_in": None, "first_out": None}
        sent = expected = received = cycle = 0
        waiting: list[int] | None = None
        offered = False
        resetting = 3
        dut.clk.value = 0
        while received < expected or sent < count or resetting:
            assert cycle < limit, f"{received} results of {sent} words after {cycle} cycles"
            if sent == reset_at and not resetting:
                # What was not given yet is lost; the bench counts from here.
                report["kept"] = received
                resetting, reset_at, waiting, offered = 3, None, None, False
                expected = received
            dut.rst.value = int(resetting > 0)
            offered = not resetting and sent < count and (offered or draw.random() >= idle)
            row = sent if offered else draw.randrange(count)
            for handle, array in inputs:
                handle.value = int.from_bytes(array[row].tobytes(), "little")
            dut.i_valid.value = int(offered)
            taking = draw.random() >= stall
            dut.o_ready.value = int(taking)
            await half
            if not resetting:
                if int(dut.o_valid.value):
                    shown = [int(handle.value) for handle, _, _ in outputs]
                    assert waiting in (None, shown), "a result changed while it waited"
                    assert received < expected, "a result that no word belongs to"
                    waiting = None if taking else shown
                    if report["first_out"] is None:
                        report["first_out"] = cycle
                    if taking:
                        for value, (_, size, file) in zip(shown, outputs, strict=True):
                            file.write(value.to_bytes(size, "little"))
                        received += 1
                else:
                    assert waiting is None, "a result was withdrawn"
                if offered and int(dut.i_ready.value):
                    if report["first_in"] is None:
                        report["first_in"] = cycle
                    sent, expected, offered = sent + 1, expected + results[sent], False
            resetting = max(0, resetting - 1)
            dut.clk.value = 1
            await half
            dut.clk.value = 0
            cycle += 1
        report["cycles"] = cycle
    Path(PLAN["report"]).write_text(json.dumps(report), encoding="utf-8")
