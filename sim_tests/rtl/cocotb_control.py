# SPDX-License-Identifier: Apache-2.0
"""Benches of `sim_tests.rtl.test_control`: accesses to the registers of an engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge, SimTimeoutError, with_timeout

from flows.simulation.bus.stream_bench import PERIOD_NS
from hwgen.core.register_map import COUNTER_BITS, COUNTERS
from rtl_templates.gemm_stream.flow import CONSUMERS
from sim_tests.rtl.control_bench import (
    ADDRESSES,
    BY_OFFSET,
    CONFIG,
    LAST,
    LIMIT,
    MAP,
    OKAY,
    PLAN,
    QUEUE,
    SLVERR,
    STALLS,
    WINDOW,
    ControlBench,
    contents,
    merged,
)

# -- registers ------------------------------------------------------------------------------------


async def access(bench: ControlBench) -> None:
    """Every word of the address space, read and written with all strobes, some and none."""
    bench.port()
    await bench.begin()
    stored = {name: 0 for name, register in MAP.items() if register.access == "rw"}
    readable = {}
    for name, register in MAP.items():
        resp, value = await bench.host.read(register.offset)
        assert resp == OKAY, name
        readable[name] = value
        if register.access in ("rw", "wo", "w1c"):
            assert value == 0, f"{name} is {value:#x} after reset"
    offsets = [*BY_OFFSET, *bench.rng.permutation(np.arange(0, ADDRESSES, 4))[:100].tolist()]
    offsets += [0, ADDRESSES - 4, max(BY_OFFSET) + 4]
    commands = {MAP["SUBMIT"].offset, MAP["ABORT"].offset}
    for round_ in range(2):
        for channel in bench.host.idle:
            bench.host.idle[channel] = float(bench.rng.choice(STALLS))
        for index in bench.rng.permutation(len(offsets)):
            offset = int(offsets[index])
            if offset in commands:
                continue
            result = BY_OFFSET.get(offset)
            low = int(bench.rng.integers(4)) if round_ else 0  # of a byte within the word
            value, strobe = bench.random_word(), int(bench.rng.integers(16)) if round_ else 15
            resp = await bench.host.write(offset + low, value, strobe)
            legal = result is not None and result.access != "ro"
            assert resp == (OKAY if legal else SLVERR), f"writing {offset:#x} gives {resp}"
            if result is not None and result.access == "rw":
                stored[result.name] = contents(result, merged(stored[result.name], value, strobe))
            resp, value = await bench.host.read(offset + low)
            if result is None:
                assert (resp, value) == (SLVERR, 0), f"reading {offset:#x} gives {resp}"
            else:
                wanted = stored.get(result.name, readable[result.name])
                assert (resp, value) == (OKAY, wanted), (
                    f"{result.name}: {value:#x}, not {wanted:#x}"
                )
    for name, value in stored.items():
        assert await bench.read(name) == value, f"{name} was changed by another access"
    assert await bench.read("SUBMITTED") == 0
    assert bench.consumers.stops == 0


async def overlapped(bench: ControlBench) -> None:
    """Check that reads and writes under way at once do not disturb each other."""
    bench.port()
    await bench.begin()
    for channel in bench.host.idle:
        bench.host.idle[channel] = 0.4
    names = [register.name for register in WINDOW if register.bits == 32]
    left, right = names[: len(names) // 2], names[len(names) // 2 :]
    for name in right:
        await bench.write(name, len(name))

    async def reads() -> None:
        for index in range(60):
            name = right[index % len(right)]
            assert await bench.read(name) == len(name)

    reader = cocotb.start_soon(reads())
    written = {}
    for index in range(60):
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
    """Check that a queue takes the jobs that it says, and a refused one leaves no trace."""
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
    for name, value in (
        ("QUEUE", QUEUE),
        ("M_LANES", CONFIG.m_lanes),
        ("K_LANES", CONFIG.k_lanes),
        ("N_LANES", CONFIG.n_lanes),
    ):
        assert await bench.read(name) == value
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
    # The lower words are read, then all of them overflow: the upper words stay as they were.
    for name in COUNTERS:
        assert await bench.read(f"{name}_LOW") == start & 0xFFFFFFFF
    bench.consumers.events, bench.consumers.pace = 0.7, 0
    assert await bench.submit() == OKAY
    await bench.cycles(200)
    for name in COUNTERS:
        assert bench.consumers.tally[name] > 100, "the lower word has not overflowed"
        assert await bench.read(f"{name}_HIGH") == start >> 32, f"{name}_HIGH was not kept"
    bench.consumers.pace = 0.5
    for _ in range(QUEUE - 1):
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
        assert getattr(dut, f"{name}_job_valid").value == 0, f"{name} still has a job"


async def ends(bench: ControlBench) -> None:
    """Errors and aborts with jobs in every state; the next jobs run."""
    await bench.begin()
    bench.master(0.0)
    await bench.fill()
    for round_ in range(15):
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
    """Check that the last consumer is done in the very cycle of an error: the job has one end."""
    await bench.begin()
    bench.master(0.0)
    for cause in ("read_error", "write_error"):
        for count in (1, QUEUE):
            consumers = bench.consumers
            consumers.pace, consumers.stalled = 1.0, {LAST}
            for _ in range(count):
                assert await bench.submit() == OKAY
            await bench.cycles(4 * len(CONSUMERS))
            await trouble(bench, cause, together=True)
            consumers.stalled = set()
            await bench.check_states()
            assert await bench.submit() == OKAY
            await bench.drained()
            await bench.check_states()


async def resets(bench: ControlBench) -> None:
    """Check that a reset at any time forgets everything."""
    bench.port()
    await bench.begin()
    for round_ in range(4):
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
