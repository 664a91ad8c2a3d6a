# SPDX-License-Identifier: Apache-2.0
"""Everything that a finished sweep writes into its directory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cost_model.sweep.outcome import Outcome
from cost_model.sweep.output.report import report_html, write_pictures
from cost_model.sweep.output.results import Chosen, choose, csv_text, write_parquet
from cost_model.sweep.output.summary import summary_of
from cost_model.sweep.plan import Evaluate
from cost_model.sweep.probe import Probe
from cost_model.sweep.table import INDEX
from hwgen.core.params.base import FamilyConfig

SUMMARY = "summary.json"
MEASURED = "measured_"
"""Before the name of a metric, what synthesis found where the metric is an estimate."""


@dataclass(frozen=True)
class Verification:
    """Selection of configurations to measure, and the function that measures them.

    Parameters
    ----------
    text : str
        What was asked for: ``top:N``, the first N configurations, or ``sample:N``, N evenly from
        the first to the last.
    measure : callable
        Takes configurations and returns figures by the names of metrics, or why there are none.
    announce : callable, optional
        Takes the summary before anything is measured, which may take hours.
    """

    text: str
    measure: Callable[[Sequence[FamilyConfig]], Sequence[Mapping[str, float] | str]]
    announce: Callable[[dict[str, Any]], None] = lambda summary: None

    def names(self, chosen: Chosen) -> list[str]:
        """Return the files of the configurations to measure."""
        kind, _, count = self.text.partition(":")
        every = list(chosen.loaded)
        if kind == "top" or int(count) >= len(every):
            return every[: int(count)]
        indices = np.linspace(0, len(every) - 1, int(count)).round().astype(int)
        return [every[index] for index in indices]


def write_output(
    directory: Path,
    outcome: Outcome,
    evaluate: Evaluate,
    probed: Probe,
    verification: Verification | None = None,
) -> dict[str, Any]:
    """Write the results into an empty directory and return the summary."""
    metrics = probed.metrics
    chosen = choose(outcome, evaluate, metrics)
    summary = summary_of(outcome, chosen, probed.fingerprint)
    summary["verify"] = verification and verification.text
    if verification is not None:
        verification.announce(summary)
        summary["verified"] = _verify(chosen, verification)
    measured = {
        chosen.table[INDEX][row]: {
            name: values[row]
            for name, values in chosen.table.items()
            if name.startswith(MEASURED) and values[row] is not None
        }
        for row in range(chosen.count)
    }
    write_parquet(directory / "results.parquet", outcome, evaluate, metrics, measured)
    (directory / "pareto.csv").write_text(csv_text(outcome.plan, chosen), encoding="utf-8")
    configs = directory / "configs"
    configs.mkdir()
    for name, text in chosen.configs.items():
        (configs / name).write_text(text, encoding="utf-8")
    (directory / "report.html").write_text(report_html(outcome, chosen, summary), encoding="utf-8")
    write_pictures(directory, outcome, chosen)
    (directory / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def _verify(chosen: Chosen, verification: Verification) -> list[dict[str, Any]]:
    """Measure configurations, add columns of what was measured, and return the comparison."""
    names = verification.names(chosen)
    results = verification.measure([chosen.loaded[name] for name in names])
    compared = []
    for name, row, metrics in zip(names, chosen.rows_of(names), results, strict=True):
        entry: dict[str, Any] = {"config": name, "problem": None, "metrics": {}}
        if isinstance(metrics, str):
            entry["problem"] = metrics
            metrics = {}
        for metric, value in metrics.items():
            column = chosen.table.setdefault(MEASURED + metric, [None] * chosen.count)
            column[row] = value
            estimated = chosen.table[metric][row] if metric in chosen.table else None
            entry["metrics"][metric] = {"estimated": estimated, "measured": value}
        compared.append(entry)
    return compared


def finished(directory: Path, fingerprint: str, verify: str | None) -> dict[str, Any] | None:
    """Return the summary in a directory if it is that of this very sweep, verified like this."""
    try:
        summary: dict[str, Any] = json.loads((directory / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(summary, dict) or summary.get("fingerprint") != fingerprint:
        return None
    return summary if summary.get("verify") == verify else None
