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
from flows.search.space import PRODUCTS, Frame, Option, Space, buffers_name
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

    Netlists are looked at of each form in the smallest frame that has it, with the smallest
    buffers; parameters of frames, one by one, and buffers cost what they cost of one form. Options
    that may win get their own netlist by `look_at`.

    Parameters
    ----------
    space : Space
    options : mapping
        By frame, by unit.
    run : callable
        See `Run`.
    """

    def __init__(
        self, space: Space, options: Mapping[Frame, Mapping[str, Sequence[Option]]], run: Run
    ) -> None:
        self.space, self.options, self._run = space, options, run
        self._costs: dict[str, Cost] = {}
        self._first: dict[str, tuple[Frame, Option]] = {}
        self._least: dict[str, int] = {}
        self._smallest: dict[str, Frame] = {}
        self._sized = {
            (frame, _form(option), _kib_of(option)): option
            for frame, units in space.options.items()
            for every in units.values() for option in every
        }  # fmt: skip
        for frame in sorted(options):
            units = options[frame]
            for unit, every in units.items():
                for option in every:
                    self._smallest.setdefault(_form(option), frame)
                    kib = _kib_of(option)
                    if kib is not None:
                        self._least[unit] = min(self._least.get(unit, kib), kib)
                self._first.setdefault(unit, (frame, every[0]))

    def sample(self) -> None:
        """Look at the netlists that all costs follow from."""
        wanted: dict[str, CostItem] = {}
        for frame, units in self.options.items():
            for every in units.values():
                for option in every:
                    for at, each, _ in self._terms(frame, option):
                        wanted[self._key(at, each)] = self._item(at, each)
        for frame in self._whole:
            for option in self._base(frame):
                wanted[self._key(frame, option)] = self._item(frame, option)
            text = self._engine(frame)
            wanted[key_of("cost", text, None)] = CostItem(text, None)
        self._look(wanted)

    def look_at(self, engines: Iterable[tuple[Frame, Sequence[Option]]]) -> bool:
        """Look at the netlists of the units of engines; return whether some were not before."""
        wanted = {
            self._key(frame, option): self._item(frame, option)
            for frame, options in engines for option in options
        }  # fmt: skip
        wanted = {key: item for key, item in wanted.items() if key not in self._costs}
        self._look(wanted)
        return bool(wanted)

    def of_frame(self, frame: Frame) -> dict[str, list[Cost]]:
        """Return the costs of all options of a frame, by unit."""
        return {
            unit: [self.cost(frame, option) for option in every]
            for unit, every in self.options[frame].items()
        }

    def cost(self, frame: Frame, option: Option) -> Cost:
        """Return the costs of an option."""
        direct = self._costs.get(self._key(frame, option))
        if direct is not None:
            return direct
        result: Cost | None = None
        for at, each, sign in self._terms(frame, option):
            cost = self._costs[self._key(at, each)]
            result = cost if result is None else result.plus(cost, sign)
        assert result is not None
        return result

    @property
    def _whole(self) -> list[Frame]:
        """Frames of which a whole engine is looked at: the smallest of a width.

        Of FPGAs, where it takes long, only of two widths. Registers of the port count as well.
        """
        frames: dict[tuple[int, bool], Frame] = {}
        for frame in sorted(self.options):
            frames.setdefault((frame.data_width, frame.registered), frame)
        cells = not isinstance(technologies()[self.space.target["technology"]], Fpga)
        widths = sorted({width for width, _ in frames})
        chosen = widths if cells else widths[:2]
        return [frame for (width, _), frame in frames.items() if width in chosen]

    def rest(self, frame: Frame) -> tuple[Cost, float]:
        """Return the costs beside the units, and the clock over that of the slowest unit.

        At widths without a whole engine they grow with the width as between the others. Bursts and
        queues are taken not to change them.
        """
        whole = [each for each in self._whole if each.registered == frame.registered]
        same = [each for each in whole if each.data_width == frame.data_width]
        if same:
            return self._rest(same[0])
        (first, _), (last, slower) = self._rest(whole[0]), self._rest(whole[-1])
        share = (frame.data_width - whole[-1].data_width) / max(
            1, whole[-1].data_width - whole[0].data_width
        )
        sums = tuple(b + share * (b - a) for a, b in zip(first.sums, last.sums, strict=True))
        return Cost(sums, last.fmax_mhz), slower

    def _rest(self, frame: Frame) -> tuple[Cost, float]:
        engine = self._costs[key_of("cost", self._engine(frame), None)]
        first, *others = (self.cost(frame, option) for option in self._base(frame))
        total = first
        for other in others:
            total = total.plus(other)
        return engine.plus(total, -1), engine.fmax_mhz / total.fmax_mhz

    def _base(self, frame: Frame) -> list[Option]:
        """Return small units with the most registers, so that what is around them limits."""
        return [max(every, key=_registers) for every in self.options[frame].values()]

    def _engine(self, frame: Frame) -> str:
        return json.dumps(self.space.engine("engine", frame, self._base(frame)))

    def _terms(self, frame: Frame, option: Option) -> list[tuple[Frame, Option, int]]:
        """Return frames and options whose costs, with a sign, add up to those of an option."""
        small = self._smallest[_form(option)]
        at, first = self._first[option.unit]
        least, kib = self._least.get(option.unit), _kib_of(option)
        terms = [(small, self._resized(small, option, least), 1)]
        for step in self._steps(small, frame):
            common = self._common(small, step, option.unit, least)
            terms += [(step, self._resized(step, common, least), 1),
                      (small, self._resized(small, common, least), -1)]  # fmt: skip
        if kib != least:
            terms += [(at, self._resized(at, first, kib), 1),
                      (at, self._resized(at, first, least), -1)]  # fmt: skip
        return terms

    def _steps(self, small: Frame, frame: Frame) -> list[Frame]:
        """Return frames whose changes of one add up to another, which itself does if it must."""
        steps = list(small.steps_to(frame))
        return steps if all(step in self.options for step in steps) else [frame]

    def _common(self, small: Frame, step: Frame, unit: str, kib: int | None) -> Option:
        """Return the first option of a unit that two frames have, with some buffers."""
        return next(
            option for option in self.options[small][unit]
            if (step, _form(option), kib) in self._sized
            and (small, _form(option), kib) in self._sized
        )  # fmt: skip

    def _resized(self, frame: Frame, option: Option, kib: int | None) -> Option:
        """Return an option as a frame has it, with some buffers."""
        return self._sized[frame, _form(option), kib]

    def _item(self, frame: Frame, option: Option) -> CostItem:
        return unit_item(self.space, frame, option)

    def _key(self, frame: Frame, option: Option) -> str:
        return unit_key(self.space, frame, option)

    def _look(self, wanted: Mapping[str, CostItem]) -> None:
        results = self._run("netlists", cost_of, wanted, cost_from)
        for cost in results.values():
            if cost.problem:
                raise HwgenError(cost.problem)
        self._costs |= results


def unit_item(space: Space, frame: Frame, option: Option) -> CostItem:
    """Return a unit in an engine that has as little else as it can."""
    others = [] if option.unit == PRODUCTS else [space.options[frame][PRODUCTS][0]]
    return CostItem(json.dumps(space.engine("engine", frame, [*others, option])), option.unit)


def unit_key(space: Space, frame: Frame, option: Option) -> str:
    """Return the key of the costs of a unit."""
    target = {name: value for name, value in space.target.items() if name != "memory"}
    return key_of("cost", target, frame.memory, option.unit, option.values)


def _form(option: Option) -> str:
    """Return a key of an option, without its buffers."""
    buffers = buffers_name(option.unit)
    shown = {name: value for name, value in option.shown.items() if name != buffers}
    return json.dumps([option.unit, shown])


def _registers(option: Option) -> int:
    """Return the registers in a core that its option states."""
    return sum(option.values["compute"].get("pipeline", {}).values())


def _kib_of(option: Option) -> int | None:
    """Return the size of the buffers of an option, None if it has none that vary."""
    kib: int | None = option.shown.get(buffers_name(option.unit))
    return kib
