# SPDX-License-Identifier: Apache-2.0
"""Provisional list of a search that was interrupted: the best engines by what is in tables."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.search.output import engine_yaml
from flows.search.result import Listed, Request
from flows.search.space import Space
from flows.search.tables import Scores

FOLDER = "provisional"


@dataclass(frozen=True)
class Ranking:
    """Ranking of a search that goes on.

    Parameters
    ----------
    request : Request
    space : Space
    scores : Scores
        By tables.
    numbers : sequence of int
        Engines, the best first.
    met : bool
        Whether they meet all goals.
    """

    request: Request
    space: Space
    scores: Scores
    numbers: Any
    met: bool


def write_provisional(directory: Path, ranking: Ranking) -> list[str]:
    """Write the best engines of a ranking; return their files, and no file where none meets all.

    Figures are those of tables, in which not all netlists are; other engines may be better.
    """
    if not ranking.met:
        return []
    request, scores = ranking.request, ranking.scores
    folder = directory / FOLDER
    folder.mkdir(exist_ok=True)
    entries, files = [], []
    for place, number in enumerate(map(int, ranking.numbers[: request.count]), 1):
        frame, options = scores.options(number)
        metrics = {name: v if math.isfinite(v) else None for name, v in scores.at(number).items()}
        clock = metrics["clock_mhz"]
        engine = ranking.space.engine("engine", frame, options)
        if clock is not None:
            engine["target"] = {**engine["target"], "clock_mhz": math.floor(clock * 100) / 100}
        line = "provisional: the search was interrupted, figures are those of tables"
        listed = Listed(number, engine, {}, metrics, metrics, [line])
        name = f"{FOLDER}/{place}.yaml"
        (directory / name).write_text(engine_yaml(request, listed, place), encoding="utf-8")
        entries.append({"engine": name, "model": str(request.model), "by_tables": metrics})
        files.append(str(directory / name))
    text = json.dumps({"provisional": True, "engines": entries}, indent=1)
    (folder / "result.json").write_text(text + "\n", encoding="utf-8")
    return files
