# SPDX-License-Identifier: Apache-2.0
"""Complete estimates of engines, as `hwgen model estimate` has them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.build.build import Build
from flows.build.design import Design
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
    context : int
        Positions of a decode step, the token included.
    """

    model: Path
    engine: str
    clock_mhz: float | None
    context: int


@dataclass(frozen=True)
class Complete:
    """A complete estimate.

    Parameters
    ----------
    engine : dict
        Parameters, with the clock.
    metrics : dict
        By the names of `flows.search.goals.METRICS`; None where unknown.
    """

    engine: dict[str, Any]
    metrics: dict[str, float | None]


def complete_from(entry: Mapping[str, Any]) -> Complete:
    """Return an estimate of its fields, as JSON has them."""
    return Complete(entry["engine"], entry["metrics"])


def estimate_engine(item: CompleteItem) -> Complete:
    """Return the complete estimate of an engine."""
    model, engine = Model(item.model), json.loads(item.engine)
    config = TransformerConfig.model_validate(engine)
    design = Design.of(config)
    context = item.context - 1
    workloads = passes_of(model.description, min(PROMPT, item.context), context)
    timings = engine_passes(model, [config], workloads, PROMPT)
    clock = item.clock_mhz
    if clock is None:
        fmax = Build(design, config.target).estimate()["metrics"]["fmax_mhz"]
        if fmax is not None:
            clock = math.floor(fmax * 100) / 100
            engine["target"] = {**engine["target"], "clock_mhz": clock}
            config = TransformerConfig.model_validate(engine)
            design = Design.of(config)
    entry = Build(design, config.target).estimate(workloads, timings=timings)
    decode, prefill = (speeds(entry, workloads)[name] for name in ("decode", "prefill"))
    metrics, device = entry["metrics"], entry["device"]
    used = {name: row["used"] for name, row in device["resources"].items()} if device else {}
    values = {
        "tokens_per_s": decode["tokens_per_s"], "ms_per_token": decode["ms"],
        "j_per_token": decode["j_per_token"], "area_mm2": metrics["area_mm2"],
        "power_w": metrics["power_w"], "clock_mhz": entry["figures_at_mhz"],
        "luts": used.get("luts"), "dsps": used.get("dsps"), "brams": used.get("brams"),
        "fits": None if device is None or not device["named"] else device["fits"],
        "prefill_tokens_per_s": prefill["tokens_per_s"],
    }  # fmt: skip
    return Complete(engine, values)
