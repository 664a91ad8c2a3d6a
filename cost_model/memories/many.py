# SPDX-License-Identifier: Apache-2.0
"""Costs of memories of many shapes at once, as `cost_model.memories.memories` decides for one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.estimate.technology import technology
from cost_model.memories.macros import arrangements, energies, library
from cost_model.memories.memories import access_pj, registers_of
from cost_model.netlist.costs import cost
from hwgen.core.memories import Ram

Floats = NDArray[np.float64]

QUANTITIES = ("area_um2", "leakage_nw", "energy_fj")


@dataclass(frozen=True)
class Shape:
    """The common properties of memories of several shapes.

    Parameters
    ----------
    technology : str
    ram : Ram
        Its ports; words and bits are of no interest.
    holds : str
        What is in them.
    stable : bool
        See `cost_model.netlist.memories.MemoryUse`.
    below : int
        Bits of a memory from which on macros are taken.
    """

    technology: str
    ram: Ram
    holds: str
    stable: bool
    below: int


@lru_cache(maxsize=64)
def _cached_amounts(
    shape: Shape, words: bytes, bits: bytes, sizes: tuple[tuple[int, ...], tuple[int, ...]]
) -> Floats:
    arrays = (
        np.frombuffer(each).reshape(size) for each, size in zip((words, bits), sizes, strict=True)
    )
    return _amounts(shape, *np.broadcast_arrays(*arrays))


def amounts(shape: Shape, words: Any, bits: Any) -> Floats:
    """Return whether memories are macros, and their `QUANTITIES`, for arrays of words and bits."""
    words, bits = (np.ascontiguousarray(each, np.float64) for each in (words, bits))
    return _cached_amounts(shape, words.tobytes(), bits.tobytes(), (words.shape, bits.shape))


def _amounts(shape: Shape, words: Floats, bits: Floats) -> Floats:
    prices: Mapping[str, Mapping[str, float]] = technology(shape.technology).structure["costs"]
    ram: Any = replace(shape.ram, words=words, bits=bits)  # type: ignore[arg-type]
    registers = registers_of(ram)
    result = np.zeros((1 + len(QUANTITIES), *words.shape))
    for row, quantity in enumerate(QUANTITIES, 1):
        result[row] = cost(prices.get(quantity, {}), registers)
    published = library(shape.technology)
    if published is None or "area_um2" not in prices:
        return result
    best, fewest, places = result[1].copy(), np.full(words.shape, np.inf), np.full(words.shape, -1)
    able = (words > 1) & (words * bits >= shape.below)
    macros = sorted(published.macros, key=attrgetter("name"))
    for place, macro in enumerate(macros):
        for made in _arrangements(ram, macro, holds=published.holds):
            area = made.area_um2 + cost(prices["area_um2"], made.glue(stable=True))
            better = able & ((area < best) | ((area == best) & (made.count < fewest)))
            best, fewest = np.where(better, area, best), np.where(better, made.count, fewest)
            places[better] = place
    for place in np.unique(places[places >= 0]):
        chosen, macro = places == place, macros[place]
        some: Any = replace(ram, words=words[chosen], bits=bits[chosen])
        (made,) = _arrangements(some, macro, holds=published.holds)
        glue = made.glue(stable=shape.stable)
        own = {
            "area_um2": made.area_um2,
            "leakage_nw": made.count * (math.nan if macro.leakage_nw is None else macro.leakage_nw),
            "energy_fj": 1e3 * made.wide * access_pj(shape.holds, *energies(macro, published)),
        }
        result[0][chosen] = 1
        for row, quantity in enumerate(QUANTITIES, 1):
            result[row][chosen] = own[quantity] + cost(prices[quantity], glue)
    return result


def _arrangements(ram: Any, macro: Any, *, holds: bool) -> Any:
    """Return the arrangement of memories of many sizes: halves are powers of two words."""
    if ram.halves and np.size(ram.words):
        first = int(np.ravel(ram.words)[0])
        half = first // 2
        sound = 2 * half == first and half & (half - 1) == 0
        simple = replace(ram, words=first, bits=1)
        (made,) = arrangements(simple, macro, holds=holds)
        words = ram.words // 2 if sound and made.arrangement == "halves" else ram.words
        return [
            replace(made, ram=ram, deep=-(-words // macro.words), wide=-(-ram.bits // macro.width))
        ]
    return arrangements(ram, macro, holds=holds)
