# SPDX-License-Identifier: Apache-2.0
"""Delays and areas of what datapaths are made of, by synthesis, by which `auto` chooses.

``python -m flows.bench.delay [--technology NAME]... [--write] [--json]``

Columns and tables of ternary-LUT cores are mapped alone, each by the recipe for the shortest path,
and a delay for each kind of logic is fitted to their worst paths; adders of floating-point numbers
are measured as they are.  ``--write`` puts the figures where hwgen reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import log2
from typing import Any

import numpy as np

from flows.bench.measure import parser, report
from flows.standard_cells import INPUT_DELAY, Mapped, map_core
from hwgen.config.measured import DATA, Delays
from hwgen.emission import verilog_of
from hwgen.emission.verilog import block_to_verilog
from hwgen.families.ternary_lut import TernaryLutConfig
from hwgen.families.ternary_lut_choice import sum_ns
from hwgen.numerics import entries
from hwgen.numerics.floating import FLOATS
from hwgen.technologies import cell_library
from rtl_templates.arithmetic.float_adder import CUTS, FloatAdder

RECIPE = "nf"
COLUMNS = ((1, 8), (1, 32), (2, 4), (2, 12), (2, 32), (3, 2), (3, 11), (4, 4), (5, 3))
"""Group size and tables of the columns that are measured."""

COLUMN = (2, 12)
"""Group size and tables of the column whose structures are compared."""

TABLES = (2, 3, 4)
"""Group sizes of the tables that are measured."""

UNIT = Delays(0.0, 1.0, 1.0, 1.0, {})
"""Delays that count gates."""

PERIODS_PS = {"asap7": 300.0, "nangate45": 1000.0, "sky130hd": 2500.0, "ihp-sg13g2": 2500.0}
"""Clock periods that the mapper is given, of a deeply pipelined core."""


@dataclass(frozen=True)
class Point:
    """A worst path: what it leads through, and its delay in ns, measured and as fitted."""

    what: str
    gates: float
    reads: float
    adders: float
    measured: float
    fitted: float = 0.0


def configuration(
    group_size: int, tables: int, fetch: str = "one_hot", reduction: str = "compressors"
) -> TernaryLutConfig:
    """Return a small core."""
    array = {
        "group_size": group_size,
        "tables": tables,
        "fetch_ports": 1,
        "accumulator_depth": 1,
        "fetch": fetch,
        "reduction": reduction,
    }
    return TernaryLutConfig.model_validate({"name": "q", "array": array})


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


def path_ns(verilog: str, top: str, technology: str) -> float:
    """Return the delay of the worst path of a module."""
    mapped = mapped_module(verilog, top, technology)
    if mapped.timing is None:
        raise SystemExit(mapped.note)
    return mapped.timing.path_ns


def points(technology: str) -> Iterator[Point]:
    """Measure columns and tables."""
    for group_size, tables in COLUMNS:
        config = configuration(group_size, tables)
        gates = sum_ns(config, UNIT, tables, tables, total=True)
        reads = log2(entries(group_size) + 1)
        delay = path_ns(verilog_of(config), "q_column", technology)
        yield Point(f"column of {tables} tables of {group_size}", gates, reads, 0, delay)
    for group_size in TABLES:
        delay = path_ns(verilog_of(configuration(group_size, 1)), "q_table", technology)
        yield Point(f"table of {group_size}", 0, 0, group_size - 1, delay)


def fit(points: list[Point]) -> tuple[Delays, list[Point]]:
    """Return the delays that explain the points best, in relative terms, and the points so."""
    measured = np.array([point.measured for point in points])
    parts = np.array([[1, point.gates, point.reads, point.adders] for point in points])
    solution, *_ = np.linalg.lstsq(parts / measured[:, None], np.ones(len(points)), rcond=None)
    register, gate, read, adder = (round(float(x), 5) for x in solution)
    fitted = parts @ solution
    shown = [
        Point(**{**asdict(p), "fitted": float(f)}) for p, f in zip(points, fitted, strict=True)
    ]
    return Delays(register, gate, read, adder, {}), shown


def float_adders(technology: str) -> dict[str, list[float]]:
    """Measure adders of floating-point numbers; one without registers without any around it."""
    delays = {}
    outside = 2 * INPUT_DELAY * PERIODS_PS[technology] / 1000
    for name, fmt in FLOATS.items():
        stages = []
        for number in range(len(CUTS) - 1):
            adder = FloatAdder(fmt, number)
            delay = path_ns(block_to_verilog(adder, "q"), f"q_{adder.module_name}", technology)
            stages.append(round(delay - outside * (not number), 4))
        delays[name] = stages
    return delays


def columns_um2(technology: str) -> dict[str, float]:
    """Measure a column of each structure."""
    return {
        f"{fetch} {reduction}": round(
            mapped_module(
                verilog_of(configuration(*COLUMN, fetch, reduction)), "q_column", technology
            ).area,
            2,
        )
        for fetch in ("binary", "one_hot")
        for reduction in ("adders", "compressors")
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write if asked to."""
    options = parser("delay", __doc__)
    options.add_argument("--technology", action="append", choices=[*PERIODS_PS])
    options.add_argument("--write", action="store_true", help=f"put the figures into {DATA.name}")
    chosen = options.parse_args(arguments)
    data: dict[str, Any] = {"recipe": RECIPE, "technologies": {}}
    if DATA.exists():
        data = json.loads(DATA.read_text(encoding="utf-8"))
    rows = []
    for technology in chosen.technology or PERIODS_PS:
        delays, shown = fit(list(points(technology)))
        areas = columns_um2(technology)
        figures = {**asdict(delays), "float_adder": float_adders(technology)}
        data["technologies"][technology] = {"delays": figures, "columns_um2": areas}
        rows += [
            (technology, p.what, f"{p.measured:.3f}", f"{p.fitted:.3f}",
             f"{100 * (p.fitted / p.measured - 1):+.0f} %")
            for p in shown
        ]  # fmt: skip
        if chosen.write:
            DATA.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    columns = ("technology", "module", "measured", "fitted", "error")
    report("Worst paths, ns", columns, rows, as_json=chosen.json)


if __name__ == "__main__":
    main()
