# SPDX-License-Identifier: Apache-2.0
"""Costs and speed of the hardware of a configuration, by its netlist."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cost_model.configurations.configurations import Configurations
from cost_model.configurations.metrics import (
    DEVICE,
    LUTS_USED,
    RESOURCES,
    VALID,
    Workloads,
    luts_used,
    metrics_of,
    shares,
)
from cost_model.estimate import technology as technologies
from cost_model.estimate.activity import ASSUMED, Activity, described, with_activity
from cost_model.estimate.analysis import Analysis
from cost_model.estimate.units import costs_by_unit
from cost_model.memories import macros, memories
from cost_model.netlist.costs import Part, logic_share
from cost_model.netlist.costs import breakdown as structural_breakdown
from cost_model.netlist.fabric import energy as fabric_energy
from cost_model.netlist.fabric.fabric import fabric
from cost_model.timing.graph import Path
from hwgen.core.core import Core
from hwgen.core.protocols import BufferedCore
from hwgen.technologies.model import Memories

STRUCTURE = "structure"
"""What costs are sums over."""


@dataclass(frozen=True)
class Costed:
    """Costs of a configuration.

    Parameters
    ----------
    metrics : dict
        As `cost_model.configurations.metrics` names them, None if unknown.
    breakdown : list of dict
        What each part costs and consists of.
    margins : mapping
        By quantity, the relative error that nine of ten designs stay within.
    path : Path or None
        What limits Fmax, if it is known.
    made : sequence of Made
        What the memories are made of.
    macros_source : str or None
        Where the figures of SRAM macros are from, if there are any in it.
    notes : list of str
        Why figures are missing.
    units : list of dict
        Costs by unit, of engines of several; see `cost_model.estimate.units`.
    """

    metrics: dict[str, Any]
    breakdown: list[dict[str, Any]]
    margins: Mapping[str, float]
    path: Path | None = None
    made: Sequence[memories.Made] = ()
    macros_source: str | None = None
    notes: list[str] = field(default_factory=list)
    units: list[dict[str, Any]] = field(default_factory=list)


def costed(
    single: Configurations,
    tech: technologies.Technology | None,
    workloads: Workloads,
    analysis: Analysis | None,
    made_of: memories.Form,
    *,
    fpga_energies: bool = False,
    activity: Activity = ASSUMED,
) -> Costed:
    """Return the costs of a core; see `cost_model.estimate.estimate.estimate`.

    Parameters
    ----------
    single : Configurations
        The core, for the technology, the clock and the device to estimate for.
    tech : Technology or None
        The technology, if it is calibrated.
    workloads : mapping
    analysis : Analysis or None
    made_of : {"macros", "registers"}
    fpga_energies : bool, optional
        Whether there is power of FPGAs, see `cost_model.netlist.fabric.energy`.
    activity : Activity, optional
        By which power is; see `cost_model.estimate.activity`.
    """
    if analysis is None or tech is None:
        return Costed(_without_costs(single, workloads), [], {})
    tech = with_activity(tech, activity)
    core = single.example
    assert core is not None
    technology, clock = str(single["target.technology"]), float(single["target.clock_mhz"])
    uses = analysis.memories()
    below = core.params.memories.registers_below
    chosen = memories.macros_of(uses, technology, tech, below) if made_of == "macros" else {}
    steps = memories.steps_of(uses, chosen, technology, 1000 / clock)
    path = analysis.limiting_path(tech, clock, steps)
    rules = fabric(technology)
    parts = analysis.parts(chosen, rules)
    made: list[memories.Made] = []
    if rules is None:  # else memories are of the fabric, and counted with the rest
        counts = {part.module: part.components for part in parts}
        made = memories.made_of(uses, chosen, technology, tech.structure["costs"], counts)
    notes = [text] if (text := described(tech, activity)) else []
    metrics, breakdown = _of_structure(single, parts, path, tech, workloads, made)
    device = single[DEVICE]
    library = macros.library(technology)
    result = shares(device, _resources_or_nan(metrics))
    metrics |= {name: plain(value) for name, value in result.items()}
    if rules is not None and fpga_energies:
        at = min(clock, metrics["fmax_mhz"] or clock)
        power = fabric_energy.powered(technology, metrics, workloads, at)
        metrics |= {name: plain(value) for name, value in power.items()}
        if metrics["power_w"] is not None:
            notes.append(fabric_energy.note())
    margins = _margins(tech, breakdown, made, min(clock, metrics["fmax_mhz"] or clock), library)
    return Costed(
        metrics=metrics,
        breakdown=breakdown,
        margins=margins,
        path=path,
        made=made,
        macros_source=library.source if chosen and library else None,
        notes=[
            *notes,
            *([] if made_of == "registers" else _without_macros(made, technology, below)),
            *_of_energies(made, technology),
            *_without_margins(tech, breakdown, made, margins),
        ],
        units=costs_by_unit(analysis.units(), breakdown),
    )


def _margins(
    tech: technologies.Technology,
    breakdown: Sequence[Mapping[str, Any]],
    made: Sequence[memories.Made],
    clock_mhz: float,
    library: Memories | None,
) -> dict[str, float]:
    """Return prediction intervals of a design by its structure.

    Designs with macros are none of those that the costs were checked on: of them only power has
    one, where it is known how far off the energies of macros are.
    """
    counts: Counter[str] = Counter()
    for part in breakdown:
        counts.update(part["components"])
    if not counts.pop("sram_bit", 0):
        return _margins_of_logic(tech, counts, clock_mhz)
    if library is None or library.energy_factor is None:
        return {}
    within = _margins_of_logic(tech, counts, clock_mhz).get("power")
    if within is None:
        return {}
    total = sum(part["leakage_nw"] + part["energy_fj"] * clock_mhz for part in breakdown)
    share = sum(each.macros_nw + each.access_pj() * 1e3 * clock_mhz for each in made) / total
    return {"power": round(share * (library.energy_factor - 1) + (1 - share) * within, 4)}


def _margins_of_logic(
    tech: technologies.Technology, counts: Mapping[str, float], clock_mhz: float
) -> dict[str, float]:
    """Return prediction intervals of what is no macro.

    What is uncertain is the logic: bits of registers are exact.
    """
    simulated = tech.structure.get("uncertainty_of_power")
    of_power = {} if simulated is None else {"power": float(simulated)}
    within = tech.structure.get("uncertainty_of_logic")
    if not within:
        return {**tech.structure["uncertainty"], **of_power}
    amounts: dict[str, Callable[[Mapping[str, float]], float]] = {
        "area": lambda costs: costs["area_um2"],
        "power": lambda costs: costs["leakage_nw"] + costs["energy_fj"] * clock_mhz,
    }
    prices = tech.structure["costs"]
    margins = {
        metric: round(within[metric] * logic_share(amount, prices, counts), 4)
        for metric, amount in amounts.items()
    }
    return margins | of_power


def _without_costs(single: Configurations, workloads: Workloads) -> dict[str, float | int | None]:
    result = metrics_of(single, workloads, {})
    return {name: plain(value) for name, value in result.items() if name != VALID}


def _of_structure(
    single: Configurations,
    parts: list[Part],
    path: Path | None,
    tech: technologies.Technology,
    workloads: Workloads,
    made: Sequence[memories.Made],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return metrics and breakdown, costs being those of the structure and of memories in it."""
    result = metrics_of(single, workloads, {})
    values = {name: float(value) for name, value in result.items() if name != VALID}
    of_macros = [each for each in made if each.composition is not None]
    if path is None:
        values["fmax_mhz"] = math.nan
    else:
        shortest = memories.shortest_period_ns(e.composition for e in of_macros if e.composition)
        values["fmax_mhz"] = 1000 / max(path.period_ns, shortest)
    asked = float(single["target.clock_mhz"])
    clock = asked if math.isnan(values["fmax_mhz"]) else min(asked, values["fmax_mhz"])
    names = {each.use.module for each in of_macros}
    logic = structural_breakdown(
        [part for part in parts if part.module not in names], tech.structure["costs"]
    )
    breakdown = [*logic, *map(memories.part_of, of_macros)]
    breakdown.sort(key=lambda part: -part[next(iter(tech.structure["costs"]), "count")])
    sums = {
        quantity: sum(part[quantity] for part in breakdown) for quantity in tech.structure["costs"]
    }
    values |= {name: float(round(sums[name])) for name in RESOURCES if name in sums}
    values[LUTS_USED] = float(luts_used(tech.name, values))
    for name in values:
        if name in ("tops", "bandwidth_gb_s"):
            values[name] *= clock / asked
        elif name.startswith("latency_ms("):
            values[name] *= asked / clock
    if "area_um2" in sums:
        values["area_mm2"] = sums["area_um2"] * 1e-6
        values["tops_per_mm2"] = values["tops"] / values["area_mm2"]
    if "energy_fj" in sums:
        power = (sums["leakage_nw"] + sums["energy_fj"] * clock) * 1e-9
        values |= {"power_w": power, "tops_per_w": values["tops"] / power}
        core = single.example
        assert core is not None
        counted = buffers_of(core) if of_macros else []
        # Of macros, what a workload takes is counted, not taken to be that of a full cycle.
        power -= sum(each.access_pj(counted) for each in of_macros) * clock * 1e-6
        for name, sizes in workloads.items():
            accesses = 0.0
            if counted and isinstance(core, BufferedCore):
                use = core.memory_use([core.gemm(*size, single.post) for size in sizes])
                accesses = memories.workload_pj(of_macros, use)
            values[f"energy_mj({name})"] = values[f"latency_ms({name})"] * power + accesses * 1e-9
    return {name: plain(value) for name, value in values.items()}, breakdown


def buffers_of(core: Core[Any]) -> list[str]:
    """Return the names of memories whose accesses by workloads are modelled: buffers of engines."""
    return [buffer.name for buffer in core.buffers()] if isinstance(core, BufferedCore) else []


def _of_energies(made: Sequence[memories.Made], technology: str) -> list[str]:
    """Return why the power of memories is not known, or that it is modelled."""
    library = macros.library(technology)
    if any(math.isnan(each.energy_fj) or math.isnan(each.leakage_nw) for each in made):
        reason = library.no_energy if library and library.no_energy else "they are not published"
        return [
            f"energies of the SRAM macros of {technology} are not known, nor is power: {reason}"
        ]
    of_macros = any(each.composition is not None for each in made)
    if not of_macros or library is None or library.energy_factor is None:
        return []
    reported = (
        f"energies and leakage of the SRAM macros of {technology} are modelled, and may be off by a"
        f" factor of {library.energy_factor:g} either way: {library.energy_source}"
    )
    return [reported]


def _without_macros(made: Sequence[memories.Made], technology: str, below: int) -> list[str]:
    """Return that large memories are of registers, where the technology has no SRAM macros."""
    large = sum(each.use.count for each in made if each.use.ram.capacity >= below)
    if not large or macros.library(technology) is not None:
        return []
    words = "memory" if large == 1 else "memories"
    reason = (
        f"{technology} has no SRAM macros: {large} {words} of {below:,} bits and more"
        " (`memories.registers_below`) count as registers, which are larger"
    )
    return [reason]


def _without_margins(
    tech: technologies.Technology,
    breakdown: Sequence[Mapping[str, Any]],
    made: Sequence[memories.Made],
    margins: Mapping[str, float],
) -> list[str]:
    """Return why no ± is stated for area or power, where SRAM macros are the reason."""
    missing = [name for name in ("area", "power") if name not in margins]
    if not missing or all(each.composition is None for each in made):
        return []
    reason = (
        f"no ± is stated for {' and '.join(missing)}: the design contains SRAM macros, and the"
        " designs that estimates were compared with have none"
    )
    counts: Counter[str] = Counter()
    for part in breakdown:
        counts.update(part["components"])
    del counts["sram_bit"]
    if (within := _margins_of_logic(tech, counts, 1.0).get("area")) is None:
        return [reason]
    logic = sum(part["area_um2"] for part in breakdown) - sum(each.macros_um2 for each in made)
    return [f"{reason}; the {logic * 1e-6:.4g} mm² that are no macros are within {within:.1%}"]


def _resources_or_nan(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the resources of an FPGA, NaN where unknown."""
    result = {name: metrics.get(name) for name in RESOURCES}
    return {name: math.nan if value is None else value for name, value in result.items()}


def plain(value: Any) -> float | int | None:
    """Return a number as JSON has it, None for what is unknown."""
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) >= 1 else number
