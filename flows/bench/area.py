# SPDX-License-Identifier: Apache-2.0
"""Area and delay of 16x16 int8 arrays in a 45 nm library, by synthesis.

``python -m flows.bench.area [--json] [--liberty FILE] [--clock-ps N]``

The Verilog is what ``hwgen build`` emits, stream buffers and sequencer included.  Area is that of
all cells, divided by the number of PEs; delay is that of the worst path by OpenSTA, wires without
load.  Memories would be mapped to registers, so the weight-stationary array, shown for
information, is measured without one: with an accumulator for a single row.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from flows.build.design import Design
from flows.synthesis.cell_scripts import RECIPES
from flows.synthesis.standard_cells import Mapped, map_core
from hwgen.errors import HwgenError
from hwgen.families.systolic.params import SystolicConfig

SIZE = 16
TECHNOLOGY = "nangate45"
CLOCK_PS = 1500.0
"""Clock period that the mapper is given: it needs some ambition to meet the goal."""

GOAL_AREA = 950.0
"""Area of the output-stationary array to stay below, um2 per PE ..."""

GOAL_NS = 1.8
"""... at this delay."""

KEPT = ("pe", "drain")
"""Modules mapped on their own: the emitted names begin with that of the top module and these."""

ARRAYS: dict[str, dict[str, Any]] = {
    "output_stationary": {"rows": SIZE, "cols": SIZE, "dataflow": "output_stationary"},
    "weight_stationary": {
        "rows": SIZE,
        "cols": SIZE,
        "dataflow": "weight_stationary",
        "accumulator_depth": 1,
    },
}
"""The arrays; the goal is for the first."""


@dataclass(frozen=True)
class Point:
    """One recipe applied to one array."""

    array: str
    mapped: Mapped

    @property
    def area(self) -> float:
        """Area per PE in um2."""
        return self.mapped.area / SIZE**2

    @property
    def delay(self) -> float | None:
        """Delay of the worst path in ns, if it was analysed."""
        return self.mapped.timing.path_ns if self.mapped.timing else None

    def document(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {"array": self.array, "area_per_pe_um2": self.area, **self.mapped.document()}


def configuration(array: str) -> SystolicConfig:
    """Return the configuration of one of `ARRAYS`."""
    return SystolicConfig.model_validate(
        {"name": "bench", "family": "systolic", "accumulator": "int32", "array": ARRAYS[array]}
    )


def measure(array: str, recipe: str, *, full_adders: bool, **options: Any) -> Point:
    """Map one array; `options` are those of `flows.synthesis.standard_cells.map_core`."""
    config = configuration(array)
    options = {"clock_ps": CLOCK_PS, **options}
    keep = [f"{config.name}_{prefix}" for prefix in KEPT]
    mapped = map_core(
        Design(config).verilog,
        config.name,
        TECHNOLOGY,
        recipe,
        keep=keep,
        full_adders=full_adders,
        **options,
    )
    return Point(array, mapped)


def best(points: Sequence[Point]) -> Point | None:
    """Return the smallest output-stationary array that is as fast as the goal."""
    fast = [
        point
        for point in points
        if point.array == "output_stationary" and point.delay is not None and point.delay <= GOAL_NS
    ]
    return min(fast, key=lambda point: point.area, default=None)


def verdict(points: Sequence[Point]) -> tuple[bool | None, str]:
    """Return whether the goal is met, None if it cannot be told, and a sentence about it."""
    goal = f"{GOAL_AREA:g} um2 per PE at {GOAL_NS:g} ns"
    if all(point.delay is None for point in points):
        return None, f"The goal, {goal}, cannot be judged: {points[0].mapped.note}"
    point = best(points)
    if point is None:
        return False, f"The goal, {goal}, is missed: no recipe is as fast."
    met = point.area <= GOAL_AREA
    return met, (
        f"The goal, {goal}, is {'met' if met else 'missed'}: {point.area:.1f} um2 at"
        f" {point.delay:.2f} ns with {_recipe(point)}."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 if the goal is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.bench.area",
        description="Area and delay of 16x16 int8 arrays, by synthesis.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--liberty", action="append", default=[], metavar="FILE", help="Liberty file to use"
    )
    parser.add_argument(
        "--clock-ps", type=float, default=CLOCK_PS, help="period for the mapper (%(default)g)"
    )
    parser.add_argument("--recipe", action="append", choices=[*RECIPES], help="only this one")
    parser.add_argument("--array", action="append", choices=[*ARRAYS], help="only this one")
    options = parser.parse_args(arguments)
    runs = [
        (array, recipe, full_adders)
        for array in options.array or ARRAYS
        for recipe in options.recipe or RECIPES
        for full_adders in (False, True)
    ]
    console = Console(stderr=True)
    points = []
    try:
        with console.status("") as status:
            for number, (array, recipe, full_adders) in enumerate(runs, 1):
                status.update(f"{array} {recipe} ({number} of {len(runs)})")
                points.append(
                    measure(
                        array,
                        recipe,
                        full_adders=full_adders,
                        clock_ps=options.clock_ps,
                        liberty_files=options.liberty,
                    )
                )
    except HwgenError as error:
        console.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        return error.exit_status
    met, sentence = verdict(points)
    if options.json:
        document = {
            "goal": {"area_per_pe_um2": GOAL_AREA, "delay_ns": GOAL_NS, "met": met},
            "points": [point.document() for point in points],
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        output = Console()
        output.print(_table(points))
        output.print(sentence, highlight=False)
    return 1 if met is False else 0


def _recipe(point: Point) -> str:
    return point.mapped.recipe + (" and full adders" if point.mapped.full_adders else "")


def _table(points: Sequence[Point]) -> Table:
    table = Table(title=f"{SIZE}x{SIZE} int8, accumulators of 32 bits, {TECHNOLOGY}; um2 per PE")
    table.add_column("array")
    table.add_column("recipe")
    for heading in ("area", "registers", "PEs", "drain", "rest", "ns"):
        table.add_column(heading, justify="right")
    table.add_column("worst path ends at", overflow="fold")
    for point in points:
        areas = dict.fromkeys(("PEs", "drain", "rest"), 0.0)
        for name, part in point.mapped.parts.items():
            kind = {"pe": "PEs", "drain": "drain"}.get(name.removeprefix("bench_").split("_")[0])
            areas[kind or "rest"] += part.area * part.count / SIZE**2
        table.add_row(
            point.array,
            _recipe(point),
            f"{point.area:.1f}",
            f"{point.mapped.sequential_area / SIZE**2:.1f}",
            *(f"{area:.1f}" for area in areas.values()),
            "-" if point.delay is None else f"{point.delay:.2f}",
            point.mapped.timing.end if point.mapped.timing else "",
        )
    return table


if __name__ == "__main__":
    raise SystemExit(main())
