# SPDX-License-Identifier: Apache-2.0
"""Rows of totals in closed forms: which are SRAM macros, and what these cost, of many cores.

What a memory is made of is decided as for a single estimate (`cost_model.memories.memories`), for
arrays of shapes at once.  Amounts that are known, not counted, stand in bills and paths as
kinds of their own, which cost one each: `cost_model.estimate.technology.AMOUNTS` and ``macro_ns``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.closed_forms.component_counts import memory, times, total
from cost_model.closed_forms.numbers import Counts, Number, register
from cost_model.closed_forms.space import View
from cost_model.estimate.technology import AMOUNTS, MACRO_NS, is_calibrated, technology
from cost_model.memories.macros import Composition, arrangements, energies, library
from cost_model.memories.memories import access_pj, registers_of
from cost_model.netlist.costs import cost
from hwgen.core.memories import Ram
from hwgen.technologies.model import Memories

Floats = NDArray[np.float64]

BELOW = "memories.registers_below"
TECHNOLOGY = "target.technology"
CLOCK = "target.clock_mhz"

_TIMES = 4

_USUAL_CLOCK = 500.0
"""MHz; only macros whose outputs follow the falling edge depend on it."""


@dataclass(frozen=True)
class Rows:
    """The memory of rows of totals of a core.

    Parameters
    ----------
    width, depth : number
        Bits of a row, and rows; a single one is no memory.
    held : bool
        Whether the word that was read must stay although nothing is read.
    macros : number
        1 where SRAM macros make it, else 0.
    amounts : mapping
        Area, leakage and energy of a cycle of these macros and what is around them, as `AMOUNTS`
        calls them, 0 elsewhere.
    out_ns, address_ns, data_ns, period_ns : number
        From the clock to the data that are read; from addresses and enables, and from data that are
        written, to the clock; shortest period of the clock.  0 where there are no macros.
    """

    width: Number
    depth: Number
    held: bool
    macros: Number
    amounts: Counts
    out_ns: Number
    address_ns: Number
    data_ns: Number
    period_ns: Number

    @property
    def registers(self) -> Number:
        """1 where registers make it, else 0."""
        return (np.asarray(self.depth) > 1) * (1 - self.macros)

    def counts(self) -> Counts:
        """Return the bill of the memory on standard cells, its port's register included."""
        cells = total(memory(self.width, self.depth), register(self.width, enable=self.held))
        return total(times(self.registers, cells), self.amounts)

    def paths(self, start: Counts, addition: Counts) -> list[Counts]:
        """Return the paths out of and into macros.

        Parameters
        ----------
        start : mapping
            What a path from a register begins with.
        addition : mapping
            What lies between an old total and the new one.
        """
        if not np.any(self.macros):
            return []
        # What advances all rows drives the registers of a row's totals on its way.
        advance = {"register": 1.0, "fanout": 2 * np.log2(self.width)}
        return [
            total({MACRO_NS: self.out_ns + self.data_ns}, addition),
            total({MACRO_NS: self.data_ns}, start, addition),
            total({MACRO_NS: self.address_ns}, times(self.macros, advance)),
            {MACRO_NS: self.period_ns},
        ]


def rows_of(v: View, width: Number, depth: Number, *, held: bool) -> Rows:
    """Return the rows of totals of cores.

    Parameters
    ----------
    v : View
    width, depth, held
        See `Rows`.
    """
    name = str(v[TECHNOLOGY])
    none = Rows(width, depth, held, 0, {}, 0.0, 0.0, 0.0, 0.0)
    published = library(name)
    if v.space.made_of != "macros" or published is None:
        return none
    clock = v[CLOCK] if published.falling else _USUAL_CLOCK
    figures = _tabled(name, width, depth, v[BELOW], clock, held=held)
    if figures is None:
        return none
    macros, amounts, late = figures[0], figures[1:-_TIMES], figures[-_TIMES:]
    by_name = dict(zip(AMOUNTS.values(), amounts, strict=True))
    return Rows(width, depth, held, macros, by_name, *late)


def _tabled(name: str, *arguments: Number, held: bool) -> Sequence[Floats] | None:
    """Return the figures of `_figures`, looked up where the same numbers come again and again."""
    arrays = [np.asarray(each, float) for each in arguments]
    values, places = zip(
        *(np.unique(each, return_inverse=True) for each in arrays), strict=True
    )  # fmt: skip
    points = np.broadcast(*arrays).size
    # What is drawn here and there of a space has many more combinations than points.
    if math.prod(map(len, values)) > min(2 * points, _MOST_TABLED):
        found = _figures(name, *np.broadcast_arrays(*arrays), held=held)
        return None if found is None else list(found)
    whole = _table(name, *(tuple(each.tolist()) for each in values), held=held)
    if whole is None:
        return None
    each_place = (place.reshape(each.shape) for place, each in zip(places, arrays, strict=True))
    indices = np.ravel_multi_index(tuple(np.broadcast_arrays(*each_place)), whole.shape[1:])
    rows = whole.reshape(len(whole), -1)
    # A block of a sweep with an axis for each argument has all of the table, in its order.
    if rows.shape[1] == indices.size and np.array_equal(indices.ravel(), np.arange(indices.size)):
        return list(rows.reshape(-1, *indices.shape))
    return list(rows[:, indices])


@lru_cache(maxsize=8)
def _table(
    name: str, widths: tuple[float, ...], *others: tuple[float, ...], held: bool
) -> NDArray[np.float64] | None:
    """Return the figures of `_figures`, an axis for each argument's values."""
    few = math.prod(map(len, others)) <= _MOST_KEPT
    of = _of_width if few else _of_width.__wrapped__
    tables = [of(name, width, *others, held=held) for width in widths]
    if all(table is None for table in tables):
        return None
    none = np.zeros((1 + len(AMOUNTS) + _TIMES, *map(len, others)))
    return np.stack([none if table is None else table for table in tables], 1)


@lru_cache(maxsize=512)
def _of_width(
    name: str, width: float, *others: tuple[float, ...], held: bool
) -> NDArray[np.float64] | None:
    """Return the figures of memories as wide as this, an axis for each of the other arguments."""
    return _figures(name, *np.broadcast_arrays(width, *np.ix_(*others)), held=held)


_MOST_TABLED = 1 << 18
"""Combinations of widths, depths and the rest up to which they are made into a table."""

_MOST_KEPT = 1 << 12
"""Combinations of all but the width up to which they are kept, for hundreds of widths."""


def _figures(
    name: str, width: Floats, depth: Floats, below: Floats, clock_mhz: Floats, *, held: bool
) -> NDArray[np.float64] | None:
    """Return the figures of `Rows` from ``macros`` on, None if no memory is made of macros.

    What `cost_model.memories.memories` decides for one memory, for arrays of them.
    """
    published = library(name)
    if published is None or not is_calibrated(name):
        return None
    tech = technology(name)
    prices: Mapping[str, Mapping[str, float]] = tech.structure.get("costs", {})
    ns = {**tech.timing.get("ns", {}), "macro": 1.0}
    able = (depth > 1) & (width * depth >= below)  # nor where no configuration is legal
    found = np.zeros((1 + len(AMOUNTS) + _TIMES, *able.shape))
    words, bits, period_ns = depth[able], width[able], 1000 / clock_mhz[able]
    ram: Any = Ram(words, bits)  # type: ignore[arg-type]
    best = cost(prices["area_um2"], registers_of(ram)) * np.ones(words.shape)
    fewest, places = np.full(words.shape, np.inf), np.full(words.shape, -1)
    macros = sorted(published.macros, key=attrgetter("name"))
    for place, macro in enumerate(macros):
        for made in arrangements(ram, macro, holds=published.holds):
            area = made.area_um2 + cost(prices["area_um2"], made.glue(stable=True))
            better = (area < best) | ((area == best) & (made.count < fewest) & (places >= 0))
            best, fewest = np.where(better, area, best), np.where(better, made.count, fewest)
            places[better] = place
    figures = np.zeros((len(found), len(words)))
    for place in np.unique(places[places >= 0]):
        taken = places == place
        ram = Ram(words[taken], bits[taken])
        (made,) = arrangements(ram, macros[place], holds=published.holds)
        each = _figures_of(made, published, prices, ns, period_ns[taken], held=held)
        for row, values in zip(figures, each, strict=True):
            row[taken] = values
    found[:, able] = figures
    return found if found[0].any() else None


def _figures_of(
    made: Composition,
    published: Memories,
    prices: Mapping[str, Mapping[str, float]],
    ns: Mapping[str, float],
    period_ns: Any,
    *,
    held: bool,
) -> list[Any]:
    """Return the figures of one composition, of memories that are all made like this."""
    glue, macro = made.glue(stable=held), made.macro
    read_pj, write_pj = energies(macro, published)
    own = {
        "area_um2": made.area_um2,
        "leakage_nw": made.count * (math.nan if macro.leakage_nw is None else macro.leakage_nw),
        "energy_fj": 1e3 * made.wide * access_pj("rows", read_pj, write_pj),
    }
    steps = (
        made.start_steps(published, period_ns, stable=held),
        made.end_steps(published),
        made.data_steps(published),
    )
    return [
        1.0,
        *(own[quantity] + cost(prices[quantity], glue) for quantity in AMOUNTS),
        *(sum(ns.get(kind, 0.0) * count for kind, count in some.items()) for some in steps),
        macro.min_period_ns or 0.0,
    ]
