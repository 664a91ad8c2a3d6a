# SPDX-License-Identifier: Apache-2.0
"""The table of an engine's units: area or look-up tables, power, and memories of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwgen.reports.roofline import number
from hwgen.technologies import fpga_family
from hwgen.technologies.utilization import NAMES, used_resources

_BLOCKS = ("dsps", "brams")


def unit_table(entry: Mapping[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return headings and rows of the units of an estimate; it must have units.

    Areas are in mm², power in mW at the clock of the figures; of FPGAs there are look-up tables,
    DSP blocks and block memories instead.
    """
    clock = entry["figures_at_mhz"] or entry["clock_mhz"]
    units = [_costs(unit, entry["technology"], clock) for unit in entry["units"]]
    total = sum(unit["cost"] for unit in units) or 1.0
    watts = sum(unit["mw"] or 0.0 for unit in units) or 1.0
    cells = entry["units"][0].get("area_um2") is not None
    rows = []
    for unit in units:
        row = [unit["unit"] or "port, lists", number(unit["cost"]), _share(unit["cost"] / total)]
        if cells:
            mw = unit["mw"]
            row += ["-", "-"] if mw is None else [number(mw), _share(mw / watts)]
            row.append(number(unit["memories"]))
        else:
            row += [number(unit[name]) for name in _BLOCKS]
        memory = unit["largest_memory"]
        row.append("" if memory is None else f"{memory[0]:,} x {memory[1]} bits")
        rows.append(tuple(row))
    others = ("mW", "%", "memories mm²") if cells else tuple(NAMES[name] for name in _BLOCKS)
    return ("unit", "mm²" if cells else "LUTs", "%", *others, "largest memory"), rows


def _costs(unit: Mapping[str, Any], technology: str, clock_mhz: float) -> dict[str, Any]:
    row = {name: unit.get(name) for name in ("unit", *_BLOCKS, "largest_memory")}
    if unit.get("area_um2") is None:
        luts = used_resources(fpga_family(technology), unit)["luts"]
        return {**row, "cost": luts or 0.0, "memories": None, "mw": None}
    energy, leakage = unit.get("energy_fj"), unit.get("leakage_nw")
    power = None if energy is None or leakage is None else leakage + energy * clock_mhz
    return {
        **row,
        "cost": unit["area_um2"] * 1e-6,
        "memories": unit["memories"]["area_um2"] * 1e-6,
        "mw": None if power is None else power * 1e-6,
    }


def _share(value: float) -> str:
    return f"{100 * value:.1f}"
