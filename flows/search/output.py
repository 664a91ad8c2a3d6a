# SPDX-License-Identifier: Apache-2.0
"""Files that a search writes: an engine in each directory, the result as JSON, and a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from cost_model.sweep.output.report import label_of, page_html
from flows.search.goals import METRICS, objectives
from flows.search.search import Listed, Result
from hwgen.config.parameters import yaml_value

RESULT, PAGE, ENGINE = "result.json", "report.html", "engine.yaml"

_MOST_POINTS = 1500


def write_result(directory: Path, result: Result) -> dict[str, Any]:
    """Write the short list into an empty directory; return what `RESULT` holds."""
    document = document_of(result)
    for number, engine in enumerate(result.engines, 1):
        (directory / str(number)).mkdir()
        text = engine_yaml(result, engine, number)
        (directory / str(number) / ENGINE).write_text(text, encoding="utf-8")
    (directory / RESULT).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (directory / PAGE).write_text(_page(result, document), encoding="utf-8")
    return document


def document_of(result: Result) -> dict[str, Any]:
    """Return a result as JSON values."""
    request = result.request
    return {
        "model": str(request.model),
        "goals": [str(goal) for goal in request.goals],
        "target": request.target.model_dump(mode="json", exclude_none=True),
        "context": request.context,
        "points": result.scores.points,
        "feasible": result.feasible,
        "guarantee": result.guarantee,
        "evaluated": result.evaluated,
        "rejected": result.rejections,
        "illegal": [{"reason": reason, "options": count}
                    for reason, count in result.space.illegal.items()],
        "unusable": result.unusable,
        "engines": [
            {"engine": f"{number}/{ENGINE}", "point": each.number, "parameters": each.shown,
             "metrics": each.metrics, "by_tables": each.ranked, "limits": each.limits}
            for number, each in enumerate(result.engines, 1)
        ],
    }  # fmt: skip


def engine_yaml(result: Result, engine: Listed, number: int) -> str:
    """Return the configuration of an engine of the short list."""
    request = result.request
    goals = ", ".join(map(str, request.goals))
    lines = [
        f"# Engine {number} of a search for {request.model.name}: {goals}.",
        *(f"# {line[:1].upper()}{line[1:]}." for line in engine.limits),
        *_yaml({**engine.engine, "name": f"engine_{number}"}),
    ]
    return "\n".join(lines) + "\n"


def _yaml(values: dict[str, Any], indent: str = "") -> list[str]:
    """Return parameters as lines; what is deep goes into one line."""
    lines = []
    for name, value in values.items():
        nested = isinstance(value, dict) and value
        if nested and (len(str(value)) > 80 or any(isinstance(v, dict) for v in value.values())):
            lines.append(f"{indent}{name}:")
            lines += _yaml(value, indent + "  ")
        else:
            lines.append(f"{indent}{name}: {yaml_value(value)}")
    return lines


def _page(result: Result, document: dict[str, Any]) -> str:
    """Return the page: the engines that nothing beats, and the short list."""
    scores = result.scores
    names = [name for name in METRICS if np.isfinite(scores.metrics[name]).any()]
    first, second = objectives(result.request.goals, scores.metrics)[:2]
    numbers = _front(result, first, second)
    chosen = {each.number: f"{n}/{ENGINE}" for n, each in enumerate(result.engines, 1)}
    numbers = sorted({*numbers, *chosen})
    rows, parameters = [], dict[str, None]()
    shown = []
    for number in numbers:
        width, options = scores.options(number)
        values: dict[str, Any] = {"memory.data_width": width}
        for option in options:
            values |= option.shown
        parameters |= dict.fromkeys(values)
        shown.append(values)
    columns = ["index", *parameters, *names, "config"]
    for number, values in zip(numbers, shown, strict=True):
        metrics = scores.at(number)
        rows.append([
            number, *(values.get(name) for name in parameters),
            *(metrics[name] if np.isfinite(metrics[name]) else None for name in names),
            chosen.get(number),
        ])  # fmt: skip
    data = {
        "name": result.request.model.name,
        "columns": [_column(name, rows, i, parameters, names) for i, name in enumerate(columns)],
        "rows": rows,
        "objectives": [{"name": name, "maximise": METRICS[name][1]} for name in (first, second)],
        "breakdowns": {},
        "group_by": [],
        "folder": "",
    }
    goals = ", ".join(document["goals"])
    summary = (
        f"{document['points']:,} engines ranked, {document['feasible']:,} meet {goals}."
        f" {document['guarantee'][:1].upper()}{document['guarantee'][1:]}. Figures are those of the"
        " ranking; engines with a configuration also have a complete estimate, in result.json."
    )
    return page_html(f"Search for {result.request.model.name}", summary, data)


def _column(
    name: str, rows: list[list[Any]], index: int, parameters: dict[str, None], names: list[str]
) -> dict[str, Any]:
    numeric = all(row[index] is None or type(row[index]) in (int, float) for row in rows)
    label, unit = label_of(name, dict.fromkeys(parameters, ""))
    interesting = name in parameters or name in names
    return {
        "name": name, "label": label, "unit": unit, "note": "", "parameter": name in parameters,
        "numeric": numeric and name != "config", "part": False, "filter": interesting,
        "lane": interesting, "listed": True,
    }  # fmt: skip


def _front(result: Result, first: str, second: str) -> list[int]:
    """Return engines that fit and that no other surpasses in two metrics, thinned evenly."""
    scores = result.scores
    usable = np.isfinite(scores.metrics[first]) & np.isfinite(scores.metrics[second])
    for too_few in scores.lacking().values():
        usable &= ~too_few
    numbers = np.flatnonzero(usable)
    costs = [
        scores.metrics[name][numbers] * (-1 if METRICS[name][1] else 1) for name in (first, second)
    ]
    order = np.lexsort((costs[1], costs[0]))
    best = np.minimum.accumulate(costs[1][order])
    better = np.concatenate([[True], costs[1][order][1:] < best[:-1]])
    front = numbers[order][better]
    spread = numbers[:: max(1, len(numbers) // (_MOST_POINTS // 2))]
    return [*map(int, front[:: max(1, len(front) // (_MOST_POINTS // 2))]), *map(int, spread)]
