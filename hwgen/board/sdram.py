# SPDX-License-Identifier: Apache-2.0
"""SDR SDRAMs of 16 bits: geometry and timing, by chip in ``sdram.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

WORD_BYTES = 2
"""Bytes of a word of the chip."""

SDRAM_PORTS = {
    "cke": 1, "cs_n": 1, "ras_n": 1, "cas_n": 1, "we_n": 1, "ba": 2, "a": 13, "dqm": 2,
    "dq_o": 16, "dq_oe": 1, "dq_i": 16,
}  # fmt: skip
"""Bits of each port of a controller; the data pins are outputs, their enable, and inputs."""

SDRAM_OUTPUTS = tuple(name for name in SDRAM_PORTS if name != "dq_i")
"""Outputs of a controller, in the order in which models of the chip take them."""

RATIOS = (1, 2)
"""Cycles of the chip in a cycle of the design."""


class SdramError(Exception):
    """A rule of a chip is broken, in a simulation.

    Parameters
    ----------
    rule : str
        Its name, such as ``tRCD``.
    text : str
        The event, with its time.
    """

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule


def sdram_ports(ratio: int) -> dict[str, int]:
    """Return the bits of each port of a controller: a value for each cycle of the chip.

    Parameters
    ----------
    ratio : int
        One of `RATIOS`; the value of the first cycle is in the low bits.
    """
    return {name: bits if name == "dq_oe" else ratio * bits for name, bits in SDRAM_PORTS.items()}


@dataclass(frozen=True)
class SdramChip:
    """A chip, as its data sheet describes it.

    Parameters
    ----------
    summary : str
        Maker, name and size in words.
    row_bits, bank_bits, column_bits : int
        Bits of the address of a row, a bank and a column.
    least_clock_ns : mapping
        CAS latency to the shortest clock period, ns.
    rcd, rp, rc, rfc, ras, rrd, wr : float
        Least times, ns: from an activation to a read or write (tRCD), from a precharge to an
        activation (tRP), between activations of a bank (tRC), after a refresh (tRFC), from an
        activation to a precharge (tRAS), between activations of two banks (tRRD), and from the
        last word written to a precharge (tWR or tDPL).
    ras_longest : float
        Longest time that a row is open, ns.
    refi : float
        Longest time between refreshes, ns.
    mrd_clocks : int
        Clocks after the mode register is written.
    start_up_us : float
        Pause before the first command, us.
    start_up_refreshes : int
        Refreshes before the first activation.
    access : mapping
        CAS latency to the latest time of a word after the edge before its own, ns (tAC).
    output_hold, input_setup, input_hold : float
        Least times, ns: that a word stays after its edge (tOH), and that inputs are stable before
        and after an edge (tIS, tIH).
    """

    summary: str
    row_bits: int
    bank_bits: int
    column_bits: int
    least_clock_ns: Mapping[int, float]
    rcd: float
    rp: float
    rc: float
    rfc: float
    ras: float
    ras_longest: float
    rrd: float
    wr: float
    refi: float
    mrd_clocks: int
    start_up_us: float
    start_up_refreshes: int
    access: Mapping[int, float]
    output_hold: float
    input_setup: float
    input_hold: float

    def __post_init__(self) -> None:
        if not 8 <= self.column_bits <= 10:
            raise ValueError(f"column_bits must be 8 to 10, not {self.column_bits!r}")
        if not 11 <= self.row_bits <= 13:
            raise ValueError(f"row_bits must be 11 to 13, not {self.row_bits!r}")
        if self.bank_bits != 2:
            raise ValueError(f"bank_bits must be 2, not {self.bank_bits!r}")

    @property
    def size(self) -> int:
        """Bytes of the chip."""
        return WORD_BYTES << (self.row_bits + self.bank_bits + self.column_bits)

    def cas_latency(self, clock_ns: float) -> int:
        """Return the least CAS latency that a clock allows.

        Parameters
        ----------
        clock_ns : float
            Period, ns.

        Raises
        ------
        ValueError
            If the clock is too fast for the chip.
        """
        allowed = [cas for cas, least in self.least_clock_ns.items() if clock_ns >= least]
        if not allowed:
            least = min(self.least_clock_ns.values())
            raise ValueError(
                f"{self.summary}: a clock period must be at least {least:g} ns, not {clock_ns:g}"
            )
        return min(allowed)


@cache
def sdram_chips() -> Mapping[str, SdramChip]:
    """Return the chips that come with hwgen, by name."""
    text = (Path(__file__).parent / "sdram.json").read_text(encoding="utf-8")
    return {name: _chip(fields) for name, fields in json.loads(text)["chips"].items()}


def _chip(fields: Mapping[str, Any]) -> SdramChip:
    by_latency = {
        name: {int(cas): ns for cas, ns in fields[name].items()}
        for name in ("least_clock_ns", "access")
    }
    return SdramChip(**{**fields, **by_latency})
