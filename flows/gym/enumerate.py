# SPDX-License-Identifier: Apache-2.0
"""Enumerate a sweep's space into a table: figures of every point, legal or not, by the cost model.

Costs are fitted to netlists of some points, as sweeps do; cycles are exact.  No point but those of
the fits is elaborated.  Where fits are not good enough, every structure is counted instead
(`flows.gym.counted`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cost_model.sweep.document import SweepFile, read_sweep
from cost_model.sweep.fitted import Fitted, fitted
from cost_model.sweep.netlists import Netlists
from cost_model.sweep.outcome import Executor
from cost_model.sweep.plan import Evaluate, Plan, metrics_of
from cost_model.sweep.refusals import refusals
from cost_model.sweep.samples import pools
from cost_model.sweep.space import Subspace
from flows.build.costs import NetlistCosts
from flows.gym.counted import Counted, Journal, counted, differences
from hwgen import __version__
from hwgen.errors import InputError
from hwgen.gym.table import Axis, Table, rounded
from hwgen.workloads import Network

BLOCK = 131072
"""Points that are evaluated at once."""

MOST_POINTS = 10**8
"""Points of a table at most: it has to fit in memory."""

CHECKED = 10
"""Points of a counted table that are evaluated by themselves, to state how far it is off."""

_WORKLOAD = "work"

METRICS = {
    "area_mm2": "area_mm2",
    "latency_ms": f"latency_ms({_WORKLOAD})",
    "energy_mj": f"energy_mj({_WORKLOAD})",
}
"""Figures of a table by name: metrics of a sweep."""


def table_of(
    path: Path,
    executor: Executor,
    progress: Callable[[int, int], None] = lambda done, total: None,
    most: int | None = None,
    journal: Path | None = None,
) -> Table:
    """Return the table of a sweep file with one family, and one workload called ``work``.

    Parameters
    ----------
    path : Path
    executor : Executor
        What evaluates netlists.
    progress : callable, optional
        Takes points done and points in all.
    most : int, optional
        Points, beside small designs, that are evaluated by netlist to test fits; by default as
        many as a sweep takes.
    journal : Path, optional
        If it is given, every structure is counted in a netlist of its own, and added to this file.

    Raises
    ------
    ConfigError, InputError
        If the file is no such sweep, or too large, or the journal is of another cost model.
    """
    file = read_sweep(path, __version__)
    _check(path, file)
    plan = file.plan
    stated = file.document.data["workloads"][_WORKLOAD]
    name = stated if isinstance(stated, str) else _WORKLOAD
    if journal is not None:
        costs = NetlistCosts()
        counts = counted(plan, costs, executor, Journal.of(journal, plan), progress)
        table = enumerate_space(plan, counts, workload=name)
        return replace(table, provenance={**table.provenance, **_checked(counts, plan, table)})
    drawn = [replace(pool, points=pool.points[:most]) for pool in pools(plan)]
    evaluate = fitted(plan, drawn, Netlists(NetlistCosts()), executor)
    return enumerate_space(plan, evaluate, progress, name)


def _checked(counts: Counted, plan: Plan, table: Table) -> dict[str, Any]:
    """Return the differences of some points of a table from their own netlists, as provenance."""
    rows = np.random.default_rng(0).choice(np.flatnonzero(table.legal), CHECKED, replace=False)
    fixed = plan.space.subspaces[0].fixed
    points = [{**fixed, **table.point(int(row))} for row in rows]
    found = differences(counts, plan, NetlistCosts(), points)
    return {
        "costs": "counted in a netlist of each structure",
        "netlists": len(counts.structures),
        "checked": CHECKED,
        "left_out_errors": {name: float(f"{error:.2g}") for name, error in found.items()},
    }


def _check(path: Path, file: SweepFile) -> None:
    plan = file.plan
    if len(plan.space.subspaces) != 1 or plan.space.subspaces[0].derived or plan.specs:
        raise InputError(
            f"{path}: a table has one family, parameters of their own values and no specs; limits"
            " belong to problems"
        )
    if list(plan.workloads) != [_WORKLOAD]:
        raise InputError(f"{path}: workloads: a table has one, with the name {_WORKLOAD!r}")
    if plan.space.size > MOST_POINTS:
        raise InputError(
            f"{path}: {plan.space.size:,} points; a table has at most {MOST_POINTS:,}; make axes"
            " shorter"
        )


def enumerate_space(
    plan: Plan,
    evaluate: Evaluate,
    progress: Callable[[int, int], None] = lambda done, total: None,
    workload: str = _WORKLOAD,
) -> Table:
    """Return the table of a plan with one family, by a model of its costs."""
    subspace = plan.space.subspaces[0]
    size = plan.space.size
    metrics = {name: np.full(size, np.nan, np.float32) for name in METRICS}
    rule = np.zeros(size, np.uint8)
    own = [reason for reason, _ in subspace.refusals()]
    rules = (*own, _rule_of(plan, subspace.family), "no known figure of area, time or energy")
    for run in plan.space.runs(0, size, BLOCK):
        values = plan.space.values(run)
        arrays = [value.shape for value in values.values() if isinstance(value, np.ndarray)]
        shape = np.broadcast_shapes(*arrays)
        stages = np.full(shape, -1, np.int64)
        subspace.check(values, shape, stages)
        valid, figures = metrics_of(evaluate, subspace.family, values, plan, shape)
        code = np.where(stages >= 0, stages + 1, np.where(valid, 0, len(own) + 1))
        for source in METRICS.values():
            code[(code == 0) & ~np.isfinite(figures[source])] = len(own) + 2
        where = slice(run.index, run.index + run.stop - run.start)
        rule[where] = code.reshape(-1)
        for name, source in METRICS.items():
            metrics[name][where] = rounded(np.where(code == 0, figures[source], np.nan)).reshape(-1)
        progress(where.stop, size)
    return Table(
        plan.name,
        _axes(subspace),
        metrics,
        rule,
        rules,
        _features(workload, plan.workloads[_WORKLOAD]),
        {
            "family": subspace.family,
            "technology": str(subspace.fixed.get("target.technology", "")),
            "costs": "fitted to netlists",
            **_errors(evaluate),
        },
    )


def _errors(evaluate: Evaluate) -> dict[str, Any]:
    if not isinstance(evaluate, Fitted):
        return {}
    errors = {name: round(error, 4) for name, error in evaluate.margins.items()}
    return {"netlists": evaluate.samples, "left_out_errors": errors}


def _axes(subspace: Subspace) -> tuple[Axis, ...]:
    return tuple(
        Axis(axis.name, tuple(axis.value(digit) for digit in range(axis.count)))
        for axis in subspace.axes
    )


def _rule_of(plan: Plan, family: str) -> str:
    examples = "; ".join(refusal.problem for refusal in refusals(plan, 3))
    return f"a rule of the family {family}{f', such as: {examples}' if examples else ''}"


def _features(name: str, network: Network) -> dict[str, Any]:
    return {
        "name": name,
        "macs": int(network.macs),
        "weights": int(network.weights),
        "tokens": int(network.tokens or 1),
    }
