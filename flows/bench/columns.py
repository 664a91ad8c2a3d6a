# SPDX-License-Identifier: Apache-2.0
"""Areas of columns of ternary-LUT cores by synthesis, by which `auto` chooses their structure.

``python -m flows.bench.columns [--technology NAME]... [--write] [--json]``

A column of each structure is mapped alone.  ``--write`` updates the file that hwgen reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from flows.bench.common import Row, parser, report, run
from flows.build.design import Design
from flows.calibration.mapping_cache import map_cached
from flows.synthesis.standard_cells import Mapped
from hwgen.families.ternary_lut.choice import DATA
from hwgen.families.ternary_lut.params import TernaryLutConfig
from hwgen.technologies import cell_library

RECIPE = "nf"

COLUMN = {"group_size": 2, "tables": 12, "fetch_ports": 1, "accumulator_depth": 1}
"""The core whose column is measured."""

PERIODS_PS = {"asap7": 300.0, "nangate45": 1000.0, "sky130hd": 2500.0, "ihp-sg13g2": 2500.0}
"""Clock periods for the mapper, those of a deeply pipelined core."""


def mapped_module(verilog: str, top: str, technology: str) -> Mapped:
    """Return a module, mapped alone."""
    full_adders = cell_library(technology).full_adder is not None
    return map_cached(
        verilog, top, technology, RECIPE, PERIODS_PS[technology], full_adders=full_adders,
        clock="clk",
    )  # fmt: skip


def rows(technologies: Sequence[str]) -> Iterator[Row]:
    """Measure a column of each structure."""
    for technology in technologies:
        for fetch in ("binary", "one_hot"):
            for reduction in ("adders", "compressors"):
                array = {**COLUMN, "fetch": fetch, "reduction": reduction}
                config = TernaryLutConfig.model_validate({"name": "q", "array": array})
                mapped = mapped_module(Design.of(config).verilog, "q_column", technology)
                yield {
                    "technology": technology,
                    "fetch": fetch,
                    "reduction": reduction,
                    "um2": round(mapped.area, 2),
                }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write if asked to."""
    options = parser("columns", __doc__)
    options.add_argument("--technology", action="append", choices=[*PERIODS_PS])
    options.add_argument("--write", action="store_true", help=f"put the areas into {DATA.name}")
    chosen = options.parse_args(arguments)
    measured = list(rows(chosen.technology or [*PERIODS_PS]))
    report("areas of a column", measured, {"um2": ".2f"}, as_json=chosen.json)
    if chosen.write:
        data = json.loads(DATA.read_text(encoding="utf-8"))
        for row in measured:
            areas = data["technologies"].setdefault(row["technology"], {"columns_um2": {}})
            areas["columns_um2"][f"{row['fetch']} {row['reduction']}"] = row["um2"]
        DATA.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
