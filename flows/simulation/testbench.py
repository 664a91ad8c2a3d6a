# SPDX-License-Identifier: Apache-2.0
"""cocotb testbench of any stream core: drivers, passive monitors and the scoreboard.

It runs inside the simulator.  What to do comes from a plan file (see
`flows.simulation.regression`), the design is known only through its configuration: ports,
schedule, golden model and cycle model.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

from flows.simulation.post_cases import badly_extended
from hwgen.config.model import FamilyConfig
from hwgen.families import Family
from hwgen.numerics import differences
from hwgen.schedules.stream import pack_inputs, stream_input
from hwgen.streams import StreamPort

PERIOD_NS = 2
"""Clock period of every simulation; cycles, not nanoseconds, are the result."""


@dataclass(frozen=True)
class Job:
    """One product: its operands, and what the core must answer."""

    schedule: Any
    a: np.ndarray
    w: np.ndarray
    expected: np.ndarray


def make_job(
    family: Family, config: FamilyConfig, a: np.ndarray, w: np.ndarray, post: tuple[Any, ...] = ()
) -> Job:
    """Return the job ``a . w`` with its golden result; `post` is of settings and columns."""
    sizes = a.shape[0], a.shape[1], w.shape[1]
    plan = family.part("schedule").schedule(config, *sizes, *post)
    return Job(plan, a, w, family.part("golden").golden(config, a, w, *post))


class Monitor:
    """Passive observer of one stream port.

    Records the cycle of every beat and checks the handshake: once valid, a beat stays, unchanged,
    until it is taken.

    Attributes
    ----------
    cycles : list of int
        Clock edges, counted from the start of the simulation, at which beats were taken.
    beats : list of (int, int)
        ``tdata`` and ``tlast`` of every beat taken.
    """

    def __init__(self, dut: Any, port: StreamPort) -> None:
        self.port = port
        self._valid = getattr(dut, f"{port.prefix}_tvalid")
        self._ready = getattr(dut, f"{port.prefix}_tready")
        self._data = getattr(dut, f"{port.prefix}_tdata")
        self._last = getattr(dut, f"{port.prefix}_tlast") if port.last else None
        self._clock, self._reset = dut.aclk, dut.aresetn
        self.cycles: list[int] = []
        self.beats: list[tuple[int, int]] = []
        self.task = cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        edge = RisingEdge(self._clock)
        waiting: tuple[int, int] | None = None
        while True:
            await edge
            if self._reset.value == 0:
                waiting = None
                continue
            if self._valid.value == 1:
                beat = (
                    int(self._data.value),
                    int(self._last.value) if self._last is not None else 0,
                )
                assert waiting is None or waiting == beat, (
                    f"{self.port.prefix}: a waiting beat changed from {waiting} to {beat}"
                )
                if self._ready.value == 1:
                    waiting = None
                    self.cycles.append(round(get_sim_time("ns")) // PERIOD_NS)
                    self.beats.append(beat)
                else:
                    waiting = beat
            else:
                assert waiting is None, f"{self.port.prefix}: tvalid fell before tready"


class Bench:
    """The design with a driver and a monitor on every port.

    Parameters
    ----------
    dut : cocotb handle
    family : Family
    config : FamilyConfig
    idle : dict
        Probability, per port, that a cycle is idle (inputs) or not ready (output).
    seed : int
        Of the pauses.
    """

    def __init__(
        self, dut: Any, family: Family, config: Any, idle: dict[str, float], seed: int
    ) -> None:
        self.dut, self.family, self.config = dut, family, config
        self.sources: dict[str, AxiStreamSource] = {}
        self.monitors = {port.name: Monitor(dut, port) for port in config.ports}
        rng = np.random.default_rng(seed)
        for port in config.ports:
            logging.getLogger(f"cocotb.{dut._name}.{port.prefix}").setLevel(logging.ERROR)
            bus = AxiStreamBus.from_prefix(dut, port.prefix)
            kind = AxiStreamSource if port.direction == "in" else AxiStreamSink
            end = kind(bus, dut.aclk, dut.aresetn, reset_active_level=False, byte_lanes=1)
            if probability := idle.get(port.name, 0):
                pauses = rng.random(4096) < probability
                end.set_pause_generator(itertools.cycle(pauses.tolist()))
            if port.direction == "in":
                self.sources[port.name] = end
            else:
                self.sink, self.output_port = end, port

    async def reset(self, cycles: int = 3) -> None:
        """Hold the reset for some cycles and forget all traffic."""
        self.dut.aresetn.value = 0
        for _ in range(cycles):
            await RisingEdge(self.dut.aclk)
        self.dut.aresetn.value = 1
        for end in (*self.sources.values(), self.sink):
            end.clear()
        for monitor in self.monitors.values():
            monitor.cycles.clear()
            monitor.beats.clear()

    def send(self, job: Job) -> None:
        """Queue the beats of a job on the input ports."""
        blocks = pack_inputs(job.schedule, job.a, job.w)
        for port in self.config.ports:
            if port.direction == "in":
                for frame in _frames(stream_input(job.schedule, port, blocks[port.name])):
                    self.sources[port.name].send_nowait(AxiStreamFrame(frame))

    async def wait(self, beats: int, limit: int) -> None:
        """Wait until the core has given `beats` results, at most `limit` cycles."""
        output = self.monitors["out"]
        for _ in range(limit):
            if len(output.beats) >= beats:
                return
            await RisingEdge(self.dut.aclk)
        raise AssertionError(
            f"no progress: {len(output.beats)} of {beats} result beats after {limit} cycles"
        )

    async def run(self, jobs: list[Job], limit: int) -> None:
        """Run jobs back to back and compare every result and every ``tlast``."""
        for job in jobs:
            self.send(job)
        output = self.monitors["out"]
        await self.wait(sum(job.schedule.output_beats for job in jobs), limit)
        for _ in range(8):  # a core that gives more than it should is wrong, too
            await RisingEdge(self.dut.aclk)
        start = 0
        for index, job in enumerate(jobs):
            count = job.schedule.output_beats
            beats = output.beats[start : start + count]
            self._compare(index, job, beats, output.cycles[start : start + count])
            start += count
        assert len(output.beats) == start, f"{len(output.beats) - start} result beats too many"

    def _compare(
        self, index: int, job: Job, beats: list[tuple[int, int]], cycles: list[int]
    ) -> None:
        port = self.output_port
        raw = b"".join(data.to_bytes(port.beat_bytes, "little") for data, _ in beats)
        image = np.frombuffer(raw, np.uint8).reshape(len(beats), port.beat_bytes)
        got = job.schedule.unpack_outputs(image)
        where = differences(got, job.expected)
        if len(where):
            m, n = (int(i) for i in where[0])
            beat, tile = job.schedule.locate(m, n)
            raise AssertionError(
                f"mismatch in job {index} ({job.schedule.m}x{job.schedule.k}x{job.schedule.n}):"
                f" first wrong tile {tile}, element C[{m},{n}], expected {job.expected[m, n]},"
                f" got {got[m, n]}, cycle {cycles[beat]}; {len(where)} of {got.size} wrong"
            )
        wrong = badly_extended(job.schedule, image)
        assert not wrong, f"job {index}: {wrong} results are not extended as their format says"
        lasts = [bool(last) for _, last in beats]
        expected = list(job.schedule.output_last())
        assert lasts == expected, (
            f"job {index}: tlast wrong at result beat {_first_difference(lasts, expected)}"
        )

    def cycles(self) -> int:
        """Return the cycles from the first input beat to the last result beat."""
        first = min(self.monitors[name].cycles[0] for name in self.sources)
        return self.monitors["out"].cycles[-1] - first + 1


def _first_difference(a: list[bool], b: list[bool]) -> int:
    return next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)


def _frames(chunks: Iterator[tuple[np.ndarray, bool]]) -> Iterator[list[int]]:
    """Join chunks into frames, which end where ``tlast`` is set."""
    frame: list[int] = []
    for beats, last in chunks:
        raw, width = beats.tobytes(), beats.shape[-1]
        frame += [int.from_bytes(raw[i : i + width], "little") for i in range(0, len(raw), width)]
        if last:
            yield frame
            frame = []
    if frame:
        yield frame


def start_clock(dut: Any) -> None:
    """Start the clock in reset."""
    dut.aresetn.value = 0
    Clock(dut.aclk, PERIOD_NS, unit="ns").start()
