# SPDX-License-Identifier: Apache-2.0
"""Areas of columns of ternary-LUT cores by synthesis, by which `auto` chooses their structure.

``python -m flows.bench.columns [--technology NAME]... [--write] [--json]``

A column of each structure is mapped alone.  ``--write`` puts the figures where hwgen reads them.
"""

from __future__ import annotations

import json
from typing import Any

from flows.bench.measure import parser, report
from flows.build.design import Design
from flows.synthesis.standard_cells import Mapped, map_core
from hwgen.families.ternary_lut.measured import DATA
from hwgen.families.ternary_lut.params import TernaryLutConfig
from hwgen.technologies import cell_library

RECIPE = "nf"

COLUMN = {"group_size": 2, "tables": 12, "fetch_ports": 1, "accumulator_depth": 1}
"""The core whose column is measured."""

PERIODS_PS = {"asap7": 300.0, "nangate45": 1000.0, "sky130hd": 2500.0, "ihp-sg13g2": 2500.0}
"""Clock periods that the mapper is given, of a deeply pipelined core."""


def mapped_module(verilog: str, top: str, technology: str) -> Mapped:
    """Return a module, mapped alone."""
    return map_core(
        verilog,
        top,
        technology,
        RECIPE,
        PERIODS_PS[technology],
        full_adders=cell_library(technology).full_adder is not None,
        clock="clk",
    )


def columns_um2(technology: str) -> dict[str, float]:
    """Measure a column of each structure."""
    found = {}
    for fetch in ("binary", "one_hot"):
        for reduction in ("adders", "compressors"):
            array = {**COLUMN, "fetch": fetch, "reduction": reduction}
            config = TernaryLutConfig.model_validate({"name": "q", "array": array})
            mapped = mapped_module(Design(config).verilog, "q_column", technology)
            found[f"{fetch} {reduction}"] = round(mapped.area, 2)
    return found


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write if asked to."""
    options = parser("columns", __doc__)
    options.add_argument("--technology", action="append", choices=[*PERIODS_PS])
    options.add_argument("--write", action="store_true", help=f"put the figures into {DATA.name}")
    chosen = options.parse_args(arguments)
    data: dict[str, Any] = {"recipe": RECIPE, "technologies": {}}
    if DATA.exists():
        data = json.loads(DATA.read_text(encoding="utf-8"))
    rows = []
    for technology in chosen.technology or PERIODS_PS:
        areas = columns_um2(technology)
        data["technologies"][technology] = {"columns_um2": areas}
        rows += [(technology, *way.split(), f"{area:.2f}") for way, area in areas.items()]
        if chosen.write:
            DATA.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    columns = ("technology", "fetch", "reduction", "um2")
    report("Areas of a column", columns, rows, as_json=chosen.json)


if __name__ == "__main__":
    main()
