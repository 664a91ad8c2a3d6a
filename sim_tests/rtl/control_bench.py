# SPDX-License-Identifier: Apache-2.0
"""A host and consumers around `rtl_templates.axi.control.Control`, for `cocotb_control`."""

from __future__ import annotations

import json
import logging
import os
import zlib
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import Event, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from flows.simulation.bus.stream_bench import PERIOD_NS
from hwgen.core.register_map import COUNTERS, STATES, Register
from hwgen.families.gemm_stream.params import GemmStreamConfig
from rtl_templates.gemm_stream.flow import CONSUMERS, EVENTS
from rtl_templates.gemm_stream.job import job_layout

PLAN = json.loads(Path(os.environ["HWGEN_PLAN"]).read_text(encoding="utf-8"))
CONFIG = GemmStreamConfig.model_validate(PLAN["config"])
QUEUE = CONFIG.queue
MAP = {register.name: register for register in CONFIG.registers}
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
    """Return the contents of a register after `value` was written to all of it."""
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
            getattr(dut, f"bus_{channel}valid").value = 0
            cocotb.start_soon(self._send(channel))
        for channel in ("b", "r"):
            getattr(dut, f"bus_{channel}ready").value = 0
            cocotb.start_soon(self._pop_answers(channel))

    def _stalls(self, channel: str) -> bool:
        return bool(self.rng.random() < self.idle[channel])

    async def _send(self, channel: str) -> None:
        valid, ready = (
            getattr(self.dut, f"bus_{channel}valid"),
            getattr(self.dut, f"bus_{channel}ready"),
        )
        items, sending = self._items[channel], False
        while True:
            await RisingEdge(self.dut.clk)
            if sending and ready.value == 1:
                items.pop(0)[0].set()
                sending = False
            if not sending and items and not self._stalls(channel):
                for name, value in items[0][1].items():
                    getattr(self.dut, f"bus_{name}").value = value
                sending = True
            valid.value = int(sending)

    async def _pop_answers(self, channel: str) -> None:
        valid, ready = (
            getattr(self.dut, f"bus_{channel}valid"),
            getattr(self.dut, f"bus_{channel}ready"),
        )
        fields = (
            [self.dut.bus_bresp] if channel == "b" else [self.dut.bus_rresp, self.dut.bus_rdata]
        )
        previous: list[int] | None = None
        while True:
            await RisingEdge(self.dut.clk)
            if self.dut.rst.value == 1:
                previous = None
                continue
            now = [int(field.value) for field in fields] if valid.value == 1 else None
            assert previous is None or now == previous, (
                f"{channel}: an answer changed before it was taken"
            )
            previous = now
            if now is not None and ready.value == 1:
                self._answers[channel].append((now[0], now[-1]))
                previous = None
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
            assert self.dut.bus_bvalid.value == 0, "an answer before address and data have come"
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
        self.axi = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "bus"), dut.clk, dut.rst)
        write, read = self.axi.write_if, self.axi.read_if
        self._channels = {
            "aw": write.aw_channel,
            "w": write.w_channel,
            "b": write.b_channel,
            "ar": read.ar_channel,
            "r": read.r_channel,
        }
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
        self.stalled: set[str] = set()  # consumers that are not done with anything
        self.strike = ""  # an error to come together with the end of a job
        self.forget()
        for name in (*EVENTS, "read_error", "write_error", "busy"):
            getattr(dut, name).value = 0
        for name in CONSUMERS:
            getattr(dut, f"{name}_job_ready").value = 0
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
                    getattr(dut, f"{name}_job_ready").value = 0
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
            self.tally["BUSY"] += int(getattr(dut, f"{LAST}_job_valid").value)
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
        self._pulsed = {n for n in CONSUMERS if getattr(self.dut, f"{n}_job_ready").value == 1}

    def ended(self, code: str) -> None:
        """Note that all unfinished jobs have ended."""
        for number in range(self.at[LAST], len(self.expected)):
            self.states[number] = code
        self.at = dict.fromkeys(CONSUMERS, len(self.expected))

    def _look(self) -> None:
        for name in CONSUMERS:
            if getattr(self.dut, f"{name}_job_valid").value == 1:
                number = self.at[name]
                if self._ending:
                    continue
                assert number < len(self.expected), f"{name}: a job that nobody submitted"
                job = int(getattr(self.dut, f"{name}_job_data").value)
                assert job == self.expected[number], f"{name}: job {number} is another one"
        if not self._ending:
            alone = self.at[FIRST] == self.at[LAST]
            assert int(self.dut.alone.value) == int(alone), "alone is wrong"

    @property
    def _ending(self) -> bool:
        """Return whether the pointers may be those of before or after the end of all jobs."""
        return bool(self._was_stopped) or self.ending

    ending = False

    def _next(self, stopped: bool) -> None:
        limit = len(self.expected)
        for name in CONSUMERS:
            done = getattr(self.dut, f"{name}_job_ready")
            number = self.at[name]
            go = (
                getattr(self.dut, f"{name}_job_valid").value == 1
                and name not in self._pulsed
                and name not in self.stalled
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
            getattr(self.dut, f"{LAST}_job_ready").value = int(bool(self.strike))
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
            result = STATES[await self.read(f"JOB_STATUS_{slot}")]
            assert result == wanted, f"slot {slot} of {jobs} jobs: {result}, not {wanted}"

    async def begin(self) -> None:
        await self.reset()
        self.window = {r.name: 0 for r in WINDOW if r.name != "INTERRUPT_ENABLE"}
