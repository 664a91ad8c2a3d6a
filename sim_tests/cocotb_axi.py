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
from cocotb.triggers import ReadOnly, RisingEdge
from cocotbext.axi import AxiRamRead, AxiRamWrite, AxiReadBus, AxiWriteBus

from flows.simulation.axi_memory import AxiMemory
from flows.simulation.axi_monitor import AxiMonitor
from hwgen.buses import PAGE

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
PERIOD_NS = 2
MEMORY_BYTES = 1 << 16
# Chances of an idle cycle: of requests, rows, beats between the engines, and the bus' channels.
STALLS: tuple[dict[str, float], ...] = ({}, {"r": 0.5}, {"ar": 0.7}, {"take": 0.6}, {"ask": 0.6},
          {"ask": 0.2, "ar": 0.3, "r": 0.3, "take": 0.3})  # fmt: skip
WRITE_STALLS: tuple[dict[str, float], ...] = (
    {}, {"w": 0.5}, {"aw": 0.8}, {"take": 0.6}, {"ask": 0.8}, {"b": 0.8}, {"row": 0.7},
    {"ask": 0.2, "aw": 0.3, "w": 0.3, "b": 0.3, "take": 0.2, "row": 0.2},
)  # fmt: skip

Request = tuple[int, int]
"""Address and bytes."""


class Bench:
    """The probe with a memory and a monitor on its bus; requests go in at the port `PORT`."""

    PORT = ""

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
        port = {name: getattr(dut, f"{self.PORT}_{name}")
                for name in ("address", "bytes", "valid", "ready")}  # fmt: skip
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


class ReadBench(Bench):
    """The reader and gatherer, with a scoreboard."""

    PORT = "read"

    def forget(self) -> None:
        super().forget()
        self.beats: list[tuple[int, int, int, int]] = []
        self.beat_cycles: list[int] = []
        self.words: list[tuple[int, int]] = []
        self.expected_bad: list[bool] = []
        self.error_in_time: list[bool] = []

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
    for round_ in range(12):
        bench.stall(STALLS[round_ % len(STALLS)], latency=int(bench.rng.choice([1, 4, 20])))
        bench.pending += bench.random_requests(10, 1000)
        await bench.stop_anywhere()
        await bench.resume()
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
    bench.memory_answers = False
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


# -- writing --------------------------------------------------------------------------------------


class WriteBench(Bench):
    """The scatterer and writer, with rows to write and the memory as it must become."""

    PORT = "write"

    def __init__(self, dut: Any, seed: int) -> None:
        super().__init__(dut, seed)
        self.lanes, self.lane_bytes = PLAN["out_lanes"], PLAN["lane_bytes"]
        self.sizes = self.lane_bytes.bit_length()
        cocotb.start_soon(self._rows())

    def forget(self) -> None:
        super().forget()
        self.words: list[tuple[int, int, int, int, int]] = []
        self.word_cycles: list[int] = []
        self.lasts: list[int] = []
        self.old_writes = len(self.monitor.writes)
        self.expected_lasts: list[int] = []
        self.expected = bytearray(self.image)

    async def _rows(self) -> None:
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        names = ("data", "count", "last", "size", "offset")
        handles = [getattr(dut, f"row_{name}") for name in names]
        valid = False
        while True:
            await edge
            if dut.rst.value == 1:
                dut.row_valid.value, valid = 0, False
                continue
            if valid and dut.row_ready.value == 1:
                self.word_cycles.append(self.monitor.cycle)
                valid = False
            if not valid and self.words and not self.stalls("row"):
                for handle, value in zip(handles, self.words.pop(0), strict=True):
                    handle.value = value
                valid = True
            dut.row_valid.value = int(valid)

    async def _watch(self) -> None:
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        while True:
            await edge
            if dut.rst.value == 1:
                continue
            self.errors += int(dut.write_error.value)
            if dut.mem_awvalid.value == 1:
                # Those announced before, and the one that is being announced.
                writes = self.monitor.writes[self.old_writes :]
                claimed = sum(beats for _, beats, cycle in writes if cycle < self.monitor.cycle)
                claimed += int(dut.mem_awlen.value) + 1
                assert claimed <= len(self.lasts), "a burst is announced before its data is there"
            if dut.data_taken.value == 1:
                self.lasts.append(int(dut.data_last.value))

    def write(self, address: int, elements: int, size: int) -> int:
        """Queue a row of elements of 2^size bytes and return its beats."""
        length = elements << size
        offset = address % self.beat_bytes
        self.pending.append((address, length))
        for start in range(0, elements, self.lanes):
            count = min(self.lanes, elements - start)
            data = self.rng.bytes(self.lanes * self.lane_bytes)  # lanes that do not count, too
            for lane in range(count):
                value = data[lane * self.lane_bytes :][: 1 << size]
                at = address + (start + lane << size)
                for index, byte in enumerate(value):
                    self.expected[(at + index) % MEMORY_BYTES] = byte
            ends = int(start + self.lanes >= elements)
            self.words.append((int.from_bytes(data, "little"), count, ends, size, offset))
        beats = -(-(offset + length) // self.beat_bytes)
        self.expected_lasts += [0] * (beats - 1) + [1]
        return beats

    def random_rows(self, count: int, longest: int) -> int:
        """Queue rows whose bytes do not overlap, for their order does not matter to a memory."""
        beats = 0
        for _ in range(count):
            size = int(self.rng.integers(self.sizes))
            address, length = self.random_request(longest)
            beats += self.write(address, max(1, length >> size), size)
        return beats

    async def finish(self, limit: int) -> None:
        """Wait until everything is written, and compare the whole memory."""
        for _ in range(limit):
            if len(self.lasts) >= len(self.expected_lasts) and not self.pending:
                break
            await RisingEdge(self.dut.clk)
        await self.until_idle(limit)
        await self.cycles(4)
        assert self.lasts == self.expected_lasts, "ends of rows"
        assert self.monitor.quiet
        wrong = np.flatnonzero(
            np.frombuffer(self.image, np.uint8) != np.frombuffer(self.expected, np.uint8)
        )
        assert not wrong.size, f"{wrong.size} bytes wrong, the first at {wrong[0]:#x}"


async def write_single_beats(bench: WriteBench) -> None:
    """Requests of one beat stream at a beat a cycle."""
    count, size = 100, bench.beat_bytes
    bench.stall({}, latency=1)
    for index in range(count):
        elements = int(bench.rng.integers(1, min(bench.lanes, size) + 1))
        bench.write(2 * index * size + int(bench.rng.integers(size - elements + 1)), elements, 0)
    await bench.finish(count * 10)
    if PLAN["outstanding"] >= 3:
        beats = bench.monitor.write_beats
        assert beats[-1] - beats[0] + 1 == count
        # The scatterer's register, the writer's memory and its claim.
        assert beats[0] - bench.word_cycles[0] == 3
        assert bench.monitor.writes[0][2] == beats[0]


async def write_long(bench: WriteBench) -> None:
    """Long rows stream at a beat a cycle, up to the gathering of one burst."""
    size = bench.sizes - 1
    whole = bench.lanes << size
    rows = [(PAGE, 6), (3 * PAGE + 1, 4), (5 * PAGE - 3, 5)]
    bench.stall({}, latency=1)
    beats = sum(
        bench.write(address, words * max(1, 600 // whole) * bench.lanes, size)
        for address, words in rows
    )
    await bench.finish(beats * 8 + 400)
    longest = min(PLAN["max_burst"], PAGE // bench.beat_bytes)
    if PLAN["outstanding"] >= 3 and whole % bench.beat_bytes == 0:
        took = bench.monitor.write_beats[-1] - bench.monitor.write_beats[0] + 1
        assert took <= beats + longest, f"{beats} beats took {took} cycles"
        total = bench.monitor.write_beats[-1] - bench.word_cycles[0] + 1
        # Nothing waits but for the last burst to be whole.
        pieces = whole // bench.beat_bytes
        assert total <= beats + longest + 4, f"{beats} beats of {pieces} a word: {total} cycles"


async def write_random(bench: WriteBench) -> None:
    """Anything, anywhere, with stalls on every port."""
    for round_, idle in enumerate(WRITE_STALLS):
        bench.stall(idle, latency=int(bench.rng.choice([1, 2, 7, 30])))
        beats = bench.random_rows(8, (40, 300, 3000)[round_ % 3])
        await bench.finish(100 * beats + 4000)
        bench.forget()


async def write_errors(bench: WriteBench) -> None:
    """An error of each burst is reported once."""
    for round_ in range(3):
        bench.stall(WRITE_STALLS[round_ + 4], latency=1 + round_)
        bench.forget()
        beats = bench.random_rows(6, 600)
        size = bench.beat_bytes
        addresses = [
            a - a % size + size * k for a, n in bench.pending for k in range(-(-n // size))
        ]
        chosen = bench.rng.choice(addresses, max(1, len(addresses) // 10))
        bench.memory.errors = {int(address) for address in chosen}
        before = len(bench.monitor.responses)
        await bench.finish(100 * beats + 1000)
        answers = [response for response, _ in bench.monitor.responses[before:]]
        assert bench.errors == sum(response >= 2 for response in answers) > 0
        assert bench.memory.failed


async def write_stop(bench: WriteBench) -> None:
    """A stop at any time ends in quiet; the next rows are written."""
    for round_ in range(12):
        bench.stall(WRITE_STALLS[round_ % 8], latency=int(bench.rng.choice([1, 4, 20])))
        bench.random_rows(10, 1000)
        await bench.stop_anywhere()
        bench.words.clear()
        await bench.resume()
        beats = bench.random_rows(2, 200)
        await bench.finish(100 * beats + 1000)
        bench.forget()


async def write_reset(bench: WriteBench) -> None:
    """A reset at any time forgets everything."""
    for round_ in range(10):
        bench.stall(WRITE_STALLS[round_ % 8], latency=int(bench.rng.choice([1, 4, 20])))
        bench.random_rows(10, 1000)
        await bench.cycles(int(bench.rng.integers(1, 80)))
        await bench.reset(int(bench.rng.integers(1, 3)))
        beats = bench.random_rows(2, 200)
        await bench.finish(100 * beats + 1000)
        bench.forget()


async def write_ram(bench: WriteBench) -> None:
    """A memory that somebody else has written understands the bursts, too."""
    bench.memory_answers = False
    logging.getLogger(f"cocotb.{bench.dut._name}.mem").setLevel(logging.ERROR)
    ram = AxiRamWrite(
        AxiWriteBus.from_prefix(bench.dut, "mem"), bench.dut.clk, bench.dut.rst, size=MEMORY_BYTES
    )
    ram.write(0, bytes(bench.image))
    await bench.reset()
    for chance in (0.0, 0.4):
        for channel in (ram.aw_channel, ram.w_channel, ram.b_channel):
            pauses = (bench.rng.random(997) < chance).tolist()
            channel.set_pause_generator(itertools.cycle(pauses))
        bench.stall({"take": chance, "row": chance})
        beats = bench.random_rows(8, 1500)
        bench.image[:] = bench.expected  # compared below, in the other memory
        await bench.finish(100 * beats + 1000)
        assert ram.read(0, MEMORY_BYTES) == bytes(bench.expected)
        bench.forget()


READ_CASES = (
    read_single_beats,
    read_long_aligned,
    read_long_unaligned,
    read_random,
    read_errors,
    read_stop,
    read_reset,
    read_ram,
)
WRITE_CASES = (
    write_single_beats,
    write_long,
    write_random,
    write_errors,
    write_stop,
    write_reset,
    write_ram,
)
CASES: dict[str, tuple[type[Bench], Callable[[Any], Awaitable[None]]]] = {
    **{case.__name__: (ReadBench, case) for case in READ_CASES},
    **{case.__name__: (WriteBench, case) for case in WRITE_CASES},
}


@cocotb.test()
@cocotb.parametrize(name=PLAN["cases"])
async def engines(dut: Any, name: str) -> None:
    kind, case = CASES[name]
    bench = kind(dut, zlib.crc32(name.encode()))
    await bench.reset()
    await case(bench)
