# SPDX-License-Identifier: Apache-2.0
"""The cocotb side of `sim_tests.test_control`: a host and consumers around `Control`."""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import Event, RisingEdge, SimTimeoutError, with_timeout
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from hwgen.families.gemm_stream import GemmStreamConfig
from hwgen.registers import COUNTER_BITS, COUNTERS, STATES, Register, register_map
from rtl_templates.gemm_stream.flow import CONSUMERS, EVENTS
from rtl_templates.gemm_stream.job import job_layout
from sim_tests.testbench import PERIOD_NS

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
CONFIG = GemmStreamConfig.model_validate(PLAN["config"])
QUEUE = CONFIG.queue
MAP = {register.name: register for register in register_map(CONFIG)}
BY_OFFSET = {register.offset: register for register in MAP.values()}
WINDOW = [register for register in MAP.values() if register.access == "rw"]
LAYOUT = job_layout(CONFIG)
ADDRESSES = 1 << CONFIG.buses[0].address_width
FIRST, LAST = CONSUMERS[0], CONSUMERS[-1]
OKAY, SLVERR = 0, 2
STALLS = (0.0, 0.3, 0.8)
LIMIT = 60_000
"""Cycles of a case."""


def contents(register: Register, value: int) -> int:
    """Return what a register holds after `value` was written to all of it."""
    return value & ((1 << register.bits) - 1)


def merged(old: int, value: int, strobe: int) -> int:
    """Return `old` with the bytes of `value` whose strobes are set."""
    mask = sum(0xFF << (8 * i) for i in range(4) if strobe >> i & 1)
    return old & ~mask | value & mask


def descriptor(window: dict[str, int]) -> int:
    """Return the descriptor that a job window makes, from the names of layout and registers."""
    flags = {
        field.name: (register.name, field)
        for register in WINDOW
        if register.name == "JOB_FLAGS"
        for field in register.fields
    }
    post = sum(
        window[name] << (32 * index)
        for index, name in enumerate(name for name in window if name.startswith("POST_"))
    )
    packed, offset = 0, 0
    for name, field in LAYOUT:
        stem = name.upper()
        if name == "post":
            value = post
        elif name in flags:
            register, bits = flags[name]
            value = window[register] >> bits.offset
        elif stem in window:
            value = window[stem]
        else:
            value = window[f"{stem}_LOW"] | window[f"{stem}_HIGH"] << 32
        packed |= (value & ((1 << field.width) - 1)) << offset
        offset += field.width
    return packed


class Port:
    """The host's side of the AXI4-Lite port, signal by signal: any order, any strobes.

    What the port answers must stay until it is taken.
    """

    def __init__(self, dut: Any, rng: np.random.Generator) -> None:
        self.dut, self.rng = dut, rng
        self.idle = dict.fromkeys(("aw", "w", "b", "ar", "r"), 0.0)
        self._items: dict[str, list[tuple[Event, dict[str, int]]]] = {"aw": [], "w": [], "ar": []}
        self._answers: dict[str, list[tuple[int, int]]] = {"b": [], "r": []}
        for channel in ("aw", "w", "ar"):
            getattr(dut, f"{channel}valid").value = 0
            cocotb.start_soon(self._send(channel))
        for channel in ("b", "r"):
            getattr(dut, f"{channel}ready").value = 0
            cocotb.start_soon(self._take(channel))

    def _stalls(self, channel: str) -> bool:
        return bool(self.rng.random() < self.idle[channel])

    async def _send(self, channel: str) -> None:
        valid, ready = getattr(self.dut, f"{channel}valid"), getattr(self.dut, f"{channel}ready")
        items, sending = self._items[channel], False
        while True:
            await RisingEdge(self.dut.clk)
            if sending and ready.value == 1:
                items.pop(0)[0].set()
                sending = False
            if not sending and items and not self._stalls(channel):
                for name, value in items[0][1].items():
                    getattr(self.dut, name).value = value
                sending = True
            valid.value = int(sending)

    async def _take(self, channel: str) -> None:
        valid, ready = getattr(self.dut, f"{channel}valid"), getattr(self.dut, f"{channel}ready")
        fields = [self.dut.bresp] if channel == "b" else [self.dut.rresp, self.dut.rdata]
        held: list[int] | None = None
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.rst.value == 1:
                held = None
                continue
            now = [int(field.value) for field in fields] if valid.value == 1 else None
            assert held is None or now == held, f"{channel}: an answer changed before it was taken"
            held = now
            if now is not None and ready.value == 1:
                self._answers[channel].append((now[0], now[-1]))
                held = None
            ready.value = int(not self._stalls(channel))

    def _put(self, channel: str, **values: int) -> None:
        self._items[channel].append((Event(), values))

    async def _answer(self, channel: str) -> tuple[int, int]:
        while not self._answers[channel]:
            await RisingEdge(self.dut.clk)
        return self._answers[channel].pop(0)

    async def write(self, offset: int, value: int, strobe: int = 15) -> int:
        """Write and return the response; address and data come in any order."""
        lead = int(self.rng.integers(-4, 5)) if self.rng.random() < 0.5 else 0
        address = {"awaddr": offset, "awprot": int(self.rng.integers(8))}
        data = {"wdata": value, "wstrb": strobe}
        first, then = (
            (("aw", address), ("w", data)) if lead >= 0 else (("w", data), ("aw", address))
        )
        self._put(first[0], **first[1])
        for _ in range(abs(lead)):
            await RisingEdge(self.dut.clk)
            assert self.dut.bvalid.value == 0, "an answer before address and data have come"
        self._put(then[0], **then[1])
        return (await self._answer("b"))[0]

    async def read(self, offset: int) -> tuple[int, int]:
        """Read and return response and data."""
        self._put("ar", araddr=offset, arprot=int(self.rng.integers(8)))
        return await self._answer("r")


class Master:
    """The same host with cocotbext-axi's master."""

    def __init__(self, dut: Any, rng: np.random.Generator) -> None:
        logging.getLogger(f"cocotb.{dut._name}").setLevel(logging.ERROR)
        self.axi = AxiLiteMaster(AxiLiteBus.from_entity(dut), dut.clk, dut.rst)
        write, read = self.axi.write_if, self.axi.read_if
        self._channels = {
            "aw": write.aw_channel, "w": write.w_channel, "b": write.b_channel,
            "ar": read.ar_channel, "r": read.r_channel,
        }  # fmt: skip
        self._rng = rng

    def stall(self, chances: dict[str, float]) -> None:
        for name, channel in self._channels.items():
            pauses = (self._rng.random(997) < chances[name]).tolist()
            channel.set_pause_generator(_forever(pauses))

    async def write(self, offset: int, value: int) -> int:
        return int((await self.axi.write(offset, value.to_bytes(4, "little"))).resp)

    async def read(self, offset: int) -> tuple[int, int]:
        answer = await self.axi.read(offset, 4)
        return int(answer.resp), int.from_bytes(answer.data, "little")


def _forever(pauses: list[bool]) -> Any:
    while True:
        yield from pauses


class Consumers:
    """Take jobs in order, each consumer a job that the one before it is done with.

    Every cycle, what the control says about jobs is compared with what it must be.
    """

    def __init__(self, dut: Any, rng: np.random.Generator) -> None:
        self.dut, self.rng = dut, rng
        self.pace, self.flushes, self.stops = 0.5, 0, 0
        self.events = 0.0
        self.held: set[str] = set()  # consumers that are not done with anything
        self.strike = ""  # an error to come together with the end of a job
        self.forget()
        for name in (*EVENTS, "read_error", "write_error", "busy"):
            getattr(dut, name).value = 0
        for name in CONSUMERS:
            getattr(dut, f"{name}_done").value = 0
        cocotb.start_soon(self._run())

    def forget(self) -> None:
        """Forget all jobs, as after a reset."""
        self.expected: list[int] = []  # descriptors
        self.at = dict.fromkeys(CONSUMERS, 0)
        self.states: list[str] = []
        self.tally = dict.fromkeys(COUNTERS, 0)
        self._pulsed: set[str] = set()
        self._was_stopped = False

    @property
    def unfinished(self) -> int:
        return len(self.expected) - self.at[LAST]

    async def _run(self) -> None:
        dut = self.dut
        while True:
            await RisingEdge(dut.clk)
            if dut.rst.value == 1:
                self._pulsed, self._was_stopped = set(), False
                for name in CONSUMERS:
                    getattr(dut, f"{name}_done").value = 0
                continue
            stopped = dut.stop.value == 1
            self._account(stopped)
            if dut.flush.value == 1:
                self.flushes += 1
                assert stopped, "flush without stop"
                assert dut.busy.value == 0, "flush while something is in flight"
            self.stops += stopped and not self._was_stopped
            self._was_stopped = stopped
            for event, name in zip(EVENTS, list(COUNTERS)[1:], strict=True):
                self.tally[name] += int(getattr(dut, event).value)
                getattr(dut, event).value = int(self.rng.random() < self.events)
            self.tally["BUSY"] += int(getattr(dut, f"{LAST}_valid").value)
            self._look()
            self._next(stopped)

    def _account(self, stopped: bool) -> None:
        """Move on those that were done a cycle ago, unless the control was stopping then."""
        for name in self._pulsed:
            # What ends the jobs comes a cycle before `stop` and wins against the end of a job.
            if not self._was_stopped and not (name == LAST and stopped):
                if name == LAST:
                    self.states[self.at[LAST]] = "done"
                self.at[name] += 1
        self._pulsed = {n for n in CONSUMERS if getattr(self.dut, f"{n}_done").value == 1}

    def ended(self, code: str) -> None:
        """Note that all unfinished jobs have ended."""
        for number in range(self.at[LAST], len(self.expected)):
            self.states[number] = code
        self.at = dict.fromkeys(CONSUMERS, len(self.expected))

    def _look(self) -> None:
        for name in CONSUMERS:
            if getattr(self.dut, f"{name}_valid").value == 1:
                number = self.at[name]
                if self._ending:
                    continue
                assert number < len(self.expected), f"{name}: a job that nobody submitted"
                job = int(getattr(self.dut, f"{name}_job").value)
                assert job == self.expected[number], f"{name}: job {number} is another one"
        if not self._ending:
            alone = self.at[FIRST] == self.at[LAST]
            assert int(self.dut.alone.value) == int(alone), "alone is wrong"

    @property
    def _ending(self) -> bool:
        """Whether the pointers may be those of before or after the end of all jobs."""
        return bool(self._was_stopped) or self.ending

    ending = False

    def _next(self, stopped: bool) -> None:
        limit = len(self.expected)
        for name in CONSUMERS:
            done = getattr(self.dut, f"{name}_done")
            number = self.at[name]
            go = (
                getattr(self.dut, f"{name}_valid").value == 1
                and name not in self._pulsed
                and name not in self.held
                and number < limit
                and self.rng.random() < self.pace
            )
            # While it stops, nobody listens; the flush resets what could be done.
            noise = stopped and self.dut.flush.value == 0 and self.rng.random() < 0.3
            done.value = int((go and not stopped) or noise)
            limit = number
        if self._struck:
            getattr(self.dut, self._struck).value = 0
        if self._struck or self.strike:
            getattr(self.dut, f"{LAST}_done").value = int(bool(self.strike))
        if self.strike:
            getattr(self.dut, self.strike).value = 1
        self._struck, self.strike = self.strike, ""

    _struck = ""


class ControlBench:
    """A host of either kind, and consumers."""

    def __init__(self, dut: Any, name: str) -> None:
        self.dut, self.rng = dut, np.random.default_rng([PLAN["seed"], zlib.crc32(name.encode())])
        dut.rst.value = 1
        Clock(dut.clk, PERIOD_NS, unit="ns").start()
        self.consumers = Consumers(dut, self.rng)
        self.host: Any = None

    def master(self, chance: float | None = None) -> None:
        """Be the host through cocotbext-axi, with random or given stalls."""
        self.host = self.host or Master(self.dut, self.rng)
        channels = ("aw", "w", "b", "ar", "r")
        self.host.stall(
            {n: self.rng.choice(STALLS) if chance is None else chance for n in channels}
        )

    def port(self) -> None:
        """Be the host signal by signal."""
        self.host = Port(self.dut, self.rng)

    async def cycles(self, count: int) -> None:
        for _ in range(count):
            await RisingEdge(self.dut.clk)

    async def reset(self, cycles: int = 2) -> None:
        self.dut.rst.value = 1
        await self.cycles(cycles)
        self.dut.rst.value = 0
        self.consumers.forget()
        await self.cycles(1)

    async def read(self, name: str) -> int:
        resp, value = await self.host.read(MAP[name].offset)
        assert resp == OKAY, f"reading {name} gives {resp}"
        return int(value)

    async def write(self, name: str, value: int) -> int:
        return int(await self.host.write(MAP[name].offset, value))

    # -- jobs --------------------------------------------------------------------------------

    def random_word(self) -> int:
        return int(self.rng.integers(1 << 32))

    async def fill(self, count: int | None = None) -> None:
        """Write all of the job window, or some registers of it."""
        chosen = [register for register in WINDOW if register.name != "INTERRUPT_ENABLE"]
        if count is not None:
            chosen = [chosen[int(i)] for i in self.rng.integers(len(chosen), size=count)]
        for register in chosen:
            value = self.random_word()
            assert await self.write(register.name, value) == OKAY
            self.window[register.name] = contents(register, value)

    window: dict[str, int]

    async def submit(self) -> int:
        """Submit a job; return the response."""
        self.consumers.expected.append(descriptor(self.window))
        self.consumers.states.append("unfinished")
        resp = await self.write("SUBMIT", self.random_word())
        if resp != OKAY:
            self.consumers.expected.pop()
            self.consumers.states.pop()
        return resp

    async def drained(self) -> None:
        """Wait until no job is unfinished."""
        for _ in range(LIMIT):
            if not self.consumers.unfinished and self.dut.stop.value == 0:
                await self.cycles(3)
                return
            await RisingEdge(self.dut.clk)
        raise AssertionError("jobs do not end")

    async def check_states(self) -> None:
        """Compare counts and states with what has happened; nothing may be going on."""
        consumers = self.consumers
        jobs = len(consumers.states)
        assert await self.read("SUBMITTED") == jobs
        assert await self.read("FINISHED") == jobs
        assert await self.read("STATUS") == QUEUE << 8
        for slot in range(QUEUE):
            numbers = range(slot, jobs, QUEUE)
            wanted = consumers.states[numbers[-1]] if numbers else "none"
            found = STATES[await self.read(f"JOB_STATUS_{slot}")]
            assert found == wanted, f"slot {slot} of {jobs} jobs: {found}, not {wanted}"

    async def begin(self) -> None:
        await self.reset()
        self.window = {r.name: 0 for r in WINDOW if r.name != "INTERRUPT_ENABLE"}


# -- registers ------------------------------------------------------------------------------------


async def access(bench: ControlBench) -> None:
    """Every word of the address space, read and written with all strobes, some and none."""
    bench.port()
    await bench.begin()
    held = {name: 0 for name, register in MAP.items() if register.access == "rw"}
    readable = {}
    for name, register in MAP.items():
        resp, value = await bench.host.read(register.offset)
        assert resp == OKAY, name
        readable[name] = value
        if register.access in ("rw", "wo", "w1c"):
            assert value == 0, f"{name} is {value:#x} after reset"
    offsets = [*BY_OFFSET, *bench.rng.permutation(np.arange(0, ADDRESSES, 4))[:200].tolist()]
    offsets += [0, ADDRESSES - 4, max(BY_OFFSET) + 4]
    commands = {MAP["SUBMIT"].offset, MAP["ABORT"].offset}
    for round_ in range(3):
        for channel in bench.host.idle:
            bench.host.idle[channel] = float(bench.rng.choice(STALLS))
        for index in bench.rng.permutation(len(offsets)):
            offset = int(offsets[index])
            if offset in commands:
                continue
            found = BY_OFFSET.get(offset)
            low = int(bench.rng.integers(4)) if round_ else 0  # of a byte within the word
            value, strobe = bench.random_word(), int(bench.rng.integers(16)) if round_ else 15
            resp = await bench.host.write(offset + low, value, strobe)
            legal = found is not None and found.access != "ro"
            assert resp == (OKAY if legal else SLVERR), f"writing {offset:#x} gives {resp}"
            if found is not None and found.access == "rw":
                held[found.name] = contents(found, merged(held[found.name], value, strobe))
            resp, value = await bench.host.read(offset + low)
            if found is None:
                assert (resp, value) == (SLVERR, 0), f"reading {offset:#x} gives {resp}"
            else:
                wanted = held.get(found.name, readable[found.name])
                assert (resp, value) == (OKAY, wanted), f"{found.name}: {value:#x}, not {wanted:#x}"
    for name, value in held.items():
        assert await bench.read(name) == value, f"{name} was changed by another access"
    assert await bench.read("SUBMITTED") == 0
    assert bench.consumers.stops == 0


async def overlapped(bench: ControlBench) -> None:
    """Reads and writes under way at once do not disturb each other."""
    bench.port()
    await bench.begin()
    for channel in bench.host.idle:
        bench.host.idle[channel] = 0.4
    names = [register.name for register in WINDOW if register.bits == 32]
    left, right = names[: len(names) // 2], names[len(names) // 2 :]
    for name in right:
        await bench.write(name, len(name))

    async def reads() -> None:
        for index in range(120):
            name = right[index % len(right)]
            assert await bench.read(name) == len(name)

    reader = cocotb.start_soon(reads())
    written = {}
    for index in range(120):
        name = left[index % len(left)]
        written[name] = bench.random_word()
        assert await bench.write(name, written[name]) == OKAY
    await reader
    for name, value in written.items():
        assert await bench.read(name) == value


# -- jobs -----------------------------------------------------------------------------------------


async def jobs(bench: ControlBench) -> None:
    """Jobs go through the consumers in order, whatever the pace; a full queue refuses."""
    await bench.begin()
    bench.master()
    await bench.fill()
    refused = 0
    for pace in (0.9, 0.02, 0.2):
        bench.consumers.pace = pace
        bench.master(0.0 if pace < 0.1 else None)
        for _ in range(3 * QUEUE):
            await bench.fill(3)
            while await bench.submit() != OKAY:
                refused += 1
                await bench.cycles(int(bench.rng.integers(1, 30)))
            status = await bench.read("STATUS")
            assert status >> 8 <= QUEUE
        await bench.drained()
        await bench.check_states()
    assert refused, "the queue was never full"


async def full(bench: ControlBench) -> None:
    """A queue takes exactly as many jobs as it says, and a refused one leaves no trace."""
    await bench.begin()
    bench.master(0.0)
    bench.consumers.pace = 0
    for count in range(QUEUE):
        assert await bench.read("STATUS") == (QUEUE - count) << 8 | bool(count)
        await bench.fill(4)
        assert await bench.submit() == OKAY
    for _ in range(3):
        await bench.fill(2)
        assert await bench.submit() == SLVERR
    assert await bench.read("SUBMITTED") == QUEUE
    assert await bench.read("QUEUE") == QUEUE
    assert {await bench.read(f"JOB_STATUS_{i}") for i in range(QUEUE)} == {1}
    bench.consumers.pace = 0.5
    await bench.drained()
    await bench.check_states()


async def interrupts(bench: ControlBench) -> None:
    """Pending bits, their enables and how they are cleared; a level on the line."""
    await bench.begin()
    bench.master(0.0)
    dut = bench.dut

    async def line(level: int) -> None:
        await bench.cycles(2)
        assert int(dut.interrupt.value) == level

    for enable in (0, 1, 2, 3):
        assert await bench.write("INTERRUPT_ENABLE", enable) == OKAY
        assert await bench.submit() == OKAY
        await bench.drained()
        assert await bench.read("INTERRUPT") == 1
        await line(enable & 1)
        assert await bench.write("INTERRUPT", 2) == OKAY
        await line(enable & 1)
        assert await bench.write("INTERRUPT", 1) == OKAY
        await line(0)
        bench.consumers.pace = 0
        assert await bench.submit() == OKAY
        await trouble(bench, "abort")
        bench.consumers.pace = 0.5
        assert await bench.read("INTERRUPT") == 2
        await line(enable >> 1)
        await bench.write("INTERRUPT_ENABLE", 0)
        await line(0)
        await bench.write("INTERRUPT_ENABLE", enable)
        await line(enable >> 1)
        assert await bench.write("INTERRUPT", 3) == OKAY
        await line(0)
        assert await bench.read("INTERRUPT") == 0
    # Nothing was unfinished: nobody is told.
    await trouble(bench, "abort")
    assert await bench.read("INTERRUPT") == 0
    await bench.check_states()


async def counters(bench: ControlBench) -> None:
    """Counters count their events; a pair of words is one number while they run."""
    await bench.begin()
    bench.master(0.0)
    start = PLAN["counters_from"]
    bench.consumers.events = 0.7
    for _ in range(QUEUE):
        assert await bench.submit() == OKAY
    for name in COUNTERS:
        before = start + bench.consumers.tally[name]
        low = await bench.read(f"{name}_LOW")
        after = start + bench.consumers.tally[name]
        await bench.cycles(60)
        value = low | await bench.read(f"{name}_HIGH") << 32
        assert before <= value <= after, f"{name}: {value}, not {before}..{after}"
    await bench.drained()
    bench.consumers.events = 0
    await bench.cycles(3)
    for name, tally in bench.consumers.tally.items():
        value = await bench.read(f"{name}_LOW") | await bench.read(f"{name}_HIGH") << 32
        assert value == (start + tally) % (1 << COUNTER_BITS), f"{name}: {value}, tally {tally}"
        assert tally, f"{name}: nothing happened"


# -- ends -----------------------------------------------------------------------------------------


async def trouble(
    bench: ControlBench, cause: str, in_flight: int = 0, *, together: bool = False
) -> None:
    """Let an error happen, or abort; check how the control stops and how all jobs end.

    Parameters
    ----------
    bench : ControlBench
    cause : {"read_error", "write_error", "abort"}
    in_flight : int
        Cycles for which something that was issued is not answered.
    together : bool
        Whether the last consumer is done with its job in the cycle of the error.
    """
    dut, consumers = bench.dut, bench.consumers
    flushes, stops = consumers.flushes, consumers.stops
    consumers.ending = True
    dut.busy.value = int(in_flight > 0)
    if cause == "abort":
        assert await bench.write("ABORT", bench.random_word()) == OKAY
    elif together:
        consumers.strike = cause
    else:
        line = getattr(dut, cause)
        line.value = 1
        await RisingEdge(dut.clk)
        line.value = 0
    if in_flight:
        while dut.stop.value == 0:
            await RisingEdge(dut.clk)
        assert (await bench.read("STATUS")) >> 1 & 1 == 1, "it does not say that it stops"
        submitted = await bench.read("SUBMITTED")
        assert await bench.submit() == SLVERR, "a job was taken while the control stops"
        assert await bench.read("SUBMITTED") == submitted
        await bench.cycles(in_flight)
        assert dut.stop.value == 1, "it does not wait for what is in flight"
        assert consumers.flushes == flushes
        # One more error changes nothing.
        dut.write_error.value = int(bench.rng.integers(2))
        await RisingEdge(dut.clk)
        dut.write_error.value = 0
        dut.busy.value = 0
    for _ in range(100):
        await RisingEdge(dut.clk)
        if consumers.flushes > flushes and dut.stop.value == 0:
            break
    else:
        raise AssertionError("it stays stopped")
    consumers.ended({"abort": "aborted"}.get(cause, cause))
    await RisingEdge(dut.clk)
    consumers.ending = False
    assert (consumers.flushes, consumers.stops) == (flushes + 1, stops + 1)
    for name in CONSUMERS:
        assert getattr(dut, f"{name}_valid").value == 0, f"{name} still has a job"


async def ends(bench: ControlBench) -> None:
    """Errors and aborts with jobs in every state; the next jobs run."""
    await bench.begin()
    bench.master(0.0)
    await bench.fill()
    for round_ in range(30):
        bench.consumers.pace = float(bench.rng.choice([0.02, 0.2, 0.6]))
        for _ in range(int(bench.rng.integers(QUEUE + 1))):
            if round_ % 3 == 0:
                await bench.fill(1)
            assert await bench.submit() == OKAY
        await bench.cycles(int(bench.rng.integers(1, 60)))
        cause = ("abort", "read_error", "write_error")[round_ % 3]
        await trouble(bench, cause, in_flight=int(bench.rng.choice([0, 0, 5, 40])))
        await bench.check_states()
        assert await bench.submit() == OKAY
        bench.consumers.pace = 0.5
        await bench.drained()
        await bench.check_states()


async def at_once(bench: ControlBench) -> None:
    """The last consumer is done in the very cycle of an error: the job has one end."""
    await bench.begin()
    bench.master(0.0)
    for cause in ("read_error", "write_error"):
        for count in (1, QUEUE):
            consumers = bench.consumers
            consumers.pace, consumers.held = 1.0, {LAST}
            for _ in range(count):
                assert await bench.submit() == OKAY
            await bench.cycles(4 * len(CONSUMERS))
            await trouble(bench, cause, together=True)
            consumers.held = set()
            await bench.check_states()
            assert await bench.submit() == OKAY
            await bench.drained()
            await bench.check_states()


async def resets(bench: ControlBench) -> None:
    """A reset at any time forgets everything."""
    bench.port()
    await bench.begin()
    for round_ in range(8):
        for channel in bench.host.idle:
            bench.host.idle[channel] = float(bench.rng.choice(STALLS))
        bench.consumers.pace = 0.05
        for _ in range(int(bench.rng.integers(1, QUEUE + 1))):
            await bench.fill(3)
            assert await bench.submit() == OKAY
        bench.consumers.events = 0.5
        if round_ % 2:
            bench.dut.busy.value, bench.dut.read_error.value = 1, 1
            await RisingEdge(bench.dut.clk)
            bench.consumers.ending = True
            bench.dut.read_error.value = 0
        await bench.cycles(int(bench.rng.integers(1, 40)))
        bench.consumers.events = 0
        bench.dut.busy.value = 0
        await bench.cycles(2 - round_ % 2)
        await bench.begin()
        bench.consumers.ending = False
        for name, register in MAP.items():
            if register.access in ("rw", "w1c") or name in ("SUBMITTED", "FINISHED"):
                assert await bench.read(name) == 0, f"{name} outlives a reset"
        await bench.check_states()
        bench.consumers.pace = 0.5
        assert await bench.submit() == OKAY
        await bench.drained()
        await bench.check_states()


CASES: dict[str, Callable[[ControlBench], Awaitable[None]]] = {
    case.__name__: case
    for case in (access, overlapped, jobs, full, interrupts, counters, ends, at_once, resets)
}


@cocotb.test()
@cocotb.parametrize(name=PLAN["cases"])
async def control(dut: Any, name: str) -> None:
    bench = ControlBench(dut, name)
    try:
        await with_timeout(CASES[name](bench), LIMIT * PERIOD_NS, "ns")
    except SimTimeoutError:
        raise AssertionError(f"not ended after {LIMIT} cycles") from None
