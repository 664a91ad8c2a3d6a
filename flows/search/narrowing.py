# SPDX-License-Identifier: Apache-2.0
"""Widths of the port that cannot fit a device, before their units are looked at."""

from __future__ import annotations

from collections.abc import Mapping

from cost_model.configurations.metrics import RESOURCES
from flows.search.costs import SUMS, CostItem, Run, cost_from, cost_of, unit_item, unit_key
from flows.search.space import PRODUCTS, Space
from hwgen.errors import HwgenError
from hwgen.technologies.utilization import NAMES, of, used_resources


def least_resources(space: Space, width: int, run: Run) -> dict[str, float]:
    """Return the resources that every engine with a port takes at least: its smallest units.

    The unit that multiplies, and what is around the units, are not counted.

    Parameters
    ----------
    space : Space
    width : int
    run : callable
        See `flows.search.costs.Run`.
    """
    items: dict[str, CostItem] = {}
    for unit, options in space.options[width].items():
        if unit != PRODUCTS:
            items[unit_key(space, width, options[0])] = unit_item(space, width, options[0])
    costs = run("smallest units", cost_of, items, cost_from).values()
    for cost in costs:
        if cost.problem:
            raise HwgenError(cost.problem)
    totals = {name: sum(cost.sums[SUMS.index(name)] for cost in costs) for name in RESOURCES}
    family, _ = of(str(space.target["device"]))
    return {name: float(used) for name, used in used_resources(family, totals).items()}


def lacking(device: str, width: int, least: Mapping[str, float]) -> str:
    """Return of which resource engines with a port of a width take too much; empty if of none."""
    _, about = of(device)
    for name, label in NAMES.items():
        if least.get(name, 0.0) > (available := getattr(about, name)):
            return (
                f"needs more than the {label} of {device} ({available:,}): {width} bits or more at"
                f" the port take at least {least[name]:,.0f}"
            )
    return ""
