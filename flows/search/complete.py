# SPDX-License-Identifier: Apache-2.0
"""Complete estimates of engines, as `hwgen model estimate` has them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.build.build import Build
from flows.build.design import Design
from flows.search.scenarios import Scenario
from hwgen.families.transformer.params import TransformerConfig
from hwgen.models.compile.engine_passes import engine_passes
from hwgen.models.files.store import Model
from hwgen.models.graph.passes import passes_of, speeds

PROMPT = 4
"""Tokens of the prompt whose prefill complete estimates state."""


@dataclass(frozen=True)
class CompleteItem:
    """An engine to estimate, for a process that may be another.

    Parameters
    ----------
    model : Path
    engine : str
        JSON of its parameters.
    clock_mhz : float or None
        None: the clock that it reaches.
    scenarios : tuple of Scenario
    """

    model: Path
    engine: str
    clock_mhz: float | None
    scenarios: tuple[Scenario, ...]


@dataclass(frozen=True)
class Complete:
    """A complete estimate.

    Parameters
    ----------
    engine : dict
        Parameters, with the clock.
    metrics : dict
        By the names of `flows.search.goals.METRICS`; None where unknown.
    by_scenario : dict
        Tokens a second and joules of a token of each scenario.
    """

    engine: dict[str, Any]
    metrics: dict[str, float | None]
    by_scenario: dict[str, dict[str, float | None]]


def complete_from(entry: Mapping[str, Any]) -> Complete:
    """Return an estimate of its fields, as JSON has them."""
    return Complete(entry["engine"], entry["metrics"], entry["by_scenario"])


def estimate_engine(item: CompleteItem) -> Complete:
    """Return the complete estimate of an engine."""
    model, engine = Model(item.model), json.loads(item.engine)
    config = TransformerConfig.model_validate(engine)
    design = Design.of(config)
    clock = item.clock_mhz
    if clock is None:
        fmax = Build(design, config.target).estimate()["metrics"]["fmax_mhz"]
        if fmax is not None:
            clock = math.floor(fmax * 100) / 100
            engine["target"] = {**engine["target"], "clock_mhz": clock}
            config = TransformerConfig.model_validate(engine)
            design = Design.of(config)
    decodes, prefills, entry = [], [], {}
    for scenario in item.scenarios:
        context = scenario.context - 1
        workloads = passes_of(model.description, min(PROMPT, scenario.context), context)
        timings = engine_passes(model, [config], workloads, PROMPT)
        target = config.target.model_copy(update={"memory": scenario.memory})
        entry = Build(design, target).estimate(workloads, timings=timings)
        passes = speeds(entry, workloads)
        decodes.append(passes["decode"])
        prefills.append(passes["prefill"]["tokens_per_s"])
    metrics, device = entry["metrics"], entry["device"]
    used = {name: row["used"] for name, row in device["resources"].items()} if device else {}
    times = [each["ms"] for each in decodes]
    energies = [each["j_per_token"] for each in decodes]
    weights = [each.weight for each in item.scenarios]
    values = {
        "tokens_per_s": _worst([each["tokens_per_s"] for each in decodes], min),
        "ms_per_token": _worst(times, max), "mean_ms_per_token": _mean(times, weights),
        "j_per_token": _worst(energies, max), "mean_j_per_token": _mean(energies, weights),
        "area_mm2": metrics["area_mm2"],
        "power_w": metrics["power_w"], "clock_mhz": entry["figures_at_mhz"],
        "luts": used.get("luts"), "dsps": used.get("dsps"), "brams": used.get("brams"),
        "fits": None if device is None or not device["named"] else device["fits"],
        "prefill_tokens_per_s": _worst(prefills, min),
    }  # fmt: skip
    by_scenario = {
        scenario.name: {"tokens_per_s": each["tokens_per_s"], "j_per_token": each["j_per_token"]}
        for scenario, each in zip(item.scenarios, decodes, strict=True)
    }
    return Complete(engine, values, by_scenario)


def _worst(values: Sequence[float | None], choose: Callable[[list[float]], float]) -> float | None:
    """Return the worst of values, None where one is not known."""
    known = [value for value in values if value is not None]
    return choose(known) if len(known) == len(values) else None


def _mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    """Return the mean of values, None where one is not known."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    pairs = zip(known, weights, strict=True)
    return sum(value * weight for value, weight in pairs) / sum(weights)
