# SPDX-License-Identifier: Apache-2.0
"""How far the closed forms that sweeps use are from the estimate by structure.

``python -m flows.bench.closed_forms [--technology NAME]... [--designs N] [--seed S] [--jobs N]
[--json]``

Configurations are drawn from everything that the families with closed forms allow, with another
seed than those that closed forms are fitted to; small sizes are as likely as large ones of twice as
many.  Structures are extracted once and kept in the user's cache.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from cost_model.estimate.technology import calibrated, technology
from flows.bench.cost import kendall
from flows.calibration.closed_forms import METRICS, Sample, costs_of, errors_of, samples
from flows.calibration.results import covered

DESIGNS, UNSEEN = 300, 515
"""Configurations, and a seed that no closed form was written or fitted with."""

HEADINGS = ("technology", "metric", "family", "designs", "MAPE", "bias", "p90", "worst", "τ")
ALL = "all"

GOALS: Mapping[str, float] = {"area": 0.05, "power": 0.08, "fmax": 0.12}
"""Largest mean relative error."""

GOAL_BIAS, GOAL_TAU = 0.01, 0.97
"""Of the area: largest mean error, least agreement of the rankings."""


@dataclass(frozen=True)
class Summary:
    """Errors of closed forms from the estimate by structure.

    Parameters
    ----------
    technology, metric, family : str
        The family is `ALL` for all of them together.
    designs, unknown : int
        Configurations that are compared, and those of which closed forms do not know the metric.
    mape, bias, p90, worst : float
        Relative errors: the mean without and with sign, what nine of ten stay within, the largest.
    tau : float
        Agreement of the rankings, 1 if they are the same.
    """

    technology: str
    metric: str
    family: str
    designs: int
    unknown: int
    mape: float
    bias: float
    p90: float
    worst: float
    tau: float


def compare(designs: Sequence[Sample], name: str) -> list[Summary]:
    """Return the errors of a technology's closed forms, by metric and family."""
    tech = technology(name)
    found = []
    for sample in designs:
        costs = costs_of(sample, tech)
        found.append((sample.config.family, errors_of(sample, costs, tech), costs.metrics(sample)))
    summaries = []
    for metric in METRICS:
        for family in (ALL, *dict.fromkeys(family for family, _, _ in found)):
            mine = [(errors.get(metric, np.nan), amounts[metric])
                    for own, errors, amounts in found if family in (ALL, own)]  # fmt: skip
            known = [(error, amount) for error, amount in mine if np.isfinite(error)]
            if known:
                summaries.append(_summary(name, metric, family, known, len(mine) - len(known)))
    return summaries


def _summary(
    name: str, metric: str, family: str, known: Sequence[tuple[float, float]], unknown: int
) -> Summary:
    errors = np.array([error for error, _ in known])
    return Summary(
        name, metric, family, len(known), unknown,
        float(np.abs(errors).mean()),
        float(errors.mean()),
        covered(errors),
        float(errors[np.abs(errors).argmax()]),
        kendall([(1 + error) * amount for error, amount in known], [x for _, x in known]),
    )  # fmt: skip


def meets(summary: Summary) -> bool:
    """Return whether the errors of all families together are as small as they should be."""
    if summary.family != ALL:
        return True
    if summary.metric == "area" and (abs(summary.bias) > GOAL_BIAS or summary.tau < GOAL_TAU):
        return False
    return summary.mape <= GOALS[summary.metric]


def rows(summaries: Sequence[Summary]) -> list[tuple[str, ...]]:
    """Return the cells of the table."""
    return [
        (
            s.technology, s.metric, s.family, str(s.designs),
            f"{100 * s.mape:.1f} %", f"{100 * s.bias:+.1f} %", f"{100 * s.p90:.1f} %",
            f"{100 * s.worst:+.0f} %", f"{s.tau:.3f}",
        )
        for s in summaries
    ]  # fmt: skip


def technologies() -> list[str]:
    """Return the technologies with an area, of which closed forms are fitted to structures."""
    return [n for n in calibrated() if "area_um2" in technology(n).structure.get("costs", {})]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print; return 1 if a goal is missed."""
    cells = technologies()
    parser = argparse.ArgumentParser(
        prog="python -m flows.bench.closed_forms",
        description="Closed forms compared with the estimate by structure.",
    )
    parser.add_argument("--technology", action="append", choices=cells)
    parser.add_argument("--designs", type=int, default=DESIGNS, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=UNSEEN, help="(%(default)s)")
    parser.add_argument("--jobs", type=int, help="processes; default one for each processor")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    console = Console(stderr=True)
    with console.status("") as status:
        designs = samples(
            options.seed, options.designs, options.jobs,
            lambda done, total: status.update(f"structure {done} of {total}"),
        )  # fmt: skip
        summaries: list[Summary] = []
        for name in options.technology or cells:
            status.update(name)
            summaries += compare(designs, name)
    if options.json:
        document = {"seed": options.seed, "summaries": [asdict(s) for s in summaries]}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        table = Table(title=f"Closed forms against the estimate by structure, seed {options.seed}")
        for heading in HEADINGS:
            table.add_column(heading)
        for row in rows(summaries):
            table.add_row(*row)
        Console(width=110).print(table)
    return 0 if all(map(meets, summaries)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
