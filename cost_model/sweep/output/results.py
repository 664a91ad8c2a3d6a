# SPDX-License-Identifier: Apache-2.0
"""The files of a finished sweep: results.parquet, pareto.csv and configurations to build."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cost_model.configurations.configurations import defaults
from cost_model.estimate.activity import about
from cost_model.estimate.costed import STRUCTURE
from cost_model.sweep.outcome import Outcome
from cost_model.sweep.plan import Evaluate, Plan, technologies_of
from cost_model.sweep.space import Subspace
from cost_model.sweep.table import (
    FAMILY,
    FMAX,
    INDEX,
    MEETS_CLOCK,
    Points,
    Table,
    columns_of,
    ranking_metrics,
    table_of,
)
from hwgen.config.dotted import nested
from hwgen.config.parameters import yaml_value
from hwgen.core.load import parse_draft
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import ConfigError, ToolMissing
from hwgen.technologies.utilization import FITS

PARETO, CONFIG, COSTS_OF = "pareto", "config", "costs_of"

FITTED = "fit"
"""In the column `COSTS_OF`, where costs are not those of a netlist."""


@dataclass(frozen=True)
class Chosen:
    """The Pareto set and the best points, the best by the first objective first.

    Parameters
    ----------
    table : Table
        Their parameters and metrics, with ``pareto`` (whether nothing beats the point) and
        ``config`` (the name of its configuration file, None if it has none).
    configs : dict
        File name to text of the configurations.
    loaded : dict
        File name to the configuration itself, in which registers may be ``auto``.
    refused : dict
        File name to what is wrong with a configuration that the cost model took for legal.
    """

    table: Table
    configs: dict[str, str]
    loaded: dict[str, FamilyConfig]
    refused: dict[str, str]

    @property
    def count(self) -> int:
        """The number of points."""
        return len(self.table[INDEX])

    def rows_of(self, names: Sequence[str]) -> list[int]:
        """Return the rows of configurations."""
        indices = {name: row for row, name in enumerate(self.table[CONFIG]) if name is not None}
        return [indices[name] for name in names]


def choose(outcome: Outcome, evaluate: Evaluate, metrics: Sequence[str]) -> Chosen:
    """Return the chosen points of a sweep with their configurations."""
    plan = outcome.plan
    refined = outcome.refined
    table = table_of(plan, refined.evaluate if refined else evaluate, metrics, outcome.chosen)
    objective = np.array(table[str(plan.objectives[0])], np.float64) * plan.objectives[0].sign
    order = np.lexsort((outcome.chosen.numbers, objective)).tolist()
    table = {name: [column[row] for row in order] for name, column in table.items()}
    front = set(outcome.front.tolist())
    table[PARETO] = [number in front for number in table[INDEX]]
    table[CONFIG] = [None] * len(order)
    if refined:
        table[COSTS_OF] = [STRUCTURE] * len(order)
    configs: dict[str, str] = {}
    loaded: dict[str, FamilyConfig] = {}
    refused: dict[str, str] = {}
    digits = max(4, len(str(len(order))))
    for row in range(min(len(order), plan.configs)):
        name = f"{plan.name}_{row + 1:0{digits}d}"
        problems = []
        # What is at its default is left out where the family takes it as a choice that it has not.
        for sparse in (False, True):
            text = _configuration(plan, name, table, row, sparse=sparse)
            try:
                loaded[f"{name}.yaml"] = parse_draft(text, f"{name}.yaml").params
            except ConfigError as error:
                problems.append(str(error))
            else:
                configs[f"{name}.yaml"] = text
                table[CONFIG][row] = f"{name}.yaml"
                break
        else:
            refused[f"{name}.yaml"] = problems[0]
    return Chosen(table, configs, loaded, refused)


def _configuration(plan: Plan, name: str, table: Table, row: int, *, sparse: bool) -> str:
    """Return the file of a point: what the sweep says about its family, nested as usual.

    A sparse one lacks what is at its default.
    """
    family = table[FAMILY][row]
    usual = defaults(family) if sparse else {}
    subspace = next(s for s in plan.space.subspaces if s.family == family)
    lines = [f"# Point {table[INDEX][row]} of the sweep {plan.name}, hwgen {plan.version}."]
    lines += [f"# {text}: {_shown(table[text][row])}" for text in ranking_metrics(plan)]
    lines += [f"name: {name}", f"family: {family}"]
    said = {
        parameter: table[parameter][row]
        for parameter in subspace.stated
        if parameter not in usual or usual[parameter] != table[parameter][row]
    }
    return "\n".join([*lines, *_lines(nested(said))]) + "\n"


def _lines(group: Mapping[str, Any], margin: str = "") -> Iterator[str]:
    """Yield the lines of a group of parameters, groups in it after what is plain."""
    for key, value in group.items():
        if not isinstance(value, dict):
            yield f"{margin}{key}: {_yaml(value)}"
    for key, value in group.items():
        if isinstance(value, dict):
            yield f"{margin}{key}:"
            yield from _lines(value, f"{margin}  ")


def _yaml(value: Any) -> str:
    """Return plain data for a YAML file, quoted where it would be read as something else."""
    text = yaml_value(value)
    return f"'{text}'" if isinstance(value, str) and not text.isidentifier() else text


def _shown(value: Any) -> str:
    return "not known" if value is None else f"{value:.6g}"


# -- files -----------------------------------------------------------------------------------


POWER_ACTIVITY = "power_activity"
"""Column of pareto.csv: the switching activity that power holds for."""

_POWER = re.compile(r"\b(power_w|tops_per_w|energy_mj|j_per_token)\b")


def depends_on_power(metric: str) -> bool:
    """Return whether a metric, or an expression of metrics, depends on the power of a core."""
    return bool(_POWER.search(metric))


def power_activity(plan: Plan, chosen: Chosen) -> str:
    """Return the switching activity that power holds for, in words; nothing if none is known."""
    columns = (values for name, values in chosen.table.items() if depends_on_power(name))
    if all(value is None for values in columns for value in values):
        return ""
    texts = (about(plan.activity, name) for name in sorted(technologies_of(plan)))
    return "; ".join(dict.fromkeys(texts))


def csv_text(plan: Plan, chosen: Chosen) -> str:
    """Return the Pareto set as comma-separated values."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    names = [name for name in chosen.table if name != PARETO]
    columns = [chosen.table[name] for name in names]
    if text := power_activity(plan, chosen):
        names.append(POWER_ACTIVITY)
        columns.append([text] * chosen.count)
    writer.writerow(names)
    for on_front, *cells in zip(chosen.table[PARETO], *columns, strict=True):
        if on_front:
            writer.writerow(["" if cell is None else cell for cell in cells])
    return stream.getvalue()


def write_parquet(
    path: Path,
    outcome: Outcome,
    evaluate: Evaluate,
    metrics: Sequence[str],
    measured: Mapping[int, Mapping[str, float]],
) -> None:
    """Write the points that the sweep keeps, by number, in parts: they may not fit in memory.

    Parameters
    ----------
    path : Path
    outcome : Outcome
    evaluate : Evaluate
    metrics : sequence of str
    measured : mapping
        Number of a point to what synthesis measured, by the name of its column.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ToolMissing(
            "a sweep writes results.parquet with pyarrow; pip install 'hwgen[sweep]'"
        ) from None
    plan = outcome.plan
    column_types = dict(_column_types(plan, metrics))
    if outcome.refined:
        column_types[COSTS_OF] = str
    column_types |= {name: float for row_metrics in measured.values() for name in row_metrics}
    types = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    schema = pa.schema([(name, types[kind]) for name, kind in column_types.items()])
    front = outcome.front
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for points in outcome.rows():
            table = _point_table(outcome, evaluate, metrics, points)
            table[PARETO] = np.isin(points.numbers, front).tolist()
            for name in column_types.keys() - table.keys():
                table[name] = [measured.get(number, {}).get(name) for number in table[INDEX]]
            for name, kind in column_types.items():
                if kind is str:
                    table[name] = [None if v is None else yaml_value(v) for v in table[name]]
            writer.write_table(
                pa.table({name: table[name] for name in column_types}, schema=schema)
            )


def _point_table(
    outcome: Outcome, evaluate: Evaluate, metrics: Sequence[str], points: Points
) -> Table:
    """Return the table of points, with the figures of their structures where these are known."""
    refined, plan = outcome.refined, outcome.plan
    if refined is None:
        return table_of(plan, evaluate, metrics, points)
    if plan.keep == "pareto":
        table = table_of(plan, refined.evaluate, metrics, points)
        return {**table, COSTS_OF: [STRUCTURE] * len(points.numbers)}
    table = table_of(plan, evaluate, metrics, points)
    numbers = np.intersect1d(points.numbers, refined.numbers)
    refined_table = table_of(plan, refined.evaluate, metrics, outcome.points_of(numbers))
    rows = np.searchsorted(points.numbers, numbers).tolist()
    table[COSTS_OF] = [FITTED] * len(points.numbers)
    refined_table[COSTS_OF] = [STRUCTURE] * len(numbers)
    for name, column in refined_table.items():
        for row, value in zip(rows, column, strict=True):
            table[name][row] = value
    return table


def _column_types(plan: Plan, metrics: Sequence[str]) -> Iterator[tuple[str, type]]:
    """Yield the columns of results.parquet with the type of their values."""
    yield INDEX, int
    yield FAMILY, str
    for name in columns_of(plan):
        column_types = set().union(*(_types(subspace, name) for subspace in plan.space.subspaces))
        if column_types <= {int, float}:
            yield name, float if float in column_types else int
        else:
            yield name, bool if column_types == {bool} else str
    for name in dict.fromkeys((*metrics, *ranking_metrics(plan))):
        yield name, bool if name == FITS else float
    if FMAX in metrics:
        yield MEETS_CLOCK, str
    yield PARETO, bool


def _types(subspace: Subspace, name: str) -> set[type]:
    """Return the types that a parameter's values have in one family."""
    for item in subspace.derived:
        if item.name == name:
            return {int if item.integer else float}
    for axis in subspace.axes:
        if axis.name == name:
            several = axis.values if isinstance(axis.values, tuple) else (axis.value(0),)
            return {type(value) for value in several}
    return {type(subspace.fixed[name])} if name in subspace.fixed else set()
