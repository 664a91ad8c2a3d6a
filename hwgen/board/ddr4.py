# SPDX-License-Identifier: Apache-2.0
"""DDR4 SDRAMs: geometry and timing, in ``ddr4.json``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

BURST = 8
"""Words of a burst."""

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Ddr4Chip:
    """A chip; times have the names of JESD79-4 without the t.

    Parameters
    ----------
    summary : str
    data_bits : int
    bank_groups, banks, rows, columns : int
        Banks of a group, rows of a bank, words of a row.
    clock_mhz : float
        Half the number of words a second and pin.
    cl_clocks, cwl_clocks, ccd_s_clocks : int
        CAS latency, CAS write latency, and tCCD_S, in clocks.
    rcd, rp, ras, wr, faw, rfc, refi : float
        Times, ns.
    rtp, wtr_s, wtr_l, ccd_l, rrd_s, rrd_l : float
        Times, ns, but at least as many clocks as the next parameters state.
    rtp_clocks, wtr_s_clocks, wtr_l_clocks, ccd_l_clocks, rrd_s_clocks, rrd_l_clocks : int
    """

    summary: str
    data_bits: int
    bank_groups: int
    banks: int
    rows: int
    columns: int
    clock_mhz: float
    cl_clocks: int
    cwl_clocks: int
    ccd_s_clocks: int
    rcd: float
    rp: float
    ras: float
    wr: float
    faw: float
    rfc: float
    refi: float
    rtp: float
    rtp_clocks: int
    wtr_s: float
    wtr_s_clocks: int
    wtr_l: float
    wtr_l_clocks: int
    ccd_l: float
    ccd_l_clocks: int
    rrd_s: float
    rrd_s_clocks: int
    rrd_l: float
    rrd_l_clocks: int

    @property
    def clock_ns(self) -> float:
        """Period of the clock, ns."""
        return 1e3 / self.clock_mhz

    def clocks(self, name: str) -> int:
        """Return a least time in clocks; of tREFI, which is a longest time, whole clocks within it.

        Parameters
        ----------
        name : str
            Of a parameter in ns.
        """
        count: float = getattr(self, name) / self.clock_ns
        if name == "refi":
            return math.floor(count + _ROUNDING)
        least: int = getattr(self, f"{name}_clocks", 0)
        return max(least, math.ceil(count - _ROUNDING))


@dataclass(frozen=True)
class Ddr4Clocks:
    """Sizes of a memory, and its times in clocks, as models take them."""

    bus_bytes: int
    bank_groups: int
    banks: int
    rows: int
    columns: int
    cl: int
    cwl: int
    rcd: int
    rp: int
    ras: int
    rtp: int
    wr: int
    wtr_s: int
    wtr_l: int
    ccd_s: int
    ccd_l: int
    rrd_s: int
    rrd_l: int
    faw: int
    rfc: int
    refi: int


@dataclass(frozen=True)
class Ddr4Memory:
    """Chips with their data in parallel, in one rank.

    Parameters
    ----------
    summary : str
    chip : Ddr4Chip
    chips : int
    """

    summary: str
    chip: Ddr4Chip
    chips: int

    @property
    def bus_bytes(self) -> int:
        """Bytes of a word of the bus."""
        return self.chips * self.chip.data_bits // 8

    @property
    def size(self) -> int:
        """Bytes of the memory."""
        chip = self.chip
        return self.bus_bytes * chip.bank_groups * chip.banks * chip.rows * chip.columns

    @property
    def peak_gb_s(self) -> float:
        """Peak bandwidth, 10**9 bytes a second."""
        return 2 * self.chip.clock_mhz * self.bus_bytes / 1e3

    @property
    def clocks(self) -> Ddr4Clocks:
        """Sizes, and times in clocks."""
        chip = self.chip
        sizes = (self.bus_bytes, chip.bank_groups, chip.banks, chip.rows, chip.columns)
        direct = {"cl": chip.cl_clocks, "cwl": chip.cwl_clocks, "ccd_s": chip.ccd_s_clocks}
        names = list(Ddr4Clocks.__dataclass_fields__)[len(sizes) :]
        return Ddr4Clocks(*sizes, *(direct.get(name) or chip.clocks(name) for name in names))


@cache
def ddr4_memories() -> Mapping[str, Ddr4Memory]:
    """Return the memories that come with hwgen, by name."""
    text = (Path(__file__).parent / "ddr4.json").read_text(encoding="utf-8")
    document: Mapping[str, Any] = json.loads(text)
    chips = {name: Ddr4Chip(**fields) for name, fields in document["chips"].items()}
    return {
        name: Ddr4Memory(fields["summary"], chips[fields["chip"]], fields["chips"])
        for name, fields in document["memories"].items()
    }
