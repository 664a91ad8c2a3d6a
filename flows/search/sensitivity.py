# SPDX-License-Identifier: Apache-2.0
"""Sensitivity of a short list: speed at other bandwidths, in each scenario, at other nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flows.search.charts import bars, lines
from flows.search.complete import Complete
from flows.search.result import Listed, Result

FACTORS = tuple(2.0**power for power in range(-3, 4))
"""Bandwidths that are tried, over that of the scenarios."""

Engines = Sequence[tuple[Result, Listed]]


def by_bandwidth(engines: Engines) -> dict[str, list[tuple[float, float]]]:
    """Return tokens a second in the slowest scenario, by the factor of all bandwidths.

    Returns
    -------
    dict
        Of each engine of the short list pairs of a factor and tokens a second; empty if memories
        are always fast enough.
    """
    scores = engines[0][0].scores
    if not any(each.memory.peak_gb_s for each in scores.scenarios):
        return {}
    curves: dict[str, list[tuple[float, float]]] = {}
    for number, (result, engine) in enumerate(engines, 1):
        table, index = result.scores.point(engine.number)
        curves[f"engine {number}"] = [
            (factor, float(result.scores.of_table(table, 1.0, factor)["tokens_per_s"][index]))
            for factor in FACTORS
        ]
    return curves


def by_scenario(engines: Engines) -> dict[str, dict[str, float | None]]:
    """Return tokens a second of each engine in each scenario, by complete estimates."""
    return {
        f"engine {number}": {
            name: values["tokens_per_s"] for name, values in engine.by_scenario.items()
        }
        for number, (_, engine) in enumerate(engines, 1)
    }


def by_model(results: Sequence[Result]) -> dict[str, dict[str, float | None]]:
    """Return tokens a second of the best engine of each model."""
    best = {
        result.request.model.name: result.engines[0].metrics["tokens_per_s"] for result in results
    }
    return {"best engine": best}


def by_node(estimates: Mapping[str, Complete]) -> dict[str, dict[str, float | None]]:
    """Return tokens a second at each node, the slowest first."""
    speeds = {name: each.metrics["tokens_per_s"] for name, each in estimates.items()}
    ordered = sorted(speeds, key=lambda name: speeds[name] or 0.0)
    return {"engine 1": {name: speeds[name] for name in ordered}}


def sensitivity(
    results: Sequence[Result], engines: Engines, estimates: Mapping[str, Complete]
) -> dict[str, Any]:
    """Return tokens a second of a short list by bandwidth, scenario, model and node.

    Parameters
    ----------
    results : sequence of Result
        Of each model.
    engines : sequence of (Result, Listed)
        The short list.
    estimates : mapping of Complete
        Of the first engine, by node; may be empty.
    """
    return {
        "bandwidth": by_bandwidth(engines),
        "scenarios": by_scenario(engines),
        "models": by_model(results),
        "nodes": by_node(estimates) if estimates else {},
    }


def pictures(document: Mapping[str, Any]) -> list[str]:
    """Return pictures as SVG, of what there are two or more of."""
    made = []
    if document["bandwidth"]:
        made.append(
            lines("Slowest scenario against bandwidth", "bandwidth, times that of the scenarios",
                  "tokens a second", document["bandwidth"])
        )  # fmt: skip
    titles = {"scenarios": "Each scenario", "models": "Each model", "nodes": "Each node"}
    for name, title in titles.items():
        series = document[name]
        known = [value for values in series.values() for value in values.values()]
        if len(next(iter(series.values()), {})) > 1 and None not in known:
            made.append(bars(title, "tokens a second", series))
    return made
