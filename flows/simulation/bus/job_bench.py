# SPDX-License-Identifier: Apache-2.0
"""An engine that takes jobs, its memory, and a host that submits them, for cocotb."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.simulation.bench_jobs import draw_job, first_error
from flows.simulation.bus.memory_bench import MemoryBench
from flows.simulation.cases import Case
from flows.simulation.placement import MemoryJob, PlacedJob, place_job, source_core
from hwgen.core.core import Core
from hwgen.core.registry import core_of

FILL = 0xA5
"""What memory holds where nothing was put; it must still be there after a run."""


FOLD = 4096 * 509
"""Bytes of a memory with rows from anywhere: no bit of an address alone makes no difference."""

_DRAWS = 1000
"""How often a place is drawn until it is free."""


def _spans(job: MemoryJob) -> list[tuple[int, int]]:
    """Return the regions that a job reads and writes: address and bytes."""
    return [*((address, len(content)) for address, content in job.images()), *job.written()]


def _beats(regions: list[tuple[int, int]], beat: int) -> set[int]:
    """Return the addresses of the beats that regions touch."""
    return {
        at
        for address, size in regions
        for at in range(address // beat * beat, address + size, beat)
    }


class JobBench(MemoryBench):
    """The engine, its memory, and a host that submits jobs.

    Parameters
    ----------
    dut : cocotb handle
    config : FamilyConfig
        Of a family that takes jobs.
    case : Case
    placed : sequence of PlacedJob
    work : int
        Cycles that jobs take at most, but for the memory.
    rng : numpy Generator
    """

    def __init__(
        self, dut: Any, config: Any, case: Case, placed: Sequence[PlacedJob],
        *, work: int, rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.config, self.case, self.placed = config, case, placed
        self.jobs = [job for each in placed for job in each.jobs]
        self.states = config.job_interface.states
        scattered = case.scattered
        self.image = bytearray([FILL]) * (FOLD if scattered else placed[-1].end + 4096)
        self._fill()
        super().__init__(
            dut, config, self.image, rng, outstanding=config.memory.outstanding,
            latency=case.latency, idle=dict(case.idle),
        )  # fmt: skip
        in_use = sum(size for job in self.jobs for _, size in _spans(job)) if scattered else 0
        beats = (in_use or len(self.image)) // config.memory_bytes
        slow = 60 + case.latency if case.idle or case.latency > 1 else 12
        self.limit = 4000 + slow * (200 * len(self.jobs) + 16 * beats + work)

    def _fill(self) -> None:
        self.image[:] = bytes([FILL]) * len(self.image)
        for job in self.jobs:
            for address, content in job.images():
                self._put(self.image, address, content)

    def _put(self, image: bytearray, address: int, content: bytes) -> None:
        """Put something into an image, onto which the address space folds."""
        start = address % len(image)
        before = content[: len(image) - start]
        image[start : start + len(before)] = before
        image[: len(content) - len(before)] = content[len(before) :]

    def _content(self, address: int, size: int) -> bytes:
        """Return the bytes of the image at an address."""
        start = address % len(self.image)
        first = self.image[start : start + size]
        return bytes(first + self.image[: size - len(first)])

    # -- the host --------------------------------------------------------------------------

    async def submit(
        self, job: MemoryJob, limit: int, *, refused: bool = False, spoiled: bool = False
    ) -> None:
        """Put a job into the queue as soon as there is room; it may be `refused`."""
        for offset, value in job.spoiled(self.rng) if spoiled else job.writes():
            assert await self.host.write(offset, value) == 0, f"register {offset:#x} is refused"
        for _ in range(limit):
            if (await self.read("STATUS")) >> 8:
                response = await self.host.write(self.registers["SUBMIT"], 1)
                assert refused or response == 0, f"a job is refused: bresp {response}"
                return
        raise AssertionError("the queue stays full")

    async def wait(self, jobs: int) -> None:
        """Wait for the interrupt of the last job."""
        for _ in range(self.limit):
            if self.interrupt():
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
        for job in self.jobs:
            await self.submit(job, self.limit)
        await self.wait(done + len(self.jobs))
        for _ in range(8):
            await self.tick()
        slots = self.config.queue
        for number in range(max(done, done + len(self.jobs) - slots), done + len(self.jobs)):
            state = self.states[await self.read(f"JOB_STATUS_{number % slots}")]
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
            job = self.jobs[min(len(self.jobs) // 2, self.config.queue - 1)]
            of, others = job.written, [each.read for each in self.jobs]
            if event == "read_error":
                of, others = job.read, [each.written for each in self.jobs]
            beat = self.config.memory_bytes
            # What has an error one way must not be met the other way before.
            either = {at for each in others for at in _beats(each(), beat)}
            own = _beats(of(), beat)
            drawn = sorted(own - either or own)
            self.memory.errors = (drawn[int(self.rng.integers(len(drawn)))],)
        for number, job in enumerate(self.jobs[: self.config.queue]):
            # While jobs are being ended, further ones are refused.
            spoiled = event == "mismatch" and number == 0
            await self.submit(job, self.limit, refused=True, spoiled=spoiled)
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
        states = [self.states[await self.read(f"JOB_STATUS_{i}")] for i in range(count)]
        wanted = {"abort": "aborted"}.get(event, event)
        assert set(states) <= {"done", wanted}, f"{event}: jobs are {', '.join(states)}"
        if event.endswith("error") or event == "mismatch":
            assert wanted in states, f"{event}: not reported, jobs are {', '.join(states)}"
        await self.write("INTERRUPT", 3)
        self.memory.errors = ()
        return count

    def _compare(self) -> None:
        """Compare results, and what lies around them."""
        for index, each in enumerate(self.placed):
            results = each.results(self._content)
            if error := first_error(results, each.bench.expected):
                raise AssertionError(
                    f"mismatch in job {index} ({each.bench.title}): first wrong {error.text};"
                    f" {error.count}"
                )
        touched = bytearray(self.image)
        for job in self.jobs:
            for start, size in job.written():
                self._put(touched, start, bytes([FILL]) * size)
            for start, content in job.images():
                self._put(touched, start, bytes([FILL]) * len(content))
        stray = np.flatnonzero(np.frombuffer(touched, np.uint8) != FILL)
        assert not len(stray), f"something was written to {int(stray[0]):#x}, which is nothing's"


async def run_case(dut: Any, core: Core[Any], case: Case, rng: np.random.Generator) -> None:
    """Run a case from memory to memory."""
    placed: list[PlacedJob] = []
    work, used = 0, np.zeros(FOLD, bool)
    for spec in case.jobs:
        # An engine of several formats has a configuration for the jobs of each.
        engine = core if spec.format is None else core_of(core.params.formats[spec.format])
        bench = draw_job(source_core(engine), spec, rng)
        for _ in range(_DRAWS if case.scattered else 1):
            each = place_job(
                engine, bench, rng=rng if case.odd else None,
                base=placed[-1].end if placed else 0, least_traffic=spec.least_traffic,
                scattered=case.scattered,
            )  # fmt: skip
            if not case.scattered or _occupy(each, used):
                break
        else:
            raise AssertionError("rows from anywhere always overlap; the case is too large")
        placed.append(each)
        work += engine.cycles([bench.job]).number
    await JobBench(dut, core.params, case, placed, work=work, rng=rng).run()


def _occupy(placed: PlacedJob, used: np.ndarray) -> bool:
    """Note down what a job reads and writes in a folded memory, unless something is there."""
    new = np.zeros_like(used)
    for job in placed.jobs:
        for address, size in dict.fromkeys(_spans(job)):
            at = np.arange(address, address + size) % len(used)
            if new[at].any():
                return False
            new[at] = True
    if (new & used).any():
        return False
    used |= new
    return True
