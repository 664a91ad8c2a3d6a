# SPDX-License-Identifier: Apache-2.0
"""Timing at the pads of an SDRAM that has twice the clock of the design.

Registers of the pads work at both edges of the clock of the design, here called edges: they come
once in a cycle of the chip.  The chip's clock rises later than each of them by the phase of a
phase-locked loop.  A word that the chip drives after one of its edges is sampled a number of edges
later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hwgen.board.sdram import SdramChip

_SAMPLED = (1, 2, 3)
_STEP_HZ = 62_500


@dataclass(frozen=True)
class Pads:
    """Registers of the pads of an FPGA.

    Parameters
    ----------
    out_ns, in_ns : (float, float)
        Least and longest time from an edge of the clock to a pin, and from a pin to a register,
        its setup or hold time included, ns.
    out_cycles : int
        Cycles of the design from when outputs are sampled to when they are at the pins.
    in_cycles : int
        Cycles of the design from when a word is sampled to when the design has it.
    """

    out_ns: tuple[float, float]
    in_ns: tuple[float, float]
    out_cycles: int
    in_cycles: int

    def capture(self, sampled: int) -> int:
        """Return the cycles of the chip by which outputs and words are late together.

        Parameters
        ----------
        sampled : int
            As of `Margins`.
        """
        return 2 * (1 + self.out_cycles) - 1 + sampled + 2 * self.in_cycles


PADS: dict[str, Pads] = {"BB": Pads((2.0, 4.0), (0.5, 2.0), 2, 1)}
"""Pads by the primitive of a pin; ODDRX1F has two more stages of registers than IDDRX1F."""


@dataclass(frozen=True)
class Margins:
    """Time that is left at the pins, ns.

    Parameters
    ----------
    sampled : int
        Edges after the one that a chip's edge follows, at which a word driven from there on is
        sampled.
    input_setup, input_hold : float
        Of commands and data at the chip, beyond tIS and tIH.
    word_setup, word_hold : float
        Of words at the registers of the pads.
    """

    sampled: int
    input_setup: float
    input_hold: float
    word_setup: float
    word_hold: float

    @property
    def least(self) -> float:
        """The smallest."""
        return min(self.input_setup, self.input_hold, self.word_setup, self.word_hold)


def margins(chip: SdramChip, pads: Pads, clock_ns: float, phase_ns: float) -> Margins:
    """Return the margins with the sampling edge that leaves most.

    Parameters
    ----------
    chip : SdramChip
    pads : Pads
    clock_ns : float
        Period of the chip's clock, ns.
    phase_ns : float
        Time from an edge of the design's clock to the chip's next one, before delays of pads.

    Raises
    ------
    ValueError
        If the clock is too fast for the chip.
    """
    access = chip.access[chip.cas_latency(clock_ns)]
    spread = pads.out_ns[1] - pads.out_ns[0]
    arrives = phase_ns + pads.out_ns[1] + access + pads.in_ns[1]
    leaves = phase_ns + pads.out_ns[0] + clock_ns + chip.output_hold + pads.in_ns[0]
    return max(
        (
            Margins(
                edges,
                phase_ns - spread - chip.input_setup,
                clock_ns - phase_ns - spread - chip.input_hold,
                edges * clock_ns - arrives,
                leaves - edges * clock_ns,
            )
            for edges in _SAMPLED
        ),
        key=lambda each: each.least,
    )


def best_phase(
    chip: SdramChip, pads: Pads, clock_ns: float, phases_ns: Iterable[float]
) -> tuple[float, Margins]:
    """Return the phase that leaves the largest margins, and these.

    Parameters
    ----------
    chip : SdramChip
    pads : Pads
    clock_ns : float
        Period of the chip's clock, ns.
    phases_ns : iterable of float
        Phases that there are.

    Raises
    ------
    ValueError
        If no margin is left, with the fastest clock that leaves one.
    """
    phase, left = max(
        ((phase, margins(chip, pads, clock_ns, phase)) for phase in phases_ns),
        key=lambda pair: pair[1].least,
    )
    if left.least < 0:
        raise ValueError(
            f"{chip.summary}: at {1e3 / clock_ns:g} MHz no phase of its clock leaves the pads a"
            f" margin ({left.least:.2f} ns); {fastest_mhz(chip, pads):g} MHz is the fastest"
        )
    return phase, left


def fastest_mhz(chip: SdramChip, pads: Pads) -> float:
    """Return the fastest clock of the chip, in MHz, for which the pads have a margin.

    Parameters
    ----------
    chip : SdramChip
    pads : Pads
    """
    hz = 1e9 / min(chip.least_clock_ns.values()) // _STEP_HZ * _STEP_HZ
    while hz > 0:
        period = 1e9 / hz
        phases = (period * step / 100 for step in range(100))
        if max(margins(chip, pads, period, phase).least for phase in phases) >= 0:
            break
        hz -= _STEP_HZ
    return hz / 1e6
