# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the closed forms that sweeps use against the estimate by structure.

Configurations are drawn from everything that the families with closed forms allow, with another
seed than those that closed forms are fitted to; small sizes are as likely as large ones of twice as
many.  Structures are extracted once and kept in the user's cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from cost_model.estimate.technology import calibrated, technology
from flows.bench.common import Row, parser, report, run
from flows.bench.cost_tables import Errors
from flows.calibration.closed_forms import METRICS, Sample, costs_of, errors_of, samples
from flows.calibration.results import covered

DESIGNS, UNSEEN = 300, 515
"""Configurations, and a seed that no closed form was written or fitted with."""

ALL = "all"

GOALS: Mapping[str, float] = {"area": 0.05, "power": 0.08, "fmax": 0.12}
"""Largest mean relative error."""

GOAL_BIAS, GOAL_TAU = 0.01, 0.97
"""Of the area: largest mean error, least agreement of the rankings."""

HEADINGS = ("designs", "MAPE", "bias", "worst", "τ")


def compare(designs: Sequence[Sample], name: str) -> Iterator[tuple[str, str, Errors, list[float]]]:
    """Yield the errors of a technology's closed forms, by metric and family."""
    tech = technology(name)
    compared = []
    for sample in designs:
        costs = costs_of(sample, tech)
        errors = errors_of(sample, costs, tech)
        compared.append((sample.config.family, errors, costs.metrics(sample)))
    for metric in METRICS:
        for family in (ALL, *dict.fromkeys(family for family, _, _ in compared)):
            pairs = [
                (error, amounts[metric])
                for member, errors, amounts in compared
                if family in (ALL, member) and np.isfinite(error := errors.get(metric, np.nan))
            ]
            if pairs:
                errors_only = [error for error, _ in pairs]
                statistics = Errors.of(errors_only, [amount for _, amount in pairs])
                yield metric, family, statistics, errors_only


def meets(metric: str, errors: Errors) -> bool:
    """Return whether the errors of all families together are as small as they should be."""
    if metric == "area" and (abs(errors.bias) > GOAL_BIAS or errors.tau < GOAL_TAU):
        return False
    return errors.mape <= GOALS[metric]


def technologies() -> list[str]:
    """Return the technologies with an area, of which closed forms are fitted to structures."""
    return [n for n in calibrated() if "area_um2" in technology(n).structure.get("costs", {})]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and print; return 1 if a goal is missed."""
    options = parser("closed_forms", __doc__)
    options.add_argument("--technology", action="append", choices=technologies())
    options.add_argument("--designs", type=int, default=DESIGNS, help="(%(default)s)")
    options.add_argument("--seed", type=int, default=UNSEEN, help="(%(default)s)")
    options.add_argument("--jobs", type=int, help="processes; default one for each processor")
    chosen = options.parse_args(arguments)
    designs = samples(chosen.seed, chosen.designs, chosen.jobs, lambda done, total: None)
    missed = []

    def rows() -> Iterator[Row]:
        for name in chosen.technology or technologies():
            for metric, family, errors, each in compare(designs, name):
                if family == ALL and not meets(metric, errors):
                    missed.append((name, metric))
                cells = dict(zip(HEADINGS, errors.cells(), strict=True))
                within = f"{100 * covered(np.array(each)):.1f} %"
                yield {"technology": name, "metric": metric, "family": family, **cells,
                       "nine of ten within": within}  # fmt: skip

    title = f"closed forms against the estimate by structure, seed {chosen.seed}"
    report(title, rows(), as_json=chosen.json)
    return 1 if missed else 0


if __name__ == "__main__":
    run(main)
