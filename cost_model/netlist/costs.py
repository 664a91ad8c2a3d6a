# SPDX-License-Identifier: Apache-2.0
"""Costs of a netlist in a technology: sums over its components, module by module."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from cost_model.netlist.components import Counts
from cost_model.netlist.fabric.fabric import Fabric
from cost_model.netlist.netlist import Netlist

STORED = "register_bit"
"""Kind of a bit of a register, whose cost is well known; everything else is logic."""


@dataclass(frozen=True)
class Part:
    """A module of a design, without the modules in it.

    Parameters
    ----------
    module : str
    count : int
        How often it is there.
    components : mapping
        Of one of them.
    """

    module: str
    count: int
    components: Counts


def parts_of(
    design: Netlist, macros: Collection[str] = (), fabric: Fabric | None = None
) -> list[Part]:
    """Return the modules that consist of anything, parents before those in them.

    `macros` and `fabric` are as `cost_model.netlist.components.components` takes them.
    """
    # Of most designs this is kept, and what finds it need not be loaded.
    from cost_model.netlist.components import components

    return [
        Part(name, design.counts[name], counts)
        for name, counts in components(design, macros, fabric).items()
        if counts
    ]


def cost(prices: Mapping[str, float], counts: Mapping[str, float]) -> float:
    """Sum the prices of components; types that no calibration design has are free."""
    return sum(prices.get(name, 0.0) * count for name, count in counts.items())


def logic_share(
    amount: Callable[[Mapping[str, float]], float],
    prices: Mapping[str, Mapping[str, float]],
    counts: Mapping[str, float],
) -> float:
    """Return the part of an amount of a design that is no bit of a register itself.

    Parameters
    ----------
    amount : callable
        Takes costs by quantity, such as their area.
    prices : mapping
        Quantity: price of a component of each kind.
    counts : mapping
        The components of the design.
    """

    def of(some: Mapping[str, float]) -> float:
        return amount({quantity: cost(price, some) for quantity, price in prices.items()})

    return 1 - of({STORED: counts.get(STORED, 0.0)}) / of(counts)


def breakdown(parts: list[Part], costs: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """Return the cost of all instances of each module together.

    Parameters
    ----------
    parts : list of Part
    costs : mapping
        Quantity: price of a component of each kind.

    Returns
    -------
    list of dict
        ``part``, the module; ``count``; each quantity; ``components`` of all instances.  The
        largest first.
    """
    result = [
        {
            "part": part.module,
            "count": part.count,
            **{quantity: part.count * cost(prices, part.components)
               for quantity, prices in costs.items()},
            "components": {name: part.count * n for name, n in sorted(part.components.items())},
        }
        for part in parts
    ]  # fmt: skip
    first = next(iter(costs), "count")
    return sorted(result, key=lambda part: -float(str(part[first])))
