# SPDX-License-Identifier: Apache-2.0
"""Comparison of one design: its estimate, and the results of synthesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cost_model.configurations.configurations import defaults, frozen
from cost_model.estimate.technology import Technology, technology, write
from flows.bench.cost_tables import Point, Values, traits
from flows.build.build import Build, retarget
from flows.build.design import Design
from flows.calibration.measure import cell_costs
from flows.calibration.structural import interval
from flows.pnr.devices import placed, placer
from flows.pnr.pnr import place_and_route
from flows.synthesis.synth import synthesize
from hwgen.config.dotted import flattened
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import CheckFailed
from hwgen.technologies import costs_of
from hwgen.technologies import technology as installed

RESOURCES = ("luts", "flip_flops", "carries", "dsps", "brams", "lutrams")
NAMES = {"area": "area_mm2", "power": "power_w", "fmax": "fmax_mhz"}
"""Metrics with another name in estimates."""

FEWEST = 20
"""Designs that a prediction interval needs."""


def compare(config: FamilyConfig, tech: str, *, seeds: int = 0) -> Point:
    """Measure one design as `hwgen synth` does by default and estimate it, each at the same clock.

    Parameters
    ----------
    config : FamilyConfig
    tech : str
    seeds : int, optional
        On an FPGA family with place and route, of how many seeds Fmax is the median; none is
        measured if 0.
    """
    cells = installed(tech).kind != "fpga"
    design = Design.of(config)
    document = Build(design, retarget(config.target, tech)).estimate()
    real = synthesize(design, tech)
    measured: dict[str, float | None]
    if cells:
        power = None
        if not real.macros:
            power = cell_power(real.cells, tech, document["figures_at_mhz"])
        area = (real.area_um2 or 0.0) * 1e-6
        measured = {"area": area, "fmax": real.fmax_mhz, "power": power}
    else:
        measured = {name: getattr(real, name) for name in RESOURCES}
    seconds = real.wall_seconds
    if seeds and tech in placed():
        measured["fmax"] = None
        try:
            device = placer(tech).timed_on
            routed = place_and_route(design, tech, device=device, seeds=seeds)
            measured["fmax"] = routed.fmax_median_mhz
            seconds += routed.wall_seconds
        except CheckFailed:  # larger than the device
            pass
    full_cycle = config.macs_per_cycle if config.multiplies else config.operations_per_cycle / 2
    return Point(
        tech,
        described(config),
        float(full_cycle),
        {name: document["metrics"][NAMES.get(name, name)] for name in measured},
        measured,
        {name: document["uncertainty"].get(NAMES.get(name, name)) for name in measured},
        traits(config, macros=bool(real.macros)),
        seconds,
    )


def cell_power(cells: Mapping[str, int], tech: str, clock_mhz: float) -> float:
    """Return the power of mapped cells by the method of the calibration, in W."""
    costs = cell_costs(tech)
    return 1e-9 * sum(
        n * (costs[cell].leakage_nw + costs[cell].energy_fj * clock_mhz)
        for cell, n in cells.items()
    )


def described(config: FamilyConfig) -> Values:
    """Return the parameters of a configuration by dotted name, without those at their defaults."""
    usual = defaults(config.family)
    values = flattened(config.resolved())
    return {"family": config.family} | {
        name: value
        for name, value in values.items()
        if not name.startswith("target.") and frozen(usual.get(name)) != frozen(value)
    }


def save(points: Sequence[Point], seed: int) -> None:
    """State the errors of designs as the uncertainty of estimates, in the tables of costs.

    Parameters
    ----------
    points : sequence of Point
    seed : int
        Seed of the designs, for the provenance.
    """
    for name in dict.fromkeys(p.technology for p in points):
        local = [p for p in points if p.technology == name]
        path = costs_of(name)
        assert path is not None  # it has a table
        write(
            path,
            with_structure_errors(technology(name), local, {"seed": seed, "designs": len(local)}),
        )


def with_structure_errors(
    tech: Technology, points: Sequence[Point], tested: Mapping[str, int]
) -> Technology:
    """Return a technology whose estimates by structure state intervals that hold of designs."""
    structure, timing = dict(tech.structure), dict(tech.timing)
    of_logic = structure.get("uncertainty_of_logic")
    within = dict(of_logic or structure["uncertainty"])
    for metric in (*within, "fmax"):
        errors = [(e, p) for p in points if (e := p.error(metric)) is not None]
        if len(errors) < FEWEST:
            continue
        if metric == "fmax":
            timing["uncertainty"] = round(interval([e for e, _ in errors]), 4)
        elif of_logic is None:
            within[metric] = round(interval([e for e, _ in errors]), 4)
        else:  # the stated one is a part of it: that of the logic in the design
            ratios = [
                e * within[metric] / stated for e, p in errors if (stated := p.stated[metric])
            ]
            within[metric] = round(interval(ratios), 4)
    structure["uncertainty" if of_logic is None else "uncertainty_of_logic"] = within
    structure["provenance"] = {**structure["provenance"], "held_out": dict(tested)}
    return replace(tech, structure=structure, timing=timing)
