# SPDX-License-Identifier: Apache-2.0
"""A memory on an AXI4 port: any latency, stalls on every channel, errors at chosen addresses."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

SLVERR = 2


@dataclass
class _Beat:
    address: int
    last: bool
    due: int


class AxiMemory:
    """Answers bursts in order; at full rate unless told to stall.

    Parameters
    ----------
    dut : cocotb handle
    prefix : str
        Prefix of the port's signals.
    clock, reset : cocotb handles
    data_width : int
    image : bytearray
        Contents; addresses count modulo its length.
    active_low : bool
        Whether the reset is active at 0.

    Attributes
    ----------
    latency : int
        Cycles from an address to its first beat, and from the last write beat to the response.
    idle : mapping
        Probability, for each of ``ar r aw w b``, that a cycle is idle.
    errors : container of int
        Addresses of beats that are answered with an error; a write burst, if any of its beats is.
    failed : list of int
        Addresses of the beats answered so.
    """

    def __init__(
        self,
        dut: Any,
        prefix: str,
        clock: Any,
        reset: Any,
        *,
        data_width: int,
        image: bytearray,
        active_low: bool = False,
        seed: int = 0,
    ) -> None:
        self._clock, self._reset, self._active = clock, reset, 0 if active_low else 1
        self._bytes, self.image = data_width // 8, image
        self._signals = {
            name: getattr(dut, f"{prefix}_{name}")
            for name in (
                *("araddr", "arlen", "arvalid", "arready"),
                *("rid", "rdata", "rresp", "rlast", "rvalid", "rready"),
                *("awaddr", "awlen", "awvalid", "awready"),
                *("wdata", "wstrb", "wlast", "wvalid", "wready"),
                *("bid", "bresp", "bvalid", "bready"),
            )
            if hasattr(dut, f"{prefix}_{name}")
        }
        self._driven: dict[str, int] = {}
        self._rng = np.random.default_rng(seed)
        self.latency = 1
        self.idle: Mapping[str, float] = {}
        self.errors: Container[int] = ()
        self.failed: list[int] = []
        self._clear()
        self.task = cocotb.start_soon(self._serve())

    def _clear(self) -> None:
        self._cycle = 0
        self._reads: deque[_Beat] = deque()
        self._bursts: deque[tuple[int, int]] = deque()
        self._written: deque[tuple[int, int, bool]] = deque()
        self._position, self._bad = 0, False
        self._responses: deque[tuple[int, int]] = deque()
        for name in ("arready", "rvalid", "awready", "wready", "bvalid", "rid", "bid"):
            self._drive(name, 0)

    def _drive(self, name: str, value: int) -> None:
        if name in self._signals and self._driven.get(name) != value:
            self._signals[name].value = value
            self._driven[name] = value

    def _taken(self, channel: str) -> bool:
        """Return whether a channel moved at this edge."""
        valid, ready = f"{channel}valid", f"{channel}ready"
        if valid not in self._signals:
            return False
        mine, other = (ready, valid) if channel in ("ar", "aw", "w") else (valid, ready)
        return bool(self._driven[mine]) and self._signals[other].value == 1

    def _value(self, name: str) -> int:
        return int(self._signals[name].value)

    def _stalls(self, channel: str) -> bool:
        chance = self.idle.get(channel, 0)
        return bool(chance) and self._rng.random() < chance

    async def _serve(self) -> None:
        edge = RisingEdge(self._clock)
        while True:
            await edge
            if self._reset.value == self._active:
                self._clear()
                continue
            self._cycle += 1
            self._read()
            if "awvalid" in self._signals:
                self._write()

    def _read(self) -> None:
        if "arvalid" not in self._signals:
            return
        if self._taken("ar"):
            start, beats = self._value("araddr"), self._value("arlen") + 1
            due = self._cycle + self.latency - 1
            self._reads += [
                _Beat(start + k * self._bytes, k == beats - 1, due) for k in range(beats)
            ]
        if self._taken("r") or not self._driven["rvalid"]:
            if self._reads and self._reads[0].due <= self._cycle and not self._stalls("r"):
                beat = self._reads.popleft()
                bad = beat.address in self.errors
                if bad:
                    self.failed.append(beat.address)
                start = beat.address % len(self.image)
                content = self.image[start : start + self._bytes]
                self._drive("rdata", int.from_bytes(content, "little"))
                self._drive("rresp", SLVERR if bad else 0)
                self._drive("rlast", int(beat.last))
                self._drive("rvalid", 1)
            elif self._driven["rvalid"]:
                # What is on the wires without valid must not matter.
                self._drive("rvalid", 0)
                self._drive("rdata", self._driven["rdata"] ^ ((1 << 8 * self._bytes) - 1))
                self._drive("rresp", 3)
                self._drive("rlast", int(self._rng.integers(2)))
        self._drive("arready", int(not self._stalls("ar")))

    def _write(self) -> None:
        if self._taken("aw"):
            self._bursts.append((self._value("awaddr"), self._value("awlen") + 1))
        if self._taken("w"):
            last = self._value("wlast") == 1
            self._written.append((self._value("wdata"), self._value("wstrb"), last))
        while self._bursts and self._written:
            self._store(*self._written.popleft())
        if self._taken("b") or not self._driven["bvalid"]:
            if self._responses and self._responses[0][1] <= self._cycle and not self._stalls("b"):
                self._drive("bresp", self._responses.popleft()[0])
                self._drive("bvalid", 1)
            elif self._driven["bvalid"]:
                self._drive("bvalid", 0)
                self._drive("bresp", 3)
        self._drive("awready", int(not self._stalls("aw")))
        self._drive("wready", int(not self._stalls("w")))

    def _store(self, data: int, strobe: int, last: bool) -> None:
        start, beats = self._bursts[0]
        address = start + self._position * self._bytes
        for k in range(self._bytes):
            if strobe >> k & 1:
                self.image[(address + k) % len(self.image)] = data >> 8 * k & 255
        if address in self.errors:
            self._bad = True
            self.failed.append(address)
        self._position += 1
        assert last == (self._position == beats), "wlast is not at the end of the burst"
        if last:
            self._bursts.popleft()
            due = self._cycle + self.latency - 1
            self._responses.append((SLVERR if self._bad else 0, due))
            self._position, self._bad = 0, False
