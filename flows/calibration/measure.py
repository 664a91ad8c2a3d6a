# SPDX-License-Identifier: Apache-2.0
"""Synthesizing the cores that a technology is calibrated or checked on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from cost_model.closed_forms import ACTIVITY
from flows import liberty
from flows.cache import hashed
from flows.calibration.mapping_cache import map_cached, versions
from flows.calibration.points import NAME, config_of
from flows.cell_power import cell_powers, voltage
from flows.standard_cells import Mapped
from hwgen.config.product import ProductConfig
from hwgen.emission import verilog_of
from hwgen.technologies import cell_library

RECIPE = "nf"
"""Area and speed balanced."""

KEPT: Mapping[str, tuple[str, ...]] = {
    "systolic": ("pe", "drain", "recode", "resolve"),
    **dict.fromkeys(
        ("adder_tree", "broadcast_2d", "cube"), ("pe", "drain", "edge", "held", "resolve")
    ),
    "ternary_lut": ("table", "column", "counts", "add_", "multiply_"),
}
"""Modules of each family that are mapped on their own, by the beginnings of their names."""

KEPT_SERIAL = ("pe", "edge", "window", "drain", "resolve")
"""The same of arrays of serial PEs, in any family."""


def kept(config: ProductConfig) -> tuple[str, ...]:
    """Return the beginnings of the names of modules that are mapped on their own."""
    lanes = ("post_lane",) if config.post_features else ()
    serial = getattr(getattr(config, "array", None), "serial", False)
    return (*(KEPT_SERIAL if serial else KEPT[config.family]), *lanes)


@dataclass(frozen=True)
class Measured:
    """A core mapped to standard cells.

    Parameters
    ----------
    values : mapping
        Its dotted parameters.
    area_um2, leakage_nw, energy_fj : float
        Of all cells; the energy is that of a cycle, see `cost_model.closed_forms`.
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
    config, tech = config_of(values), cell_library(technology)
    found = map_cached(
        verilog_of(config),
        config.name,
        technology,
        RECIPE,
        tech.mapper_clock_ps,
        keep=[f"{NAME}_{prefix}" for prefix in kept(config)],
        full_adders=tech.full_adder is not None,
    )
    return summed(values, found)


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
        "kept_modules": {
            **{family: list(names) for family, names in KEPT.items()},
            "serial PEs": list(KEPT_SERIAL),
        },
        "tools": versions(),
        "liberty": hashed(liberty.load(technology).text),
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
