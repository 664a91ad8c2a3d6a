# SPDX-License-Identifier: Apache-2.0
"""The probe of the engines of a bus, with a memory and a monitor: what reads and writes share."""

from __future__ import annotations

import itertools
import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

from flows.simulation.bus.axi_memory import AxiMemory
from flows.simulation.bus.axi_monitor import AxiMonitor
from hwgen.core.bus import PAGE

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
PERIOD_NS = 2
MEMORY_BYTES = 1 << 16
Request = tuple[int, int]
"""Address and bytes."""


class Bench:
    """The probe with a memory and a monitor on its bus; requests go in at the port `PORT`."""

    PORT = ""
    STALLS: tuple[dict[str, float], ...] = ()
    """Chances of an idle cycle: of requests, rows, beats between the engines, and the channels."""

    def __init__(self, dut: Any, seed: int) -> None:
        self.dut = dut
        self.rng = np.random.default_rng([seed, PLAN["seed"]])
        self.data_width = PLAN["data_width"]
        self.beat_bytes = self.data_width // 8
        self.image = bytearray(self.rng.bytes(MEMORY_BYTES))
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        for name in ("read_valid", "write_valid", "row_valid", "beat_go", "data_go", "stop"):
            getattr(dut, name).value = 0
        dut.rst.value = 1
        options = {"data_width": self.data_width}
        self.memory = AxiMemory(dut, "mem", "rst", image=self.image, seed=seed, **options)
        self.monitor = AxiMonitor(
            dut, "mem", "rst", **options,
            max_burst=PLAN["max_burst"], outstanding=PLAN["outstanding"],
        )  # fmt: skip
        self.memory_answers = True
        self.idle: dict[str, float] = {}
        self.pending: list[Request] = []
        self.forget()
        cocotb.start_soon(self._serve())
        cocotb.start_soon(self._ask())
        cocotb.start_soon(self._go())
        cocotb.start_soon(self._watch())

    def forget(self) -> None:
        """Drop what was asked for and what came."""
        self.pending.clear()
        self.asked: list[int] = []  # cycles
        self.errors = 0

    def stall(self, idle: dict[str, float], latency: int = 1) -> None:
        self.idle, self.memory.idle, self.memory.latency = idle, idle, latency

    async def cycles(self, count: int) -> None:
        for _ in range(count):
            await RisingEdge(self.dut.clk)

    async def reset(self, cycles: int = 2) -> None:
        self.dut.rst.value = 1
        await self.cycles(cycles)
        self.dut.rst.value = 0
        self.forget()

    async def until_idle(self, limit: int) -> None:
        busy = getattr(self.dut, f"{self.PORT}_busy")
        valid = getattr(self.dut, f"{self.PORT}_valid")
        for _ in range(limit):
            await RisingEdge(self.dut.clk)
            if busy.value == 0 and valid.value == 0:
                return
        raise AssertionError(f"still busy after {limit} cycles")

    async def stop_anywhere(self) -> None:
        """Stop, wait until nothing is in flight, and reset as the control does."""
        issued = self.monitor.reads if self.PORT == "read" else self.monitor.writes
        valid = self.dut.mem_arvalid if self.PORT == "read" else self.dut.mem_awvalid
        await self.cycles(int(self.rng.integers(1, 80)))
        self.dut.stop.value = 1
        self.pending.clear()
        await self.cycles(1)
        await ReadOnly()  # the monitor has seen this edge, too
        stopped, waiting = self.monitor.cycle, int(valid.value)
        await self.until_idle(4000)
        assert self.monitor.quiet, "not busy, but something is in flight"
        late = sum(cycle > stopped for *_, cycle in issued)
        assert late <= waiting, f"{late} bursts after the stop, {waiting} waited"

    async def resume(self) -> None:
        await self.reset(1)
        self.dut.stop.value = 0

    async def answered_by(self, ram_type: Any, bus: Any) -> Any:
        """Let a memory that somebody else has written answer, with the same contents; return it."""
        dut = self.dut
        self.memory_answers = False
        logging.getLogger(f"cocotb.{dut._name}.mem").setLevel(logging.ERROR)
        ram = ram_type(bus.from_prefix(dut, "mem"), dut.clk, dut.rst, size=MEMORY_BYTES)
        ram.write(0, bytes(self.image))
        await self.reset()
        return ram

    def pause(self, channels: Iterable[Any], chance: float) -> None:
        """Let channels of such a memory pause in a cycle by a chance."""
        for channel in channels:
            pauses = (self.rng.random(997) < chance).tolist()
            channel.set_pause_generator(itertools.cycle(pauses))

    def stalls(self, port: str) -> bool:
        chance = self.idle.get(port, 0)
        return bool(chance) and self.rng.random() < chance

    async def _serve(self) -> None:
        edge = RisingEdge(self.dut.clk)
        while True:
            await edge
            self.monitor.step()
            if self.memory_answers:
                self.memory.step()

    async def _ask(self) -> None:
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        port = {
            name: getattr(dut, f"{self.PORT}_{name}")
            for name in ("address", "bytes", "valid", "ready")
        }
        valid = False
        while True:
            await edge
            if dut.rst.value == 1:
                port["valid"].value, valid = 0, False
                continue
            if valid and port["ready"].value == 1:
                self.asked.append(self.monitor.cycle)
                valid = False
            if not valid and self.pending and not self.stalls("ask"):
                port["address"].value, port["bytes"].value = self.pending.pop(0)
                valid = True
            port["valid"].value = int(valid)

    async def _go(self) -> None:
        edge = RisingEdge(self.dut.clk)
        go = self.dut.beat_go if self.PORT == "read" else self.dut.data_go
        while True:
            await edge
            # Who has been stopped takes nothing any more.
            go.value = int(not self.stalls("take") and self.dut.stop.value == 0)

    async def _watch(self) -> None:
        raise NotImplementedError

    def ask(self, count: int, longest: int) -> int:
        """Ask for anything, anywhere; return the cycles that it may take."""
        raise NotImplementedError

    async def finish(self, limit: int) -> None:
        """Wait until everything has come, and compare."""
        raise NotImplementedError

    def fail_at(self, requests: Iterable[Request]) -> None:
        """Let the memory answer a tenth of the beats of requests with an error."""
        size = self.beat_bytes
        addresses = [a - a % size + size * k for a, n in requests for k in range(-(-n // size))]
        chosen = self.rng.choice(addresses, max(1, len(addresses) // 10))
        self.memory.errors = {int(address) for address in chosen}

    # -- requests --------------------------------------------------------------------------------

    def random_request(self, longest: int) -> Request:
        length = int(min(self.rng.geometric(1 / (longest / 4)), longest))
        address = int(self.rng.integers(0, 3 * MEMORY_BYTES))
        if self.rng.random() < 0.3:  # around the end of a page
            address = address // PAGE * PAGE + PAGE - int(self.rng.integers(0, 3 * length))
            address = max(address, 0)
        if self.rng.random() < 0.2:
            address -= address % self.beat_bytes
        return address, length

    def random_requests(self, count: int, longest: int) -> list[Request]:
        return [self.random_request(longest) for _ in range(count)]


async def random(bench: Bench) -> None:
    """Anything, anywhere, with stalls on every port."""
    for round_, idle in enumerate(bench.STALLS):
        bench.stall(idle, latency=int(bench.rng.choice([1, 2, 7, 30])))
        await bench.finish(bench.ask(8, (40, 300, 4000)[round_ % 3]))
        bench.forget()


async def stop(bench: Bench) -> None:
    """Check that a stop at any time ends in quiet; the next requests are served."""
    for round_ in range(12):
        bench.stall(bench.STALLS[round_ % len(bench.STALLS)], int(bench.rng.choice([1, 4, 20])))
        bench.ask(10, 1000)
        await bench.stop_anywhere()
        await bench.resume()
        await bench.finish(bench.ask(2, 200))
        bench.forget()


async def reset(bench: Bench) -> None:
    """Check that a reset at any time forgets everything."""
    for round_ in range(10):
        bench.stall(bench.STALLS[round_ % len(bench.STALLS)], int(bench.rng.choice([1, 4, 20])))
        bench.ask(10, 1000)
        await bench.cycles(int(bench.rng.integers(1, 80)))
        await bench.reset(int(bench.rng.integers(1, 3)))
        await bench.finish(bench.ask(2, 200))
        bench.forget()


SHARED_CASES = (random, stop, reset)
