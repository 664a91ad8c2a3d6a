# SPDX-License-Identifier: Apache-2.0
"""Estimates of netlists that belong to no configuration: area, Fmax, power and resources."""

from __future__ import annotations

from typing import Any

from cost_model.configurations.metrics import LUTS_USED, RESOURCES, luts_used
from cost_model.estimate import technology as technologies
from cost_model.estimate.activity import ASSUMED
from cost_model.estimate.analysis import Analysis
from cost_model.estimate.costed import STRUCTURE, plain
from cost_model.netlist.costs import breakdown
from cost_model.netlist.fabric.fabric import fabric
from cost_model.timing.limit import described, steps_of
from hwgen.technologies.utilization import smallest, utilization

METRICS = ("area_mm2", "power_w", "fmax_mhz", LUTS_USED, *RESOURCES)
"""What is estimated; null where it is not known."""

WITHIN = {"area_mm2": 0.3, "power_w": 0.3, "fmax_mhz": 0.45}
"""Relative errors that nine of ten designs that hwgen did not emit stay within, of area and Fmax at
nangate45 (``flows.bench.external``); power, a sum over the same components, is taken to be as area.
Of resources of FPGAs they are not known."""


def estimate_netlist(
    name: str, analysis: Analysis, technology: str, clock_mhz: float, device: str | None = None
) -> dict[str, Any]:
    """Estimate a netlist.

    Parameters
    ----------
    name : str
        Its top module.
    analysis : Analysis
    technology : str
    clock_mhz : float
        What is asked for; power is at this clock, or at Fmax if that is less.
    device : str, optional
        Of an FPGA family; default the smallest that will do.

    Returns
    -------
    dict
        JSON values, as `cost_model.estimate.estimate.estimate` names them.

    Raises
    ------
    InputError
        If nothing is known of the technology.
    """
    tech = technologies.technology(technology)
    path = analysis.limiting_path(tech, clock_mhz)
    fmax = None if path is None else 1000 / path.period_ns
    clock = clock_mhz if fmax is None else min(clock_mhz, fmax)
    parts = breakdown(analysis.parts((), fabric(technology)), tech.structure["costs"])
    sums = {quantity: sum(part[quantity] for part in parts) for quantity in tech.structure["costs"]}
    metrics: dict[str, float | int | None] = dict.fromkeys(METRICS)
    metrics["fmax_mhz"] = fmax
    counted = {name: float(round(sums[name])) for name in RESOURCES if name in sums}
    if counted:
        metrics |= {name: plain(value) for name, value in counted.items()}
        metrics[LUTS_USED] = plain(luts_used(technology, counted))
    if "area_um2" in sums:
        metrics["area_mm2"] = sums["area_um2"] * 1e-6
        metrics["power_w"] = (sums["leakage_nw"] + sums["energy_fj"] * clock) * 1e-9
    meets = None if fmax is None else fmax >= clock_mhz
    chosen = device or smallest(technology, metrics)
    return {
        "name": name,
        "family": None,
        "technology": technology,
        "clock_mhz": clock_mhz,
        "meets_clock": meets,
        "figures_at_mhz": clock,
        "clock_basis": "assumed" if meets is None else "asked for" if meets else "fmax",
        "metrics": metrics,
        "certainty": {
            metric: {"basis": "modelled"} | ({"within": WITHIN[metric]} if metric in WITHIN else {})
            for metric, value in metrics.items()
            if value is not None
        },
        "breakdown": parts,
        "limiting_path": None if path is None else described(path, steps_of(tech)),
        "device": None
        if chosen is None
        else {**utilization(chosen, metrics), "named": device is not None},
        "costs_of": STRUCTURE,
        "activity": ASSUMED.document(technology),
    }
