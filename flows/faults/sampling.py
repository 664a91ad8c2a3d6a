# SPDX-License-Identifier: Apache-2.0
"""Faults of a class, drawn at random, and how many are enough."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from flows.faults.circuit import Circuit, Site

STUCK_0, STUCK_1, PULSE, FLIP, MEMORY = range(1, 6)
"""Modes, as in ``flows/power/cpp/table.h``."""

CLASSES = {
    "flip": "a flip-flop changes its value once",
    "pulse": "a net has the wrong value for one cycle",
    "stuck": "a net is always 0, or always 1",
    "memory": "a bit of an SRAM macro changes its value once",
}
"""What happens to a design, by the name of the class."""


@dataclass(frozen=True)
class Fault:
    """A single fault.

    Parameters
    ----------
    mode : int
        `STUCK_0`, `STUCK_1`, `PULSE`, `FLIP` or `MEMORY`.
    site : Site
    cycle : int
        Rising edges of the clock before it; of a stuck net those before its first cycle.
    """

    mode: int
    site: Site
    cycle: int

    def numbers(self) -> tuple[int, int, int, int, int]:
        """Return the fault as the simulations in C++ read it."""
        return self.mode, self.site.number, self.cycle, self.site.word, self.site.bit


def faults_bytes(faults: Sequence[Fault]) -> bytes:
    """Return faults as the simulations in C++ read them."""
    return np.array([fault.numbers() for fault in faults], "<u4").tobytes()


def sample_size(population: int, margin: float, confidence: float) -> int:
    """Return the number of faults to draw so that a share is known to a margin.

    Parameters
    ----------
    population : int
        Faults that there are.
    margin : float
        Half of the width of the interval, e.g. 0.01 for ± 1 %.
    confidence : float
        Probability that the interval holds the share, e.g. 0.95.

    Notes
    -----
    Of a share p, n draws without replacement from N have the variance p (1 - p) / n times
    (N - n) / (N - 1); p = 1/2 is the worst case.  Solved for n.
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    return min(population, math.ceil(population / (1 + margin**2 * (population - 1) * 4 / z**2)))


def population_of(circuit: Circuit, name: str, cycles: int) -> int:
    """Return the number of faults of a class in so many cycles."""
    if name == "flip":
        return len(circuit.flip_flops) * cycles
    if name == "pulse":
        return len(circuit.nets) * cycles
    if name == "stuck":
        return len(circuit.nets) * 2
    return sum(words * bits for _, words, bits in circuit.memory_bits()) * cycles


def draw_faults(
    circuit: Circuit, name: str, cycles: range, count: int, rng: np.random.Generator
) -> list[Fault]:
    """Return faults of a class, all different, sorted by cycle.

    Parameters
    ----------
    circuit : Circuit
    name : str
        One of `CLASSES`.
    cycles : range
        In which faults may be; stuck nets are stuck from the first one on.
    count : int
        At most the population.
    rng : numpy Generator
    """
    population = population_of(circuit, name, len(cycles))
    numbers = rng.choice(population, count, replace=False, shuffle=False).tolist()
    if name == "stuck":
        faults = [
            Fault(STUCK_1 if number % 2 else STUCK_0, circuit.nets[number // 2], cycles[0])
            for number in numbers
        ]
    elif name == "memory":
        faults = [
            Fault(MEMORY, _memory_site(circuit, number // len(cycles)),
                  cycles[number % len(cycles)])
            for number in numbers
        ]  # fmt: skip
    else:
        sites, mode = (circuit.flip_flops, FLIP) if name == "flip" else (circuit.nets, PULSE)
        faults = [
            Fault(mode, sites[number // len(cycles)], cycles[number % len(cycles)])
            for number in numbers
        ]
    return sorted(faults, key=lambda fault: fault.cycle)


def _memory_site(circuit: Circuit, number: int) -> Site:
    for macro, words, bits in circuit.memory_bits():
        if number < words * bits:
            return circuit.memory_site(macro, *divmod(number, bits))
        number -= words * bits
    raise ValueError("no such bit")
