# SPDX-License-Identifier: Apache-2.0
"""Metrics of all engines of a space, by tables of their units.

For each frame there are arrays with an axis for each unit. Area, resources and energy
are sums over the units and what is around them, the clock is that of the slowest, and cycles are
those of the list of a decode step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.configurations.metrics import RESOURCES
from flows.search.costs import SUMS, Cost
from flows.search.cycles import BaseList, TimedOption, combined
from flows.search.scenarios import Scenario
from flows.search.space import Frame, Option
from hwgen.core.params.off_chip import OffChip
from hwgen.core.params.target import Target
from hwgen.technologies import fpga_family, technologies
from hwgen.technologies.fpga_model import Fpga
from hwgen.technologies.utilization import NAMES, of, used_resources

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Measures:
    """Figures that metrics of some engines are computed from, or of sets of engines the best ones.

    Parameters
    ----------
    steps : list of Step
        Decode steps, one for each context.
    sums : dict of ndarray
        By the names of `SUMS`.
    fmax, slowest : ndarray
        Clock that they reach, in MHz, the highest and the lowest of a set.
    """

    steps: Sequence[Step]
    sums: Mapping[str, Array]
    fmax: Array
    slowest: Array


@dataclass(frozen=True)
class Step:
    """Decode step of some engines, or of sets of engines the best ones.

    Parameters
    ----------
    cycles, moved : ndarray
        Cycles, and bytes over the port.
    operations : list of (ndarray, ndarray)
        Cycles, of a set the most, and bytes of each operation of the model.
    """

    cycles: NDArray[Any]
    moved: NDArray[Any]
    operations: Sequence[tuple[Array, Array]]

    def ms(self, clock: Array, slowest: Array, memory: OffChip, wider: float) -> Array:
        """Return the time of the step.

        Parameters
        ----------
        clock, slowest : ndarray
            MHz, of a set the highest and the lowest.
        memory : OffChip
        wider : float
            Factor of its bandwidth.
        """
        result: Array = self.cycles / clock * 1e-3
        if memory.peak_gb_s:
            gb_s = memory.peak_gb_s * memory.share * wider
            for cycles, moved in self.operations:
                result = result + np.maximum(0.0, moved / (gb_s * 1e6) - cycles / slowest * 1e-3)
        return result


@dataclass
class UnitOptions:
    """Units of engines with a frame: jobs and costs of their options.

    Parameters
    ----------
    frame : Frame
    options : dict
        By unit.
    timed : dict
        Jobs of the options, by unit.
    costs : dict
        Costs of the options, by unit.
    rest : Cost
        What an engine costs beside its units.
    slower : float
        Clock of an engine over that of its slowest unit.
    """

    frame: Frame
    options: dict[str, list[Option]]
    timed: dict[str, list[TimedOption]]
    costs: dict[str, list[Cost]]
    rest: Cost
    slower: float

    @property
    def shape(self) -> tuple[int, ...]:
        """Options of each unit."""
        return tuple(map(len, self.options.values()))

    @property
    def points(self) -> int:
        """Engines."""
        return math.prod(self.shape)

    @property
    def clocked(self) -> bool:
        """Whether it is known which clock options reach."""
        return any(np.isfinite(each.fmax_mhz) for costs in self.costs.values() for each in costs)


@dataclass
class UnitTables(UnitOptions):
    """The same with the lists that they execute; see `UnitOptions`.

    Parameters
    ----------
    base : BaseList
        The list of a decode step.
    others : list of (BaseList, dict)
        Lists and jobs of the options at other contexts.
    """

    base: BaseList
    others: list[tuple[BaseList, dict[str, list[TimedOption]]]] = field(default_factory=list)

    def table(self) -> FrameTable:
        """Return the table of all of them."""
        cycles, moved = combined(self.base, self.timed)
        others = [(*combined(base, timed), timed) for base, timed in self.others]
        return FrameTable(self.frame, self.options, self.timed, self.costs, self.rest, self.slower,
                          cycles, moved, others)  # fmt: skip

    def only(self, chosen: Mapping[str, Sequence[int]]) -> UnitTables:
        """Return the same with some of the options of each unit."""

        def of(values: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
            return {unit: [values[unit][i] for i in chosen[unit]] for unit in values}

        return replace(
            self, options=of(self.options), timed=of(self.timed), costs=of(self.costs),
            others=[(base, of(timed)) for base, timed in self.others],
        )  # fmt: skip


@dataclass
class FrameTable(UnitOptions):
    """The same with the cycles of all engines; see `UnitOptions`.

    Parameters
    ----------
    cycles, moved : ndarray
        Of a decode step: cycles, bytes over the port; an axis for each unit.
    others : list of (ndarray, ndarray, dict)
        Cycles, bytes and jobs at other contexts.
    """

    cycles: NDArray[np.int64]
    moved: NDArray[np.int64]
    others: list[tuple[NDArray[np.int64], NDArray[np.int64], dict[str, list[TimedOption]]]] = field(
        default_factory=list
    )

    def on_axis(self, unit: str, values: Sequence[float]) -> Array:
        """Return values of the options of a unit along its axis."""
        shape = [1] * len(self.options)
        shape[list(self.options).index(unit)] = len(values)
        return np.array(values, np.float64).reshape(shape)

    def total(self, name: str) -> Array:
        """Return the sum of a cost over an engine."""
        index = SUMS.index(name)
        result: Any = self.rest.sums[index]
        for unit, costs in self.costs.items():
            result = result + self.on_axis(unit, [cost.sums[index] for cost in costs])
        return np.broadcast_to(result, self.shape)

    def fmax(self) -> Array:
        """Return the clock that an engine reaches."""
        result: Any = math.inf
        for unit, costs in self.costs.items():
            result = np.minimum(result, self.on_axis(unit, [cost.fmax_mhz for cost in costs]))
        return np.broadcast_to(result * self.slower, self.shape)

    def measures(self) -> Measures:
        """Return the measures of all engines."""
        fmax = self.fmax()
        every = [(self.cycles, self.moved, self.timed), *self.others]
        steps = [Step(cycles, moved, self._operations(timed)) for cycles, moved, timed in every]
        return Measures(steps, {name: self.total(name) for name in SUMS}, fmax, fmax)

    def _operations(self, units: Mapping[str, list[TimedOption]]) -> list[tuple[Array, Array]]:
        return [
            (self.on_axis(unit, [each.operations[index][0] for each in timed]),
             self.on_axis(unit, [each.operations[index][1] for each in timed]))
            for unit, timed in units.items() for index in range(len(timed[0].operations))
        ]  # fmt: skip


@dataclass
class Scores:
    """Metrics of all engines of a space, flat.

    Parameters
    ----------
    tables : list of FrameTable
    target : Target
        Technology or device, and the memory.
    clock_mhz : float or None
        Clock of all engines, None for the one that each reaches.
    memory_bytes : int
        Of the model, whatever the engine.
    scenarios : sequence of Scenario
        Tables have their contexts, the longest first; default one, with the memory of the target.
    metrics : dict of ndarray
        By the names of `flows.search.goals.METRICS`.
    """

    tables: list[FrameTable]
    target: Target
    clock_mhz: float | None
    memory_bytes: int = 0
    scenarios: Sequence[Scenario] = ()
    metrics: dict[str, Array] = field(default_factory=dict)
    clocked: bool = field(init=False)

    def __post_init__(self) -> None:
        self.scenarios = self.scenarios or (Scenario("all", 0, self.target.memory),)
        self.clocked = any(table.clocked for table in self.tables)
        every = [self.of_table(table) for table in self.tables]
        self.metrics = {
            name: np.concatenate([metrics[name].ravel() for metrics in every]) for name in every[0]
        }

    @property
    def points(self) -> int:
        """Engines."""
        return sum(table.points for table in self.tables)

    @property
    def fixed_mhz(self) -> float:
        """Clock where it is stated, or not known."""
        return self.clock_mhz or self.target.clock_mhz

    def of_table(
        self, table: FrameTable, faster: float = 1.0, wider: float = 1.0
    ) -> dict[str, Array]:
        """Return the metrics of the engines of a table.

        Parameters
        ----------
        table : FrameTable
        faster, wider : float
            Factors of the clock, and of the bandwidth of the memory.
        """
        return self.of(table.measures(), faster, wider)

    def of(self, made: Measures, faster: float = 1.0, wider: float = 1.0) -> dict[str, Array]:
        """Return the metrics of engines, or of sets of engines bounds of them; see `of_table`."""
        shape = np.shape(made.steps[0].cycles)

        def clock_of(fmax: Array) -> Array:
            if not self.clocked:
                return np.full(shape, self.fixed_mhz) * faster
            return (np.minimum(self.clock_mhz, fmax) if self.clock_mhz else fmax) * faster

        clock, slowest = clock_of(made.fmax), clock_of(made.slowest)
        cells = not isinstance(technologies()[self.target.technology], Fpga)
        power = (made.sums["leakage_nw"] + made.sums["energy_fj"] * slowest) * 1e-9
        times, energies = [], []
        for scenario, step in zip(self.scenarios, self._steps(made), strict=True):
            ms = step.ms(clock, slowest, scenario.memory, wider)
            joules = power * ms * 1e-3
            if scenario.memory.energy_pj_per_bit is not None:
                joules = joules + step.moved * 8e-12 * scenario.memory.energy_pj_per_bit
            times.append(ms)
            energies.append(joules)
        total = sum(each.weight for each in self.scenarios)

        def mean(values: Sequence[Array]) -> Array:
            pairs = zip(self.scenarios, values, strict=True)
            result: Array = sum(each.weight / total * value for each, value in pairs)  # type: ignore[assignment]
            return result

        ms = np.max(times, axis=0)
        area = made.sums["area_um2"] * 1e-6
        unknown = np.full(shape, np.nan)
        result = {
            "tokens_per_s": 1e3 / ms, "ms_per_token": ms, "mean_ms_per_token": mean(times),
            "j_per_token": np.max(energies, axis=0) if cells else unknown,
            "mean_j_per_token": mean(energies) if cells else unknown,
            "area_mm2": area if cells else unknown, "power_w": power if cells else unknown,
            "clock_mhz": clock, "fmax_mhz": made.fmax,
            "memory_mib": np.full(shape, self.memory_bytes / 2**20),
        }  # fmt: skip
        for scenario, ms in zip(self.scenarios, times, strict=True):
            result[f"tokens_per_s: {scenario.name}"] = 1e3 / ms
        return result | self._resources(made.sums, unknown)

    def slowest(self, number: int) -> tuple[Scenario, dict[str, list[TimedOption]]]:
        """Return the scenario in which an engine is the slowest, and the jobs of its context."""
        table, _ = self.point(number)
        scenario = min(
            self.scenarios, key=lambda each: self.metrics[f"tokens_per_s: {each.name}"][number]
        )
        contexts = sorted({each.context for each in self.scenarios}, reverse=True)
        every = [table.timed, *(timed for *_, timed in table.others)]
        return scenario, every[contexts.index(scenario.context)]

    def _steps(self, made: Measures) -> list[Step]:
        """Return the step of each scenario."""
        contexts = sorted({each.context for each in self.scenarios}, reverse=True)
        return [made.steps[contexts.index(each.context)] for each in self.scenarios]

    def _resources(self, sums: Mapping[str, Array], unknown: Array) -> dict[str, Array]:
        names = ("luts", "flip_flops", "dsps", "brams")
        if not isinstance(technologies()[self.target.technology], Fpga):
            return dict.fromkeys(names, unknown)
        used: Mapping[str, Any] = {name: sums[name] for name in RESOURCES}
        return {
            name: np.asarray(value)
            for name, value in used_resources(fpga_family(self.target.technology), used).items()
            if name in names
        }

    def fit(self, metrics: Mapping[str, Array]) -> NDArray[np.bool_]:
        """Return a mask of engines that fit the device and reach the clock that is stated."""
        result = np.ones(np.shape(metrics["ms_per_token"]), bool)
        for too_few in self.lacking(metrics).values():
            result &= ~too_few
        if self.clock_mhz and self.clocked:
            result &= metrics["fmax_mhz"] >= self.clock_mhz
        return result

    def lacking(self, metrics: Mapping[str, Array] | None = None) -> dict[str, NDArray[np.bool_]]:
        """Return, by resource, whether engines need more than the device has; default all."""
        metrics = self.metrics if metrics is None else metrics
        if self.target.device is None:
            return {}
        _, device = of(self.target.device)
        result = {}
        for name in ("luts", "flip_flops", "dsps", "brams"):
            available = getattr(device, name)
            result[f"{NAMES[name]} of {self.target.device} ({available:,})"] = (
                metrics[name] > available
            )
        return result

    def point(self, number: int) -> tuple[FrameTable, tuple[int, ...]]:
        """Return the table of an engine, and which option of each unit it has."""
        for table in self.tables:
            if number < table.points:
                return table, tuple(map(int, np.unravel_index(number, table.shape)))
            number -= table.points
        raise IndexError(number)

    def options(self, number: int) -> tuple[Frame, list[Option]]:
        """Return the frame and the options of an engine."""
        table, index = self.point(number)
        return table.frame, [
            options[i] for options, i in zip(table.options.values(), index, strict=True)
        ]

    def number(self, table: FrameTable, index: Sequence[int]) -> int:
        """Return the number of an engine."""
        before = 0
        for each in self.tables:
            if each is table:
                break
            before += each.points
        return before + int(np.ravel_multi_index(tuple(index), table.shape))

    def at(self, number: int) -> dict[str, float]:
        """Return the metrics of an engine."""
        return {name: float(values[number]) for name, values in self.metrics.items()}
