# SPDX-License-Identifier: Apache-2.0
"""The serial port as hardware: bytes arrive at every rate, and one without a stop bit does not."""

from __future__ import annotations

from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from rtl_templates.board.uart import Rate, Receiver, Transmitter

TEXT = bytes([0x00, 0xFF, 0x55, 0xAA, 0x01, 0x80, 0x5A])


def received(levels: list[int], clock_hz: int, baud: int) -> tuple[bytes, int]:
    """Return the bytes of a line, a level for each clock cycle, and the number of errors."""
    receiver = Receiver(Rate(clock_hz, baud))
    data, errors = bytearray(), 0

    async def bench(ctx: Any) -> None:
        nonlocal errors
        for level in levels:
            ctx.set(receiver.rx, level)
            await ctx.tick()
            if ctx.get(receiver.valid):
                data.append(ctx.get(receiver.data))
            errors += ctx.get(receiver.error)

    simulator = Simulator(receiver)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return bytes(data), errors


def line(data: bytes, cycles_per_bit: float, *, stop: int = 1) -> list[int]:
    """Return the levels of a line that sends bytes without a pause, and then is idle."""
    bits = [bit for byte in data for bit in (0, *((byte >> i) & 1 for i in range(8)), stop)]
    levels = [1] * 20
    levels += [bits[int(n / cycles_per_bit)] for n in range(int(len(bits) * cycles_per_bit))]
    return levels + [1] * int(12 * cycles_per_bit)


@pytest.mark.parametrize("rate", [0.98, 1.0, 1.02])
@pytest.mark.parametrize(("clock_hz", "baud"), [(12, 3), (25, 3), (27, 2), (10_000, 1152)])
def test_bytes_are_received_at_rates_that_are_a_little_off(
    clock_hz: int, baud: int, rate: float
) -> None:
    assert received(line(TEXT, clock_hz / baud * rate), clock_hz, baud) == (TEXT, 0)


def test_a_byte_without_a_stop_bit_is_an_error_and_no_byte() -> None:
    levels = line(b"\x55", 8, stop=0) + line(b"\x12", 8)
    assert received(levels, 8, 1) == (b"\x12", 1)


def test_a_spike_is_no_byte() -> None:
    assert received([1] * 9 + [0] + [1] * 200, 16, 1) == (b"", 0)


def test_a_rate_above_a_quarter_of_the_clock_is_refused() -> None:
    with pytest.raises(ValueError, match="4000 Hz or more"):
        Rate(3999, 1000)


@pytest.mark.parametrize(("clock_hz", "baud"), [(12, 3), (25, 3), (27, 4)])
def test_what_is_sent_is_received(clock_hz: int, baud: int) -> None:
    rate = Rate(clock_hz, baud)
    sender, receiver = Transmitter(rate), Receiver(rate)
    m = Module()
    m.submodules += [sender, receiver]
    m.d.comb += receiver.rx.eq(sender.tx)
    result = bytearray()

    async def send(ctx: Any) -> None:
        for byte in TEXT:
            ctx.set(sender.data, byte)
            ctx.set(sender.valid, 1)
            await ctx.tick().until(sender.ready)
        ctx.set(sender.valid, 0)
        await ctx.tick().repeat(20 * clock_hz // baud)

    async def receive(ctx: Any) -> None:
        async for _, _, valid, data in ctx.tick().sample(receiver.valid, receiver.data):
            if valid:
                result.append(data)

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(send)
    simulator.add_testbench(receive, background=True)
    simulator.run()
    assert bytes(result) == TEXT
