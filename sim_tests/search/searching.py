# SPDX-License-Identifier: Apache-2.0
"""Searches with invented costs of netlists, which take seconds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flows.search.costs import SUMS, Cost, CostItem, cost_of
from flows.search.goals import parse_goals
from flows.search.result import Listed, Request
from flows.search.scenarios import Scenario
from flows.search.space import Frame
from hwgen.core.params.off_chip import OffChip
from hwgen.core.params.target import Target
from hwgen.models.files.store import Model
from sim_tests.models.model_files import Small

SMALL = replace(Small(), width=32, hidden=64, heads=2, kv_heads=1)
CONTEXT = 16
FRAME = Frame(64, max_burst=16, outstanding=8)


class Here:
    """Runs items in this process, with invented costs of netlists."""

    def __init__(self) -> None:
        self.items = 0

    def run(self, function: Any, items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        for item in items:
            self.items += 1
            if function is cost_of:
                size = float(len(item.engine) if item.unit is None else invented(item))
                yield item, Cost((1e3 * size, *[1.0] * (len(SUMS) - 1)), 300.0)
            else:
                yield item, function(item)


def invented(item: CostItem) -> int:
    """Return a size that grows with what an option has."""
    unit = json.loads(item.engine)["units"][item.unit]
    array = unit["compute"]["array"]
    numbers = [value for value in array.values() if isinstance(value, int)]
    return int(np.prod([n for n in numbers if n <= 64])) + unit["buffers"].get("weight_kib", 0)


def by_tables(*arguments: Any) -> list[Listed]:
    """Return engines whose complete estimates are those of the tables."""
    _, space, scores, _, numbers = arguments
    result = []
    for number in numbers:
        metrics = {name: None if np.isnan(v) else v for name, v in scores.at(number).items()}
        engine = space.engine("engine", *scores.options(number))
        result.append(Listed(number, engine, {}, metrics, dict(metrics)))
    return result


def request_of(model: Model, *goals: str, limits: Sequence[str] = ()) -> Request:
    conditions = tuple(parse_goals(goals, limits))
    return Request(
        model.path, conditions, Target(), None, (Scenario("all", CONTEXT, OffChip()),), 3
    )
