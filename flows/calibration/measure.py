# SPDX-License-Identifier: Apache-2.0
"""Costs of mapped cores and of the cells of a technology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from cost_model.configurations.metrics import ACTIVITY
from flows.calibration.mapping_cache import versions
from flows.power.cell_power import cell_powers, voltage
from flows.synthesis import liberty
from flows.synthesis.standard_cells import Mapped
from flows.tools.cache import text_digest
from hwgen.technologies import cell_library

RECIPE = "nf"
"""Area and speed balanced."""


def mapped_costs(mapped: Mapped) -> dict[str, float]:
    """Return area, leakage, and energy of a cycle of all cells of a mapped core."""
    costs = cell_costs(mapped.technology)
    return {
        "area_um2": mapped.area,
        "leakage_nw": sum(costs[cell].leakage_nw * count for cell, count in mapped.cells.items()),
        "energy_fj": sum(costs[cell].energy_fj * count for cell, count in mapped.cells.items()),
    }


def provenance(technology: str) -> dict[str, Any]:
    """Return the settings and tools of measurements in a technology."""
    return {
        "recipe": RECIPE,
        "clock_ps": cell_library(technology).mapper_clock_ps,
        "kept_modules": "flows.synthesis.outline",
        "tools": versions(),
        "liberty": text_digest(liberty.load(technology).text),
        "activity": ACTIVITY,
        "energy": "C V^2 of the input capacitances of the mapped cells; clock pins every cycle",
    }


@dataclass(frozen=True)
class CellCosts:
    """Costs of a cell.

    Parameters
    ----------
    sequential : bool
        Whether it stores something.
    area_um2, leakage_nw, energy_fj : float
        The energy is that of a cycle, see `cost_model.configurations.metrics`.
    """

    sequential: bool
    area_um2: float
    leakage_nw: float
    energy_fj: float


@cache
def cell_costs(technology: str) -> Mapping[str, CellCosts]:
    """Return the costs of each cell of a technology."""
    library = liberty.load(technology)
    squared = voltage(library) ** 2
    result = {}
    for name, power in cell_powers(library).items():
        cell = library.cells[name]
        energy = squared * sum(
            load * (1.0 if pin in power.clocks else ACTIVITY) for pin, load in cell.inputs.items()
        )
        result[name] = CellCosts(cell.sequential, cell.area, power.leakage_nw, energy)
    return result
