# SPDX-License-Identifier: Apache-2.0
"""cocotb testbench of any stream core: drivers, checks of the handshake and the scoreboard.

It runs inside the simulator.  What to do comes from a plan file (see
`flows.simulation.cases`), the design is known only through its configuration: ports,
schedule, golden model and cycle model.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time

from flows.simulation.bench_jobs import BenchJob, draw_job
from flows.simulation.bus.wires import bits_of, bits_reader, bits_writer, bytes_of, reader, writer
from flows.simulation.cases import Case
from hwgen.core.core import Core
from hwgen.core.params.base import FamilyConfig
from hwgen.core.params.protection import FAULT_OUTPUT
from hwgen.core.port import StreamPort

PERIOD_NS = 2
"""Clock period of every simulation; cycles, not nanoseconds, are the result."""

SURPLUS = 8
"""Cycles after the last result in which none may come."""


class Source:
    """Drives an input port: valid from the first beat to the last but in idle cycles.

    `step` is called at every clock edge, with the signals as they are before it.  Beats stay until
    they are taken, and what is on the wires of an idle port means nothing, so it is noise.

    Parameters
    ----------
    dut : cocotb handle
    port : StreamPort
    idle : iterator of bool, optional
        Whether the port is idle, asked anew in every cycle in which no beat waits.
    rng : numpy Generator, optional
        Of the noise; without it the wires of an idle port stay as they are.

    Attributes
    ----------
    first : int or None
        Clock edge, counted from the last `start`, at which the first beat was taken.
    left : int
        Beats that were sent and not yet taken.
    """

    def __init__(
        self,
        dut: Any,
        port: StreamPort,
        idle: Iterator[bool] | None,
        rng: np.random.Generator | None = None,
    ) -> None:
        self._ready = reader(dut, f"{port.prefix}_tready")
        self._valid = writer(dut, f"{port.prefix}_tvalid")
        self._data = bits_writer(dut, f"{port.prefix}_tdata")
        self._last = writer(dut, f"{port.prefix}_tlast") if port.last else None
        self._idle = idle
        self._noise: Iterator[str] | None = None
        if rng is not None:
            drawn = rng.integers(256, size=(16, port.beat_bytes), dtype=np.uint8)
            self._noise = itertools.cycle(bits_of(drawn))
        self.start(iter(()), 0)

    def start(self, beats: Iterator[tuple[str, int]], count: int) -> None:
        """Forget the beats of before; send `count` beats of bits and ``tlast`` from now on."""
        self.left = count
        self.first: int | None = None
        self.step = self._drive(beats).__next__
        self.step()

    def _drive(self, beats: Iterator[tuple[str, int]]) -> Iterator[None]:
        ready, valid, data, last = self._ready, self._valid, self._data, self._last
        idle, shown, marked, edge = self._idle, False, -1, 0
        valid(0)
        for bits, end in beats:
            while idle is not None and next(idle):
                if shown:
                    self._rest()
                    shown, marked = False, -1
                yield
                edge += 1
            data(bits)
            if last is not None and end != marked:
                last(end)
                marked = end
            if not shown:
                valid(1)
                shown = True
            yield
            edge += 1
            while not ready():
                yield
                edge += 1
            if self.first is None:
                self.first = edge
            self.left -= 1
        self._rest()
        while True:
            yield

    def _rest(self) -> None:
        self._valid(0)
        if self._noise is not None:
            self._data(next(self._noise))
        if self._last is not None:
            self._last(self._noise is not None)


class Bench:
    """The design, with one coroutine that drives and observes all ports at each clock edge.

    On the port of results it checks the handshake in every cycle: once valid, a beat stays,
    unchanged, until it is taken, and nothing is valid in reset.

    Parameters
    ----------
    dut : cocotb handle
    config : FamilyConfig
    idle : dict
        Probability, per port, that a cycle is idle (inputs) or not ready (output).
    seed : int
        Of the pauses and of the noise.
    noise : bool
        Whether there is noise on the wires of idle inputs.
    patient : bool
        Whether ``tready`` of the output comes only after its ``tvalid``, which may not wait for it.

    Attributes
    ----------
    edges : int
        Clock edges served, outside resets.
    seconds : float
        Processor time they took.
    """

    def __init__(
        self,
        dut: Any,
        config: FamilyConfig,
        idle: Mapping[str, float],
        seed: int,
        *,
        noise: bool = True,
        patient: bool = False,
    ) -> None:
        self.dut, self.config, self.patient = dut, config, patient
        self.sources: dict[str, Source] = {}
        self.pauses: dict[str, Iterator[bool]] = {}
        self._edge = RisingEdge(dut.aclk)
        rng = np.random.default_rng(seed)
        for port in config.ports:
            if probability := idle.get(port.name, 0):
                drawn = rng.random(4096) < probability
                self.pauses[port.name] = itertools.cycle(drawn.tolist())
            if port.direction == "in":
                pauses = self.pauses.get(port.name)
                self.sources[port.name] = Source(dut, port, pauses, rng if noise else None)
            else:
                self.output = port
        prefix = self.output.prefix
        self._valid = reader(dut, f"{prefix}_tvalid")
        self._data = bits_reader(dut, f"{prefix}_tdata")
        self._last = reader(dut, f"{prefix}_tlast") if self.output.last else None
        self._noticed = reader(dut, FAULT_OUTPUT) if config.protect.any else None
        self._ready = writer(dut, f"{prefix}_tready")
        self._ready(not patient)
        self.edges, self.seconds = 0, 0.0
        self._forget()

    def _forget(self) -> None:
        self._start = round(get_sim_time("ns")) // PERIOD_NS
        self._beats: list[tuple[str, int]] = []
        self._arrivals: list[int] = []

    async def reset(self, cycles: int = 3) -> None:
        """Hold the reset for some cycles and forget all traffic."""
        self.dut.aresetn.value = 0
        for source in self.sources.values():
            source.start(iter(()), 0)
        for cycle in range(cycles):
            await self._edge
            assert not cycle or not self._valid(), f"{self.output.prefix}: tvalid in reset"
        self.dut.aresetn.value = 1
        self._forget()

    def send(self, jobs: Sequence[BenchJob]) -> None:
        """Put the beats of jobs, one after the other, on the input ports."""
        for name, source in self.sources.items():
            parts = [job.beats[name] for job in jobs]
            source.start(itertools.chain(*parts), sum(map(len, parts)))

    async def serve(self, edges: int, results: int | None = None) -> bool:
        """Serve all ports at clock edges.

        Parameters
        ----------
        edges : int
            How many at most.
        results : int, optional
            Ends `SURPLUS` edges after so many results have come and all inputs were taken.

        Returns
        -------
        bool
            Whether `results` came and all inputs were taken.
        """
        sources = list(self.sources.values())
        steps = [source.step for source in sources]
        valid, data, last, ready = self._valid, self._data, self._last, self._ready
        beats, arrivals, clock_edge = self._beats, self._arrivals, self._edge
        patient = self.patient
        pauses = None if patient else self.pauses.get(self.output.name)
        changing = patient or pauses is not None
        ready_now = not patient if pauses is None else not next(pauses)
        ready(ready_now)
        waiting: tuple[str, int] | None = None
        number, done, began = 0, False, time.process_time()
        while number < edges:
            await clock_edge
            number += 1
            for step in steps:
                step()
            if valid():
                beat = data(), 0 if last is None else last()
                if waiting is not None and waiting != beat:
                    raise AssertionError(
                        f"{self.output.prefix}: a waiting beat changed from {_shown(waiting)} to"
                        f" {_shown(beat)}"
                    )
                if ready_now:
                    waiting = None
                    beats.append(beat)
                    arrivals.append(number)
                else:
                    waiting = beat
            elif waiting is not None:
                raise AssertionError(f"{self.output.prefix}: tvalid fell before tready")
            if changing:
                willing = waiting is not None if pauses is None else not next(pauses)
                if willing != ready_now:
                    ready_now = willing
                    ready(ready_now)
            if len(beats) == results and not done and not any(source.left for source in sources):
                edges, done = number + SURPLUS, True
        self.edges += number
        self.seconds += time.process_time() - began
        return done

    async def run(self, jobs: Sequence[BenchJob], limit: int) -> None:
        """Run jobs back to back and compare every result and every ``tlast``."""
        self.send(jobs)
        beats = sum(job.plan.output_beats for job in jobs)
        if not await self.serve(limit, beats):
            left = {name: source.left for name, source in self.sources.items() if source.left}
            waiting = "".join(
                f", {count} beats of {name} not taken" for name, count in left.items()
            )
            raise AssertionError(
                f"no progress: {len(self._beats)} of {beats} result beats after {limit} cycles"
                + waiting
            )
        start = 0
        for index, job in enumerate(jobs):
            count = job.plan.output_beats
            self._compare(index, job, slice(start, start + count))
            start += count
        assert len(self._beats) == start, f"{len(self._beats) - start} result beats too many"
        assert not (self._noticed and self._noticed()), f"{FAULT_OUTPUT} without a fault"

    def _compare(self, index: int, job: BenchJob, where: slice) -> None:
        beats, cycles = self._beats[where], self._arrivals[where]
        image = bytes_of([bits for bits, _ in beats], self.output.beat_bytes)
        if result := job.mismatch(image):
            text, beat, count = result
            raise AssertionError(
                f"mismatch in job {index} ({job.title}): {text}, cycle"
                f" {self._start + cycles[beat]}; {count}"
            )
        lasts = [bool(last) for _, last in beats]
        expected = list(job.plan.output_last())
        assert lasts == expected, (
            f"job {index}: tlast wrong at result beat {_first_difference(lasts, expected)}"
        )

    def cycles(self) -> int:
        """Return the cycles from the first input beat to the last result beat."""
        first = min(source.first for source in self.sources.values() if source.first is not None)
        return self._arrivals[-1] - first + 1


def _first_difference(a: list[bool], b: list[bool]) -> int:
    return next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)


def _shown(beat: tuple[str, int]) -> str:
    return f"{int(beat[0], 2):#x} with tlast {beat[1]}"


def start_clock(dut: Any) -> None:
    """Start the clock in reset."""
    dut.aresetn.value = 0
    Clock(dut.aclk, PERIOD_NS, unit="ns").start()


async def run_case(dut: Any, core: Core[Any], case: Case, rng: np.random.Generator) -> None:
    """Run a case at the streams of a core."""
    jobs = [draw_job(core, spec, rng) for spec in case.jobs]
    full_rate = core.cycles([each.job for each in jobs], [each.operands for each in jobs]).number
    await run_jobs(dut, core.params, case, jobs, full_rate, int(rng.integers(1 << 31)))


async def run_jobs(
    dut: Any,
    config: FamilyConfig,
    case: Case,
    jobs: Sequence[BenchJob],
    full_rate: int,
    seed: int,
) -> None:
    """Run the jobs of a case, once more after each of its resets, and hold them against the model.

    Parameters
    ----------
    dut : cocotb handle
    config
    case : Case
        Its name, `idle`, `resets`, `patient`, and whether it runs at `full_rate`.
    jobs : sequence of Job
    full_rate : int
        What the cycle model says.
    seed : int
        Of the pauses and of the noise.
    """
    # Nine of ten cycles idle on all ports at once leave one in thousands; far beyond that nothing
    # moves any more.
    limit = 1000 + full_rate * (4 if case.full_rate else 400)
    start_clock(dut)
    bench = Bench(dut, config, dict(case.idle), seed, patient=case.patient)
    await bench.reset()
    for cut in case.resets:
        bench.send(jobs)
        await bench.serve(cut)
        await bench.reset(cycles=1)
    await bench.run(jobs, limit)
    cycles = bench.cycles()
    dut._log.info(
        "CASE %s cycles=%d model=%d; %d edges in %.6f s",
        case.name,
        cycles,
        full_rate,
        bench.edges,
        bench.seconds,
    )
    if case.full_rate:
        assert cycles == full_rate, f"took {cycles} cycles, the cycle model says {full_rate}"
