# SPDX-License-Identifier: Apache-2.0
"""Picture of the answer of a search: its short list among the engines that no other surpasses.

The search takes minutes; what is drawn of its result is stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from matplotlib.figure import Figure

from flows.bench.common import parser, run
from flows.bench.svg import save_svg

STORED = Path(__file__).with_suffix(".json")
"""Front and short list of the last search."""

_LABELS = {"tokens_per_s": "tokens a second", "area_mm2": "area, mm²", "luts": "look-up tables"}


def picture(stored: Mapping[str, Any], path: Path) -> None:
    """Draw the short list among the engines that no other surpasses, and the goals."""
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = figure.subplots()
    up, across = stored["metrics"]
    dots = sorted((second, first) for first, second in stored["front"])
    axes.plot(*zip(*dots, strict=True), ".-", ms=3, lw=0.8, color="gray",
              label=f"best of {stored['points']:,} engines")  # fmt: skip
    listed = [(engine[across], engine[up]) for engine in stored["engines"]]
    axes.plot(*zip(*listed, strict=True), "o", ms=7, mfc="none", label="short list")
    axes.plot(*listed[0], "o", ms=4, color="tab:red", label="engine 1")
    for metric, axis, values in ((up, axes.axhline, 1), (across, axes.axvline, 0)):
        bound = stored["goals"].get(metric)
        if bound is not None and bound <= max(dot[values] for dot in dots):
            axis(bound, ls="--", lw=0.8, color="tab:red", label="goal")
    axes.set(xlabel=_LABELS.get(across, across), ylabel=_LABELS.get(up, up))
    axes.grid(visible=True, which="both", color="lightgray", lw=0.5)
    axes.legend()
    save_svg(figure, path, "search-answer")


def extract(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents of `STORED`, of a ``result.json``."""
    names = document["front"]["metrics"]
    if METRIC_UP in names:
        order = [METRIC_UP, next(name for name in names if name != METRIC_UP)]
    else:
        order = list(names)
    (front,) = document["front"]["models"].values()
    at = [names.index(name) for name in order]
    return {
        "metrics": order,
        "front": [[round(point[i], 6) for i in at] for point in front],
        "points": sum(each["points"] for each in document["models"]),
        "engines": [
            {name: each["metrics"][name] for name in order} for each in document["engines"]
        ],
        "goals": {
            goal.split()[0]: float(goal.split()[-1]) for goal in document["goals"]
        },
    }  # fmt: skip


METRIC_UP = "tokens_per_s"
"""Metric that is drawn upwards, where it is an objective."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Store the front of a result if one is given, and draw what is stored."""
    options = parser("search_answer", __doc__)
    options.add_argument("--result", type=Path, metavar="FILE", help="result.json of a search")
    options.add_argument("--picture", type=Path, metavar="FILE", help="write the picture there")
    chosen = options.parse_args(arguments)
    if chosen.result:
        stored = extract(json.loads(chosen.result.read_text(encoding="utf-8")))
        STORED.write_text(json.dumps(stored) + "\n", encoding="utf-8")
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    if chosen.json:
        click.echo(json.dumps(stored, indent=1))
    if chosen.picture:
        picture(stored, chosen.picture)
    return 0


if __name__ == "__main__":
    run(main)
