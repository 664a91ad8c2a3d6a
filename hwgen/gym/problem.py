# SPDX-License-Identifier: Apache-2.0
"""Problems: a table, an objective with its limits, and what its best points are.

The optimum is that of the table, thus of the cost model; no search can be better.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from hwgen.errors import InputError, did_you_mean
from hwgen.gym.table import Axis, Floats, Table, rounded

PACKAGE = "hwgen.gym"

WITHIN = 0.01
"""Relative distance from the optimum that counts as having found it."""

REFUSED = 12.0
"""Score of an illegal point: worse than that of any legal one."""

MISSED = 3.0
"""Score of a point that only just misses a limit; that of points that miss more is higher."""

_MOST_MISSED = 10.0


@dataclass(frozen=True)
class Problem:
    """A table with an objective and limits.

    Parameters
    ----------
    name : str
    table : Table
    minimize : tuple of str
        Metrics whose product is to be small.
    limits : mapping
        Metric: what it may be at most.
    front : tuple of str
        Two metrics, the axes of the Pareto front.
    groups : mapping
        Agent: the parameters that it chooses, where several agents search.
    """

    name: str
    table: Table
    minimize: tuple[str, ...]
    limits: Mapping[str, float]
    front: tuple[str, str]
    groups: Mapping[str, tuple[str, ...]]

    @cached_property
    def costs(self) -> Floats:
        """The objective of each row, infinite where a rule or a limit is broken."""
        costs = np.ones(self.table.size)
        for name in self.minimize:
            costs *= self.table.metrics[name]
        good = self.table.legal.copy()
        for name, most in self.limits.items():
            with np.errstate(invalid="ignore"):
                good &= self.table.metrics[name] <= most
        costs[~good | ~np.isfinite(costs)] = np.inf
        return costs

    @cached_property
    def best(self) -> int:
        """Row of the optimum, the first of equal ones."""
        return int(np.argmin(self.costs))

    @property
    def optimum(self) -> float:
        """The least cost."""
        return float(self.costs[self.best])

    @cached_property
    def median(self) -> float:
        """The median cost of points that are legal and within the limits."""
        return float(np.median(self.costs[np.isfinite(self.costs)]))

    def regret(self, cost: NDArray[Any] | float) -> Any:
        """Return the normalised regret: 0 at the optimum, 1 at the median point, at most 1."""
        value = (np.asarray(cost, np.float64) - self.optimum) / (self.median - self.optimum)
        return np.minimum(value, 1.0)

    def scores(self, rows: NDArray[np.int64]) -> Floats:
        """Return scores of rows, which a search is to make small.

        It is the decadic logarithm of cost over median cost.  Points that miss limits have
        `MISSED` plus the sum of their relative excess, at most 13, illegal ones 2 above that;
        nothing is changed to make a point legal.
        """
        costs = self.costs[rows]
        with np.errstate(divide="ignore"):
            scores = np.log10(costs / self.median)
        bad = ~np.isfinite(costs)
        if bad.any():
            excess = np.zeros(int(bad.sum()))
            for name, most in self.limits.items():
                with np.errstate(invalid="ignore"):
                    excess += np.fmax(self.table.metrics[name][rows[bad]] / most - 1, 0.0)
            missed = MISSED + np.minimum(excess, _MOST_MISSED)
            scores[bad] = np.where(self.table.legal[rows[bad]], missed, MISSED + REFUSED)
        return scores

    def objectives(self, rows: NDArray[np.int64]) -> Floats:
        """Return the decadic logarithms of the metrics of the front; 12 for illegal rows."""
        with np.errstate(invalid="ignore"):
            columns = [np.log10(self.table.metrics[name][rows]) for name in self.front]
        result = np.stack(columns, axis=1).astype(np.float64)
        result[~np.isfinite(result)] = REFUSED
        return result

    # -- the front -------------------------------------------------------------------------------

    @cached_property
    def corner(self) -> Floats:
        """The worst of each axis of the front among legal points: where hypervolume ends."""
        rows = np.flatnonzero(self.table.legal)
        return np.array(
            [float(np.log10(np.nanmax(self.table.metrics[n][rows]))) for n in self.front]
        )

    @cached_property
    def front_rows(self) -> NDArray[np.int64]:
        """Rows of the Pareto front, by the first metric."""
        rows = np.flatnonzero(self.table.legal)
        first, second = (self.table.metrics[name][rows] for name in self.front)
        good = np.isfinite(first) & np.isfinite(second)
        rows, first, second = rows[good], first[good], second[good]
        order = np.lexsort((second, first))
        least = np.minimum.accumulate(second[order])
        new = np.concatenate([[True], least[1:] < least[:-1]])
        result: NDArray[np.int64] = rows[order[new]]
        return result

    @cached_property
    def hypervolume(self) -> float:
        """The area, in decades squared, that the front dominates."""
        return hypervolume(self.objectives(self.front_rows), self.corner)

    def hypervolume_ratio(self, rows: NDArray[np.int64]) -> float:
        """Return the share of the front's hypervolume that some rows have, 0 to 1."""
        rows = np.unique(rows)
        rows = rows[self.table.legal[rows]]
        return hypervolume(self.objectives(rows), self.corner) / self.hypervolume

    def summary(self) -> dict[str, Any]:
        """Return digest, optimum and front as plain data."""
        return {
            "table": self.table.name,
            "digest": self.table.digest,
            "points": self.table.size,
            "legal": int(self.table.legal.sum()),
            "within_limits": int(np.isfinite(self.costs).sum()),
            "optimum": self.optimum,
            "optimum_row": self.best,
            "optimum_point": self.table.point(self.best),
            "median": self.median,
            "within_1_percent": int((self.costs <= self.optimum * (1 + WITHIN)).sum()),
            "front_points": len(self.front_rows),
            "hypervolume": self.hypervolume,
        }


def hypervolume(points: Floats, corner: Floats) -> float:
    """Return the area that points of two figures, both small, dominate below a corner."""
    points = points[(points < corner).all(axis=1)]
    points = points[np.lexsort((points[:, 1], points[:, 0]))]
    if not len(points):
        return 0.0
    before = np.concatenate([[corner[1]], np.minimum.accumulate(points[:, 1])[:-1]])
    heights = np.maximum(before - points[:, 1], 0.0)
    return float(((corner[0] - points[:, 0]) * heights).sum())


# -- what is shipped ---------------------------------------------------------------------------


@cache
def _listed() -> dict[str, dict[str, Any]]:
    text = (resources.files(PACKAGE) / "problems.yaml").read_text(encoding="utf-8")
    document: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return document


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Return the recorded answers of the shipped problems, by name, each as `Problem.summary`."""
    path = resources.files(PACKAGE) / "catalogue.json"
    if not path.is_file():
        return {}
    document: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return document


def problems() -> tuple[str, ...]:
    """Return the names of the shipped problems."""
    return tuple(_listed()["problems"])


def tables() -> tuple[str, ...]:
    """Return the names of the tables of these problems; the first ones are shipped as files."""
    return (*_listed()["spaces"], *_listed()["composed"])


@cache
def load_table(name: str) -> Table:
    """Return a table by name; that of an engine with two units is composed of their tables.

    Raises
    ------
    InputError
        If there is none, or its digest is not the recorded one.
    """
    listed = _listed()
    digest = next((each["digest"] for each in catalogue().values() if each["table"] == name), None)
    if name in listed["composed"]:
        table = _compose(name, **listed["composed"][name])
        if digest is not None and table.digest != digest:
            raise InputError(
                f"the table {name} that was composed has the digest {table.digest[:16]}, recorded"
                f" is {digest[:16]}: tables of two versions are mixed; install hwgen again"
            )
        return table
    if name not in listed["spaces"]:
        raise InputError(
            f"no table is called {name!r}{did_you_mean(name, tables())}; there is:"
            f" {', '.join(tables())}"
        )
    return Table.read(Path(str(resources.files(PACKAGE) / "tables" / f"{name}.parquet")), digest)


@cache
def load_problem(name: str) -> Problem:
    """Return a shipped problem.

    Raises
    ------
    InputError
        If none has this name, or its table is damaged.
    """
    listed = _listed()["problems"]
    if name not in listed:
        raise InputError(
            f"no problem is called {name!r}{did_you_mean(name, listed)}; there is:"
            f" {', '.join(listed)}"
        )
    return problem_of(name, load_table(listed[name]["table"]))


def problem_of(name: str, table: Table) -> Problem:
    """Return a listed problem on a table that is at hand."""
    stated = _listed()["problems"][name]
    groups: dict[str, tuple[str, ...]] = {}
    for axis in table.axes:
        group = next((g for g in stated["groups"] if axis.name.startswith(g)), "other")
        groups[group.rstrip(".")] = (*groups.get(group.rstrip("."), ()), axis.name)
    return Problem(
        name,
        table,
        tuple(part.strip() for part in stated["minimize"].split("*")),
        stated.get("limits", {}),
        (stated["front"][0], stated["front"][1]),
        groups,
    )


def _compose(name: str, units: Mapping[str, Mapping[str, Any]], shared: str) -> Table:
    """Return the table of an engine with two units that work at the same time.

    Each unit has its own network.  Areas and energies are sums, time is that of the slower unit;
    what joins the units is not counted.  Both have the same value of the parameter `shared`, the
    clock.
    """
    parts = []
    for unit, stated in units.items():
        table = load_table(stated["table"])
        parts.append(_selected(unit, table, stated["values"], shared))
    (first_axes, clock, first), (second_axes, _, second) = parts
    axes = (Axis(shared, clock), *first_axes, *second_axes)
    a, b = (
        {n: c[:, :, None] for n, c in first.items()},
        {n: c[:, None] for n, c in second.items()},
    )
    metrics = {
        "area_mm2": a["area_mm2"] + b["area_mm2"],
        "energy_mj": a["energy_mj"] + b["energy_mj"],
        "latency_ms": np.maximum(a["latency_ms"], b["latency_ms"]),
    }
    bad = [np.isnan(metrics[n]) for n in ("area_mm2", "latency_ms", "energy_mj")]
    unit_a, unit_b = units
    broken_a = np.broadcast_to(np.isnan(a["area_mm2"]), bad[0].shape)
    rule = np.where(broken_a, 1, np.where(bad[0] | bad[1] | bad[2], 2, 0)).astype(np.uint8)
    return Table(
        name,
        axes,
        {n: rounded(np.where(rule == 0, c, np.nan)).reshape(-1) for n, c in metrics.items()},
        rule.reshape(-1),
        (f"a rule of the unit {unit_a}", f"a rule of the unit {unit_b}"),
        _both(units),
        {"composed": {unit: stated["table"] for unit, stated in units.items()}},
    )


def _both(units: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    loads = [load_table(stated["table"]).workload for stated in units.values()]
    features = {key: sum(load[key] for load in loads) for key in ("macs", "weights", "tokens")}
    return {"name": " and ".join(load["name"] for load in loads), **features}


def _selected(
    unit: str, table: Table, values: Mapping[str, list[Any]], shared: str
) -> tuple[tuple[Axis, ...], tuple[Any, ...], dict[str, Floats]]:
    """Return the axes of a unit, values of the shared one, and metrics by that and the others."""
    chosen = [
        [axis.values.index(v) for v in values.get(axis.name, axis.values)] for axis in table.axes
    ]
    position = [axis.name for axis in table.axes].index(shared)
    axes = [
        Axis(f"{unit}.{axis.name}", tuple(axis.values[d] for d in digits))
        for axis, digits in zip(table.axes, chosen, strict=True)
    ]
    metrics: dict[str, Floats] = {}
    for name, column in table.metrics.items():
        part: Floats = column.reshape(table.sizes)[np.ix_(*chosen)].astype(np.float64)
        part = np.moveaxis(part, position, 0)
        metrics[name] = part.reshape(len(part), -1)
    varied = tuple(a for at, a in enumerate(axes) if at != position and len(a.values) > 1)
    return varied, axes[position].values, metrics
