# SPDX-License-Identifier: Apache-2.0
"""Measured delays of what datapaths are made of, by technology.

The figures are those of `delays.json`, which ``make bench-delay`` measures and writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).with_name("delays.json")


@dataclass(frozen=True)
class Delays:
    """Delays in ns.

    Parameters
    ----------
    register : float
        From a clock edge through a register, and the set-up time of the next.
    gate : float
        A gate of a sum of bits, the unit of `hwgen.numerics.bit_heap`.
    read : float
        Each doubling of the number of entries that a read chooses from.
    adder : float
        A carry-propagate adder.
    float_adder : mapping of str to tuple of float
        A floating-point adder by format: alone, then the slowest stage of one with 1, 2, ...
        registers inside, those included.
    """

    register: float
    gate: float
    read: float
    adder: float
    float_adder: Mapping[str, tuple[float, ...]]


@cache
def measured(technology: str) -> Delays | None:
    """Return the delays in a technology, None if they have not been measured."""
    found = json.loads(DATA.read_text(encoding="utf-8"))["technologies"].get(technology)
    if found is None:
        return None
    floats = {name: tuple(stages) for name, stages in found["float_adder"].items()}
    return Delays(**{**found, "float_adder": floats})
