# SPDX-License-Identifier: Apache-2.0
"""Files that a search writes: an engine in each directory, the result as JSON, and a page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cost_model.sweep.output.report import label_of, page_html
from flows.search.accuracy import accuracy_of
from flows.search.complete import Complete
from flows.search.goals import METRICS, objectives
from flows.search.result import Listed, Request, Result
from flows.search.search import merged
from flows.search.sensitivity import pictures, sensitivity
from hwgen.config.parameters import yaml_value

RESULT, PAGE, ENGINE = "result.json", "report.html", "engine.yaml"

_MOST_POINTS, _MOST_DRAWN = 1500, 300


def write_result(
    directory: Path,
    results: Sequence[Result],
    excluded: Sequence[Mapping[str, str]],
    estimates: Mapping[str, Complete] | None = None,
) -> dict[str, Any]:
    """Write the short list into an empty directory; return the contents of `RESULT`.

    Parameters
    ----------
    directory : Path
    results : sequence of Result
        Of each model.
    excluded : sequence of dict
        ``model`` and ``reason`` of those that have none.
    estimates : mapping of Complete, optional
        Of the first engine at other nodes.
    """
    document = document_of(results, excluded, estimates or {})
    for number, (result, engine) in enumerate(merged(results), 1):
        (directory / str(number)).mkdir()
        text = engine_yaml(result.request, engine, number)
        (directory / str(number) / ENGINE).write_text(text, encoding="utf-8")
    (directory / RESULT).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (directory / PAGE).write_text(_page(results, document), encoding="utf-8")
    return document


def document_of(
    results: Sequence[Result],
    excluded: Sequence[Mapping[str, str]],
    estimates: Mapping[str, Complete],
) -> dict[str, Any]:
    """Return results as JSON values."""
    request = results[0].request
    return {
        "goals": [str(goal) for goal in request.goals],
        "target": request.target.model_dump(mode="json", exclude_none=True),
        "context": request.context,
        "scenarios": [
            {"name": each.name, "context": each.context, "weight": each.weight,
             "memory": each.memory.model_dump(mode="json", exclude_none=True)}
            for each in request.scenarios
        ],
        "models": [_model_document(result) for result in results],
        "excluded": list(excluded),
        "engines": [
            {"engine": f"{number}/{ENGINE}", "model": str(result.request.model),
             "point": each.number, "parameters": each.shown, "metrics": each.metrics,
             "by_scenario": each.by_scenario, "by_tables": each.ranked, "limits": each.limits}
            for number, (result, each) in enumerate(merged(results), 1)
        ],
        "front": _fronts(results),
        "sensitivity": sensitivity(results, merged(results), estimates),
    }  # fmt: skip


def _fronts(results: Sequence[Result]) -> dict[str, Any]:
    """Return the figures, by tables, of engines that fit and that no other surpasses."""
    names = objectives(results[0].request.goals, results[0].scores.metrics)[:2]
    fronts = {}
    for result in results:
        metrics, numbers = result.scores.metrics, _best(result, *names)
        step = max(1, len(numbers) // _MOST_DRAWN)
        fronts[str(result.request.model)] = [
            [float(metrics[name][number]) for name in names] for number in numbers[::step]
        ]
    return {"metrics": list(names), "models": fronts}


def _model_document(result: Result) -> dict[str, Any]:
    return {
        "model": str(result.request.model),
        "accuracy": accuracy_of(result.request.model),
        "points": result.scores.points,
        "feasible": result.feasible,
        "guarantee": result.guarantee,
        "evaluated": result.evaluated,
        "rejected": result.rejections,
        "illegal": [{"reason": reason, "options": count}
                    for reason, count in result.space.illegal.items()],
        "unusable": result.unusable,
    }  # fmt: skip


def engine_yaml(request: Request, engine: Listed, number: int) -> str:
    """Return the configuration of an engine of the short list."""
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


def _page(results: Sequence[Result], document: dict[str, Any]) -> str:
    """Return the page: the engines that nothing beats, and the short list."""
    request = results[0].request
    metrics = results[0].scores.metrics
    names = [name for name in METRICS if np.isfinite(metrics[name]).any()]
    first, second = objectives(request.goals, metrics)[:2]
    chosen = {
        (str(result.request.model), each.number): f"{n}/{ENGINE}"
        for n, (result, each) in enumerate(merged(results), 1)
    }
    parameters: dict[str, None] = {"model": None} if len(results) > 1 else {}
    points = []
    for result in results:
        model, scores = str(result.request.model), result.scores
        of_list = {number for name, number in chosen if name == model}
        for number in sorted({*_front(result, first, second), *of_list}):
            frame, options = scores.options(number)
            values: dict[str, Any] = {"model": model, **frame.shown}
            for option in options:
                values |= option.shown
            parameters |= dict.fromkeys(name for name in values if name != "model")
            points.append((number, values, scores.at(number), chosen.get((model, number))))
    columns = ["index", *parameters, *names, "config"]
    rows = [
        [number, *(values.get(name) for name in parameters),
         *(stated[name] if np.isfinite(stated[name]) else None for name in names), config]
        for number, values, stated, config in points
    ]  # fmt: skip
    title = ", ".join(result.request.model.name for result in results)
    data = {
        "name": title,
        "columns": [_column(name, rows, i, parameters, names) for i, name in enumerate(columns)],
        "rows": rows,
        "objectives": [{"name": name, "maximise": METRICS[name][1]} for name in (first, second)],
        "breakdowns": {},
        "group_by": [],
        "folder": "",
    }
    goals = ", ".join(document["goals"])
    sentences = [
        f"{each['model']}: {each['points']:,} engines ranked, {each['feasible']:,} meet {goals};"
        f" {each['guarantee']}."
        for each in document["models"]
    ]
    sentences.append(
        "Figures are those of the ranking; engines with a configuration also have a complete"
        " estimate, in result.json."
    )
    drawn = "".join(
        f'<section class="wide">{each}</section>' for each in pictures(document["sensitivity"])
    )
    return page_html(f"Search for {title}", " ".join(sentences), data, drawn)


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
    """Return engines that fit and that no other surpasses, and some of all, thinned evenly."""
    numbers = np.flatnonzero(_usable(result, first, second))
    spread = numbers[:: max(1, len(numbers) // (_MOST_POINTS // 2))]
    front = _best(result, first, second)
    return [*front[:: max(1, len(front) // (_MOST_POINTS // 2))], *map(int, spread)]


def _best(result: Result, first: str, second: str) -> list[int]:
    """Return engines that fit and that no other surpasses in two metrics."""
    scores = result.scores
    numbers = np.flatnonzero(_usable(result, first, second))
    costs = [
        scores.metrics[name][numbers] * (-1 if METRICS[name][1] else 1) for name in (first, second)
    ]
    order = np.lexsort((costs[1], costs[0]))
    best = np.minimum.accumulate(costs[1][order])
    better = np.concatenate([[True], costs[1][order][1:] < best[:-1]])
    return [int(number) for number in numbers[order][better]]


def _usable(result: Result, first: str, second: str) -> Any:
    """Return a mask of engines that fit, and of which two metrics are known."""
    scores = result.scores
    usable = np.isfinite(scores.metrics[first]) & np.isfinite(scores.metrics[second])
    for too_few in scores.lacking().values():
        usable &= ~too_few
    return usable
