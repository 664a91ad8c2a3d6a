# SPDX-License-Identifier: Apache-2.0
"""Widths of the port that cannot fit a device, before their units are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cost_model.configurations.metrics import RESOURCES
from flows.search.costs import SUMS, Run, cost_from, cost_of, unit_item, unit_key
from flows.search.space import PRODUCTS, Frame, Space, multiplies
from flows.search.tables import UnitTables
from hwgen.errors import HwgenError
from hwgen.technologies.utilization import NAMES, of, used_resources


def least_around(units: UnitTables) -> dict[str, float]:
    """Return the resources of what engines have beside row units and attention, at least.

    That is the smallest unit that multiplies, and what is around the units. With a wider port it
    is not less.
    """
    products = units.costs[PRODUCTS]
    result = {}
    for name in RESOURCES:
        index = SUMS.index(name)
        result[name] = units.rest.sums[index] + min(cost.sums[index] for cost in products)
    return result


@dataclass(frozen=True)
class Least:
    """Resources of a device that engines with a port take at least.

    Parameters
    ----------
    total : dict of float
        By resource.
    units : dict of dict
        Of each row unit and of attention, at their smallest.
    """

    total: dict[str, float]
    units: dict[str, dict[str, float]]


def least_resources(space: Space, frame: Frame, run: Run, around: Mapping[str, float]) -> Least:
    """Return the resources that every engine with a frame takes at least: its smallest units.

    Parameters
    ----------
    space : Space
    frame : Frame
    run : callable
        See `flows.search.costs.Run`.
    around : mapping
        See `least_around`; may be empty.
    """
    keys = {
        unit: unit_key(space, frame, options[0])
        for unit, options in space.options[frame].items() if not multiplies(unit)
    }  # fmt: skip
    items = {
        key: unit_item(space, frame, space.options[frame][unit][0]) for unit, key in keys.items()
    }
    costs = run("smallest units", cost_of, items, cost_from)
    for cost in costs.values():
        if cost.problem:
            raise HwgenError(cost.problem)
    family, _ = of(str(space.target["device"]))

    def used(sums: Mapping[str, float]) -> dict[str, float]:
        return {name: float(value) for name, value in used_resources(family, sums).items()}

    each = {
        unit: {name: costs[key].sums[SUMS.index(name)] for name in RESOURCES}
        for unit, key in keys.items()
    }
    totals = {
        name: sum(sums[name] for sums in each.values()) + around.get(name, 0.0)
        for name in RESOURCES
    }
    return Least(used(totals), {unit: used(sums) for unit, sums in each.items()})


def lacking(device: str, width: int, least: Least) -> str:
    """Return of which resource engines with a port of a width take too much; empty if of none."""
    _, about = of(device)
    for name, label in NAMES.items():
        if least.total.get(name, 0.0) > (available := getattr(about, name)):
            largest = sorted(least.units, key=lambda unit: -least.units[unit][name])[:3]
            said = ", ".join(f"{unit} {least.units[unit][name]:,.0f}" for unit in largest)
            return (
                f"needs more than the {label} of {device} ({available:,}): {width} bits or more at"
                f" the port take at least {least.total[name]:,.0f} ({said} ...)"
            )
    return ""
