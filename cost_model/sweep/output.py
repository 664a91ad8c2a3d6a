# SPDX-License-Identifier: Apache-2.0
"""Everything that a finished sweep writes into its directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cost_model.sweep.engine import Outcome
from cost_model.sweep.plan import Evaluate
from cost_model.sweep.report import report_html, write_figures
from cost_model.sweep.results import choose, csv_text, write_parquet
from cost_model.sweep.summary import summary_of

SUMMARY = "summary.json"


def write_output(
    directory: Path,
    outcome: Outcome,
    evaluate: Evaluate,
    metrics: Sequence[str],
    fingerprint: str,
) -> dict[str, Any]:
    """Write the results into an empty directory and return the summary."""
    chosen = choose(outcome, evaluate, metrics)
    write_parquet(directory / "results.parquet", outcome, evaluate, metrics)
    (directory / "pareto.csv").write_text(csv_text(chosen), encoding="utf-8")
    configs = directory / "configs"
    configs.mkdir()
    for name, text in chosen.configs.items():
        (configs / name).write_text(text, encoding="utf-8")
    (directory / "report.html").write_text(report_html(outcome, chosen), encoding="utf-8")
    write_figures(directory, outcome, chosen)
    summary = summary_of(outcome, chosen, fingerprint)
    (directory / SUMMARY).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def finished(directory: Path, fingerprint: str) -> dict[str, Any] | None:
    """Return the summary in a directory if it is that of this very sweep."""
    try:
        summary: dict[str, Any] = json.loads((directory / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(summary, dict) and summary.get("fingerprint") == fingerprint
    return summary if same else None
