# SPDX-License-Identifier: Apache-2.0
"""Bounds of the cost of components, by the cells that they are made of.

A component costs at least the smallest cells that can stand for it, or as much as a complex gate
that absorbs it is larger, and at most its naive mapping in cells of a stronger drive.  What is
usual lies between them: fits are drawn toward it where designs do not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from flows.calibration.cell_functions import smallest_cells
from flows.calibration.fit import Bound
from flows.calibration.measure import cell_costs
from flows.synthesis import liberty

Cells = Mapping[str, float]
"""Cells by function (`flows.calibration.cell_functions.smallest_cells`): how many of each."""

STRONGER = 1.3
"""What cells of a stronger drive cost over the smallest, at most, in a sum of many."""

_ABSORBED: Cells = {"input": 1}
"""By how much a gate with one more input is larger: of three inputs, or a complex one."""
_NAIVE_ADDER: Cells = {"xor2": 2, "nand2": 3}
_HALF_SELECTOR: Cells = {"aoi22": 0.5}
"""One of the two bits that a complex gate lets through."""
_NAIVE_MUX: Cells = {"nand2": 3, "inverter": 1}

RULES: Mapping[str, tuple[Cells, Cells, Cells]] = {
    "register_bit": ({"flip_flop": 1}, {"flip_flop": 1}, {"flip_flop": 1}),
    "enable_bit": ({"nand2": 1}, {"mux2": 1}, _NAIVE_MUX),
    "reset_bit": ({}, _ABSORBED, {"and2": 1}),
    "read_bit": (_HALF_SELECTOR, {"mux2": 1}, _NAIVE_MUX),
    "adder_bit": ({"xor2": 1, "nand2": 1}, {"xor2": 2, "nand2": 1}, _NAIVE_ADDER),
    "adder_level": ({}, {"aoi21": 0.4, "nand2": 0.3}, {"aoi21": 1, "nand2": 1}),
    "increment_bit": ({"aoi21": 1}, {"xor2": 1, "nand2": 0.5}, {"xor2": 1, "and2": 1}),
    "sum_bit": ({"half_adder": 1}, {"full_adder": 1}, _NAIVE_ADDER),
    "less_bit": ({"aoi21": 1}, {"aoi21": 2, "nand2": 1}, _NAIVE_ADDER),
    "equal_bit": (_ABSORBED, {"nand2": 1}, {"and2": 1, "inverter": 1}),
    "product_bit": ({"nand2": 1}, {"and2": 1}, {"mux2": 1, "and2": 1}),
    "product_extension": ({}, {"half_adder": 0.5}, {"full_adder": 1}),
    "booth_bit": (
        {"aoi22": 0.5, "full_adder": 0.5},
        {"full_adder": 1, "nand2": 1},
        {**_NAIVE_ADDER, "and2": 1},
    ),
    "booth_extension": ({}, {"full_adder": 0.5, "nand2": 1}, {**_NAIVE_ADDER, "mux2": 1}),
    "booth_square": ({}, {"half_adder": 0.5}, {"full_adder": 1}),
    "full_adder": ({"full_adder": 1}, {"full_adder": 1}, _NAIVE_ADDER),
    "half_adder": ({"xor2": 1, "nand2": 0.5}, {"half_adder": 1}, {"xor2": 1, "and2": 1}),
    "mux_bit": ({"aoi21": 1}, {"mux2": 1}, _NAIVE_MUX),
    "mask_bit": (_ABSORBED, {"nand2": 1}, {"and2": 1, "inverter": 1}),
    "select_bit": (_HALF_SELECTOR, {"aoi22": 0.5, "nand2": 0.25}, {"and2": 2}),
    "and_bit": (_ABSORBED, {"nand2": 0.75}, {"and2": 1}),
    "reduce_bit": (_ABSORBED, {"nand2": 1}, {"and2": 1, "inverter": 1}),
    "xor_bit": ({"aoi21": 1}, {"xor2": 1}, {"nand2": 4}),
    "not_bit": ({}, {"inverter": 0.5}, {"inverter": 1}),
    "buffer": ({}, {"buffer": 1}, {"buffer": 4}),
}  # fmt: skip
"""The cells of which a component consists at least, usually, and in a naive mapping.

A prefix tree has 0.3 to 0.4 nodes for each bit and level if it is sparse, one if it is not, and a
ripple adder has none.  A row of Booth's recoding halves the rows of full adders.  Resets,
inversions and the sign of a product may vanish in the gates around them.
"""

_WITHOUT: Mapping[str, Cells] = {
    "full_adder": _NAIVE_ADDER,
    "half_adder": {"xor2": 1, "and2": 1},
    "mux2": _NAIVE_MUX,
    "xor2": {"nand2": 4},
    "and2": {"nand2": 1, "inverter": 1},
    "aoi21": {"nand2": 2},
    "aoi22": {"nand2": 3},
    "nand3": {"nand2": 1.5},
    "buffer": {"inverter": 2},
}
"""What a library is mapped to that has no cell of a function."""


def bounds(technology: str, quantity: str) -> dict[str, Bound]:
    """Return the bounds of a quantity of each component in a technology.

    Parameters
    ----------
    technology : str
        A standard-cell technology whose Liberty files are there.
    quantity : str
        ``area_um2``, ``leakage_nw`` or ``energy_fj``.

    Raises
    ------
    ToolMissing
        If the Liberty files are not found.
    """
    cells = _cells(technology)
    costs = cell_costs(technology)
    return bounds_of(lambda name: getattr(costs[cells[name]], quantity) if name in cells else None)


@cache
def _cells(technology: str) -> Mapping[str, str]:
    """Return the smallest cell of each function of a technology's library."""
    return smallest_cells(liberty.load(technology))


def bounds_of(cost_of: Callable[[str], float | None]) -> dict[str, Bound]:
    """Return the bounds of each component by the costs of cells.

    Parameters
    ----------
    cost_of : callable
        Takes a function such as ``nand2``; returns the cost of the smallest cell, None if there is
        no such cell.
    """

    def one(name: str) -> float:
        if name == "input":
            return max(0.0, min(one("nand3"), one("aoi21")) - one("nand2"))
        cost = cost_of(name)
        return total(_WITHOUT[name]) if cost is None else cost

    def total(cells: Cells) -> float:
        return sum(count * one(name) for name, count in cells.items())

    result = {}
    for component, (least, usually, most) in RULES.items():
        low = max(0.0, total(least))
        high = max(STRONGER * total(most), low)
        result[component] = Bound(low, min(max(total(usually), low), high), high)
    return result
