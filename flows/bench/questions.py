# SPDX-License-Identifier: Apache-2.0
"""Answers of the sweeps in configs/sweeps, as tables of results: ``make bench-questions``.

Each sweep keeps all of its points.  They are put into groups, and of each group the one with the
most throughput for its area is shown: the best that there is if the question is answered so.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pyarrow.parquet

from flows.bench.common import ROOT, Document, hwgen, markdown, parser, run
from hwgen.core.params.spatial import SERIAL

SWEEPS = ROOT / "configs" / "sweeps"

SIGMA, MIDDLE = "target.activation_sigma", 20

Point = Document
"""Parameters and metrics by name."""


def macs(point: Point) -> int:
    """Return the multiply-accumulates of a cycle of a ternary-LUT core."""
    return int(terms(point) * point["array.fetch_ports"])


def terms(point: Point) -> int:
    """Return the activations that a cycle takes."""
    return int(point["array.group_size"] * point["array.tables"])


def nearest_ratio(point: Point) -> float:
    """Return fetch ports by activations, rounded to a power of two."""
    return float(2.0 ** round(math.log2(point["array.fetch_ports"] / terms(point))))


def rate(point: Point) -> float:
    """Return the multiply-accumulates of a cycle that are to be expected."""
    clock = min(point["target.clock_mhz"], point["fmax_mhz"])
    return float(point["tops"] / (2e-6 * clock))


def engine_and_element(point: Point) -> str | None:
    """Return the engine and the PE of an array, of activations of the middle deviation."""
    return f"{point['family']}, {point['array.pe']}" if point[SIGMA] == MIDDLE else None


def element_and_sigma(point: Point) -> str:
    """Return the PE of an array, and the deviation of activations where it matters."""
    pe = str(point["array.pe"])
    return f"{pe}, sigma {point[SIGMA]}" if pe in SERIAL else pe


def size(point: Point) -> str:
    """Return rows, columns and depth of an array."""
    sizes = (point.get(f"array.{name}") for name in ("rows", "cols", "depth"))
    return " x ".join(f"{size:g}" for size in sizes if size)


def _text(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


TABLES: Mapping[str, Callable[[Point], object]] = {
    "µ": lambda point: point["array.group_size"],
    "L x P": lambda point: f"{point['array.tables']} x {point['array.fetch_ports']}",
    "MACs": macs,
}
"""Columns of a ternary-LUT core."""

ELEMENTS: Mapping[str, Callable[[Point], object]] = {
    "size": size,
    "registers": lambda point: point["pipeline.pe"],
    "digits": lambda point: "" if point["array.pe"] == "mac" else point["array.encoding"],
    "queue": lambda point: point["array.queue"] if point["array.pe"] in SERIAL else "",
    "MACs": lambda point: f"{rate(point):.1f}",
}
"""Columns of an array of processing elements."""


@dataclass(frozen=True)
class Question:
    """A sweep, and how its points are put into groups.

    Parameters
    ----------
    sweep : str
        A file in configs/sweeps.
    heading : str
    group : callable
        Group of a point; None: it is left out.
    columns : mapping
        What is said of its best point: heading, and what stands below.
    """

    sweep: str
    heading: str
    group: Callable[[Point], object]
    columns: Mapping[str, Callable[[Point], object]] = field(default_factory=lambda: TABLES)


QUESTIONS = (
    Question("group_size_int8", "group size", lambda point: point["array.group_size"]),
    Question("group_size_fp16", "group size", lambda point: point["array.group_size"]),
    Question("group_size_int8", "ports / activations", nearest_ratio),
    Question("group_size_fp16", "ports / activations", nearest_ratio),
    Question("clusters", "clusters", lambda point: point["array.clusters"]),
    Question("method_int", "activation, MACs, method", lambda point: (
        point["activation"], macs(point), point["array.method"],
    )),
    Question("method_fp16", "method", lambda point: point["array.method"]),
    Question("elements", "engine, PE", engine_and_element, ELEMENTS),
    Question("elements", "PE", element_and_sigma,
             {"engine": lambda point: point["family"], **ELEMENTS}),
)  # fmt: skip


def points(sweep: str, folder: Path) -> list[Point]:
    """Run a sweep, unless the folder has its results, and return its points."""
    out = folder / sweep
    if not out.is_dir():
        hwgen("sweep", "--config", SWEEPS / f"{sweep}.yaml", "--output", out)
    table: list[Point] = pyarrow.parquet.read_table(out / "results.parquet").to_pylist()
    return table


def answer(question: Question, choices: list[Point]) -> list[list[str]]:
    """Return the headings and rows of a table: the best point of each group."""
    groups: dict[Any, Point] = {}
    for point in choices:
        name = question.group(point)
        if name is None:
            continue
        if name not in groups or point["tops_per_mm2"] > groups[name]["tops_per_mm2"]:
            groups[name] = point
    most = max(point["tops_per_mm2"] for point in groups.values())
    heads = [
        question.heading, *question.columns, "mm²", "µm² per MAC/cycle", "Fmax MHz", "TOPS/mm²",
        "TOPS/W", "of the best TOPS/mm²",
    ]  # fmt: skip
    rows = [heads]
    for name in sorted(groups):
        point = groups[name]
        title = ", ".join(map(_text, name if isinstance(name, tuple) else (name,)))
        rows.append(
            [
                title,
                *(str(of(point)) for of in question.columns.values()),
                f"{point['area_mm2']:.4f}",
                f"{1e6 * point['area_mm2'] / rate(point):.1f}",
                f"{point['fmax_mhz']:.0f}",
                f"{point['tops_per_mm2']:.2f}",
                f"{point['tops_per_w']:.1f}",
                f"{point['tops_per_mm2'] / most:.2f}",
            ]
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    options = parser("questions", __doc__).parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="hwgen-questions-") as name:
        for question in QUESTIONS:
            heads, *rows = answer(question, points(question.sweep, Path(name)))
            title = f"{question.sweep}, by {question.heading}"
            if options.json:
                click.echo(json.dumps({"title": title, "headings": heads, "rows": rows}))
            else:
                click.echo(f"{title}\n\n{markdown(heads, rows)}")


if __name__ == "__main__":
    run(main)
