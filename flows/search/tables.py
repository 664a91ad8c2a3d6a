# SPDX-License-Identifier: Apache-2.0
"""Metrics of all engines of a space, by tables of their units.

For each width of the port there are arrays with an axis for each unit. Area, resources and energy
are sums over the units and what is around them, the clock is that of the slowest, and cycles are
those of the list of a decode step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.configurations.metrics import RESOURCES
from flows.search.costs import SUMS, Cost
from flows.search.cycles import TimedOption
from flows.search.space import Option
from hwgen.core.params.target import Target
from hwgen.technologies import fpga_family, technologies
from hwgen.technologies.fpga_model import Fpga
from hwgen.technologies.utilization import NAMES, of, used_resources

Array = NDArray[np.float64]


@dataclass
class WidthTable:
    """Engines with a port of one width.

    Parameters
    ----------
    width : int
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
    cycles, moved : ndarray
        Of a decode step: cycles, bytes over the port; an axis for each unit.
    """

    width: int
    options: dict[str, list[Option]]
    timed: dict[str, list[TimedOption]]
    costs: dict[str, list[Cost]]
    rest: Cost
    slower: float
    cycles: NDArray[np.int64]
    moved: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, ...]:
        """Options of each unit."""
        return tuple(map(len, self.options.values()))

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

    def ms(self, clock: Array, gb_s: float | None) -> Array:
        """Return the time of a decode step.

        Parameters
        ----------
        clock : ndarray
            MHz.
        gb_s : float or None
            Bandwidth that the memory achieves, None if it is always fast enough.
        """
        result = self.cycles / clock * 1e-3
        if gb_s is None:
            return result
        for unit, timed in self.timed.items():
            for index in range(len(timed[0].operations)):
                cycles = self.on_axis(unit, [each.operations[index][0] for each in timed])
                moved = self.on_axis(unit, [each.operations[index][1] for each in timed])
                result = result + np.maximum(0.0, moved / (gb_s * 1e6) - cycles / clock * 1e-3)
        return result


@dataclass
class Scores:
    """Metrics of all engines of a space, flat.

    Parameters
    ----------
    tables : list of WidthTable
    target : Target
        Technology or device, and the memory.
    clock_mhz : float or None
        Clock of all engines, None for the one that each reaches.
    metrics : dict of ndarray
        By the names of `flows.search.goals.METRICS`.
    """

    tables: list[WidthTable]
    target: Target
    clock_mhz: float | None
    metrics: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        every = [self.of_table(table) for table in self.tables]
        self.metrics = {
            name: np.concatenate([metrics[name].ravel() for metrics in every]) for name in every[0]
        }

    @property
    def points(self) -> int:
        """Engines."""
        return sum(math.prod(table.shape) for table in self.tables)

    def of_table(
        self, table: WidthTable, faster: float = 1.0, wider: float = 1.0
    ) -> dict[str, Array]:
        """Return the metrics of the engines of a table.

        Parameters
        ----------
        table : WidthTable
        faster, wider : float
            Factors of the clock, and of the bandwidth of the memory.
        """
        memory = self.target.memory
        fmax = table.fmax()
        clock = np.full(table.shape, self.clock_mhz) if self.clock_mhz else fmax
        clock = np.minimum(clock, fmax) * faster
        gb_s = memory.peak_gb_s * memory.share * wider if memory.peak_gb_s else None
        ms = table.ms(clock, gb_s)
        area = table.total("area_um2") * 1e-6
        cells = not isinstance(technologies()[self.target.technology], Fpga)
        power = (table.total("leakage_nw") + table.total("energy_fj") * clock) * 1e-9
        joules = power * ms * 1e-3
        if memory.energy_pj_per_bit is not None:
            joules = joules + table.moved * 8e-12 * memory.energy_pj_per_bit
        unknown = np.full(table.shape, np.nan)
        result = {
            "tokens_per_s": 1e3 / ms, "ms_per_token": ms,
            "j_per_token": joules if cells else unknown,
            "area_mm2": area if cells else unknown, "power_w": power if cells else unknown,
            "clock_mhz": clock, "fmax_mhz": fmax,
        }  # fmt: skip
        return result | self._resources(table, unknown)

    def _resources(self, table: WidthTable, unknown: Array) -> dict[str, Array]:
        names = ("luts", "flip_flops", "dsps", "brams")
        if not isinstance(technologies()[self.target.technology], Fpga):
            return dict.fromkeys(names, unknown)
        used: Mapping[str, Any] = {name: table.total(name) for name in RESOURCES}
        return {
            name: np.asarray(value)
            for name, value in used_resources(fpga_family(self.target.technology), used).items()
            if name in names
        }

    def lacking(self) -> dict[str, NDArray[np.bool_]]:
        """Return, by resource, whether engines need more than the device has."""
        if self.target.device is None:
            return {}
        _, device = of(self.target.device)
        result = {}
        for name in ("luts", "flip_flops", "dsps", "brams"):
            available = getattr(device, name)
            result[f"{NAMES[name]} of {self.target.device} ({available:,})"] = (
                self.metrics[name] > available
            )
        return result

    def point(self, number: int) -> tuple[WidthTable, tuple[int, ...]]:
        """Return the table of an engine, and which option of each unit it has."""
        for table in self.tables:
            size = math.prod(table.shape)
            if number < size:
                return table, tuple(map(int, np.unravel_index(number, table.shape)))
            number -= size
        raise IndexError(number)

    def options(self, number: int) -> tuple[int, list[Option]]:
        """Return the width and the options of an engine."""
        table, index = self.point(number)
        return table.width, [
            options[i] for options, i in zip(table.options.values(), index, strict=True)
        ]

    def number(self, table: WidthTable, index: Sequence[int]) -> int:
        """Return the number of an engine."""
        before = 0
        for each in self.tables:
            if each is table:
                break
            before += math.prod(each.shape)
        return before + int(np.ravel_multi_index(tuple(index), table.shape))

    def at(self, number: int) -> dict[str, float]:
        """Return the metrics of an engine."""
        return {name: float(values[number]) for name, values in self.metrics.items()}
