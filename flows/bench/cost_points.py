# SPDX-License-Identifier: Apache-2.0
"""One design of the benchmark of costs: what is estimated of it, and what tools make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cost_model.closed_forms.space import defaults, frozen
from cost_model.estimate.estimate import estimate
from cost_model.estimate.technology import Technology, technology, write
from flows.bench.cost_tables import traits
from flows.build.build import Build, retarget
from flows.build.design import Design
from flows.calibration import fpga
from flows.calibration.delays_fpga import SEEDS
from flows.calibration.measure import cell_costs
from flows.calibration.points import Values, config_of
from flows.calibration.results import covered, ranges
from flows.calibration.structural import interval
from flows.pnr.devices import placed, placer
from flows.pnr.pnr import place_and_route
from flows.synthesis.synth import synthesize
from hwgen.config.dotted import flattened
from hwgen.core.operation import multiplies
from hwgen.errors import CheckFailed
from hwgen.technologies import costs_of
from hwgen.technologies import technology as installed

RESOURCES = ("luts", "flip_flops", "carries", "dsps", "brams", "lutrams")


@dataclass(frozen=True)
class Point:
    """A design: what was estimated and measured, None if unknown; products in a full cycle.

    `stated` are the uncertainties of the estimates; `traits` what else sets it apart, see
    `flows.bench.cost_tables`; `seconds` what its synthesis took.
    """

    technology: str
    values: Values
    macs: float
    estimated: dict[str, float | None]
    measured: dict[str, float | None]
    stated: Mapping[str, float | None] = field(default_factory=dict)
    traits: tuple[str, ...] = ()
    seconds: float = 0.0

    def error(self, metric: str) -> float | None:
        """Return the relative error of the estimate."""
        estimated, measured = self.estimated.get(metric), self.measured.get(metric)
        if estimated is None or measured is None:
            return None
        if not measured:
            return None if not estimated else np.inf
        return estimated / measured - 1


def compare(config: Any, tech: str, *, place: bool = False, closed_forms: bool = False) -> Point:
    """Measure one design and estimate it.

    Parameters
    ----------
    config : FamilyConfig
    tech : str
    place : bool
        On an FPGA family with place and route, whether to measure Fmax.
    closed_forms : bool
        On an FPGA family, whether closed forms are compared instead of the estimate by structure.
    """
    if installed(tech).kind != "fpga":
        return _compare_cells(config, tech)
    return _closed_forms(config, tech) if closed_forms else _compare_fabric(config, tech, place)


def _closed_forms(config: Any, tech: str) -> Point:
    values, metrics = described(config), estimate(config, tech)["metrics"]
    used = fpga.measure(values, tech).resources
    return Point(
        tech,
        values,
        config.macs_per_cycle,
        {m: metrics[m] for m in RESOURCES},
        {m: used[m] for m in RESOURCES},
    )


def _compare_fabric(config: Any, tech: str, place: bool) -> Point:
    """Compare the estimate with what `hwgen synth` and `hwgen pnr` do by default."""
    design = Design(config)
    found = Build(design, retarget(config.target, tech)).estimate()
    real = synthesize(design, tech)
    measured = {name: getattr(real, name) for name in RESOURCES}
    seconds = real.wall_seconds
    if place and tech in placed():
        device = placer(tech).timed_on
        try:
            routed = place_and_route(design, tech, device=device, seeds=SEEDS)
            measured["fmax"] = routed.fmax_median_mhz
            seconds += routed.wall_seconds
        except CheckFailed:  # larger than the device
            measured["fmax"] = None
    named = {name: "fmax_mhz" if name == "fmax" else name for name in measured}
    return Point(
        tech,
        described(config),
        _full_cycle(config),
        {name: found["metrics"][key] for name, key in named.items()},
        measured,
        {name: found["uncertainty"].get(key) for name, key in named.items()},
        traits(config, macros=False),
        seconds,
    )


def _full_cycle(config: Any) -> float:
    """Return the products of a full cycle, or pairs of operations of what does not multiply."""
    if multiplies(config):
        return float(config.macs_per_cycle)
    return float(config.operations_per_cycle) / 2


def _compare_cells(config: Any, tech: str) -> Point:
    """Compare the estimate with what `hwgen synth` does by default, each at the clock asked for.

    Power is that of the mapped cells by the method of the calibration, at the clock of the
    estimate; not known of a design with macros.
    """
    design = Design(config)
    found = Build(design, retarget(config.target, tech)).estimate()
    real = synthesize(design, tech)
    metrics, costs = found["metrics"], cell_costs(tech)
    clock, power = found["figures_at_mhz"], None
    if not real.macros:
        power = 1e-9 * sum(
            n * (costs[cell].leakage_nw + costs[cell].energy_fj * clock)
            for cell, n in real.cells.items()
        )
    return Point(
        tech,
        described(config),
        _full_cycle(config),
        {"area": metrics["area_mm2"], "fmax": metrics["fmax_mhz"], "power": metrics["power_w"]},
        {"area": (real.area_um2 or 0.0) * 1e-6, "fmax": real.fmax_mhz, "power": power},
        {name: found["uncertainty"].get(key) for name, key in _STATED.items()},
        traits(config, macros=bool(real.macros)),
        real.wall_seconds,
    )


_STATED = {"area": "area_mm2", "fmax": "fmax_mhz", "power": "power_w"}


def described(config: Any) -> Values:
    """Return the parameters of a configuration by dotted name, without what is usual."""
    usual = defaults(config.family)
    values = flattened(config.resolved())
    return {"family": config.family} | {
        name: value
        for name, value in values.items()
        if not name.startswith("target.") and frozen(usual.get(name)) != frozen(value)
    }


FEWEST = 20
"""Designs that a prediction interval needs."""


def save(points: Sequence[Point], seed: int, *, closed_forms: bool = False) -> None:
    """State the errors of designs as the uncertainty of estimates, in the tables of costs.

    Parameters
    ----------
    points : sequence of Point
    seed : int
        What they were drawn by, for the provenance.
    closed_forms : bool
        Whether those of FPGAs are of closed forms, whose range is extended to the designs.
    """
    for name in dict.fromkeys(p.technology for p in points):
        mine = [p for p in points if p.technology == name]
        fpga_forms = closed_forms and installed(name).kind == "fpga"
        stated = _closed_forms_checked if fpga_forms else _structure_checked
        path = costs_of(name)
        assert path is not None  # it has a table
        write(path, stated(technology(name), mine, {"seed": seed, "designs": len(mine)}))


def _structure_checked(
    tech: Technology, points: Sequence[Point], held_out: Mapping[str, int]
) -> Technology:
    """Return a technology whose estimates by structure state intervals that hold of designs."""
    structure, timing = dict(tech.structure), dict(tech.timing)
    of_logic = structure.get("uncertainty_of_logic")
    within = dict(of_logic or structure["uncertainty"])
    for metric in (*within, "fmax"):
        known = [(e, p) for p in points if (e := p.error(metric)) is not None]
        if len(known) < FEWEST:
            continue
        if metric == "fmax":
            timing["uncertainty"] = round(interval([e for e, _ in known]), 4)
        elif of_logic is None:
            within[metric] = round(interval([e for e, _ in known]), 4)
        else:  # what was stated is a part of it: that of the logic in the design
            ratios = [e * within[metric] / stated for e, p in known if (stated := p.stated[metric])]
            within[metric] = round(interval(ratios), 4)
    structure["uncertainty" if of_logic is None else "uncertainty_of_logic"] = within
    structure["provenance"] = {**structure["provenance"], "held_out": dict(held_out)}
    return replace(tech, structure=structure, timing=timing)


def _closed_forms_checked(
    tech: Technology, points: Sequence[Point], held_out: Mapping[str, int]
) -> Technology:
    uncertainty = {}
    for metric in RESOURCES:
        errors = [abs(e) for p in points if (e := p.error(metric)) is not None]
        if errors:
            uncertainty[metric] = round(covered(errors), 4)
    wider = dict(tech.ranges)
    for key, (low, high) in ranges(config_of(p.values) for p in points).items():
        before = wider.get(key, (low, high))
        wider[key] = (min(low, before[0]), max(high, before[1]))
    provenance = {**tech.provenance, "held_out": dict(held_out)}
    return replace(tech, uncertainty=uncertainty, ranges=wider, provenance=provenance)
