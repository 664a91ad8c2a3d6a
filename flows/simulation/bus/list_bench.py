# SPDX-License-Identifier: Apache-2.0
"""An engine that executes command lists, its memory, and a host, for cocotb."""

from __future__ import annotations

from typing import Any

import numpy as np

from flows.simulation.bus.memory_bench import MemoryBench
from flows.simulation.cases import Case
from flows.simulation.command_lists import LIST, SIZE, UnsafeJob, World, draw, interpret
from hwgen.core.core import Core
from hwgen.core.lists.commands import BYTES, STATES, listing
from hwgen.core.lists.golden import Outcome
from hwgen.families.transformer.registers import start_writes

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


class ListBench(MemoryBench):
    """The engine, its memory, and a host that starts lists."""

    def __init__(self, dut: Any, config: Any, case: Case, rng: np.random.Generator) -> None:
        self.config, self.case = config, case
        self.world = World.make(config, rng)
        flying = sum(unit.memory.outstanding for unit in config.units.values()) + 2
        super().__init__(
            dut, config, bytearray(self.world.image), rng, outstanding=flying,
            latency=case.latency, idle=dict(case.idle),
        )  # fmt: skip
        self.outside = _Outside()
        self.memory.missing = self.outside

    async def read_pair(self, name: str) -> int:
        """Return the value of two registers."""
        return await self.read(f"{name}_LOW") | await self.read(f"{name}_HIGH") << 32

    async def begin(self, data: bytes, registers: list[int]) -> None:
        """Put a list and everything around it into memory, and start it."""
        self.image[:] = self.world.image
        self.image[LIST : LIST + len(data)] = data
        for offset, word in start_writes(self.config, LIST, data, registers=registers, limit=STEPS):
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
        count = self.config.lists.registers
        registers = [0, *[await self.read_pair(f"R{i}") for i in range(1, count)]]
        await self.write("INTERRUPT", 1)
        return Outcome(state, index, unit, steps, registers)

    async def run(self) -> None:
        """Run the case."""
        await self.reset()
        done = 0
        while done < self.case.lists:
            data = draw(self.world, self.rng)
            drawn = self.rng.integers(0, 1 << 32, self.config.lists.registers - 1)
            registers = [0, *(int(x) for x in drawn)]
            try:
                expected, image = interpret(self.world, data, registers, STEPS)
            except UnsafeJob:
                continue
            if self.case.event:
                await self._interrupted(data, registers)
            await self.begin(data, registers)
            result = await self.end()
            self._compare(data, result, expected, image)
            done += 1

    async def _interrupted(self, data: bytes, registers: list[int]) -> None:
        """Run a list until something happens."""
        event = self.case.event
        if event == "read_error":
            name = list(self.config.units)[int(self.rng.integers(len(self.config.units)))]
            placed = self.world.jobs[name][int(self.rng.integers(len(self.world.jobs[name])))]
            width = self.config.memory.data_width // 8
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
        result = await self.end()
        self.outside.broken = range(0)
        if event == "read_error" and result.state == "unit_failed":
            assert result.index < len(data) // BYTES, "the index is outside the list"

    def _compare(self, data: bytes, outcome: Outcome, expected: Outcome, image: bytearray) -> None:
        text = listing(data, list(self.config.units))
        assert outcome == expected, f"the list ends with {outcome}, expected {expected}:\n{text}"
        now = np.frombuffer(self.image, np.uint8)
        right = now == np.frombuffer(image, np.uint8)
        if outcome.state != "done":  # jobs that were under way may have written or not
            right |= (now == np.frombuffer(self.world.image, np.uint8)) & self.world.results
        wrong = np.flatnonzero(~right)
        assert not len(wrong), f"{len(wrong)} bytes are wrong, first {int(wrong[0]):#x}:\n{text}"


async def run_case(dut: Any, core: Core[Any], case: Case, rng: np.random.Generator) -> None:
    """Run random command lists; compare how they end, registers and memory."""
    await ListBench(dut, core.params, case, rng).run()
