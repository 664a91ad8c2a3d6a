# SPDX-License-Identifier: Apache-2.0
"""A model of an SDR SDRAM that raises an error at whatever its data sheet forbids.

It is made of the rules of data sheets alone and counts in nanoseconds, not in the cycles that the
controller counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hwgen.board.sdram import SdramChip, SdramError

_PAST = -1e12
_ROUNDING = 1e-6  # ns

_COMMANDS = {
    (1, 1, 1): "nop", (0, 1, 1): "activate", (1, 0, 1): "read", (1, 0, 0): "write",
    (0, 1, 0): "precharge", (0, 0, 1): "refresh", (0, 0, 0): "mode", (1, 1, 0): "stop",
}  # ras_n, cas_n, we_n  # fmt: skip


@dataclass(frozen=True)
class Pins:
    """Levels of the chip's inputs at an edge of its clock.

    Parameters
    ----------
    cke, cs_n, ras_n, cas_n, we_n : int
    bank, address, mask, data : int
        Pins ``ba``, ``a``, ``dqm`` and ``dq``.
    driven : int
        Whether the controller drives ``dq``.
    """

    cke: int
    cs_n: int
    ras_n: int
    cas_n: int
    we_n: int
    bank: int
    address: int
    mask: int
    data: int
    driven: int


@dataclass
class _Bank:
    row: int | None = None
    activated: float = _PAST
    precharged: float = _PAST
    written: float = _PAST


@dataclass
class _Burst:
    """A read or write: the edge of its first word, and the words that are left of it."""

    start: int
    bank: int
    row: int
    column: int
    end: int


class SdramModel:
    """The chip.

    Parameters
    ----------
    chip : SdramChip
    clock_ns : float
        Period of the clock, ns.

    Attributes
    ----------
    words : dict
        Words that have been written, by (bank, row, column).
    commands : dict
        Number of each command.
    """

    def __init__(self, chip: SdramChip, clock_ns: float) -> None:
        self.chip, self.clock_ns = chip, clock_ns
        self.words: dict[tuple[int, int, int], int] = {}
        self.commands: dict[str, int] = {}
        self._banks = [_Bank() for _ in range(1 << chip.bank_bits)]
        self._edge = -1
        self._now = 0.0
        self._enabled: float | None = None  # since when clock and CKE run
        self._start_up: Literal["pause", "refresh", "done"] = "pause"
        self._start_up_refreshes = 0
        self._mode: tuple[int, int] | None = None  # words of a burst, CAS latency
        self._mode_edge = -1000
        self._activated = _PAST, -1
        self._refreshed = _PAST
        self._read: list[_Burst] = []
        self._write: _Burst | None = None
        self._masks = [3, 3, 3]  # of this edge and the two before

    def step(self, pins: Pins) -> int | None:
        """Return the word that the chip drives until the next edge, None if it drives nothing.

        Parameters
        ----------
        pins : Pins
            Levels at this edge of the clock.

        Raises
        ------
        SdramError
            If a rule is broken.
        """
        self._edge += 1
        self._now = self._edge * self.clock_ns
        self._masks = [pins.mask, *self._masks[:2]]
        if not pins.cke:
            self._require(self._enabled is None, "CKE", "low after start-up has begun")
            return None
        if self._enabled is None:
            self._enabled = self._now
        self._always(pins)
        command = "nop" if pins.cs_n else _COMMANDS[pins.ras_n, pins.cas_n, pins.we_n]
        self.commands[command] = self.commands.get(command, 0) + 1
        if command != "nop":
            self._order(command, pins)
            getattr(self, f"_do_{command}")(pins)
        self._data_in(pins)
        return self._data_out()

    def _require(self, holds: bool, rule: str, text: str) -> None:
        if not holds:
            raise SdramError(rule, f"{text}, at {self._now:g} ns")

    def _since(self, event: float, least: float, rule: str, text: str) -> None:
        passed = self._now - event
        self._require(
            passed >= least - _ROUNDING, rule, f"{text} {passed:g} ns later, least {least:g}"
        )

    def _always(self, pins: Pins) -> None:
        """Check the rules that hold at every edge."""
        if self._mode is not None and self._start_up_refreshes >= self.chip.start_up_refreshes:
            passed = self._now - self._refreshed
            self._require(
                passed <= self.chip.refi + _ROUNDING, "tREFI", f"no refresh for {passed:g} ns"
            )
        for bank in self._banks:
            if bank.row is not None:
                self._require(
                    self._now - bank.activated <= self.chip.ras_longest + _ROUNDING,
                    "tRAS maximum", "row open for too long",
                )  # fmt: skip
        if pins.driven:
            # The chip leaves the pins up to a clock after the last word's edge.
            reads = any(burst.start <= self._edge <= burst.end for burst in self._read)
            self._require(not reads, "DQ", "the controller drives while the chip does")

    def _order(self, command: str, pins: Pins) -> None:
        """Check start-up, and what every command waits for."""
        self._require(
            self._edge - self._mode_edge >= self.chip.mrd_clocks, "tMRD",
            f"{command} {self._edge - self._mode_edge} clocks after the mode register",
        )  # fmt: skip
        if command != "stop":
            self._since(self._refreshed, self.chip.rfc, "tRFC", f"{command} after a refresh")
        if self._start_up == "pause":
            assert self._enabled is not None
            self._since(self._enabled, 1e3 * self.chip.start_up_us, "start-up", f"{command} comes")
            self._require(
                command == "precharge" and bool(pins.address >> 10 & 1), "start-up",
                f"{command} before every bank is precharged",
            )  # fmt: skip
            self._start_up = "refresh"
        elif self._start_up == "refresh" and command not in ("refresh", "mode", "precharge"):
            wanted = self.chip.start_up_refreshes
            self._require(
                self._start_up_refreshes >= wanted, "start-up",
                f"{command} after {self._start_up_refreshes} refreshes of {wanted}",
            )  # fmt: skip
            self._require(self._mode is not None, "start-up", f"{command} without a mode")
            self._start_up = "done"

    def _do_stop(self, pins: Pins) -> None:
        raise SdramError("command", f"burst stop is not expected, at {self._now:g} ns")

    def _idle(self, command: str) -> None:
        for index, bank in enumerate(self._banks):
            self._require(bank.row is None, "state", f"{command} while bank {index} is open")
            self._since(bank.precharged, self.chip.rp, "tRP", f"{command} after a precharge")

    def _mode_register(self, address: int) -> tuple[int, int]:
        length, interleaved, cas = address & 7, address >> 3 & 1, address >> 4 & 7
        self._require(length <= 3 and not interleaved, "mode", f"bursts of mode {address:#x}")
        self._require(not address >> 7, "mode", f"reserved bits of mode {address:#x}")
        least = self.chip.least_clock_ns.get(cas)
        self._require(
            least is not None and self.clock_ns >= least - _ROUNDING, "mode",
            f"CAS latency {cas} at {self.clock_ns:g} ns",
        )  # fmt: skip
        return 1 << length, cas

    def _do_mode(self, pins: Pins) -> None:
        self._idle("mode")
        self._require(pins.bank == 0, "mode", "bank bits are not 0")
        self._mode, self._mode_edge = self._mode_register(pins.address), self._edge

    def _do_refresh(self, pins: Pins) -> None:
        self._idle("refresh")
        for bank in self._banks:
            self._since(bank.activated, self.chip.rc, "tRC", "refresh after an activation")
        self._refreshed = self._now
        self._start_up_refreshes += 1

    def _do_activate(self, pins: Pins) -> None:
        bank = self._banks[pins.bank]
        self._require(bank.row is None, "state", f"activation of the open bank {pins.bank}")
        self._require(not pins.address >> self.chip.row_bits, "state", "no such row")
        self._since(bank.precharged, self.chip.rp, "tRP", "activation after a precharge")
        self._since(bank.activated, self.chip.rc, "tRC", "activation of the same bank")
        time, index = self._activated
        if index != pins.bank:
            self._since(time, self.chip.rrd, "tRRD", "activation of another bank")
        bank.row, bank.activated = pins.address, self._now
        self._activated = self._now, pins.bank

    def _do_precharge(self, pins: Pins) -> None:
        every = pins.address >> 10 & 1
        for index, bank in enumerate(self._banks):
            if not (every or index == pins.bank):
                continue
            if bank.row is not None:
                self._since(bank.activated, self.chip.ras, "tRAS", "precharge after an activation")
            self._since(bank.written, self.chip.wr, "tWR", "precharge after a word was written")
            write = self._write
            self._require(
                write is None or write.bank != index or self._edge >= write.end, "tWR",
                "precharge during a write",
            )  # fmt: skip
            for burst in self._read:
                if burst.bank == index and self._mode is not None:
                    burst.end = min(burst.end, self._edge + self._mode[1])
            bank.row, bank.precharged = None, self._now

    def _column_of(self, pins: Pins, command: str) -> tuple[int, int]:
        bank = self._banks[pins.bank]
        row = -1 if bank.row is None else bank.row
        self._require(row >= 0, "state", f"{command} of the closed bank {pins.bank}")
        self._since(bank.activated, self.chip.rcd, "tRCD", f"{command} after an activation")
        self._require(not pins.address >> 10 & 1, "state", "automatic precharge is not expected")
        return row, pins.address & ((1 << self.chip.column_bits) - 1)

    def _do_read(self, pins: Pins) -> None:
        row, column = self._column_of(pins, "read")
        assert self._mode is not None
        length, cas = self._mode
        start = self._edge + cas
        for burst in self._read:
            burst.end = min(burst.end, start)
        self._write = None
        self._read.append(_Burst(start, pins.bank, row, column, start + length))

    def _do_write(self, pins: Pins) -> None:
        row, column = self._column_of(pins, "write")
        assert self._mode is not None
        for burst in self._read:
            burst.end = min(burst.end, self._edge)
        self._write = _Burst(self._edge, pins.bank, row, column, self._edge + self._mode[0])

    def _key(self, burst: _Burst, edge: int) -> tuple[int, int, int]:
        """Return the word of a burst at an edge; columns wrap within the burst's length."""
        assert self._mode is not None
        length = self._mode[0]
        offset = (burst.column + edge - burst.start) % length
        return burst.bank, burst.row, burst.column // length * length + offset

    def _data_in(self, pins: Pins) -> None:
        burst = self._write
        if burst is None or self._edge >= burst.end:
            return
        self._banks[burst.bank].written = self._now
        if pins.mask == 3:
            return
        self._require(
            bool(pins.driven), "DQ", "a word is written that the controller does not drive"
        )
        key = self._key(burst, self._edge)
        select = 0xFF * (~pins.mask & 1) | 0xFF00 * (~pins.mask >> 1 & 1)
        self.words[key] = self.words.get(key, 0) & ~select | pins.data & select

    def _data_out(self) -> int | None:
        """Return the word for the next edge."""
        edge = self._edge + 1
        self._read = [burst for burst in self._read if burst.end >= edge]
        for burst in self._read:
            if burst.start <= edge < burst.end:
                masked = self._masks[1]  # two clocks before the word
                hidden = 0xFF * (masked & 1) | 0xFF00 * (masked >> 1 & 1)
                return self.words.get(self._key(burst, edge), 0) ^ hidden
        return None
