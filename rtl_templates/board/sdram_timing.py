# SPDX-License-Identifier: Apache-2.0
"""Timing of an SDR SDRAM in clock cycles."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from hwgen.board.sdram import SdramChip


@dataclass(frozen=True)
class SdramCycles:
    """Times of a chip in clock cycles, from command to command.

    Parameters
    ----------
    cas : int
        From a read to its first word.
    rcd, rp, rc, rfc, ras, rrd, wr, mrd : int
        As of `hwgen.board.sdram.SdramChip`.
    refresh : int
        Between two requests of a refresh.
    start_up : int
        Pause before the first command.
    refreshes : int
        Refreshes of the start-up.
    """

    cas: int
    rcd: int
    rp: int
    rc: int
    rfc: int
    ras: int
    rrd: int
    wr: int
    mrd: int
    refresh: int
    start_up: int
    refreshes: int


def sdram_cycles(chip: SdramChip, clock_hz: float, burst: int, ratio: int = 1) -> SdramCycles:
    """Return the times of a chip in cycles of its clock.

    A refresh is requested earlier than the chip needs it, by the longest time that open rows and
    words on their way can delay it: no two refreshes are further apart than the chip allows.

    Parameters
    ----------
    chip : SdramChip
    clock_hz : float
    burst : int
        Words of a read or write.
    ratio : int
        Cycles of the chip in a cycle of the controller, which is all that delays are counted in.

    Raises
    ------
    ValueError
        If the clock is too fast for the chip, or so slow that refreshes leave no time.
    """
    clock_ns = 1e9 / clock_hz

    def cycles(ns: float) -> int:
        return max(1, ceil(ns / clock_ns - 1e-9))

    ras, rp, wr, rc, rfc = (cycles(ns) for ns in (chip.ras, chip.rp, chip.wr, chip.rc, chip.rfc))
    delay = max(ras, rc, burst + wr) + rp + 2
    if ratio > 1:
        delay = ratio * (ceil(max(ras, rc, burst + wr) / ratio) + ceil(rp / ratio) + 3)
    refresh = int(chip.refi / clock_ns + 1e-9) - delay
    if refresh < 2 * (delay + rfc):
        least = 3 * (delay + rfc) / chip.refi * 1e3
        raise ValueError(f"{chip.summary}: the clock must have at least {least:.1f} MHz")
    return SdramCycles(
        cas=chip.cas_latency(clock_ns),
        rcd=cycles(chip.rcd), rp=rp, rc=rc, rfc=rfc, ras=ras, rrd=cycles(chip.rrd), wr=wr,
        mrd=chip.mrd_clocks, refresh=refresh,
        start_up=ceil(chip.start_up_us * 1e3 / clock_ns), refreshes=chip.start_up_refreshes,
    )  # fmt: skip
