# SPDX-License-Identifier: Apache-2.0
"""Area and delay of 16 x 16 int8 arrays at nangate45, by synthesis: ``make bench-area``.

The Verilog is that of ``hwgen build``, stream buffers and sequencer included.  The area is that of
all cells, divided by the number of PEs; the delay is that of the worst path by OpenSTA, wires
without load.  Memories would be mapped to registers; so the weight-stationary array, for which no
goal is set, has an accumulator for a single row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from flows.bench.common import Row, parser, report, run
from flows.build.design import Design
from flows.calibration.mapping_cache import map_cached
from flows.synthesis.cell_scripts import RECIPES
from hwgen.families.systolic.params import SystolicConfig

SIZE = 16
TECHNOLOGY = "nangate45"
CLOCK_PS = 1500.0
"""Clock period for the mapper, which must be ambitious to meet the goal."""

GOAL_UM2, GOAL_NS = 950.0, 1.8
"""Largest area per PE of the output-stationary array, at this delay."""

ARRAYS: dict[str, dict[str, int]] = {
    "output_stationary": {},
    "weight_stationary": {"accumulator_depth": 1},
}
SPECS = {"um2 per PE": ".1f", "registers": ".1f", "ns": ".2f"}


def rows() -> Iterator[Row]:
    """Map each array by each recipe."""
    for dataflow, more in ARRAYS.items():
        array = {"rows": SIZE, "cols": SIZE, "dataflow": dataflow, **more}
        config = SystolicConfig.model_validate(
            {"name": "bench", "family": "systolic", "accumulator": "int32", "array": array}
        )
        verilog = Design.of(config).verilog
        for recipe in RECIPES:
            for full_adders in (False, True):
                mapped = map_cached(
                    verilog, config.name, TECHNOLOGY, recipe, CLOCK_PS,
                    ["bench_pe", "bench_drain"], full_adders=full_adders,
                )  # fmt: skip
                yield {
                    "array": dataflow,
                    "recipe": recipe + (", full adders" if full_adders else ""),
                    "um2 per PE": mapped.area / SIZE**2,
                    "registers": mapped.sequential_area / SIZE**2,
                    "ns": mapped.timing.path_ns if mapped.timing else None,
                    "worst path ends at": mapped.timing.end if mapped.timing else mapped.note,
                }


def verdict(measured: Sequence[Row]) -> tuple[bool | None, str]:
    """Return whether the goal is met, None without a timing analysis, and a sentence about it."""
    goal = f"The goal, {GOAL_UM2:g} um2 per PE at {GOAL_NS:g} ns,"
    timed = [row for row in measured if isinstance(row["ns"], float)]
    if not timed:
        return None, f"{goal} cannot be checked: {measured[0]['worst path ends at']}"
    areas = [
        float(row["um2 per PE"] or 0)
        for row in timed
        if row["array"] == "output_stationary" and float(row["ns"] or 0) <= GOAL_NS
    ]
    met = bool(areas) and min(areas) <= GOAL_UM2
    return met, f"{goal} is {'met' if met else 'missed'}."


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 if the goal is missed."""
    options = parser("area", __doc__).parse_args(arguments)
    measured = list(rows())
    title = f"{SIZE} x {SIZE} int8, accumulators of 32 bits, {TECHNOLOGY}"
    report(title, measured, SPECS, as_json=options.json)
    met, sentence = verdict(measured)
    if not options.json:
        click.echo(sentence)
    return 1 if met is False else 0


if __name__ == "__main__":
    run(main)
