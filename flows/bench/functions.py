# SPDX-License-Identifier: Apache-2.0
"""Function units: errors, tables and areas, and published tables made again beside them.

``python -m flows.bench.functions [--json] [--write FILE] [--minutes N] [--no-synthesis]``

Areas of units, without registers, are the estimate from their structure, those of the tables that
are compared the areas of all cells, mapped for little area with a long period. Published tables
are made again with the fewest bits of their entries that add at most a tenth to the error of exact
ones, and compared with the smallest table whose proven error is at most that of the exact ones:
table against table, without what precedes and follows it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cost_model.estimate.technology import technology
from cost_model.netlist.costs import breakdown
from flows.bench.pages import rewritten
from flows.bench.published_formulas import FORMULAS, GELU, Formula, exponential_polynomial
from flows.build.analysis import analyse
from flows.build.netlist_cache import convert
from flows.build.verilog import block_to_verilog
from flows.calibration.mapping_cache import map_cached
from hwgen.arithmetic.functions.curves import sampled
from hwgen.arithmetic.functions.fit import Objective, Tolerance, fit, gates
from hwgen.arithmetic.functions.polynomial import Domain, Polynomial
from hwgen.arithmetic.functions.unit import FUNCTIONS, FunctionUnit, Wanted, design
from rtl_templates.arithmetic.functions.table import TableBlock
from rtl_templates.arithmetic.functions.unit import FunctionBlock
from rtl_templates.hdl.hierarchy import Block, emit_block

PERIODS_PS = {"nangate45": 5000.0, "asap7": 1500.0}
"""Technologies, and the clock periods that the mapper is given."""

RECIPE = "area"

_ULP = Wanted(ulp=1)
_COARSE = {"fp16": 1e-2, "bf16": 5e-2, "fp32": 1e-5}  # absolute, with results up to 8
_FIXED = {
    "exp2": ("q5.10", "uq1.14"),
    "exp": ("q5.10", "uq1.14"),
    "reciprocal": ("uq8.8", "uq4.12"),
    "rsqrt": ("uq8.8", "uq4.12"),
    "sigmoid": ("q4.11", "uq1.15"),
    "tanh": ("q4.11", "q1.14"),
}


def requests() -> Iterator[tuple[str, str, str, Wanted]]:
    """Yield the units of the table."""
    for function in FUNCTIONS:
        source, target = _FIXED.get(function, ("q4.11", "q4.11"))
        yield function, source, target, _ULP
        for name, error in _COARSE.items():
            exact = function in ("exp2", "exp", "reciprocal", "rsqrt")
            yield function, name, name, _ULP if exact else Wanted(absolute=error)


# -- published tables ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Published:
    """A table that was published.

    Parameters
    ----------
    name : str
    domain : Domain
    segment_bits : int
    segments : int
        Of the whole domain, or as many as the publication has.
    """

    name: str
    domain: Domain
    segment_bits: int
    segments: int


def _exp2(segments: int) -> Published:
    bits = segments.bit_length() - 1
    return Published(f"2^f, secants, {segments}", Domain("exp2", 16, ((0, 1),)), bits, segments)


PUBLISHED = (
    *(_exp2(segments) for segments in (16, 32, 64, 128, 256)),
    Published("reciprocal, secants, 64", Domain("reciprocal", 16, ((1, 1),), 1), 6, 64),
    Published("rsqrt, secants, 2 x 64", Domain("rsqrt", 16, ((1, 1), (2, 2)), 1), 6, 128),
    # Edge-MoE: ReLU less a table in steps of 1/32, linear between them.
    Published("GELU less ReLU, steps of 1/32", Domain("gelu", 14, ((0, 4),)), 7, 128),
)
"""Tables of values and slopes at the starts of segments: lines through the curve at both ends."""


def secants(published: Published) -> tuple[Polynomial, float]:
    """Return a published table and its error with exact entries.

    The table has the fewest bits that add at most a tenth to that error.
    """
    domain, bits = published.domain, published.segment_bits
    starts = np.arange(published.segments + 1, dtype=np.int64) << (domain.width - bits)
    steps = [math.ldexp(length, -bits) for _, length in domain.pieces]
    first = domain.points(starts[:-1])
    piece = starts[:-1] >> domain.width
    ends = first + np.array(steps)[piece]
    values = sampled(domain.curve, first) * 2.0**domain.gain
    slopes = sampled(domain.curve, ends) * 2.0**domain.gain - values

    def rounded(precision: int, fraction: int) -> Polynomial:
        rows = zip(
            np.round(values * 2.0**precision).astype(int).tolist(),
            np.round(slopes * 2.0 ** (precision + fraction)).astype(int).tolist(),
            strict=True,
        )
        return Polynomial(domain, bits, precision, (0, fraction), (0,), tuple(rows))

    exact = error_of(rounded(40, 0))
    allowed = admitted(exact)
    precision = next(p for p in range(4, 40) if error_of(rounded(p, 4)) <= allowed)
    best = rounded(precision, 4)
    for fraction in range(3, -precision, -1):
        trial = rounded(precision, fraction)
        if trial.shifts[0] < 0 or error_of(trial) > allowed:
            break
        best = trial
    return best, exact


def admitted(exact: float) -> float:
    """Return the error that a unit made again may have, by that of exact entries."""
    return 1.1 * exact


def error_of(table: Polynomial) -> float:
    """Return a table's proven error."""
    return float(np.abs(table.errors).max())


def smallest(published: Published, made_again: Polynomial, error: float) -> Polynomial:
    """Return the smallest table, of no more bits than a published one, for an error."""
    domain = published.domain
    share = published.segments / (len(domain.pieces) << published.segment_bits)

    def size(table: Polynomial) -> float:
        return gates(table) + (1e9 if table.table_bits > made_again.table_bits else 0.0)

    return _fitted(domain, error, size, share)


def _fitted(
    domain: Domain, error: float, size: Objective = gates, share: float = 1.0
) -> Polynomial:
    """Return the smallest table for an error."""
    least = math.ceil(-math.log2(error))
    table = fit(
        domain,
        Tolerance(error),
        range(least, least + 3),
        size,
        segments=lambda bits: math.ceil(share * (len(domain.pieces) << bits)),
    )
    if table is None:
        raise RuntimeError(f"{domain.curve}: no table has an error of {error} with so few bits")
    return table


# -- areas and tables of results -------------------------------------------------------------------


def areas(block: Block) -> dict[str, float]:
    """Return the area of a block in each technology, in um2."""
    verilog = block_to_verilog(block, "f")
    top = f"f_{block.module_name}"
    return {
        name: map_cached(verilog, top, name, RECIPE, period, full_adders=False, clock="clk").area
        for name, period in PERIODS_PS.items()
    }


def estimated(block: Block) -> dict[str, float]:
    """Return the estimate of a block's area in each technology, in um2."""
    netlist = convert(list(emit_block(block, "f")), f"f_{block.module_name}").netlist
    parts = analyse(netlist).parts()
    found = {}
    for name in PERIODS_PS:
        rows = breakdown(parts, technology(name).structure["costs"])
        found[name] = sum(float(row["area_um2"]) for row in rows)
    return found


def unit_row(unit: FunctionUnit) -> dict[str, Any]:
    """Return what is known of a unit."""
    return {**unit.document(), "area_um2": estimated(FunctionBlock(unit))}


def table_row(published: Published, *, synthesis: bool) -> dict[str, Any]:
    """Return a published table and the one of hwgen."""
    theirs, error = secants(published)
    ours = smallest(published, theirs, error)
    return _compared(published.name, _part(theirs, synthesis), _part(ours, synthesis))


def polynomial_row(*, synthesis: bool) -> dict[str, Any]:
    """Return I-BERT's exponential, one polynomial, and the table of hwgen."""
    theirs, error = exponential_polynomial(admitted)
    ours = _fitted(theirs.domain, error)
    return _compared("2^f, polynomial of I-BERT", _part(theirs, synthesis), _part(ours, synthesis))


def formula_row(formula: Formula, *, synthesis: bool) -> dict[str, Any]:
    """Return a published unit that is no table, and what hwgen has of the same error."""
    theirs = {
        "error": formula.made_error,
        "segments": None,
        "degree": None,
        "table_bits": formula.table_bits,
        "area_um2": areas(formula.block) if synthesis else {},
    }
    if not formula.function:
        return _compared(formula.name, theirs, _part(_fitted(GELU, formula.error), synthesis))
    wanted = Wanted(absolute=formula.error)
    unit = design(formula.function, formula.source, formula.target, wanted)
    ours = {
        **_part(unit.table, synthesis=False),
        "error": unit.bound.max_abs,
        "area_um2": areas(FunctionBlock(unit)) if synthesis else {},
    }
    return _compared(formula.name, theirs, ours)


def _compared(name: str, theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    return {"published": name, "made_again": theirs, "hwgen": ours}


def _part(table: Polynomial, synthesis: bool) -> dict[str, Any]:
    return {
        "error": error_of(table),
        "segments": table.segments,
        "degree": table.degree,
        "table_bits": table.table_bits,
        "area_um2": areas(_block(table)) if synthesis else {},
    }


def _block(table: Polynomial) -> TableBlock:
    return TableBlock(table, f"table_{hashlib.sha256(repr(table).encode()).hexdigest()[:8]}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"


def _areas(row: dict[str, Any]) -> list[str]:
    return [
        f"{row['area_um2'][name]:,.{0 if name == 'nangate45' else 1}f}" if row["area_um2"] else "-"
        for name in PERIODS_PS
    ]


def markdown(document: dict[str, Any]) -> str:
    """Return the tables of a page."""
    heads = [f"um2, {name}" for name in PERIODS_PS]
    columns: tuple[str, ...] = (
        "function",
        "in",
        "out",
        "max abs",
        "max relative",
        "max ulp",
        "monotonic",
    )
    columns += ("proof", "segments", "degree", "table bits", *heads)
    lines = [
        f"| {' | '.join(columns)} |",
        "| --- " * 3 + "| ---: " * 3 + "| --- " * 2 + "| ---: " * (3 + len(heads)) + "|",
    ]
    for row in document["units"]:
        bound = row["bound"]
        cells = [
            row["function"],
            row["input"],
            row["output"],
            *(_number(bound[key]) for key in ("max_abs", "max_relative", "max_ulp")),
            {True: "yes", False: "no", None: "-"}[bound["monotonic"]],
            bound["proof"],
            *(str(row[key]) for key in ("segments", "degree", "table_bits")),
            *_areas(row),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        f"| table | of | error | segments | degree | table bits | {' | '.join(heads)} |",
        "| --- | --- " + "| ---: " * (4 + len(heads)) + "|",
    ]
    keys = ("segments", "degree", "table_bits")
    for row in document["published"]:
        for who, name in (("made_again", row["published"]), ("hwgen", "")):
            part = row[who]
            cells = [
                name,
                "publication" if name else "hwgen",
                _number(part["error"]),
                *("-" if part[key] is None else str(part[key]) for key in keys),
                *_areas(part),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print or write."""
    parser = argparse.ArgumentParser(prog="python -m flows.bench.functions")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the tables of a page")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="map no more tables after so long"
    )
    parser.add_argument(
        "--no-synthesis", action="store_true", help="leave the areas of compared tables out"
    )
    options = parser.parse_args(arguments)
    end = time.monotonic() + 60 * options.minutes
    document: dict[str, Any] = {"units": [], "published": []}
    rows: list[Callable[..., dict[str, Any]]] = [
        *(partial(table_row, published) for published in PUBLISHED),
        polynomial_row,
        *(partial(formula_row, formula(admitted)) for formula in FORMULAS),
    ]
    for row in rows:
        synthesis = not options.no_synthesis and time.monotonic() < end
        document["published"].append(row(synthesis=synthesis))
        sys.stderr.write(f"{document['published'][-1]['published']}\n")
    for request in requests():
        sys.stderr.write(f"{' '.join(map(str, request[:3]))}\n")
        document["units"].append(unit_row(design(*request)))
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        options.write.write_text(rewritten(page, "tables", markdown(document)), encoding="utf-8")
    elif options.json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        sys.stdout.write(markdown(document))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
