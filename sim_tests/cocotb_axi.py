# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of `sim_tests.test_axi`: requests through the engines of the probe."""

from __future__ import annotations

import itertools
import json
import logging
import os
import zlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiRamRead, AxiReadBus

from sim_tests.axi_memory import AxiMemory
from sim_tests.axi_monitor import AxiMonitor

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
PERIOD_NS = 2
MEMORY_BYTES = 1 << 16
STALLS: tuple[dict[str, float], ...] = ({}, {"r": 0.5}, {"ar": 0.7}, {"take": 0.6}, {"ask": 0.6},
          {"ask": 0.2, "ar": 0.3, "r": 0.3, "take": 0.3})  # fmt: skip

Request = tuple[int, int]
"""Address and bytes."""


class ReadBench:
    """The reader and gatherer of the probe with a memory, a monitor and a scoreboard."""

    def __init__(self, dut: Any, seed: int) -> None:
        self.dut = dut
        self.rng = np.random.default_rng([seed, PLAN["seed"]])
        self.data_width = PLAN["data_width"]
        self.beat_bytes = self.data_width // 8
        self.image = bytearray(self.rng.bytes(MEMORY_BYTES))
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        for name in ("rst", "read_valid", "beat_go", "stop"):
            getattr(dut, name).value = int(name == "rst")
        options = {"data_width": self.data_width}
        self.memory = AxiMemory(
            dut, "mem", dut.clk, dut.rst, image=self.image, seed=seed, **options
        )
        self.monitor = AxiMonitor(
            dut, "mem", dut.clk, dut.rst, **options,
            max_burst=PLAN["max_burst"], outstanding=PLAN["outstanding"],
        )  # fmt: skip
        self.idle: dict[str, float] = {}
        self.pending: list[Request] = []
        self.forget()
        cocotb.start_soon(self._ask())
        cocotb.start_soon(self._take())
        cocotb.start_soon(self._watch())

    def forget(self) -> None:
        """Drop what was asked for and what came."""
        self.pending.clear()
        self.asked: list[int] = []  # cycles
        self.beats: list[tuple[int, int, int, int]] = []
        self.beat_cycles: list[int] = []
        self.words: list[tuple[int, int]] = []
        self.errors = 0
        self.expected_bad: list[bool] = []
        self.error_in_time: list[bool] = []

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

    def _stalls(self, port: str) -> bool:
        chance = self.idle.get(port, 0)
        return bool(chance) and self.rng.random() < chance

    async def _ask(self) -> None:
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        valid = False
        while True:
            await edge
            if dut.rst.value == 1:
                dut.read_valid.value, valid = 0, False
                continue
            if valid and dut.read_ready.value == 1:
                self.asked.append(self.monitor.cycle)
                valid = False
            if not valid and self.pending and not self._stalls("ask"):
                address, count = self.pending.pop(0)
                dut.read_address.value, dut.read_bytes.value = address, count
                valid = True
            dut.read_valid.value = int(valid)

    async def _take(self) -> None:
        edge = RisingEdge(self.dut.clk)
        while True:
            await edge
            self.dut.beat_go.value = int(not self._stalls("take"))

    async def _watch(self) -> None:
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        while True:
            await edge
            if dut.rst.value == 1:
                continue
            self.errors += int(dut.read_error.value)
            if dut.beat_taken.value == 1:
                assert dut.stop.value == 0, "a beat while stopped"
                fields = (dut.beat_data, dut.beat_first, dut.beat_count, dut.beat_last)
                data, first, count, last = (int(field.value) for field in fields)
                self.beats.append((data, first, count, last))
                self.beat_cycles.append(self.monitor.cycle)
                self.error_in_time.append(self.errors >= self._bad_beats(len(self.beats)))
            if dut.word_valid.value == 1:
                self.words.append((int(dut.word_data.value), int(dut.word_last.value)))

    def _bad_beats(self, count: int) -> int:
        """Return how many of the first beats the memory answered with an error."""
        return sum(self.expected_bad[:count])

    # -- what must come --------------------------------------------------------------------------

    def expect(self, requests: Sequence[Request]) -> None:
        """Ask for `requests` and note what must come of them."""
        self.pending += requests
        self.expected_beats: list[tuple[int, int, int, int]] = []
        self.expected_words: list[tuple[int, int]] = []
        self.expected_bad = []
        self.spills: list[bool] = []  # of each request: whether its last beat fills two words
        for address, length in requests:
            self._expect(address, length)

    def _expect(self, address: int, length: int) -> None:
        size, word = self.beat_bytes, PLAN["lanes"] * PLAN["element_bytes"]
        at = address - address % size
        filled = 0
        while at < address + length:
            first = max(address - at, 0)
            count = min(size, address + length - at) - first
            start = at % MEMORY_BYTES
            data = int.from_bytes(self.image[start : start + size], "little")
            ends = at + size >= address + length
            self.expected_beats.append((data, first, count, int(ends)))
            self.expected_bad.append(at in self.memory.errors)
            if ends:
                self.spills.append(filled % word + count > word)
            filled += count
            at += size
        start = address % MEMORY_BYTES
        row = (self.image + self.image)[start : start + length]
        row += bytes(-length % word)
        eb, width = PLAN["element_bytes"], PLAN["width"]
        for begin in range(0, len(row), word):
            value = 0
            for lane in range(PLAN["lanes"]):
                element = row[begin + lane * eb : begin + (lane + 1) * eb]
                kept = int.from_bytes(element, "little") & ((1 << width) - 1)
                value |= kept << lane * width
            self.expected_words.append((value, int(begin + word >= len(row))))

    async def finish(self, limit: int) -> None:
        """Wait until everything has come, and compare."""
        for _ in range(limit):
            if len(self.beats) >= len(self.expected_beats):
                break
            await RisingEdge(self.dut.clk)
        await self.cycles(8)
        for what, found, expected in (
            ("beat", self.beats, self.expected_beats),
            ("word", self.words, self.expected_words),
        ):
            for index, (one, other) in enumerate(zip(found, expected, strict=False)):
                assert one == other, (
                    f"{what} {index}: {[hex(x) for x in one]}, not {[hex(x) for x in other]}"
                )
            assert len(found) == len(expected), f"{len(found)} {what}s, not {len(expected)}"
        assert self.monitor.quiet
        assert self.dut.read_busy.value == 0
        assert self.errors == sum(self.expected_bad)
        assert all(self.error_in_time), "an error after the beat that it belongs to"

    # -- requests --------------------------------------------------------------------------------

    def random_request(self, longest: int) -> Request:
        length = int(min(self.rng.geometric(1 / (longest / 4)), longest))
        address = int(self.rng.integers(0, 3 * MEMORY_BYTES))
        if self.rng.random() < 0.3:  # around the end of a page, or aligned
            address = address // 4096 * 4096 + 4096 - int(self.rng.integers(0, 3 * length))
            address = max(address, 0)
        if self.rng.random() < 0.2:
            address -= address % self.beat_bytes
        return address, length

    def random_requests(self, count: int, longest: int) -> list[Request]:
        return [self.random_request(longest) for _ in range(count)]


# -- reading --------------------------------------------------------------------------------------


async def read_single_beats(bench: ReadBench) -> None:
    """Requests of one beat stream at a beat a cycle."""
    size, count = bench.beat_bytes, 100
    requests = []
    for index in range(count):
        first = int(bench.rng.integers(size))
        requests.append((3 * index * size + first, int(bench.rng.integers(1, size - first + 1))))
    await ideal(bench, requests)


async def read_long_aligned(bench: ReadBench) -> None:
    """Long rows that need no alignment stream at a beat a cycle, from one to the next."""
    word = PLAN["lanes"] * PLAN["element_bytes"]
    await ideal(bench, [(4096 * k, word * (k + 1)) for k in range(3)] + [(64, 4096), (8192, 5000)])


async def read_long_unaligned(bench: ReadBench) -> None:
    """Rows anywhere cost at most one cycle each."""
    await ideal(bench, [bench.random_request(2000) for _ in range(12)])


async def ideal(bench: ReadBench, requests: list[Request]) -> None:
    bench.stall({}, latency=1)
    bench.expect(requests)
    beats = len(bench.expected_beats)
    await bench.finish(beats * 8 + 200)
    # A burst counts as in flight for its beats, the memory's latency and one cycle more.
    if PLAN["outstanding"] >= 3:
        taken = bench.beat_cycles[-1] - bench.beat_cycles[0] + 1
        spills = sum(bench.spills[:-1])
        assert taken == beats + spills, f"{beats} beats, {spills} spills took {taken} cycles"
        # Through the splitter, the address register, the memory and the beat register.
        assert bench.beat_cycles[0] - bench.asked[0] == 4


async def read_random(bench: ReadBench) -> None:
    """Anything, anywhere, with stalls on every port."""
    for round_, idle in enumerate(STALLS):
        longest = (40, 300, 4000)[round_ % 3]
        bench.stall(idle, latency=int(bench.rng.choice([1, 2, 7, 30])))
        bench.expect(bench.random_requests(8, longest))
        await bench.finish(60 * len(bench.expected_beats) + 4000)
        bench.forget()


async def read_errors(bench: ReadBench) -> None:
    """An error on any beat is reported once, not later than the beat."""
    for round_ in range(4):
        bench.stall(STALLS[round_ + 2], latency=1 + round_)
        requests = bench.random_requests(6, 600)
        size = bench.beat_bytes
        addresses = [a - a % size + size * k for a, n in requests for k in range(-(-n // size))]
        chosen = bench.rng.choice(addresses, max(1, len(addresses) // 10))
        bench.memory.errors = {int(address) for address in chosen}
        bench.expect(requests)
        await bench.finish(60 * len(bench.expected_beats) + 1000)
        bench.forget()
    bench.memory.errors = ()


async def read_stop(bench: ReadBench) -> None:
    """A stop at any time ends in quiet; the next request is served."""
    for round_ in range(14):
        bench.stall(STALLS[round_ % len(STALLS)], latency=int(bench.rng.choice([1, 4, 20])))
        bench.pending += bench.random_requests(10, 1000)
        await bench.cycles(int(bench.rng.integers(1, 80)))
        bench.dut.stop.value = 1
        bench.pending.clear()
        await bench.cycles(1)
        issued, waiting = len(bench.monitor.reads), bench.dut.mem_arvalid.value == 1
        for _ in range(4000):
            await RisingEdge(bench.dut.clk)
            if bench.dut.read_busy.value == 0 and bench.dut.read_valid.value == 0:
                break
        else:
            raise AssertionError("still busy")
        assert bench.monitor.quiet, "not busy, but something is in flight"
        assert len(bench.monitor.reads) <= issued + waiting, "a burst after the stop"
        await bench.reset(1)
        bench.dut.stop.value = 0
        bench.expect(bench.random_requests(2, 200))
        await bench.finish(4000)
        bench.forget()


async def read_reset(bench: ReadBench) -> None:
    """A reset at any time forgets everything."""
    for round_ in range(10):
        bench.stall(STALLS[round_ % len(STALLS)], latency=int(bench.rng.choice([1, 4, 20])))
        bench.pending += bench.random_requests(10, 1000)
        await bench.cycles(int(bench.rng.integers(1, 80)))
        await bench.reset(int(bench.rng.integers(1, 3)))
        bench.expect(bench.random_requests(2, 200))
        await bench.finish(4000)
        bench.forget()


async def read_ram(bench: ReadBench) -> None:
    """A memory that somebody else has written understands the bursts, too."""
    bench.memory.task.cancel()
    logging.getLogger(f"cocotb.{bench.dut._name}.mem").setLevel(logging.ERROR)
    ram = AxiRamRead(
        AxiReadBus.from_prefix(bench.dut, "mem"), bench.dut.clk, bench.dut.rst, size=MEMORY_BYTES
    )
    ram.write(0, bytes(bench.image))
    await bench.reset()
    for chance in (0.0, 0.4):
        for channel in (ram.ar_channel, ram.r_channel):
            pauses = (bench.rng.random(997) < chance).tolist()
            channel.set_pause_generator(itertools.cycle(pauses))
        bench.stall({"take": chance})
        bench.expect(bench.random_requests(10, 1500))
        await bench.finish(40 * len(bench.expected_beats) + 1000)
        bench.forget()


CASES: dict[str, Callable[[ReadBench], Awaitable[None]]] = {
    case.__name__: case
    for case in (
        read_single_beats,
        read_long_aligned,
        read_long_unaligned,
        read_random,
        read_errors,
        read_stop,
        read_reset,
        read_ram,
    )
}


@cocotb.test()
@cocotb.parametrize(name=PLAN["cases"])
async def engines(dut: Any, name: str) -> None:
    bench = ReadBench(dut, zlib.crc32(name.encode()))
    await bench.reset()
    await CASES[name](bench)
