# SPDX-License-Identifier: Apache-2.0
"""Passive observer of an AXI4 port: breaks off the test where the rules of the bus are broken."""

from __future__ import annotations

from collections import deque
from typing import Any

from flows.simulation.bus.wires import has_signal, reader, value_reader
from hwgen.core.bus import PAGE

# Answers first: what they answer was asked in an earlier cycle.
_FIELDS = {
    "b": ("id", "resp"),
    "r": ("id", "resp", "last"),  # the data are the bench's own
    "aw": ("id", "addr", "len", "size", "burst", "cache", "prot"),
    "w": ("data", "strb", "last"),
    "ar": ("id", "addr", "len", "size", "burst", "cache", "prot"),
}
_BY_MANAGER = ("aw", "w", "ar")


class AxiMonitor:
    """Checks every cycle of an AXI4 port, or of its read or write channels alone.

    `step` is called at every clock edge, with the signals as they are before it.

    Handshake: what is valid stays, unchanged, until it is taken, and nothing is valid in reset.
    Bursts: incrementing, of full-width beats, aligned, within 4 KiB, within `max_burst` beats;
    ``last`` where the length says.  No answer without its question, and never more than
    `outstanding` bursts without an answer in each direction.

    Parameters
    ----------
    dut : cocotb handle
    prefix : str
        Prefix of the port's signals.
    reset : str
        Name of the reset.
    data_width, max_burst, outstanding : int
        Of the design.
    active_low : bool
        Whether the reset is active at 0.

    Attributes
    ----------
    cycle : int
        Clock edges since the start.
    reads, writes : list of (int, int, int)
        Address, beats and cycle of every burst.
    read_beats, write_beats : list of int
        Cycle of every beat of data.
    responses : list of (int, int)
        Response to each write burst, and its cycle.
    """

    def __init__(
        self,
        dut: Any,
        prefix: str,
        reset: str,
        *,
        data_width: int,
        max_burst: int,
        outstanding: int,
        active_low: bool = False,
    ) -> None:
        self._reset, self._active = reader(dut, reset), 0 if active_low else 1
        self.data_width, self.max_burst, self.outstanding = data_width, max_burst, outstanding
        self._channels = {
            channel: (
                reader(dut, f"{prefix}_{channel}valid"),
                reader(dut, f"{prefix}_{channel}ready"),
                {name: value_reader(dut, f"{prefix}_{channel}{name}") for name in fields},
                getattr(self, f"_accept_{channel}"),
            )
            for channel, fields in _FIELDS.items()
            if has_signal(dut, f"{prefix}_{channel}valid")
        }
        self.cycle = self._in_reset = 0
        self.clear()

    def clear(self) -> None:
        """Forget everything, as a reset does."""
        self.reads: list[tuple[int, int, int]] = []
        self.writes: list[tuple[int, int, int]] = []
        self.read_beats: list[int] = []
        self.write_beats: list[int] = []
        self.responses: list[tuple[int, int]] = []
        self._waiting: dict[str, dict[str, int]] = {}
        self._read_left: deque[int] = deque()
        self._write_left: deque[int] = deque()
        self._lasts: deque[bool] = deque()
        self._unanswered = 0  # write bursts with all their data, without a response

    @property
    def quiet(self) -> bool:
        """Whether nothing waits or is in flight."""
        return not (
            self._waiting or self._read_left or self._write_left or self._lasts or self._unanswered
        )

    def step(self) -> None:
        """Look at a clock edge."""
        self.cycle += 1
        if self._reset() == self._active:
            self._in_reset += 1
            self.clear()
            if self._in_reset > 1:
                for channel in _BY_MANAGER:
                    if channel in self._channels:
                        assert not self._channels[channel][0](), f"{channel} in reset"
            return
        self._in_reset = 0
        for channel, (valid, ready, getters, take) in self._channels.items():
            if valid():
                fields = {name: get() for name, get in getters.items()}
                if self._waiting and (before := self._waiting.pop(channel, fields)) != fields:
                    raise AssertionError(f"{channel} changed while it waited: {before}, {fields}")
                if ready():
                    take(fields)
                else:
                    self._waiting[channel] = fields
            elif self._waiting and channel in self._waiting:
                raise AssertionError(f"{channel}valid fell before {channel}ready")

    def _burst(self, channel: str, fields: dict[str, int]) -> tuple[int, int, int]:
        size = self.data_width // 8
        address, beats = fields["addr"], fields["len"] + 1
        burst = f"{channel} {address:#x}, {beats} beats"
        assert fields["id"] == 0, f"{burst}: id {fields['id']}"
        assert fields["burst"] == 1, f"{burst}: not incrementing"
        assert 1 << fields["size"] == size, f"{burst}: beats of {1 << fields['size']} bytes"
        assert address % size == 0, f"{burst}: not aligned"
        assert beats <= self.max_burst, f"{burst}: longer than {self.max_burst}"
        assert address % PAGE + beats * size <= PAGE, f"{burst}: crosses 4 KiB"
        return address, beats, self.cycle

    def _accept_ar(self, fields: dict[str, int]) -> None:
        self.reads.append(self._burst("ar", fields))
        self._read_left.append(fields["len"])
        count = len(self._read_left)
        assert count <= self.outstanding, f"{count} read bursts in flight"

    def _accept_r(self, fields: dict[str, int]) -> None:
        assert self._read_left, "a read beat that nobody asked for"
        assert fields["last"] == (self._read_left[0] == 0), "rlast at a wrong beat"
        self._read_left[0] -= 1
        if fields["last"]:
            self._read_left.popleft()
        self.read_beats.append(self.cycle)

    def _accept_aw(self, fields: dict[str, int]) -> None:
        self.writes.append(self._burst("aw", fields))
        self._write_left.append(fields["len"])
        count = len(self._write_left) + self._unanswered
        assert count <= self.outstanding, f"{count} write bursts in flight"
        self._match()

    def _accept_w(self, fields: dict[str, int]) -> None:
        self.write_beats.append(self.cycle)
        self._lasts.append(bool(fields["last"]))
        self._match()

    def _match(self) -> None:
        """Compare bursts with their data, which may come before the address."""
        while self._write_left and self._lasts:
            last = self._lasts.popleft()
            assert last == (self._write_left[0] == 0), "wlast at a wrong beat"
            self._write_left[0] -= 1
            if last:
                self._write_left.popleft()
                self._unanswered += 1

    def _accept_b(self, fields: dict[str, int]) -> None:
        assert self._unanswered, "a write response without a burst"
        self._unanswered -= 1
        self.responses.append((fields["resp"], self.cycle))
