# SPDX-License-Identifier: Apache-2.0
"""Mixed formats of weights beside uniform ones: ``make bench-mixed-formats``.

`hwgen model mix` takes minutes; what the table and the picture are made of is stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from matplotlib.figure import Figure

from flows.bench.common import markdown, parser, run, write_sections
from flows.bench.svg import save_svg

STORED = Path(__file__).with_suffix(".json")
"""Points of the last run, and the sums that chose them."""


def table(points: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of all models, the smallest first."""
    headings = ("weights", "engine", "MiB", "KL, nats", "KL by sums", "top-1", "tokens/s",
                "J/token", "mm²", "on the front")  # fmt: skip
    rows = [
        [
            point["model"], point["engine"], f"{point['bits'] / 2**23:.1f}", f"{point['kl']:.4f}",
            f"{point['predicted_kl']:.4f}", f"{100 * point['top1']:.1f} %",
            f"{point['tokens_per_s']:.1f}", f"{point['j_per_token']:.5f}",
            f"{point['area_mm2']:.3f}", "yes" if point["on_front_of_joules"] else "",
        ]
        for point in points
    ]  # fmt: skip
    return markdown(headings, rows, left=2)


def groups(document: Mapping[str, Any]) -> str:
    """Return the table of divergence that each group of products adds in narrower formats."""
    widest = document["widest"]
    names = [name for name in document["groups"][0]["formats"] if name != widest]
    rows = []
    for entry in document["groups"]:
        values = [entry["formats"][name] for name in names]
        saved = [entry["formats"][widest]["bits"] - value["bits"] for value in values]
        mixtures = [f"{value['added_kl']:.4f}" for value in values]
        rows.append([entry["group"], f"{entry['formats'][widest]['bits'] / 2**23:.1f}",
                     *mixtures, *(f"{each / 2**23:.1f}" for each in saved)])  # fmt: skip
    headings = ("group", f"MiB in {widest}", *(f"KL added by {name}" for name in names),
                *(f"MiB saved by {name}" for name in names))  # fmt: skip
    return markdown(headings, rows, left=1)


def picture(points: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw divergence against joules of a token, uniform formats beside mixed ones."""
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = figure.subplots()
    best = sorted((p["j_per_token"], p["kl"]) for p in points if p["on_front_of_joules"])
    axes.plot(*zip(*best, strict=True), "-", color="lightgray", zorder=0)
    mixtures = [p for p in points if p["model"].startswith("mixed")]
    uniform = [p for p in points if p not in mixtures]
    for label, of, mark in (("one format", uniform, "s"), ("mixed by layer group", mixtures, "o")):
        axes.plot([p["j_per_token"] for p in of], [p["kl"] for p in of], mark, ms=5, label=label)
    axes.plot([p["j_per_token"] for p in mixtures], [p["predicted_kl"] for p in mixtures], "x",
              label="mixed, by sums")  # fmt: skip
    for p in uniform:
        axes.annotate(p["model"], (p["j_per_token"], p["kl"]), (5, 5), textcoords="offset points")
    axes.set(yscale="log", xlabel="J a token, engine and memory (estimate)",
             ylabel="divergence from the model, nats")  # fmt: skip
    axes.grid(visible=True, which="both", color="lightgray", lw=0.5)
    axes.legend()
    save_svg(figure, path, "mixed-formats")


def main(arguments: Sequence[str] | None = None) -> int:
    """Store a result if one is given, and show what is stored."""
    options = parser("mixed_formats", __doc__)
    options.add_argument("--result", type=Path, metavar="FILE", help="mix.json of hwgen model mix")
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the tables of a page")
    options.add_argument("--picture", type=Path, metavar="FILE", help="write the picture there")
    chosen = options.parse_args(arguments)
    if chosen.result:
        STORED.write_text(chosen.result.read_text(encoding="utf-8"), encoding="utf-8")
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    if chosen.picture:
        picture(stored["points"], chosen.picture)
    if chosen.json:
        click.echo(json.dumps(stored, indent=1))
    elif chosen.write:
        sections = {"mixed": table(stored["points"]), "groups": groups(stored)}
        write_sections(chosen.write, sections)
    elif not chosen.picture:
        click.echo(table(stored["points"]))
    return 0


if __name__ == "__main__":
    run(main)
