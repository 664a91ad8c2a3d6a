# SPDX-License-Identifier: Apache-2.0
"""Area, clock and power of placed cores with wires: ``make bench-wires``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from flows.bench.common import Document, markdown, parser, run, write_sections
from flows.build.design import Design
from flows.build.load import parse_config
from flows.layout.wires import add_wires
from flows.power.netlist_power import measure_power, workload
from flows.synthesis.synth import synthesize

CORES = ((2, "int4"), (4, "int4"), (4, "int8"))
"""Edges and operands of systolic arrays; also those that were routed for ``docs/wires.md``."""

CLOCKS_MHZ = {"asap7": 1500.0, "nangate45": 500.0, "sky130hd": 150.0, "ihp-sg13g2": 150.0}
"""About what these cores reach."""

GEMM = "random:8,32,8"


def rows(technologies: Sequence[str]) -> Iterator[Document]:
    """Synthesize and place each core at each technology."""
    for technology in technologies:
        for edge, operand in CORES:
            name = f"systolic {edge} x {edge} {operand}"
            sys.stderr.write(f"{technology}: {name}\n")
            config = parse_config(json.dumps({
                "name": "core", "family": "systolic", "activation": operand, "weight": operand,
                "array": {"rows": edge, "cols": edge},
            }), "core.json")  # fmt: skip
            result = synthesize(Design.of(config), technology, clock_mhz=CLOCKS_MHZ[technology])
            placed, work = add_wires(result), workload(config, GEMM)
            with_wires = measure_power(config, result, work, wires=placed)
            without = measure_power(config, result, work)
            cycle = [power.total_mw / power.clock_mhz for power in (without, with_wires)]
            yield {
                "technology": technology, "core": name, "cells": sum(result.cells.values()),
                "half_perimeter_mm": placed.half_perimeter_mm,
                "wire_per_cell_um": 1e3 * placed.wire_mm / sum(result.cells.values()),
                "area": placed.area_um2 / (result.area_um2 or 1.0),
                "fmax_mhz": result.fmax_mhz, "fmax_with_wires_mhz": placed.fmax_mhz,
                "energy": cycle[1] / cycle[0],
            }  # fmt: skip


def table(measured: Sequence[Document]) -> str:
    """Return the rows as a table of a page."""
    headings = ["technology", "core", "cells", "wire a cell, um", "area of cells",
                "MHz without", "MHz with wires", "energy a cycle"]  # fmt: skip
    lines = [[
        row["technology"], row["core"], f"{row['cells']:,}", f"{row['wire_per_cell_um']:.1f}",
        f"{100 * (row['area'] - 1):+.1f} %", f"{row['fmax_mhz']:,.0f}",
        f"{row['fmax_with_wires_mhz']:,.0f}", f"{100 * (row['energy'] - 1):+.0f} %",
    ] for row in measured]  # fmt: skip
    return markdown(headings, lines, 2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = parser("wires", __doc__)
    options.add_argument("--technology", action="append", choices=CLOCKS_MHZ)
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the table of a page")
    chosen = options.parse_args(arguments)
    measured = list(rows(chosen.technology or [*CLOCKS_MHZ]))
    text = json.dumps(measured, indent=2) if chosen.json else table(measured)
    sys.stdout.write(f"{text}\n")
    if chosen.write:
        write_sections(chosen.write, {"wires": table(measured)})
    return 0


if __name__ == "__main__":
    run(main)
