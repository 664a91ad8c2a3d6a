# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of ``hwgen run``: a job through the RTL of a stream core at full rate.

One coroutine serves all ports with as little Python a cycle as possible.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from flows.simulation.bus.stream_bench import start_clock
from hwgen.core.operation import RECORDS, StreamPlan
from hwgen.core.post import PostSettings
from hwgen.core.registry import family

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
FAMILY = family(PLAN["config"]["family"])
CONFIG: Any = FAMILY.params_class.model_validate(PLAN["config"])

REPORT_S = 0.25
"""Seconds between progress lines."""


class Feeder:
    """Keeps an input port supplied: valid from the first beat to the last."""

    def __init__(self, dut: Any, port: Any, chunks: Iterator[tuple[np.ndarray, bool]]) -> None:
        self._valid = getattr(dut, f"{port.prefix}_tvalid")
        self._ready = getattr(dut, f"{port.prefix}_tready")
        self._data = getattr(dut, f"{port.prefix}_tdata")
        self._last = getattr(dut, f"{port.prefix}_tlast") if port.last else None
        self._beats = _beats(chunks)
        self.accepted = 0
        self.active = True
        self._valid.value = 1
        self._last_value = -1
        self._next()

    def _next(self) -> None:
        beat = next(self._beats, None)
        if beat is None:
            self.active = False
            self._valid.value = 0
            return
        self._data.value = beat[0]
        if self._last is not None and beat[1] != self._last_value:
            self._last.value = self._last_value = beat[1]

    def edge(self) -> None:
        """Look at the clock edge that has just come."""
        if self.active and self._ready.value == 1:
            self.accepted += 1
            self._next()


def _beats(chunks: Iterator[tuple[np.ndarray, bool]]) -> Iterator[tuple[int, int]]:
    for beats, last in chunks:
        raw, width = beats.tobytes(), beats.shape[-1]
        end = len(raw) - width
        for start in range(0, len(raw), width):
            value = int.from_bytes(raw[start : start + width], "little")
            yield value, int(last and start == end)


def _tell(label: str, cycles: int, expected: int) -> None:
    """Write a line for the process that started the simulation."""
    sys.stdout.write(f"{label} {cycles} {expected}\n")
    sys.stdout.flush()


@cocotb.test()
async def run(dut: Any) -> None:
    """Stream the operands through the core and write the result beats to a file."""
    operands = {name: np.load(file, mmap_mode="r") for name, file in PLAN["operands"].items()}
    tensors = {name: array for name, array in operands.items() if name != RECORDS}
    post = PLAN["post"] and PostSettings(**PLAN["post"])
    core = FAMILY(CONFIG)
    job = core.job(tensors, PLAN["scalars"], operation=PLAN["operation"], post=post)
    plan = core.schedule(job)
    assert isinstance(plan, StreamPlan)
    expected = core.cycles([job], [operands]).number
    start_clock(dut)
    out = next(port for port in CONFIG.ports if port.direction == "out")
    inputs = [port for port in CONFIG.ports if port.direction == "in"]
    for port in inputs:
        getattr(dut, f"{port.prefix}_tvalid").value = 0
    edge = RisingEdge(dut.aclk)
    for _ in range(3):
        await edge
    dut.aresetn.value = 1
    valid, data = getattr(dut, f"{out.prefix}_tvalid"), getattr(dut, f"{out.prefix}_tdata")
    getattr(dut, f"{out.prefix}_tready").value = 1
    await edge
    packed = plan.pack(operands)
    feeders = [Feeder(dut, port, packed[port.name]) for port in inputs]
    remaining, cycles, first, report = plan.output_beats, 0, None, 0.0
    with Path(PLAN["beats"]).open("wb") as file:
        while remaining:
            await edge
            cycles += 1
            for feeder in feeders:
                feeder.edge()
            if first is None and any(feeder.accepted for feeder in feeders):
                first = cycles
            if valid.value == 1:
                file.write(int(data.value).to_bytes(out.beat_bytes, "little"))
                remaining -= 1
            if cycles % 256 == 0 and (now := time.monotonic()) > report:
                report = now + REPORT_S
                _tell("PROGRESS", cycles, expected)
            assert cycles < 2 * expected + 1000, f"{remaining} result beats are missing"
    _tell("CYCLES", cycles - (first or 0) + 1, expected)
