# SPDX-License-Identifier: Apache-2.0
"""Costs of units and of engines: those of their netlists, as `hwgen estimate` has them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cost_model.configurations.metrics import RESOURCES
from flows.build.build import NO_ESTIMATE, NO_STRUCTURE, Build
from flows.build.design import Design
from flows.search.space import PRODUCTS, Option, Space, buffers_name
from hwgen.errors import HwgenError
from hwgen.families.transformer.params import TransformerConfig
from hwgen.technologies import technologies
from hwgen.technologies.fpga_model import Fpga

SUMS = ("area_um2", "leakage_nw", "energy_fj", *RESOURCES)
"""Costs of which an engine has the sum of its parts."""


@dataclass(frozen=True)
class CostItem:
    """A unit of an engine, or the engine, whose netlist to look at.

    Parameters
    ----------
    engine : str
        JSON of the parameters of an engine.
    unit : str or None
        None: the engine itself.
    """

    engine: str
    unit: str | None


@dataclass(frozen=True)
class Cost:
    """Costs of a netlist; NaN where something is not known.

    Parameters
    ----------
    sums : tuple of float
        In the order of `SUMS`; energy is that of a cycle.
    fmax_mhz : float
    problem : str
        Why there is none; empty if there is.
    """

    sums: tuple[float, ...] = (math.nan,) * len(SUMS)
    fmax_mhz: float = math.nan
    problem: str = ""

    def plus(self, other: Cost, sign: int = 1) -> Cost:
        """Return the sum, or the difference, of costs; the clock is that of the slower one."""
        sums = tuple(a + sign * b for a, b in zip(self.sums, other.sums, strict=True))
        fmax = self.fmax_mhz if sign < 0 else min(self.fmax_mhz, other.fmax_mhz)
        return Cost(sums, fmax, self.problem or other.problem)


def cost_of(item: CostItem) -> Cost:
    """Return the costs of a unit, or of an engine, by its netlist."""
    engine = TransformerConfig.model_validate(json.loads(item.engine))
    config = engine if item.unit is None else engine.units[item.unit]
    entry = Build(Design.of(config), engine.target).estimate()
    for note in entry["notes"]:
        if note.startswith((NO_STRUCTURE, NO_ESTIMATE)):
            return Cost(problem=note)
    return costs_in(entry)


def costs_in(entry: dict[str, Any]) -> Cost:
    """Return the costs that an estimate states."""
    metrics, parts = entry["metrics"], entry["breakdown"]

    def value_of(name: str) -> float:
        if name in RESOURCES:
            return _number(metrics.get(name))
        return sum(_number(part.get(name)) for part in parts)

    return Cost(tuple(map(value_of, SUMS)), _number(metrics["fmax_mhz"]))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def key_of(*parts: Any) -> str:
    """Return the digest of JSON values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def cost_from(entry: Mapping[str, Any]) -> Cost:
    """Return costs of their fields, as JSON has them."""
    return Cost(tuple(entry["sums"]), entry["fmax_mhz"], entry["problem"])


Run = Callable[[str, Callable[[Any], Any], Mapping[str, Any], Callable[[Any], Any]], dict[str, Any]]
"""Takes a label, a function, its items by key, and what makes results of JSON values."""


class UnitCosts:
    """Costs of the options of units.

    Netlists are looked at of each form at the narrowest port that has it, with the smallest
    buffers; ports and buffers cost what they cost of one form. Options that may win get their own
    netlist by `look_at`.

    Parameters
    ----------
    space : Space
    options : mapping
        By width, by unit.
    run : callable
        See `Run`.
    """

    def __init__(
        self, space: Space, options: Mapping[int, Mapping[str, Sequence[Option]]], run: Run
    ) -> None:
        self.space, self.options, self._run = space, options, run
        self._costs: dict[str, Cost] = {}
        self._first: dict[str, tuple[int, Option]] = {}
        self._least: dict[str, int] = {}
        self._narrowest: dict[str, int] = {}
        self._sized = {
            (_form(option), kib): option
            for units in space.options.values() for every in units.values() for option in every
            if (kib := _kib_of(option)) is not None
        }  # fmt: skip
        for width, units in options.items():
            for unit, every in units.items():
                for option in every:
                    self._narrowest.setdefault(_form(option), width)
                    kib = _kib_of(option)
                    if kib is not None:
                        self._least[unit] = min(self._least.get(unit, kib), kib)
                self._first.setdefault(unit, (width, every[0]))

    def sample(self) -> None:
        """Look at the netlists that all costs follow from."""
        wanted: dict[str, CostItem] = {}
        for width, units in self.options.items():
            for every in units.values():
                for option in every:
                    for at, each, _ in self._terms(width, option):
                        wanted[self._key(at, each)] = self._item(at, each)
            for option in self._base(width):
                wanted[self._key(width, option)] = self._item(width, option)
        for width in self._whole:
            text = self._engine(width)
            wanted[key_of("cost", text, None)] = CostItem(text, None)
        self._look(wanted)

    def look_at(self, engines: Iterable[tuple[int, Sequence[Option]]]) -> bool:
        """Look at the netlists of the units of engines; return whether some were not before."""
        wanted = {
            self._key(width, option): self._item(width, option)
            for width, options in engines for option in options
        }  # fmt: skip
        wanted = {key: item for key, item in wanted.items() if key not in self._costs}
        self._look(wanted)
        return bool(wanted)

    def of_width(self, width: int) -> dict[str, list[Cost]]:
        """Return the costs of all options at a width, by unit."""
        return {
            unit: [self.cost(width, option) for option in every]
            for unit, every in self.options[width].items()
        }

    def cost(self, width: int, option: Option) -> Cost:
        """Return the costs of an option."""
        direct = self._costs.get(self._key(width, option))
        if direct is not None:
            return direct
        result: Cost | None = None
        for at, each, sign in self._terms(width, option):
            cost = self._costs[self._key(at, each)]
            result = cost if result is None else result.plus(cost, sign)
        assert result is not None
        return result

    @property
    def _whole(self) -> list[int]:
        """Widths at which a whole engine is looked at: of FPGAs, where it takes long, two."""
        widths = sorted(self.options)
        cells = not isinstance(technologies()[self.space.target["technology"]], Fpga)
        return widths if cells else widths[:2]

    def rest(self, width: int) -> tuple[Cost, float]:
        """Return the costs beside the units, and the clock over that of the slowest unit.

        At widths without a whole engine they grow with the width as between the others.
        """
        whole = self._whole
        if width in whole:
            return self._rest(width)
        (first, _), (last, slower) = self._rest(whole[0]), self._rest(whole[-1])
        share = (width - whole[-1]) / max(1, whole[-1] - whole[0])
        sums = tuple(b + share * (b - a) for a, b in zip(first.sums, last.sums, strict=True))
        return Cost(sums, last.fmax_mhz), slower

    def _rest(self, width: int) -> tuple[Cost, float]:
        engine = self._costs[key_of("cost", self._engine(width), None)]
        first, *others = (self.cost(width, option) for option in self._base(width))
        total = first
        for other in others:
            total = total.plus(other)
        return engine.plus(total, -1), engine.fmax_mhz / total.fmax_mhz

    def _base(self, width: int) -> list[Option]:
        return [every[0] for every in self.options[width].values()]

    def _engine(self, width: int) -> str:
        return json.dumps(self.space.engine("engine", width, self._base(width)))

    def _terms(self, width: int, option: Option) -> list[tuple[int, Option, int]]:
        """Return widths and options whose costs, with a sign, add up to those of an option."""
        narrow = self._narrowest[_form(option)]
        first_width, first = self._first[option.unit]
        least = self._least.get(option.unit)
        form, small = option, first
        if least is not None:
            form, small = self._resized(option, least), self._resized(first, least)
        terms = [(narrow, form, 1)]
        if width != narrow:
            terms += [(width, small, 1), (narrow, small, -1)]
        kib = _kib_of(option)
        if least is not None and kib is not None and kib != least:
            terms += [(first_width, self._resized(first, kib), 1), (first_width, small, -1)]
        return terms

    def _resized(self, option: Option, kib: int) -> Option:
        """Return an option with other buffers."""
        return self._sized[_form(option), kib]

    def _item(self, width: int, option: Option) -> CostItem:
        return unit_item(self.space, width, option)

    def _key(self, width: int, option: Option) -> str:
        return unit_key(self.space, width, option)

    def _look(self, wanted: Mapping[str, CostItem]) -> None:
        results = self._run("netlists", cost_of, wanted, cost_from)
        for cost in results.values():
            if cost.problem:
                raise HwgenError(cost.problem)
        self._costs |= results


def unit_item(space: Space, width: int, option: Option) -> CostItem:
    """Return a unit in an engine that has as little else as it can."""
    others = [] if option.unit == PRODUCTS else [space.options[width][PRODUCTS][0]]
    return CostItem(json.dumps(space.engine("engine", width, [*others, option])), option.unit)


def unit_key(space: Space, width: int, option: Option) -> str:
    """Return the key of the costs of a unit."""
    target = {name: value for name, value in space.target.items() if name != "memory"}
    return key_of("cost", target, width, option.unit, option.values)


def _form(option: Option) -> str:
    """Return a key of an option, without its buffers."""
    buffers = buffers_name(option.unit)
    shown = {name: value for name, value in option.shown.items() if name != buffers}
    return json.dumps([option.unit, shown])


def _kib_of(option: Option) -> int | None:
    """Return the size of the buffers of an option, None if it has none that vary."""
    kib: int | None = option.shown.get(buffers_name(option.unit))
    return kib
