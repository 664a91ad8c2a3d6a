# SPDX-License-Identifier: Apache-2.0
"""Requests that write, and what comes of them; run by `sim_tests.rtl.cocotb_axi`."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiRamWrite, AxiWriteBus

from hwgen.core.bus import PAGE
from sim_tests.rtl.axi_bench import MEMORY_BYTES, PLAN, Bench


class WriteBench(Bench):
    """The scatterer and writer, with rows to write and the memory as it must become."""

    PORT = "write"
    STALLS = (
        {}, {"w": 0.5}, {"aw": 0.8}, {"take": 0.6}, {"ask": 0.8}, {"b": 0.8}, {"row": 0.7},
        {"ask": 0.2, "aw": 0.3, "w": 0.3, "b": 0.3, "take": 0.2, "row": 0.2},
    )  # fmt: skip

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

    def ask(self, count: int, longest: int) -> int:
        """Queue rows whose bytes do not overlap, for their order does not matter to a memory."""
        beats = 0
        for _ in range(count):
            size = int(self.rng.integers(self.sizes))
            address, length = self.random_request(longest)
            beats += self.write(address, max(1, length >> size), size)
        return 100 * beats + 4000

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


async def single_beats(bench: WriteBench) -> None:
    """Check that requests of one beat stream at a beat a cycle."""
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


async def long_rows(bench: WriteBench) -> None:
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


async def errors(bench: WriteBench) -> None:
    """Check that an error of each burst is reported once."""
    for round_ in range(3):
        bench.stall(bench.STALLS[round_ + 4], latency=1 + round_)
        bench.forget()
        limit = bench.ask(6, 600)
        bench.fail_at(bench.pending)
        before = len(bench.monitor.responses)
        await bench.finish(limit)
        answers = [response for response, _ in bench.monitor.responses[before:]]
        assert bench.errors == sum(response >= 2 for response in answers) > 0
        assert bench.memory.failed


async def ram(bench: WriteBench) -> None:
    """Check that a memory that somebody else has written understands the bursts, too."""
    memory = await bench.answered_by(AxiRamWrite, AxiWriteBus)
    for chance in (0.0, 0.4):
        bench.pause((memory.aw_channel, memory.w_channel, memory.b_channel), chance)
        bench.stall({"take": chance, "row": chance})
        limit = bench.ask(8, 1500)
        bench.image[:] = bench.expected  # compared below, in the other memory
        await bench.finish(limit)
        assert memory.read(0, MEMORY_BYTES) == bytes(bench.expected)
        bench.forget()


WRITE_CASES = (single_beats, long_rows, errors, ram)
