# SPDX-License-Identifier: Apache-2.0
"""The energy inside cells, from the tables of their Liberty file.

A table belongs to a pin, and says what a change of it takes besides charging its load.  That of an
output is given for each input that can cause the change, often for several states of the others.
Which input it was is not known of a change that is only counted: those that change more often are
taken to be the cause more often; states count alike.  Slews are not known either: the middle one
of each table is taken.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flows.synthesis.liberty import Library, cell_texts, insides, load_unit

_TABLES = ("rise_power", "fall_power", "power")
_RELATED = re.compile(r'\brelated_pin\s*:\s*"?([\w ]+)')
_SUPPLY = re.compile(r'\brelated_pg_pin\s*:\s*"?(\w+)')
_LOADS = re.compile(r'\bindex_2\s*\(\s*"([^"]*)"')
_VALUES = re.compile(r"\bvalues\s*\(([^)]*)\)")
_ROW = re.compile(r'"([^"]*)"')


@dataclass(frozen=True)
class Arc:
    """The energy of a change of a pin, in one state of the cell.

    Parameters
    ----------
    related : tuple of str
        Inputs that cause the change; empty if the pin is one itself.
    supply : str
        The supply that gives it; energies of several add up.
    tables : tuple
        Of a rise and of a fall, or of either: loads of the pin in fF, and the energies with them in
        fJ at the middle slew.
    """

    related: tuple[str, ...]
    supply: str
    tables: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]

    def at(self, load_ff: float) -> float:
        """Return the mean energy with a load; beyond a table that at the nearest one in it."""
        return float(np.mean([np.interp(load_ff, *table) for table in self.tables]))


def arcs_of(library: Library, body: str) -> dict[str, tuple[Arc, ...]]:
    """Return the arcs of the pins of a cell, from the text of its group."""
    unit = load_unit(library.text, "the Liberty file")
    return {
        pin: tuple(
            arc for _, power in insides(text, ["internal_power"]) if (arc := _arc(power, unit))
        )
        for pin, text in insides(body, ["pin"])
    }


Causes = tuple[tuple[tuple[tuple[str, ...], float], ...], ...]
"""Of each supply: the inputs that cause a change of a pin, and its energy then in fJ."""


def causes_of(arcs: Sequence[Arc], load_ff: float) -> Causes:
    """Return the energies of a change of a pin by its cause.

    Parameters
    ----------
    arcs : sequence of Arc
        Of the pin.
    load_ff : float
    """
    result = []
    for supply in dict.fromkeys(arc.supply for arc in arcs):
        causes: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for arc in arcs:
            if arc.supply == supply:
                causes[arc.related].append(arc.at(load_ff))
        result.append(
            tuple((related, float(np.mean(states))) for related, states in causes.items())
        )
    return tuple(result)


def internal_fj(causes: Causes, changes: Mapping[str, float]) -> float:
    """Return the energy of a change of a pin in fJ.

    Parameters
    ----------
    causes : tuple
        Of the pin, see `causes_of`.
    changes : mapping
        Pin: how often it changes, for the inputs of the cell.
    """
    total = 0.0
    for supply in causes:
        weights = [sum(changes.get(pin, 0.0) for pin in related) for related, _ in supply]
        weight = sum(weights)
        if weight:
            total += sum(w * e for w, (_, e) in zip(weights, supply, strict=True)) / weight
        else:
            total += sum(energy for _, energy in supply) / len(supply)
    return total


class CellEnergies:
    """Internal energies of the cells of a library, by cell, pin and load; computed once each.

    Parameters
    ----------
    library : Library
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._texts = dict(cell_texts(library))
        self._arcs: dict[str, dict[str, tuple[Arc, ...]]] = {}
        self._causes: dict[tuple[str, str, float], Causes] = {}

    def causes(self, cell: str, pin: str, load_ff: float) -> Causes:
        """Return the energies of a change of a pin by its cause, nothing if they are unknown."""
        key = (cell, pin, round(load_ff, 3))
        if key not in self._causes:
            if cell not in self._arcs:
                self._arcs[cell] = arcs_of(self._library, self._texts[cell])
            self._causes[key] = causes_of(self._arcs[cell].get(pin, ()), load_ff)
        return self._causes[key]


def _arc(text: str, unit: float) -> Arc | None:
    tables = []
    for _, table in insides(text, _TABLES):
        values, index = _VALUES.search(table), _LOADS.search(table)
        rows = [_numbers(row) for row in _ROW.findall(values[1])] if values else []
        if not rows:
            continue
        row = rows[len(rows) // 2]  # by slew, then by load
        loads = _numbers(index[1]) if index else []
        if len(loads) != len(row):  # by slew alone
            loads, row = [0.0], [row[len(row) // 2]]
        tables.append((tuple(unit * x for x in loads), tuple(unit * x for x in row)))
    if not tables:
        return None
    related, supply = _RELATED.search(text), _SUPPLY.search(text)
    return Arc(
        tuple(related[1].split()) if related else (), supply[1] if supply else "", tuple(tables)
    )


def _numbers(text: str) -> list[float]:
    return [float(value) for value in text.replace(",", " ").split()]
