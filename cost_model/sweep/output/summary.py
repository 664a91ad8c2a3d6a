# SPDX-License-Identifier: Apache-2.0
"""A finished sweep in short: counts, what removed points, and the best by each objective."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from cost_model.estimate.activity import simulated_energies
from cost_model.estimate.technology import table_of
from cost_model.sweep.outcome import Outcome
from cost_model.sweep.output.results import CONFIG, PARETO, Chosen, power_activity
from cost_model.sweep.plan import Plan, technologies_of
from cost_model.sweep.reduce import Tally
from cost_model.sweep.refusals import refusals
from cost_model.sweep.table import (
    FAMILY,
    INDEX,
    MEETS_CLOCK,
    NO,
    WITHIN,
    columns_of,
    ranking_metrics,
)


def summary_of(outcome: Outcome, chosen: Chosen, fingerprint: str) -> dict[str, Any]:
    """Return the summary as plain JSON values; the same sweep gives the same one."""
    plan, counts = outcome.plan, outcome.counts
    tally = Tally.of(plan)
    refused = [
        {
            "family": plan.space.subspaces[index].family,
            "condition": reason,
            "points": int(count),
        }
        for (index, reason), count in zip(tally.refusals, counts[1:], strict=False)
    ]
    first_spec = tally.illegal + 1
    return {
        "name": plan.name,
        "version": plan.version,
        "fingerprint": fingerprint,
        **_cost_tables(plan),
        "activity": {"name": plan.activity, **_activity(plan, chosen)},
        "points": plan.space.size,
        "evaluated": outcome.evaluated,
        "removed": {
            "constraints": refused,
            "illegal": int(counts[tally.illegal]),
            "rules": _rules(plan) if counts[tally.illegal] else [],
            "specs": [
                {
                    "spec": str(spec),
                    "points": int(counts[first_spec + index]),
                    "points_alone": int(outcome.failed[index]),
                }
                for index, spec in enumerate(plan.specs)
            ],
            "unknown": int(counts[-2]),
        },
        "excluded": outcome.excluded,
        "feasible": outcome.feasible,
        "pareto": len(outcome.front),
        "kept": chosen.count,
        "configs": len(chosen.configs),
        "refused_configs": chosen.refused,
        "assumed_clock": _assumed(chosen),
        "clock_within": pareto_points(chosen, WITHIN),
        "clock_missed": pareto_points(chosen, NO),
        "refine": _refined(outcome),
        "empty_groups": _empty_groups(outcome),
        "best": [
            _best(outcome, chosen, index, group, rows)
            for group, rows in _groups(plan, chosen)
            for index in range(len(plan.objectives))
        ],
    }


def _activity(plan: Plan, chosen: Chosen) -> dict[str, Any]:
    """Return the activity of the power of points, and whether there is power by simulations."""
    simulated = technologies_of(plan) <= set(simulated_energies())
    return {"about": power_activity(plan, chosen) or None, "simulated": simulated}


def _rules(plan: Plan) -> list[dict[str, Any]]:
    """Return examples of points that break a rule of their family."""
    return [{**asdict(each), "example": str(each)} for each in refusals(plan)]


def _cost_tables(plan: Plan) -> dict[str, Any]:
    """Return the sources of the users' tables of costs by technology, nothing if there is none."""
    tables = {name: table_of(name) for name in sorted(technologies_of(plan))}
    sources = {name: table.source for name, table in tables.items() if table is not None}
    return {"cost_tables": sources} if sources else {}


def _assumed(chosen: Chosen) -> int:
    """Return of how many kept points no Fmax is known: their clock is the one asked for."""
    return sum(fmax is None for fmax in chosen.table.get("fmax_mhz", ()))


def pareto_points(chosen: Chosen, meets: str) -> int:
    """Return the number of Pareto-optimal points that meet their clock as `MEETS_CLOCK` says."""
    column = chosen.table.get(MEETS_CLOCK, [None] * chosen.count)
    return sum(on and each == meets for on, each in zip(chosen.table[PARETO], column, strict=True))


def _refined(outcome: Outcome) -> dict[str, Any] | None:
    """Return the result of evaluating candidates by netlist, None if that was not requested."""
    refined = outcome.refined
    if refined is None:
        return None
    return {
        "asked": refined.asked,
        "total": refined.total,
        "samples": refined.samples,
        "margins": dict(refined.margins),
        "candidates": len(refined.numbers),
        "by_netlist": len(refined.numbers) - len(refined.refused),
        "refused": [
            {"index": number, "problem": problem} for number, problem in refined.refused.items()
        ],
        "differences": {name: dict(each) for name, each in refined.differences.items()},
    }


def _empty_groups(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the groups without a point, with the most frequent reason and its points."""
    plan, refined = outcome.plan, outcome.refined
    there = set(map(tuple, outcome.front_values[:, len(plan.objectives) :: 2].tolist()))
    result = []
    for key in sorted(outcome.groups.keys() - there):
        counts, many, by = outcome.groups[key], "points", ""
        points = int(counts.sum())
        if counts[-1]:  # left by fits
            counts = np.zeros_like(counts) if refined is None else refined.groups.get(key, counts)
            points, many, by = int(counts.sum()), "candidates", " by their netlists"
        most = int(np.argmax(counts))
        values = [plan.group_value(*pair) for pair in zip(plan.group_by, key, strict=True)]
        result.append({
            "group": dict(zip(plan.group_by, values, strict=True)),
            "points": points,
            "reason": f"{many} {_reason(plan, most)}{by}",
            "reason_points": int(counts[most]),
        })  # fmt: skip
    return result


def _reason(plan: Plan, number: int) -> str:
    """Return the common property of points that `Tally` counts at an index."""
    tally = Tally.of(plan)
    if number < tally.illegal:
        index, condition = tally.refusals[number - 1]
        return f"break {condition!r} ({plan.space.subspaces[index].family})"
    if number == tally.illegal:
        return "break a rule of their family"
    if number < tally.size - 2:
        return f"miss {str(plan.specs[number - tally.illegal - 1])!r}"
    if number == tally.size - 2:
        return "have no known figure of an objective"
    return "are not among the candidates that `refine` asks for"


def _groups(plan: Plan, chosen: Chosen) -> list[tuple[dict[str, Any], list[int]]]:
    """Return the groups of `Plan.group_by` with the rows of their points, in order."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for row in range(chosen.count):
        key = tuple(chosen.table[name][row] for name in plan.group_by)
        groups.setdefault(key, []).append(row)
    # Sorted by parameter, as numbers where they are numbers.
    order = sorted(groups, key=lambda key: [(isinstance(v, str), v is None, v or 0) for v in key])
    return [(dict(zip(plan.group_by, key, strict=True)), groups[key]) for key in order]


def _best(
    outcome: Outcome, chosen: Chosen, index: int, group: dict[str, Any], rows: list[int]
) -> dict[str, Any]:
    """Return the best point of a group by one objective; of equals the first in the space."""
    plan, table = outcome.plan, chosen.table
    objective = plan.objectives[index]
    column = table[str(objective)]
    row = min(
        (r for r in rows if column[r] is not None),
        key=lambda r: (objective.sign * column[r], table[INDEX][r]),
    )
    parameters = {name: table[name][row] for name in columns_of(plan)}
    return {
        "objective": str(objective),
        "maximise": objective.maximise,
        **({"group": group} if group else {}),
        "family": table[FAMILY][row],
        "parameters": {name: value for name, value in parameters.items() if value is not None},
        "figures": {name: table[name][row] for name in ranking_metrics(plan)},
        "config": table[CONFIG][row],
    }
