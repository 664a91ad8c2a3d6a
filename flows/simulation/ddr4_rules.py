# SPDX-License-Identifier: Apache-2.0
"""Rules of DDR4 SDRAMs, checked on the commands that a model recorded.

They are those of the data sheet, in nanoseconds; the model of ``cpp/ddr4.h`` counts clocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from hwgen.board.ddr4 import BURST, Ddr4Memory
from hwgen.board.sdram import SdramError

COMMANDS = ("activate", "read", "write", "precharge", "refresh")

_PAST = -1e12
_ROUNDING = 1e-6  # ns
_POSTPONED = 9  # tREFI at most between two refreshes


@dataclass(frozen=True)
class Ddr4Command:
    """A command.

    Parameters
    ----------
    clock : int
        Of the memory.
    name : str
        One of `COMMANDS`.
    bank : int
        Group times banks of a group, and the bank in it.
    value : int
        The row, or the number of the burst in its row.
    """

    clock: int
    name: str
    bank: int
    value: int


@dataclass
class _Bank:
    row: int | None = None
    activated: float = _PAST
    precharged: float = _PAST
    read: float = _PAST
    written: float = _PAST  # end of the last word


@dataclass
class _Rank:
    banks: list[_Bank]
    activations: deque[float] = field(default_factory=lambda: deque(maxlen=4))
    busy: float = 0.0  # until when words are on the bus
    reading: bool = False
    refreshed: float = _PAST


class Ddr4Rules:
    """Checker of one rank of chips.

    Parameters
    ----------
    memory : Ddr4Memory
    """

    def __init__(self, memory: Ddr4Memory) -> None:
        self.chip = memory.chip
        self._rank = _Rank([_Bank() for _ in range(self.chip.bank_groups * self.chip.banks)])
        self._now = 0.0

    def check(self, commands: Iterable[Ddr4Command]) -> None:
        """Check commands in the order of their clocks.

        Raises
        ------
        SdramError
            With the first rule that is broken.
        """
        commands, refreshes = list(commands), [0.0]
        for before, after in pairwise(commands):
            if before.clock == after.clock:
                raise SdramError("command bus", f"two commands at clock {after.clock}")
        for command in commands:
            self._now = command.clock * self.chip.clock_ns
            self._since(self._rank.refreshed, self.chip.rfc, "tRFC", command.name)
            getattr(self, f"_{command.name}")(command)
            if command.name == "refresh":
                refreshes.append(self._now)
        refreshes.append(self._now)
        longest = max(after - before for before, after in pairwise(refreshes))
        if longest > _POSTPONED * self.chip.refi:
            raise SdramError("tREFI", f"no refresh for {longest:g} ns")
        if len(refreshes) - 1 < self._now // self.chip.refi - _POSTPONED:
            raise SdramError("tREFI", f"{len(refreshes) - 2} refreshes in {self._now:g} ns")

    def _since(self, event: float, least: float, rule: str, text: str) -> None:
        passed = self._now - event
        if passed < least - _ROUNDING:
            raise SdramError(
                rule, f"{text} {passed:g} ns later, least {least:g}, at {self._now:g} ns"
            )

    def _least(self, name: str) -> float:
        chip = self.chip
        clocks = getattr(chip, f"{name}_clocks")
        return max(clocks * chip.clock_ns, getattr(chip, name, 0.0))

    def _group(self, number: int) -> list[_Bank]:
        start = number - number % self.chip.banks
        return self._rank.banks[start : start + self.chip.banks]

    def _activate(self, command: Ddr4Command) -> None:
        bank, rank = self._rank.banks[command.bank], self._rank
        if bank.row is not None or command.value >= self.chip.rows:
            raise SdramError("state", f"activation of bank {command.bank}, row {command.value}")
        self._since(bank.precharged, self.chip.rp, "tRP", "activation")
        for each in rank.banks:
            self._since(each.activated, self._least("rrd_s"), "tRRD_S", "activation")
        for each in self._group(command.bank):
            self._since(each.activated, self._least("rrd_l"), "tRRD_L", "activation")
        if len(rank.activations) == 4:
            self._since(rank.activations[0], self.chip.faw, "tFAW", "fifth activation")
        rank.activations.append(self._now)
        bank.row, bank.activated = command.value, self._now

    def _precharge(self, command: Ddr4Command) -> None:
        bank = self._rank.banks[command.bank]
        self._since(bank.activated, self.chip.ras, "tRAS", "precharge")
        self._since(bank.read, self._least("rtp"), "tRTP", "precharge")
        self._since(bank.written, self.chip.wr, "tWR", "precharge")
        bank.row, bank.precharged = None, self._now

    def _column(self, command: Ddr4Command, latency: int, *, reads: bool) -> float:
        """Check what reads and writes share, and return when the last word has been moved."""
        bank, rank, clock = self._rank.banks[command.bank], self._rank, self.chip.clock_ns
        if bank.row is None or command.value >= self.chip.columns // BURST:
            raise SdramError("state", f"{command.name} of bank {command.bank}, {command.value}")
        self._since(bank.activated, self.chip.rcd, "tRCD", command.name)
        begin = self._now + latency * clock
        gap = 2 * clock if rank.reading and not reads else 0.0  # preamble, and pins that turn
        if begin < rank.busy + gap - _ROUNDING:
            raise SdramError("data bus", f"{command.name} at {self._now:g} ns")
        rank.busy, rank.reading = begin + BURST / 2 * clock, reads
        return rank.busy

    def _read(self, command: Ddr4Command) -> None:
        for each in self._rank.banks:
            self._since(each.written, self._least("wtr_s"), "tWTR_S", "read")
        for each in self._group(command.bank):
            self._since(each.written, self._least("wtr_l"), "tWTR_L", "read")
            self._since(each.read, self._least("ccd_l"), "tCCD_L", "read")
        self._column(command, self.chip.cl_clocks, reads=True)
        self._rank.banks[command.bank].read = self._now

    def _write(self, command: Ddr4Command) -> None:
        chip = self.chip
        data = (chip.cwl_clocks + BURST / 2) * chip.clock_ns
        for each in self._group(command.bank):
            self._since(each.written - data, self._least("ccd_l"), "tCCD_L", "write")
        end = self._column(command, chip.cwl_clocks, reads=False)
        self._rank.banks[command.bank].written = end

    def _refresh(self, command: Ddr4Command) -> None:
        for each in self._rank.banks:
            if each.row is not None:
                raise SdramError("state", "refresh while a row is open")
            self._since(each.precharged, self.chip.rp, "tRP", "refresh")
        self._rank.refreshed = self._now
