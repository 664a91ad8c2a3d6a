# SPDX-License-Identifier: Apache-2.0
"""One core or two at equal area, for two networks at once: ``make bench-two-cores``.

A ternary layer of a language model and an autoencoder of int8 run on one engine at the same time.
Either both are on one array for int8, one after the other, or the layer is on tables for ternary
weights beside a smaller array.  Cycles are simulated with random operands, every result is compared
with the golden model, and area is an estimate for nangate45.  Results are stored; the table and the
picture of `docs/several-cores.md` are made from them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
from matplotlib.figure import Figure

from cost_model.sweep.pareto import nondominated
from flows.bench.common import markdown, parser, read_results, run, write_sections
from flows.bench.svg import save_svg
from flows.build.build import Build
from flows.build.design import Design
from flows.build.load import parse_config
from flows.simulation.side_by_side import Network, run_side_by_side
from hwgen.workloads.network import Gemm

RESULTS = Path(__file__).with_suffix(".json")
"""Results of the last run."""

TOKENS, BATCH = 4, 16

LAYER = tuple(
    Gemm(TOKENS, k, n)
    for k, n in (
        (512, 512), (512, 128), (512, 128), (512, 512), (512, 1280), (512, 1280), (1280, 512),
    )
)  # fmt: skip
"""A layer of the ternary model that is shipped."""

_WIDTHS = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
AUTOENCODER = tuple(Gemm(BATCH, k, n) for k, n in pairwise(_WIDTHS))
"""The autoencoder of MLPerf Tiny, which finds anomalies in sounds of machines."""

ONE = ((4, 4), (8, 4), (8, 8), (16, 8), (16, 16), (32, 16))
"""Rows and columns of the array of an engine with one core."""

TWO = (
    ((4, 4), (4, 4)), ((4, 4), (8, 8)), ((8, 4), (8, 8)), ((8, 4), (16, 16)), ((8, 8), (16, 16)),
    ((8, 8), (32, 16)), ((16, 8), (32, 16)),
)  # fmt: skip
"""Of an engine with two: rows and columns of the array, tables and columns of the ternary core."""

_BUFFERS = {"activation_kib": 16, "weight_kib": 16, "output_kib": 16, "column_kib": 1}


def engine(array: tuple[int, int], tables: tuple[int, int] | None) -> dict[str, Any]:
    """Return the configuration of an engine with one core or two."""
    rows, cols = array
    units: dict[str, Any] = {
        "int8": {
            "family": "gemm_stream",
            "compute": {
                "family": "systolic",
                "array": {"rows": rows, "cols": cols, "dataflow": "weight_stationary"},
            },
            "buffers": _BUFFERS,
        }
    }
    if tables:
        units["ternary"] = {
            "family": "gemm_stream",
            "compute": {
                "family": "ternary_lut",
                "array": {"tables": tables[0], "fetch_ports": tables[1]},
            },
            "buffers": _BUFFERS,
        }
    name = "_".join(map(str, ("two" if tables else "one", *array, *(tables or ()))))
    return {
        "name": name, "family": "transformer", "units": units,
        "memory": {"data_width": 128, "max_burst": 16, "outstanding": 4},
        "target": {"technology": "nangate45", "clock_mhz": 300},
    }  # fmt: skip


def measured(array: tuple[int, int], tables: tuple[int, int] | None) -> dict[str, Any]:
    """Return area and cycles of an engine with both networks."""
    config = parse_config(json.dumps(engine(array, tables)))
    networks = [
        Network("layer", "ternary" if tables else "int8", LAYER, ternary=True),
        Network("autoencoder", "int8", AUTOENCODER),
    ]
    design = Design.of(config)
    done = run_side_by_side(design, networks)
    metrics = Build(design).estimate()["metrics"]
    return {
        "name": config.name, "cores": 2 if tables else 1, "array": array, "tables": tables,
        "area_mm2": round(metrics["area_mm2"], 4), "fmax_mhz": round(metrics["fmax_mhz"], 1),
        "cycles": done.cycles, "modelled": done.timing.cycles,
        "least": done.timing.least, "most": done.timing.most,
    }  # fmt: skip


def front(results: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of designs that no other of as many cores beats in area and cycles."""
    by_cores: dict[int, list[Mapping[str, Any]]] = {}
    for each in results:
        by_cores.setdefault(each["cores"], []).append(each)
    return [
        each["name"]
        for designs in by_cores.values()
        for each, best in zip(
            designs,
            nondominated(np.array([[d["area_mm2"], d["cycles"]] for d in designs], np.float64)),
            strict=True,
        )
        if best
    ]


def table(results: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of all designs, the smallest first."""
    best = front(results)
    rows = [
        [
            "one" if each["cores"] == 1 else "two",
            "{} x {}".format(*each["array"]),
            "{} x {}".format(*each["tables"]) if each["tables"] else "-",
            f"{each['area_mm2']:.3f}",
            f"{each['fmax_mhz']:.0f}",
            f"{each['cycles']:,}",
            f"{each['modelled'] / each['cycles'] - 1:+.1%}".replace("%", " %"),
            "yes" if each["name"] in best else "",
        ]
        for each in sorted(results, key=lambda each: each["area_mm2"])
    ]
    headings = ("cores", "int8 array", "tables x columns", "mm²", "Fmax MHz", "cycles",
                "model off by", "on its front")  # fmt: skip
    return markdown(headings, rows, left=3)


def picture(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw cycles against area, a line through the front of each number of cores."""
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = figure.subplots()
    best = front(results)
    for cores, label, mark in (
        (1, "one core, int8", "s-"),
        (2, "two cores, int8 and ternary", "o-"),
    ):
        dots = sorted(
            (each["area_mm2"], each["cycles"])
            for each in results
            if each["cores"] == cores and each["name"] in best
        )
        axes.plot(*zip(*dots, strict=True), mark, ms=5, label=label)
    axes.set(
        yscale="log", xlabel="area at nangate45, mm² (estimate)",
        ylabel="cycles of both networks (simulated)",
    )  # fmt: skip
    axes.grid(visible=True, which="both", color="lightgray", lw=0.5)
    axes.legend()
    save_svg(figure, path, "two-cores")


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate all designs, store the results, and show them."""
    options = parser("two_cores", __doc__)
    options.add_argument("--stored", action="store_true", help="run nothing, show what is stored")
    options.add_argument("--again", action="store_true", help="also what is stored")
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the table of a page")
    options.add_argument("--picture", type=Path, metavar="FILE", help="write the picture there")
    chosen = options.parse_args(arguments)
    if not chosen.stored:
        results = [] if chosen.again else read_results(RESULTS)
        have = {each["name"] for each in results}
        for array, tables in [*((array, None) for array in ONE), *TWO]:
            if engine(array, tables)["name"] not in have:
                results.append(measured(array, tables))
                click.echo(f"{results[-1]['name']}: {results[-1]['cycles']:,} cycles", err=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    if chosen.picture:
        picture(results, chosen.picture)
    if chosen.json:
        click.echo(json.dumps(results, indent=2))
    elif chosen.write:
        write_sections(chosen.write, {"designs": table(results)})
    else:
        click.echo(table(results))
    return 0


if __name__ == "__main__":
    run(main)
