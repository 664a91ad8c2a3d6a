# SPDX-License-Identifier: Apache-2.0
"""Synthesizing the cores that a technology is calibrated or checked on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from cost_model.evaluate import ACTIVITY
from flows import liberty
from flows.bench.mapping_cache import map_cached, versions
from flows.cache import hashed
from flows.calibration.points import NAME, config_of
from flows.liberty import TECHNOLOGIES
from flows.synthesis import Mapped
from hwgen.build import verilog_of

RECIPE = "nf"
"""Area and speed balanced."""

CLOCKS_PS: Mapping[str, float] = {
    "asap7": 300.0,
    "nangate45": 500.0,
    "sky130hd": 1200.0,
    "ihp-sg13g2": 1200.0,
}
"""Clock period that the mapper aims at: so short that it makes everything about as fast as it can,
and area and delay follow from the structure of a design rather than from its slack."""

KEPT: Mapping[str, tuple[str, ...]] = {
    "systolic": ("pe", "drain"),
    "ternary_lut": ("table", "column", "counts", "add_", "multiply_"),
}
"""Modules of each family that are mapped on their own, by the beginnings of their names."""


@dataclass(frozen=True)
class Measured:
    """A core mapped to standard cells.

    Parameters
    ----------
    values : mapping
        Its dotted parameters.
    area_um2, leakage_nw, energy_fj : float
        Of all cells; the energy is that of a cycle, see `cost_model.evaluate`.
    modules : mapping
        Area of each module, without the modules in it, times its instances.
    instances : mapping
        How often each module is there.
    delay_ns : float or None
        Of the worst path; None if OpenSTA is missing.
    """

    values: Mapping[str, Any]
    area_um2: float
    leakage_nw: float
    energy_fj: float
    modules: Mapping[str, float]
    instances: Mapping[str, int]
    delay_ns: float | None


def measure(values: Mapping[str, Any], technology: str) -> Measured:
    """Map the core that dotted parameters describe; results are kept in the user's cache."""
    config = config_of(values)
    found = map_cached(
        verilog_of(config),
        config.name,
        technology,
        RECIPE,
        CLOCKS_PS[technology],
        keep=[f"{NAME}_{prefix}" for prefix in KEPT[config.family]],
        full_adders=TECHNOLOGIES[technology].full_adder is not None,
    )
    return summed(values, found)


def summed(values: Mapping[str, Any], found: Mapped) -> Measured:
    """Return what matters of a mapped core."""
    leakage, energy = _powers(found.technology)
    return Measured(
        values,
        found.area,
        sum(leakage[cell] * count for cell, count in found.cells.items()),
        sum(energy[cell] * count for cell, count in found.cells.items()),
        {name: part.area * part.count for name, part in found.parts.items()},
        {name: part.count for name, part in found.parts.items()},
        found.timing.path_ns if found.timing else None,
    )


def provenance(technology: str) -> dict[str, Any]:
    """Return what measurements in a technology rest on."""
    return {
        "recipe": RECIPE,
        "clock_ps": CLOCKS_PS[technology],
        "kept_modules": {family: list(names) for family, names in KEPT.items()},
        "tools": versions(),
        "liberty": hashed(liberty.load(technology).text),
        "activity": ACTIVITY,
        "energy": "C V^2 of the input capacitances of the mapped cells; clock pins every cycle",
    }


# -- power -----------------------------------------------------------------------------------------

_CELL = re.compile(r'^\s*cell\s*\(\s*"?([\w.]+)"?\s*\)\s*\{', re.MULTILINE)
_CELL_LEAKAGE = re.compile(r"\bcell_leakage_power\s*:\s*\"?([-+\d.eE]+)")
_LEAKAGES = re.compile(r"\bleakage_power\s*\(\s*\)\s*\{[^{}]*?\bvalue\s*:\s*\"?([-+\d.eE]+)")
_LEAKAGE_UNIT = re.compile(r'\bleakage_power_unit\s*:\s*"?\s*1\s*([munpf]?)W')
_VOLTAGE = re.compile(r'\bnom_voltage\s*:\s*"?([\d.]+)')
_CLOCK = re.compile(r'pin\s*\(\s*"?(\w+)"?\s*\)\s*\{(?:[^{}]|\{[^{}]*\})*?\bclock\s*:\s*"?true')
_NANO = {"m": 1e6, "u": 1e3, "n": 1.0, "p": 1e-3, "f": 1e-6, "": 1e9}


@cache
def _powers(technology: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return leakage in nW and energy of a cycle in fJ, by cell."""
    library = liberty.load(technology)
    unit = _LEAKAGE_UNIT.search(library.text)
    scale = _NANO[unit[1]] if unit else 1.0
    voltage = float(match[1]) if (match := _VOLTAGE.search(library.text)) else 1.0
    leakage, energy = {}, {}
    for name, body in _cells(library.text):
        if name not in library.cells:
            continue
        given = _CELL_LEAKAGE.search(body)
        states = [float(value) for value in _LEAKAGES.findall(body)]
        average = sum(states) / len(states) if states else 0.0
        leakage[name] = scale * (float(given[1]) if given else average)
        clocks = set(_CLOCK.findall(body))
        inputs = library.cells[name].inputs
        energy[name] = voltage**2 * sum(
            load * (1.0 if pin in clocks else ACTIVITY) for pin, load in inputs.items()
        )
    return leakage, energy


def _cells(text: str) -> Iterator[tuple[str, str]]:
    found = list(_CELL.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    for match, end in zip(found, ends, strict=False):
        yield match[1], text[match.end() : end]
