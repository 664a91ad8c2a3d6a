# SPDX-License-Identifier: Apache-2.0
"""Accuracy of quantised models, as it was measured when they were quantised."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.search.goals import Goal
from hwgen.errors import InputError
from hwgen.models.quantise.record import read_record


def accuracy_of(model: Path) -> dict[str, float]:
    """Return the worst figures of all texts that a quantised model was evaluated on.

    Returns
    -------
    dict
        By the names of `flows.search.goals.ACCURACY`; empty if it was evaluated on none.
    """
    evaluations = _evaluations(model)
    if not evaluations:
        return {}
    return {
        "kl": max(float(each["kl"]) for each in evaluations),
        "top1": min(float(each["top1"]) for each in evaluations),
    }


def _evaluations(model: Path) -> list[Mapping[str, Any]]:
    record = read_record(model)
    return [] if record is None else list(record["evaluations"])


def accurate_models(
    models: Sequence[Path], conditions: Sequence[Goal]
) -> tuple[list[Path], list[dict[str, str]]]:
    """Return the models that are accurate enough, and why the others are not.

    Parameters
    ----------
    models : sequence of Path
        Quantised models.
    conditions : sequence of Goal
        Of their accuracy.

    Raises
    ------
    InputError
        If a model was not evaluated, or the models were on different texts.
    """
    if not conditions:
        return list(models), []
    lacking = [str(model) for model in models if not _evaluations(model)]
    if lacking:
        raise InputError(
            f"--accuracy: {', '.join(lacking)} has not been evaluated; run `hwgen model quantise"
            " MODEL --evaluate FILE` with a text, for each of the formats to compare"
        )
    texts = {
        model: frozenset(str(each["sha256"]) for each in _evaluations(model)) for model in models
    }
    if len(set(texts.values())) > 1:
        raise InputError(
            "--accuracy: the models were evaluated on different texts; quantise all with the same"
            " --evaluate"
        )
    accurate, excluded = [], []
    for model in models:
        values = accuracy_of(model)
        broken = [goal for goal in conditions if not goal.met(values.get(goal.metric, math.nan))]
        if broken:
            said = ", ".join(f"{g.metric} is {values[g.metric]:.4g}, not {g.sign} {g.bound:g}"
                             for g in broken)  # fmt: skip
            excluded.append({"model": str(model), "reason": said})
        else:
            accurate.append(model)
    return accurate, excluded
