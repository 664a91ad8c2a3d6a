# SPDX-License-Identifier: Apache-2.0
"""Synthesizing the cores that a technology is calibrated or checked on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from cost_model.closed_forms.closed_forms import ACTIVITY
from flows.calibration.mapping_cache import versions
from flows.power.cell_power import cell_powers, voltage
from flows.synthesis import liberty
from flows.synthesis.standard_cells import Mapped
from flows.tools.cache import text_digest
from hwgen.technologies import cell_library

RECIPE = "nf"
"""Area and speed balanced."""


@dataclass(frozen=True)
class Measured:
    """A core mapped to standard cells.

    Parameters
    ----------
    values : mapping
        Its dotted parameters.
    area_um2, leakage_nw, energy_fj : float
        Of all cells; the energy is that of a cycle, see `cost_model.closed_forms.closed_forms`.
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


def summed(values: Mapping[str, Any], found: Mapped) -> Measured:
    """Return what matters of a mapped core."""
    costs = cell_costs(found.technology)
    return Measured(
        values,
        found.area,
        sum(costs[cell].leakage_nw * count for cell, count in found.cells.items()),
        sum(costs[cell].energy_fj * count for cell, count in found.cells.items()),
        {name: part.area * part.count for name, part in found.parts.items()},
        {name: part.count for name, part in found.parts.items()},
        found.timing.path_ns if found.timing else None,
    )


def provenance(technology: str) -> dict[str, Any]:
    """Return what measurements in a technology rest on."""
    return {
        "recipe": RECIPE,
        "clock_ps": cell_library(technology).mapper_clock_ps,
        "kept_modules": "flows.synthesis.outline",
        "tools": versions(),
        "liberty": text_digest(liberty.load(technology).text),
        "activity": ACTIVITY,
        "energy": "C V^2 of the input capacitances of the mapped cells; clock pins every cycle",
    }


# -- power -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CellCosts:
    """What a cell costs.

    Parameters
    ----------
    sequential : bool
        Whether it stores something.
    area_um2, leakage_nw, energy_fj : float
        As in `Measured`.
    """

    sequential: bool
    area_um2: float
    leakage_nw: float
    energy_fj: float


@cache
def cell_costs(technology: str) -> Mapping[str, CellCosts]:
    """Return what each cell of a technology costs."""
    library = liberty.load(technology)
    squared = voltage(library) ** 2
    found = {}
    for name, power in cell_powers(library).items():
        cell = library.cells[name]
        energy = squared * sum(
            load * (1.0 if pin in power.clocks else ACTIVITY) for pin, load in cell.inputs.items()
        )
        found[name] = CellCosts(cell.sequential, cell.area, power.leakage_nw, energy)
    return found
