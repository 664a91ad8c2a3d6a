# SPDX-License-Identifier: Apache-2.0
"""Types of off-chip memory, their bandwidth and energy; the figures are in ``off_chip.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class MemoryType:
    """A type of memory.

    Parameters
    ----------
    configuration : str
        What has the peak bandwidth below.
    peak_gb_s : float
        GB/s, 10**9 bytes a second.
    energy_pj_per_bit : float or None
        Of a bit read or written in long bursts; None if no source is known.
    energy_source : str
        Where it is from, or why there is none.
    efficiency : float
        Share of the peak that long bursts achieve.
    efficiency_source : str
    """

    configuration: str
    peak_gb_s: float
    energy_pj_per_bit: float | None
    energy_source: str
    efficiency: float
    efficiency_source: str


@cache
def memory_types() -> Mapping[str, MemoryType]:
    """Return the types of memory by name."""
    text = (Path(__file__).parent / "off_chip.json").read_text(encoding="utf-8")
    return {name: MemoryType(**fields) for name, fields in json.loads(text)["kinds"].items()}
