# SPDX-License-Identifier: Apache-2.0
"""Requests that read, and what comes of them; run by `sim_tests.rtl.cocotb_axi`."""

from __future__ import annotations

from collections.abc import Sequence

from cocotb.triggers import RisingEdge
from cocotbext.axi import AxiRamRead, AxiReadBus

from sim_tests.rtl.axi_bench import MEMORY_BYTES, PLAN, Bench, Request


class ReadBench(Bench):
    """The reader and gatherer, with a scoreboard."""

    PORT = "read"
    STALLS = ({}, {"r": 0.5}, {"ar": 0.7}, {"take": 0.6}, {"ask": 0.6},
              {"ask": 0.2, "ar": 0.3, "r": 0.3, "take": 0.3})  # fmt: skip

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
        """Return the number of leading beats that the memory answered with an error."""
        return sum(self.expected_bad[:count])

    # -- what must come --------------------------------------------------------------------------

    def ask(self, count: int, longest: int) -> int:
        self.expect(self.random_requests(count, longest))
        return 60 * len(self.expected_beats) + 4000

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
        for _ in range(limit):
            if len(self.beats) >= len(self.expected_beats):
                break
            await RisingEdge(self.dut.clk)
        await self.cycles(8)
        for what, result, expected in (
            ("beat", self.beats, self.expected_beats),
            ("word", self.words, self.expected_words),
        ):
            for index, (one, other) in enumerate(zip(result, expected, strict=False)):
                assert one == other, (
                    f"{what} {index}: {[hex(x) for x in one]}, not {[hex(x) for x in other]}"
                )
            assert len(result) == len(expected), f"{len(result)} {what}s, not {len(expected)}"
        assert self.monitor.quiet
        assert self.dut.read_busy.value == 0
        assert self.errors == sum(self.expected_bad)
        assert all(self.error_in_time), "an error after the beat that it belongs to"


# -- reading --------------------------------------------------------------------------------------


async def single_beats(bench: ReadBench) -> None:
    """Check that requests of one beat stream at a beat a cycle."""
    size, count = bench.beat_bytes, 100
    requests = []
    for index in range(count):
        first = int(bench.rng.integers(size))
        requests.append((3 * index * size + first, int(bench.rng.integers(1, size - first + 1))))
    await ideal(bench, requests)


async def long_aligned(bench: ReadBench) -> None:
    """Long rows that need no alignment stream at a beat a cycle, from one to the next."""
    word = PLAN["lanes"] * PLAN["element_bytes"]
    await ideal(bench, [(4096 * k, word * (k + 1)) for k in range(3)] + [(64, 4096), (8192, 5000)])


async def long_unaligned(bench: ReadBench) -> None:
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


async def errors(bench: ReadBench) -> None:
    """Check that an error on any beat is reported once, not later than the beat."""
    for round_ in range(4):
        bench.stall(bench.STALLS[round_ + 2], latency=1 + round_)
        requests = bench.random_requests(6, 600)
        bench.fail_at(requests)
        bench.expect(requests)
        await bench.finish(60 * len(bench.expected_beats) + 1000)
        bench.forget()
    bench.memory.errors = ()


async def ram(bench: ReadBench) -> None:
    """Check that a memory that somebody else has written understands the bursts, too."""
    memory = await bench.answered_by(AxiRamRead, AxiReadBus)
    for chance in (0.0, 0.4):
        bench.pause((memory.ar_channel, memory.r_channel), chance)
        bench.stall({"take": chance})
        await bench.finish(bench.ask(10, 1500))
        bench.forget()


READ_CASES = (single_beats, long_aligned, long_unaligned, errors, ram)
