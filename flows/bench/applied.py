# SPDX-License-Identifier: Apache-2.0
"""Engines that a search found, as hardware: measurements beside estimates, by ``--apply``.

Synthesis of the units takes half an hour; results are stored, and the table is made from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from flows.bench.common import markdown, parser, run, write_sections

STORED = Path(__file__).with_suffix(".json")
"""Results by the name of the search."""

_NAMES = {
    "area_mm2": "area, mm²", "fmax_mhz": "clock, MHz", "luts": "LUTs", "dsps": "DSPs",
    "brams": "BRAMs", "flip_flops": "flip-flops",
}  # fmt: skip


def table(stored: Mapping[str, Any]) -> str:
    """Return measurements beside estimates, of each unit and of all."""
    rows = []
    for search, applied in stored.items():
        units = {name: unit["metrics"] for name, unit in applied["units"].items()}
        for name, metrics in (units | {"all": applied["synthesized"]}).items():
            for metric, row in metrics.items():
                if row["difference"] is None or metric not in _NAMES:
                    continue
                rows.append([
                    search, name, _NAMES[metric], f"{row['estimated']:,.5g}",
                    f"{row['measured']:,.5g}", f"{100 * row['difference']:+.1f} %",
                    "-" if row["uncertainty"] is None else f"{100 * row['uncertainty']:.1f} %",
                    _within(row),
                ])  # fmt: skip
    headings = ("search", "unit", "metric", "estimated", "measured", "difference", "±", "within")
    return markdown(headings, rows, left=3)


def _within(row: Mapping[str, Any]) -> str:
    if row["uncertainty"] is None:
        return "-"
    return "yes" if abs(row["difference"]) <= row["uncertainty"] else "no"


def simulations(stored: Mapping[str, Any]) -> str:
    """Return the simulations of a layer."""
    rows = []
    for search, applied in stored.items():
        done = applied["simulated"]
        off = 100 * (done["modelled"] / done["cycles"] - 1)
        rows.append([search, f"{done['compared']:,}", f"{done['cycles']:,}",
                     f"{done['modelled']:,}", f"{off:+.1f} %"])  # fmt: skip
    headings = ("search", "bytes equal to golden", "cycles", "modelled", "difference")
    return markdown(headings, rows, left=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Store results if some are given, and show what is stored."""
    options = parser("applied", __doc__)
    options.add_argument("--result", metavar="NAME=FILE", action="append", default=[],
                         help="applied.json of a search")  # fmt: skip
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the tables of a page")
    chosen = options.parse_args(arguments)
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.is_file() else {}
    for text in chosen.result:
        name, _, path = text.partition("=")
        stored[name] = json.loads(Path(path).read_text(encoding="utf-8"))
    if chosen.result:
        STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    if chosen.json:
        click.echo(json.dumps(stored, indent=1))
    elif chosen.write:
        sections = {"applied": table(stored), "simulated": simulations(stored)}
        write_sections(chosen.write, sections)
    else:
        click.echo(table(stored))
    return 0


if __name__ == "__main__":
    run(main)
