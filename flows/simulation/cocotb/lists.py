# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of the regression of command lists: one test for each case of the plan."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import cocotb
import numpy as np

from flows.simulation.bus.memory_bench import MemoryBench
from flows.simulation.command_lists import LIST, SIZE, UnsafeJob, World, draw, interpret
from flows.simulation.list_regression import ListCase, list_cases
from hwgen.core.lists.commands import BYTES, STATES, listing
from hwgen.core.lists.golden import Outcome
from hwgen.core.registry import family
from hwgen.families.transformer.registers import start_writes

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
CONFIG: Any = family(PLAN["config"]["family"]).params_class.model_validate(PLAN["config"])
CASES = {case.name: case for case in list_cases(CONFIG, PLAN["seed"])}
STEPS = 300
"""Descriptors that a list executes at most."""

CYCLES = 400_000
"""Cycles that a list takes at most."""


class _Outside:
    """The addresses that no memory answers, and one that is broken."""

    def __init__(self) -> None:
        self.broken: range = range(0)

    def __contains__(self, address: object) -> bool:
        return isinstance(address, int) and (address >= SIZE or address in self.broken)


@cocotb.test()
@cocotb.parametrize(index=range(len(PLAN["cases"])))
async def regression(dut: Any, index: int) -> None:
    """Run a case; compare how lists end, registers and memory with the golden interpreter."""
    await ListBench(dut, CASES[PLAN["cases"][index]]).run()


class ListBench(MemoryBench):
    """The engine, its memory, and a host that starts lists."""

    def __init__(self, dut: Any, case: ListCase) -> None:
        self.case = case
        rng = np.random.default_rng([PLAN["seed"], zlib.crc32(case.name.encode())])
        self.world = World.make(CONFIG, rng)
        flying = sum(unit.memory.outstanding for unit in CONFIG.units.values()) + 2
        super().__init__(
            dut, CONFIG, bytearray(self.world.image), rng, outstanding=flying,
            latency=case.latency, idle=dict(case.idle),
        )  # fmt: skip
        self.outside = _Outside()
        self.memory.missing = self.outside

    async def read_pair(self, name: str) -> int:
        """Return what two registers hold."""
        return await self.read(f"{name}_LOW") | await self.read(f"{name}_HIGH") << 32

    async def begin(self, data: bytes, registers: list[int]) -> None:
        """Put a list and everything around it into memory, and start it."""
        self.image[:] = self.world.image
        self.image[LIST : LIST + len(data)] = data
        for offset, word in start_writes(CONFIG, LIST, data, registers=registers, limit=STEPS):
            assert await self.host.write(offset, word) == 0, f"register {offset:#x} is refused"

    async def end(self) -> Outcome:
        """Wait for the end of the list, and return it."""
        for _ in range(CYCLES):
            if self.interrupt():
                break
            await self.tick()
        else:
            raise AssertionError(f"the list does not end within {CYCLES} cycles")
        state = STATES[await self.read("STATUS") >> 8 & 15]
        index, unit, steps = [await self.read(name) for name in ("INDEX", "UNIT", "STEPS")]
        registers = [0, *[await self.read_pair(f"R{i}") for i in range(1, CONFIG.lists.registers)]]
        await self.write("INTERRUPT", 1)
        return Outcome(state, index, unit, steps, registers)

    async def run(self) -> None:
        """Run the case."""
        await self.reset()
        done = 0
        while done < self.case.lists:
            data = draw(self.world, self.rng)
            drawn = self.rng.integers(0, 1 << 32, CONFIG.lists.registers - 1)
            registers = [0, *(int(x) for x in drawn)]
            try:
                expected, image = interpret(self.world, data, registers, STEPS)
            except UnsafeJob:
                continue
            if self.case.event:
                await self._interrupted(data, registers)
            await self.begin(data, registers)
            found = await self.end()
            self._compare(data, found, expected, image)
            done += 1

    async def _interrupted(self, data: bytes, registers: list[int]) -> None:
        """Run a list until something happens."""
        event = self.case.event
        if event == "read_error":
            name = list(CONFIG.units)[int(self.rng.integers(len(CONFIG.units)))]
            placed = self.world.jobs[name][int(self.rng.integers(len(self.world.jobs[name])))]
            width = CONFIG.memory.data_width // 8
            beat = placed.read()[0][0] // width * width
            self.outside.broken = range(beat, beat + 1)
        await self.begin(data, registers)
        if event != "read_error":
            for _ in range(self.case.at):
                await self.tick()
        if event == "reset":
            await self.reset()
            return
        if event == "abort":
            await self.write("ABORT", 1)
            if not await self.read("STATUS") & 1 and not self.interrupt():
                return  # it had ended, and the interrupt was cleared
        found = await self.end()
        self.outside.broken = range(0)
        if event == "read_error" and found.state == "unit_failed":
            assert found.index < len(data) // BYTES, "the index is outside the list"

    def _compare(self, data: bytes, found: Outcome, expected: Outcome, image: bytearray) -> None:
        text = listing(data, list(CONFIG.units))
        assert found == expected, f"the list ends with {found}, expected {expected}:\n{text}"
        now = np.frombuffer(self.image, np.uint8)
        right = now == np.frombuffer(image, np.uint8)
        if found.state != "done":  # jobs that were under way may have written or not
            right |= (now == np.frombuffer(self.world.image, np.uint8)) & self.world.results
        wrong = np.flatnonzero(~right)
        assert not len(wrong), f"{len(wrong)} bytes are wrong, first {int(wrong[0]):#x}:\n{text}"
