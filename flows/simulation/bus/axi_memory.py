# SPDX-License-Identifier: Apache-2.0
"""A memory on an AXI4 port: any latency, stalls on every channel, errors at chosen addresses."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.simulation.bus.wires import has_signal, reader, value_reader, value_writer

SLVERR = 2

_BY_MANAGER = (
    *("araddr", "arlen", "arvalid", "rready"),
    *("awaddr", "awlen", "awvalid", "wdata", "wstrb", "wlast", "wvalid", "bready"),
)
_BY_MEMORY = (
    *("arready", "rid", "rdata", "rresp", "rlast", "rvalid"),
    *("awready", "wready", "bid", "bresp", "bvalid"),
)
_DRAWN = 8191  # stalls of a channel that are drawn ahead


@dataclass(slots=True)
class _Beat:
    address: int
    last: bool
    due: int


class AxiMemory:
    """Answers bursts in order; at full rate unless told to stall.

    `step` is called at every clock edge, with the signals as they are before it.

    Parameters
    ----------
    dut : cocotb handle
    prefix : str
        Prefix of the port's signals.
    reset : str
        Name of the reset.
    data_width : int
    image : bytearray
        Contents; addresses count modulo its length.
    active_low : bool
        Whether the reset is active at 0.

    Attributes
    ----------
    latency : int
        Cycles from an address to its first beat, and from the last write beat to the response.
    errors : container of int
        Addresses of beats that are answered with an error; a write burst, if any of its beats is.
    missing : container of int
        Addresses of beats where there is no memory: the same, and what is written is lost.
    failed : list of int
        Addresses of the beats answered so.
    """

    def __init__(
        self,
        dut: Any,
        prefix: str,
        reset: str,
        *,
        data_width: int,
        image: bytearray,
        active_low: bool = False,
        seed: int = 0,
    ) -> None:
        self._reset, self._active = reader(dut, reset), 0 if active_low else 1
        self._bytes, self.image = data_width // 8, image
        self._whole = (1 << self._bytes) - 1

        def present(names: tuple[str, ...]) -> list[str]:
            return [name for name in names if has_signal(dut, f"{prefix}_{name}")]

        self._read_value = {
            name: value_reader(dut, f"{prefix}_{name}") for name in present(_BY_MANAGER)
        }
        self._put = {name: value_writer(dut, f"{prefix}_{name}") for name in present(_BY_MEMORY)}
        self._has_reads = "arvalid" in self._read_value
        self._has_writes = "awvalid" in self._read_value
        self._driven: dict[str, int] = {}
        self._rng = np.random.default_rng(seed)
        self.latency = 1
        self.idle = {}
        self.errors: Container[int] = ()
        self.missing: Container[int] = ()
        self.failed: list[int] = []
        self._clear()

    @property
    def idle(self) -> Mapping[str, float]:
        """Probability, for each of ``ar r aw w b``, that a cycle is idle."""
        return self._idle

    @idle.setter
    def idle(self, chances: Mapping[str, float]) -> None:
        self._idle = chances
        self._stalls = {
            channel: itertools.cycle((self._rng.random(_DRAWN) < chance).tolist())
            for channel, chance in chances.items()
            if chance
        }

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
        if self._driven.get(name) != value and name in self._put:
            self._put[name](value)
            self._driven[name] = value

    def _sent(self, channel: str) -> bool:
        """Return whether a channel that the memory answers on moved at this edge."""
        return bool(self._driven[f"{channel}valid"] and self._read_value[f"{channel}ready"]())

    def _received(self, channel: str) -> bool:
        """Return whether a channel that the manager speaks on moved at this edge."""
        return bool(self._driven[f"{channel}ready"] and self._read_value[f"{channel}valid"]())

    def _stalled(self, channel: str) -> bool:
        drawn = self._stalls.get(channel)
        return drawn is not None and next(drawn)

    def step(self) -> None:
        """Look at a clock edge and drive the signals for the next."""
        if self._reset() == self._active:
            self._clear()
            return
        self._cycle += 1
        if self._has_reads:
            self._read()
        if self._has_writes:
            self._write()

    def _read(self) -> None:
        if self._received("ar"):
            start, beats = self._read_value["araddr"](), self._read_value["arlen"]() + 1
            due = self._cycle + self.latency - 1
            self._reads += [
                _Beat(start + k * self._bytes, k == beats - 1, due) for k in range(beats)
            ]
        if self._sent("r") or not self._driven["rvalid"]:
            if self._reads and self._reads[0].due <= self._cycle and not self._stalled("r"):
                beat = self._reads.popleft()
                bad = beat.address in self.errors or beat.address in self.missing
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
        self._drive("arready", int(not self._stalled("ar")))

    def _write(self) -> None:
        value = self._read_value
        if self._received("aw"):
            self._bursts.append((value["awaddr"](), value["awlen"]() + 1))
        if self._received("w"):
            self._written.append((value["wdata"](), value["wstrb"](), value["wlast"]() == 1))
        while self._bursts and self._written:
            self._store(*self._written.popleft())
        if self._sent("b") or not self._driven["bvalid"]:
            if self._responses and self._responses[0][1] <= self._cycle and not self._stalled("b"):
                self._drive("bresp", self._responses.popleft()[0])
                self._drive("bvalid", 1)
            elif self._driven["bvalid"]:
                self._drive("bvalid", 0)
                self._drive("bresp", 3)
        self._drive("awready", int(not self._stalled("aw")))
        self._drive("wready", int(not self._stalled("w")))

    def _store(self, data: int, strobe: int, last: bool) -> None:
        start, beats = self._bursts[0]
        address = start + self._position * self._bytes
        at = address % len(self.image)
        missing = address in self.missing
        if missing or address in self.errors:
            self._bad = True
            self.failed.append(address)
        if missing:
            pass
        elif strobe == self._whole and at + self._bytes <= len(self.image):
            self.image[at : at + self._bytes] = data.to_bytes(self._bytes, "little")
        else:
            for k in range(self._bytes):
                if strobe >> k & 1:
                    self.image[(address + k) % len(self.image)] = data >> 8 * k & 255
        self._position += 1
        assert last == (self._position == beats), "wlast is not at the end of the burst"
        if last:
            self._bursts.popleft()
            due = self._cycle + self.latency - 1
            self._responses.append((SLVERR if self._bad else 0, due))
            self._position, self._bad = 0, False
