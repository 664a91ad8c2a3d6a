# SPDX-License-Identifier: Apache-2.0
"""Function units: errors, tables and areas, and published tables made again beside them.

``python -m flows.bench.functions [--json] [--write FILE] [--minutes N]``

Areas of units, without registers, are the estimate from their structure, those of the tables that
are compared the areas of all cells, mapped for little area with a long period. Published tables
are made again with the fewest bits of their entries that add at most a tenth to the error of exact
ones, and compared with the smallest table whose proven error is at most that of the exact ones:
table against table, without what precedes and follows it.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import click
import numpy as np

from cost_model.estimate.technology import technology
from cost_model.netlist.costs import breakdown
from flows.bench.common import Document, markdown, parser, run, text, write_sections
from flows.bench.published_formulas import FORMULAS, GELU, Formula, exponential_polynomial
from flows.build.analysis import analyse
from flows.build.netlist_cache import convert
from flows.build.verilog import block_to_verilog
from flows.calibration.mapping_cache import map_cached
from hwgen.arithmetic.functions.curves import sampled
from hwgen.arithmetic.functions.fit import Objective, Tolerance, fit, gates
from hwgen.arithmetic.functions.polynomial import Domain, Polynomial
from hwgen.arithmetic.functions.unit import FUNCTIONS, Wanted, design
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

UNIT_HEADINGS = (
    "function", "in", "out", "max abs", "max relative", "max ulp", "monotonic", "proof", "segments",
    "degree", "table bits", *(f"um2, {name}" for name in PERIODS_PS),
)  # fmt: skip
TABLE_HEADINGS = ("table", "of", "error", *UNIT_HEADINGS[8:])
COUNTS = ("segments", "degree", "table_bits")


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
    return {
        name: sum(
            float(row["area_um2"]) for row in breakdown(parts, technology(name).structure["costs"])
        )
        for name in PERIODS_PS
    }


def table_document(table: Polynomial) -> Document:
    """Return the error and size of a table, and its block."""
    name = f"table_{hashlib.sha256(repr(table).encode()).hexdigest()[:8]}"
    return {
        "error": error_of(table),
        **{key: getattr(table, key) for key in COUNTS},
        "block": TableBlock(table, name),
    }


def table_pair(published: Published) -> tuple[str, Document, Document]:
    """Return a published table and the one of hwgen."""
    theirs, error = secants(published)
    ours = smallest(published, theirs, error)
    return published.name, table_document(theirs), table_document(ours)


def polynomial_pair() -> tuple[str, Document, Document]:
    """Return I-BERT's exponential, one polynomial, and the table of hwgen."""
    theirs, error = exponential_polynomial(admitted)
    ours = _fitted(theirs.domain, error)
    return "2^f, polynomial of I-BERT", table_document(theirs), table_document(ours)


def formula_pair(formula: Formula) -> tuple[str, Document, Document]:
    """Return a published unit that is no table, and a unit of hwgen with the same error."""
    theirs = {
        "error": formula.made_error,
        "segments": None,
        "degree": None,
        "table_bits": formula.table_bits,
        "block": formula.block,
    }
    if not formula.function:
        return formula.name, theirs, table_document(_fitted(GELU, formula.error))
    wanted = Wanted(absolute=formula.error)
    unit = design(formula.function, formula.source, formula.target, wanted)
    ours = table_document(unit.table)
    return formula.name, theirs, ours | {"error": unit.bound.max_abs, "block": FunctionBlock(unit)}


def pairs() -> Iterator[tuple[str, Document, Document]]:
    """Yield the published tables and units, and those of hwgen."""
    yield from map(table_pair, PUBLISHED)
    yield polynomial_pair()
    for formula in FORMULAS:
        yield formula_pair(formula(admitted))


def area_cells(document: Document) -> list[str]:
    """Format the areas of a unit."""
    return [
        text(document["area_um2"].get(name), ",.0f" if name == "nangate45" else ",.1f")
        for name in PERIODS_PS
    ]


def unit_cells(unit: Document) -> list[str]:
    """Return the row of a unit under `UNIT_HEADINGS`."""
    bound = unit["bound"]
    return [
        unit["function"], unit["input"], unit["output"],
        *(text(bound[key], ".2g") for key in ("max_abs", "max_relative", "max_ulp")),
        text(bound["monotonic"]), bound["proof"], *(str(unit[key]) for key in COUNTS),
        *area_cells(unit),
    ]  # fmt: skip


def pair_cells(pair: Document) -> Iterator[list[str]]:
    """Yield the rows of a published table and that of hwgen under `TABLE_HEADINGS`."""
    for label, name, key in (
        (pair["published"], "publication", "made_again"),
        ("", "hwgen", "hwgen"),
    ):
        part = pair[key]
        counts = ("-" if part[count] is None else str(part[count]) for count in COUNTS)
        yield [label, name, text(part["error"], ".2g"), *counts, *area_cells(part)]


def tables(document: Document) -> str:
    """Return the tables of a page."""
    units = markdown(UNIT_HEADINGS, map(unit_cells, document["units"]), 3)
    published = chain.from_iterable(map(pair_cells, document["published"]))
    return f"{units}\n{markdown(TABLE_HEADINGS, published, 2)}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print or write."""
    options = parser("functions", __doc__)
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the tables of a page")
    options.add_argument("--minutes", type=float, default=math.inf, help="stop mapping after them")
    chosen = options.parse_args(arguments)
    end = time.monotonic() + 60 * chosen.minutes
    document: Document = {"units": [], "published": []}
    for name, *parts in pairs():
        sys.stderr.write(f"{name}\n")
        for part in parts:
            block = part.pop("block")
            part["area_um2"] = areas(block) if time.monotonic() < end else {}
        document["published"].append(
            {"published": name, **dict(zip(("made_again", "hwgen"), parts, strict=True))}
        )
    for request in requests():
        unit = design(*request)
        sys.stderr.write(f"{' '.join(map(str, request[:3]))}\n")
        row = {**unit.document(), "area_um2": estimated(FunctionBlock(unit))}
        document["units"].append(row)
    if chosen.write:
        write_sections(chosen.write, {"tables": tables(document)})
    else:
        click.echo(json.dumps(document, indent=2) if chosen.json else tables(document))


if __name__ == "__main__":
    run(main)
