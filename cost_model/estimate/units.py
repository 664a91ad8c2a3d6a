# SPDX-License-Identifier: Apache-2.0
"""Costs of an engine by its units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hwgen.core.memories import Ram, ram_of

REST = ""
"""Name of what is in no unit: the memory port, and what executes lists."""


def costs_by_unit(
    units: Mapping[str, Mapping[str, int]], breakdown: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the costs of each unit of an engine, the largest first, and of the rest last.

    Parameters
    ----------
    units : mapping
        By unit, the number of instances of each module in it (`cost_model.netlist.units`).
    breakdown : sequence of mapping
        Costs of all instances of each module together.

    Returns
    -------
    list of dict
        ``unit``, `REST` for what is in none; each quantity of the breakdown; ``memories``, the same
        quantities of memories in it; ``largest_memory``, words and bits of the one of the most
        bits, None if there is none. Nothing for a design without units.
    """
    if not units or not breakdown:
        return []
    quantities = [name for name in breakdown[0] if name not in ("part", "count", "components")]
    result = []
    left = {part["part"]: part["count"] for part in breakdown}
    for unit, counts in units.items():
        result.append(_costs(unit, counts, breakdown, quantities))
        left = {name: count - counts.get(name, 0) for name, count in left.items()}
    first = quantities[0] if quantities else "unit"
    result.sort(key=lambda each: -(each[first] or 0) if quantities else 0)
    return [*result, _costs(REST, left, breakdown, quantities)]


def _costs(
    unit: str,
    counts: Mapping[str, int],
    breakdown: Sequence[Mapping[str, Any]],
    quantities: Sequence[str],
) -> dict[str, Any]:
    totals, memories = dict.fromkeys(quantities, 0.0), dict.fromkeys(quantities, 0.0)
    largest: Ram | None = None
    for part in breakdown:
        count = counts.get(part["part"], 0)
        ram = ram_of(part["part"]) if count else None
        if ram is not None and (largest is None or ram.capacity > largest.capacity):
            largest = ram
        for name in quantities:
            cost = (part[name] or 0.0) * count / part["count"]
            totals[name] += cost
            memories[name] += cost if ram is not None else 0.0
    return {
        "unit": unit,
        **totals,
        "memories": memories,
        "largest_memory": None if largest is None else [largest.words, largest.bits],
    }
