# SPDX-License-Identifier: Apache-2.0
"""Measured figures by which the generator chooses, by technology.

They are those of `measured.json`, which ``make bench-delay`` measures and writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("measured.json")


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
def _figures(technology: str) -> Mapping[str, Any] | None:
    figures = json.loads(DATA.read_text(encoding="utf-8"))["technologies"].get(technology)
    return figures if figures is None else dict(figures)


@cache
def measured(technology: str) -> Delays | None:
    """Return the delays in a technology, None if they have not been measured."""
    figures = _figures(technology)
    if figures is None:
        return None
    floats = {name: tuple(stages) for name, stages in figures["delays"]["float_adder"].items()}
    return Delays(**{**figures["delays"], "float_adder": floats})


def smallest(technology: str) -> dict[str, str]:
    """Return the fields of the structure whose column was measured to be the smallest.

    Where none has been measured it is the one for FPGAs, whose logic cells have multiplexers and
    carry chains.
    """
    figures = _figures(technology)
    if figures is None:
        return {"fetch": "binary", "reduction": "adders"}
    fetch, reduction = min(figures["columns_um2"], key=figures["columns_um2"].__getitem__).split()
    return {"fetch": fetch, "reduction": reduction}
