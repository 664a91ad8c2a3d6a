# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of an engine's regression: one test for each case of the plan."""

from __future__ import annotations

import json
import os
import time
import zlib
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from flows.simulation.axi_lite import LiteHost
from flows.simulation.axi_memory import AxiMemory
from flows.simulation.axi_monitor import AxiMonitor
from flows.simulation.engine_memory import FILL, Placed, place
from flows.simulation.engine_regression import EngineCase, engine_cases
from flows.simulation.post_cases import columns_of, settings_of
from flows.simulation.regression import operands
from flows.simulation.testbench import start_clock
from flows.simulation.wires import reader
from hwgen.families import family
from hwgen.register_map import STATES, register_map

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
CONFIG: Any = family(PLAN["config"]["family"]).config.model_validate(PLAN["config"])
CASES = {case.name: case for case in engine_cases(CONFIG, PLAN["seed"])}
REGISTERS = {register.name: register.offset for register in register_map(CONFIG)}


@cocotb.test()
@cocotb.parametrize(index=range(len(PLAN["cases"])))
async def regression(dut: Any, index: int) -> None:
    """Run a case; compare memory, states of jobs, counters and the rules of the bus."""
    await EngineBench(dut, CASES[PLAN["cases"][index]]).run()


class EngineBench:
    """The engine, its memory, and a host that submits jobs, all in one coroutine.

    Whoever waits does so by `tick`, which serves and observes the memory port at each clock edge.
    """

    def __init__(self, dut: Any, case: EngineCase) -> None:
        self.dut, self.case = dut, case
        self.rng = np.random.default_rng([PLAN["seed"], zlib.crc32(case.name.encode())])
        self.placed: list[Placed] = []
        end = 0
        for size, kind, which in zip(case.sizes, case.kinds, case.posts, strict=True):
            settings = settings_of(CONFIG)[which]
            columns = columns_of(settings, size[2], CONFIG, self.rng)
            (placed,), end = place(
                CONFIG, [operands(CONFIG, size, kind, self.rng)],
                settings=settings, columns=columns, rng=self.rng if case.odd else None, base=end,
                least_traffic=case.least_traffic,
            )  # fmt: skip
            self.placed.append(placed)
        self.image = bytearray([FILL]) * (end + 4096)
        self._fill()
        start_clock(dut)
        names = {
            "data_width": CONFIG.memory.data_width,
            "active_low": True,
        }
        self.memory = AxiMemory(
            dut, "m_axi_mem", "aresetn", image=self.image,
            seed=int(self.rng.integers(1 << 31)), **names,
        )  # fmt: skip
        self.monitor = AxiMonitor(
            dut, "m_axi_mem", "aresetn", max_burst=CONFIG.memory.max_burst,
            outstanding=CONFIG.memory.outstanding, **names,
        )  # fmt: skip
        self.memory.latency, self.memory.idle = case.latency, dict(case.idle)
        self._edge, self._interrupt = RisingEdge(dut.aclk), reader(dut, "interrupt")
        self.host = LiteHost(dut, "s_axi_control", self.tick, self.rng)
        macs = sum(m * k * n for m, k, n in case.sizes)
        beats = len(self.image) // CONFIG.memory_bytes
        slow = 60 + case.latency if case.idle or case.latency > 1 else 12
        self.limit = 4000 + slow * (200 * len(case.sizes) + 16 * beats + macs)

    def _fill(self) -> None:
        self.image[:] = bytes([FILL]) * len(self.image)
        for placed in self.placed:
            for address, content in placed.images():
                self.image[address : address + len(content)] = content

    async def tick(self) -> None:
        """Wait for the next clock edge and serve the memory port."""
        await self._edge
        self.monitor.step()
        self.memory.step()

    # -- the host --------------------------------------------------------------------------

    async def read(self, name: str) -> int:
        """Return a register."""
        return await self.host.read(REGISTERS[name])

    async def write(self, name: str, value: int) -> None:
        """Write a register."""
        response = await self.host.write(REGISTERS[name], value)
        assert response == 0, f"writing {name}: bresp {response}"

    async def submit(self, placed: Placed, limit: int, *, refused: bool = False) -> None:
        """Put a job into the queue as soon as there is room; it may be `refused`."""
        for offset, value in placed.job.writes():
            assert await self.host.write(offset, value) == 0, f"register {offset:#x} is refused"
        for _ in range(limit):
            if (await self.read("STATUS")) >> 8:
                response = await self.host.write(REGISTERS["SUBMIT"], 1)
                assert refused or response == 0, f"a job is refused: bresp {response}"
                return
        raise AssertionError("the queue stays full")

    async def reset(self) -> None:
        """Hold the reset for some cycles."""
        self.dut.aresetn.value = 0
        for _ in range(3):
            await self.tick()
        self.dut.aresetn.value = 1
        await self.tick()

    async def wait(self, jobs: int) -> None:
        """Wait for the interrupt of the last job."""
        for _ in range(self.limit):
            if self._interrupt():
                await self.write("INTERRUPT", 3)
                if (await self.read("FINISHED")) >= jobs:
                    return
            await self.tick()
        raise AssertionError(
            f"no progress: {await self.read('FINISHED')} of {jobs} jobs after {self.limit} cycles"
        )

    # -- the case --------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the case."""
        began = time.process_time()
        await self.reset()
        await self.write("INTERRUPT_ENABLE", 3)
        done = 0
        if self.case.event:
            done = await self._interrupted()
            self._fill()
        for placed in self.placed:
            await self.submit(placed, self.limit)
        await self.wait(done + len(self.placed))
        for _ in range(8):
            await self.tick()
        slots = CONFIG.queue
        for number in range(max(done, done + len(self.placed) - slots), done + len(self.placed)):
            state = STATES[await self.read(f"JOB_STATUS_{number % slots}")]
            assert state == "done", f"job {number} is {state}"
        busy = await self.read("BUSY_LOW")
        self.dut._log.info(
            "CASE %s cycles=%d; %d edges in %.6f s",
            self.case.name, busy, self.monitor.cycle, time.process_time() - began,
        )  # fmt: skip
        self._compare()
        if not self.case.event:
            reads, writes = await self.read("READS_LOW"), await self.read("WRITES_LOW")
            assert (reads, writes) == (
                len(self.monitor.read_beats), len(self.monitor.write_beats)
            ), "the counters of beats are wrong"  # fmt: skip

    async def _interrupted(self) -> int:
        """Run the jobs until something happens; return how many have ended."""
        event = self.case.event
        if event.endswith("error"):
            placed = self.placed[len(self.placed) // 2]
            name = "A" if event == "read_error" else "C"
            rows, size, stride, address = placed.job.regions[name]
            beat = CONFIG.memory_bytes
            bad = address + int(self.rng.integers(rows)) * stride + int(self.rng.integers(size))
            self.memory.errors = (bad // beat * beat,)
        for placed in self.placed[: CONFIG.queue]:
            # While jobs are being ended, further ones are refused.
            await self.submit(placed, self.limit, refused=True)
        count = await self.read("SUBMITTED")
        if event in ("reset", "abort"):
            for _ in range(self.case.at):
                await self.tick()
        if event == "reset":
            await self.reset()
            await self.write("INTERRUPT_ENABLE", 3)
            return 0
        if event == "abort":
            await self.write("ABORT", 1)
        for _ in range(self.limit):
            if (await self.read("FINISHED")) == count:
                break
        else:
            raise AssertionError(f"{event}: the jobs do not end")
        assert not (await self.read("STATUS")) & 1, f"{event}: the engine stays busy"
        states = [STATES[await self.read(f"JOB_STATUS_{i}")] for i in range(count)]
        wanted = {"abort": "aborted"}.get(event, event)
        assert set(states) <= {"done", wanted}, f"{event}: jobs are {', '.join(states)}"
        if event.endswith("error"):
            assert wanted in states, f"{event}: not reported, jobs are {', '.join(states)}"
        await self.write("INTERRUPT", 3)
        self.memory.errors = ()
        return count

    def _compare(self) -> None:
        touched = bytearray(self.image)
        for index, placed in enumerate(self.placed):
            got = placed.results(lambda at, size: self.image[at : at + size])
            same = got.view(np.uint8) == placed.expected.view(np.uint8)
            if not same.all():
                wrong = np.argwhere(got != placed.expected)
                m, n = (int(i) for i in wrong[0]) if len(wrong) else (0, 0)
                plan = placed.job.plan
                raise AssertionError(
                    f"mismatch in job {index} ({plan.m}x{plan.k}x{plan.n}): first C[{m},{n}],"
                    f" expected {placed.expected[m, n]}, got {got[m, n]}; {len(wrong)} of"
                    f" {got.size} wrong"
                )
            rows, size, stride, address = placed.job.regions["C"]
            for row in range(rows):
                start = address + row * stride
                touched[start : start + size] = bytes([FILL]) * size
            for start, content in placed.images():
                touched[start : start + len(content)] = bytes([FILL]) * len(content)
        stray = np.flatnonzero(np.frombuffer(touched, np.uint8) != FILL)
        assert not len(stray), f"something was written to {int(stray[0]):#x}, which is nothing's"
