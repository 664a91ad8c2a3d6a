# SPDX-License-Identifier: Apache-2.0
"""Learned estimates against the analytical model: ``make bench-surrogates``.

Models learn from stored synthesis results and are tested on designs unlike those that they have
seen.  Results are stored; the tables of `docs/learned-estimates.md` are made from them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flows.bench.common import markdown, parser, report, run, write_sections
from flows.bench.surrogates.collect import DATA
from flows.bench.surrogates.models import (
    METRICS,
    MODELS,
    estimated,
    load,
    measured,
    r2,
    smape,
    splits,
    usable,
)

STORED = Path(__file__).with_name("results.json")

_NAMES = {"area_mm2": "area", "fmax_mhz": "Fmax", "lut": "LUTs", "ff": "flip-flops"}


def evaluated(rows: Sequence[dict[str, Any]], models: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the errors of every model in every split of every metric."""
    for metric in METRICS:
        some = usable(rows, metric)
        if len(some) < 40:
            continue
        for name, train, test in splits(some):
            if len(train) < 20 or len(test) < 5:
                continue
            truth = measured(test, metric)
            stated = [row.get(f"stated_{metric}") for row in test]
            inside = [
                abs(e / t - 1) <= s
                for e, t, s in zip(estimated(test, metric), truth, stated, strict=True)
                if s is not None
            ]
            for model in models:
                guess = MODELS[model](train, test, metric)
                yield {
                    "metric": metric,
                    "split": name,
                    "train": len(train),
                    "test": len(test),
                    "model": model,
                    "r2": round(r2(truth, guess), 4),
                    "smape": round(smape(truth, guess), 4),
                    "inside": round(float(np.mean(inside)), 3) if inside else None,
                }


def error_table(results: Sequence[dict[str, Any]], metric: str) -> str:
    """Return the table of a metric: SMAPE and R² of each model in each split."""
    own = [row for row in results if row["metric"] == metric]
    models = list(dict.fromkeys(row["model"] for row in own))
    rows = []
    for split in dict.fromkeys(row["split"] for row in own):
        some = {row["model"]: row for row in own if row["split"] == split}
        first = some[models[0]]
        cells = [f"{100 * some[m]['smape']:.1f} % ({some[m]['r2']:.2f})" for m in models]
        inside = "-" if first["inside"] is None else f"{first['inside']:.0%}".replace("%", " %")
        rows.append([split, str(first["train"]), str(first["test"]), *cells, inside])
    return markdown(["split", "learned from", "tested on", *models, "inside ±"], rows, 1)


def decisions(results: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[str]]:
    """Return, by metric and learned model, the splits in which its error does not drop."""
    base = {(r["metric"], r["split"]): r["smape"] for r in results if r["model"] == "analytical"}
    worse: dict[tuple[str, str], list[str]] = {}
    for row in results:
        if row["model"] == "analytical":
            continue
        key = (row["metric"], row["model"])
        worse.setdefault(key, [])
        if row["smape"] >= base[row["metric"], row["split"]]:
            worse[key].append(row["split"])
    return worse


def decision_table(results: Sequence[dict[str, Any]]) -> str:
    """Return, for each metric and model, whether it may be shipped."""
    count = {m: len({r["split"] for r in results if r["metric"] == m}) for m in METRICS}
    rows = [
        [_NAMES[metric], model, f"{count[metric] - len(worse)} of {count[metric]}",
         "no" if worse else "yes", ", ".join(worse[:3]) + (" ..." if len(worse) > 3 else "")]
        for (metric, model), worse in decisions(results).items()
    ]  # fmt: skip
    return markdown(["metric", "model", "better in splits", "shipped", "not better in"], rows)


def data_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table of numbers of rows by family and technology."""
    technologies = sorted({row["technology"] for row in rows})
    families = sorted({row["family"] for row in rows})
    cells = [
        [family, *(str(sum(r["family"] == family and r["technology"] == t for r in rows))
                   for t in technologies)]
        for family in families
    ]  # fmt: skip
    total = ["all", *(str(sum(r["technology"] == t for r in rows)) for t in technologies)]
    return markdown(["family", *technologies], [*cells, total], 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluate, print and write the page."""
    options = parser("surrogates", __doc__)
    options.add_argument("--stored", action="store_true", help="learn nothing")
    options.add_argument("--model", action="append", choices=tuple(MODELS), help="default all")
    options.add_argument("--data", type=Path, default=DATA, help="default the stored rows")
    options.add_argument("--write", type=Path, help="page to write the tables into")
    chosen = options.parse_args(arguments)
    rows = load(chosen.data)
    if chosen.stored:
        results = json.loads(STORED.read_text(encoding="utf-8"))
    else:
        models = ["analytical", *(m for m in chosen.model or MODELS if m != "analytical")]
        results = list(evaluated(rows, models))
        if not chosen.model and chosen.data == DATA:
            lines = ",\n".join(json.dumps(row) for row in results)
            STORED.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    report("learned estimates", results, {"smape": ".1%"}, as_json=chosen.json)
    if chosen.write:
        there = [m for m in METRICS if any(r["metric"] == m for r in results)]
        tables = [f"{_NAMES[m]}\n\n{error_table(results, m)}" for m in there]
        sections = {
            "data": data_table(rows),
            "decisions": decision_table(results),
        }  # fmt: skip
        write_sections(chosen.write, sections)
        appendix = chosen.write.with_name(f"results-{chosen.write.name}")
        write_sections(appendix, {"errors": "\n".join(tables)})
    return 0


if __name__ == "__main__":
    run(main)
