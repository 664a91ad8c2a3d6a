# SPDX-License-Identifier: Apache-2.0
"""A host on an AXI4-Lite port: reads and writes registers, one at a time."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from flows.simulation.bus.wires import reader, value_reader, value_writer, writer


class LiteHost:
    """Reads and writes 32-bit registers.

    The address of a write comes before its data, with them or after them, at random, and answers
    are accepted at once or some cycles late.  Registers change with the cycle of the handshake, so
    the order shows nothing but whether a slave waits for what it may not wait for.

    Parameters
    ----------
    dut : cocotb handle
    prefix : str
        Prefix of the port's signals.
    tick : callable
        Waits for the next clock edge; signals are read as they are before it.
    rng : numpy Generator
        Of the order and the delays.
    """

    def __init__(
        self,
        dut: Any,
        prefix: str,
        tick: Callable[[], Awaitable[None]],
        rng: np.random.Generator,
    ) -> None:
        self._tick = tick
        self._get = {
            name: value_reader(dut, f"{prefix}_{name}") for name in ("bresp", "rdata", "rresp")
        }
        self._answers = {name: reader(dut, f"{prefix}_{name}") for name in
                         ("awready", "wready", "arready", "bvalid", "rvalid")}  # fmt: skip
        self._put = {name: value_writer(dut, f"{prefix}_{name}") for name in
                     ("awaddr", "wdata", "wstrb", "araddr")}  # fmt: skip
        self._valid = {name: writer(dut, f"{prefix}_{name}") for name in
                       ("awvalid", "wvalid", "arvalid", "bready", "rready")}  # fmt: skip
        for name in ("awprot", "arprot"):
            writer(dut, f"{prefix}_{name}")(0)
        for put in self._valid.values():
            put(0)
        self._delays = itertools.cycle(rng.choice((0, 0, 0, 1, 2), (1021, 3)).tolist())

    async def write(self, address: int, value: int) -> int:
        """Write a register and return the response, 0 if it was accepted."""
        start_aw, start_w, answer = next(self._delays)
        self._put["awaddr"](address)
        self._put["wdata"](value)
        self._put["wstrb"](15)
        starts = {"aw": start_aw, "w": start_w if start_aw == 0 else 0}
        await self._handshake(starts)
        response, _ = await self._answer("b", answer)
        return response

    async def read(self, address: int) -> int:
        """Return a register.

        Raises
        ------
        AssertionError
            If the answer is an error.
        """
        _, _, answer = next(self._delays)
        self._put["araddr"](address)
        await self._handshake({"ar": 0})
        response, value = await self._answer("r", answer)
        assert response == 0, f"reading register {address:#x}: rresp {response}"
        return value

    async def _handshake(self, starts: dict[str, int]) -> None:
        """Offer each channel from its cycle on, until it is taken."""
        offered: set[str] = set()
        cycle = 0
        while starts or offered:
            for channel in [name for name, start in starts.items() if start <= cycle]:
                del starts[channel]
                offered.add(channel)
                self._valid[f"{channel}valid"](1)
            await self._tick()
            cycle += 1
            for channel in [name for name in offered if self._answers[f"{name}ready"]()]:
                offered.remove(channel)
                self._valid[f"{channel}valid"](0)

    async def _answer(self, channel: str, delay: int) -> tuple[int, int]:
        """Accept an answer some cycles after it may come; return response and data."""
        valid, ready = self._answers[f"{channel}valid"], self._valid[f"{channel}ready"]
        seen: tuple[int, int] | None = None
        while delay:
            await self._tick()
            delay -= 1
            if seen is not None:
                assert self._content(channel) == seen, f"{channel} changed while it waited"
            seen = self._content(channel) if valid() else None
        ready(1)
        await self._tick()
        while not valid():
            assert seen is None, f"{channel}valid fell before {channel}ready"
            await self._tick()
        content = self._content(channel)
        assert seen in (None, content), f"{channel} changed while it waited"
        ready(0)
        return content

    def _content(self, channel: str) -> tuple[int, int]:
        data = self._get["rdata"]() if channel == "r" else 0
        return self._get[f"{channel}resp"](), data
