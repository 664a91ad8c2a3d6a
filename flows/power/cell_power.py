# SPDX-License-Identifier: Apache-2.0
"""Power of cells by a Liberty file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from flows.synthesis.liberty import Library, cell_texts

_CELL_LEAKAGE = re.compile(r"\bcell_leakage_power\s*:\s*\"?([-+\d.eE]+)")
_LEAKAGES = re.compile(r"\bleakage_power\s*\(\s*\)\s*\{[^{}]*?\bvalue\s*:\s*\"?([-+\d.eE]+)")
_LEAKAGE_UNIT = re.compile(r'\bleakage_power_unit\s*:\s*"?\s*1\s*([munpf]?)W')
_VOLTAGE = re.compile(r'\bnom_voltage\s*:\s*"?([\d.]+)')
_CLOCK = re.compile(r'pin\s*\(\s*"?(\w+)"?\s*\)\s*\{(?:[^{}]|\{[^{}]*\})*?\bclock\s*:\s*"?true')
_NANO = {"m": 1e6, "u": 1e3, "n": 1.0, "p": 1e-3, "f": 1e-6, "": 1e9}


@dataclass(frozen=True)
class CellPower:
    """Power figures of a cell.

    Parameters
    ----------
    leakage_nw : float
        The cell's own figure, else the average over its states.
    clocks : frozenset of str
        Its clock pins.
    """

    leakage_nw: float
    clocks: frozenset[str]


def voltage(library: Library) -> float:
    """Return the nominal supply voltage in V."""
    return float(match[1]) if (match := _VOLTAGE.search(library.text)) else 1.0


def cell_powers(library: Library) -> Mapping[str, CellPower]:
    """Return the power figures of the cells of a library, by name."""
    unit = _LEAKAGE_UNIT.search(library.text)
    scale = _NANO[unit[1]] if unit else 1.0
    powers = {}
    for name, body in cell_texts(library):
        stated = _CELL_LEAKAGE.search(body)
        states = [float(value) for value in _LEAKAGES.findall(body)]
        average = sum(states) / len(states) if states else 0.0
        leakage = scale * (float(stated[1]) if stated else average)
        powers[name] = CellPower(leakage, frozenset(_CLOCK.findall(body)))
    return powers
