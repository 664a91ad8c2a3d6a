# SPDX-License-Identifier: Apache-2.0
"""Ternary datapaths compared by synthesis: ours, the published one, multipliers, selection.

``python -m flows.bench.qor [--only int8|fp16] [--technology NAME] [--sizes 8x8,32x32]
[--groups 1,2] [--designs lut,published] [--json] [--output FILE [--keep]]``

Everything mapped is kept in the user's cache, so a campaign that was stopped goes on where it
was.  What the designs are is in `flows.bench.qor_points` and `flows.bench.published`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from flows.bench import qor_report as report
from flows.bench.qor_points import (
    ACTIVATIONS,
    DESIGNS,
    SIZES,
    TECHNOLOGIES,
    Result,
    measure,
    points,
    whole_core,
)
from flows.calibration.mapping_cache import versions
from flows.synthesis.liberty import load
from flows.synthesis.standard_cells import Mapped
from flows.tools.toolchain import require
from hwgen.errors import HwgenError, InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a goal is missed."""
    options = _parser().parse_args(arguments)
    console = Console(stderr=True)
    try:
        results, cores = _measured(options, console)
        known: list[report.Known] = list(results)
        if options.output:
            page = options.output.read_text(encoding="utf-8")
            if options.keep:
                activations = {result.point.activation for result in results}
                known += report.kept(page, activations, [result.point for result in results])
                order = points(sorted(activations))
                known.sort(key=lambda result: order.index(result.point))
            text = report.updated(page, report.sections(known, cores))
            options.output.write_text(text, encoding="utf-8")
    except OSError as error:
        console.print(f"error: {error.filename}: {error.strerror}", markup=False, highlight=False)
        return 2
    except HwgenError as error:
        console.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        return error.exit_status
    goals = report.goals(known)
    if options.json:
        document = {
            "tools": versions(),
            "points": [result.document() for result in results],
            "cores": [
                {"point": result.point.name, **mapped.document()} for result, mapped in cores
            ],
            "goals": [
                {"what": g.what, "found": g.found, "limit": g.limit, "met": g.met} for g in goals
            ],
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _print(results, cores)
    return 0 if all(goal.met for goal in goals) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m flows.bench.qor",
        description="Ternary datapaths compared by synthesis: ours, the published one, multipliers"
        " and selection.",
    )
    parser.add_argument("--only", choices=ACTIVATIONS, help="only this format of activations")
    parser.add_argument("--technology", choices=TECHNOLOGIES, help="only this technology")
    parser.add_argument(
        "--sizes",
        metavar="NxM,...",
        default=",".join(f"{terms}x{columns}" for terms, columns in SIZES),
        help="only these, of %(default)s",
    )
    parser.add_argument(
        "--groups", metavar="N,...", default="1,2,3,4,5,6", help="only these µ, of %(default)s"
    )
    parser.add_argument(
        "--designs",
        metavar="NAME,...",
        default=",".join(DESIGNS),
        help="only these, of %(default)s",
    )
    parser.add_argument(
        "--keep", action="store_true", help="with --output: rows that are not measured stay"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="put the tables into this page as well"
    )
    return parser


def _measured(
    options: argparse.Namespace, console: Console
) -> tuple[list[Result], list[tuple[Result, Mapped]]]:
    known = {f"{terms}x{columns}": (terms, columns) for terms, columns in SIZES}
    names = options.sizes.split(",")
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"--sizes: {', '.join(unknown)} is none of {', '.join(known)}")
    technologies = [options.technology] if options.technology else list(TECHNOLOGIES)
    groups = options.groups.split(",")
    if unknown := [group for group in groups if group not in ("1", "2", "3", "4", "5", "6")]:
        raise InputError(f"--groups: {', '.join(unknown)} is none of 1, 2, 3, 4, 5, 6")
    designs = options.designs.split(",")
    if unknown := [design for design in designs if design not in DESIGNS]:
        raise InputError(f"--designs: {', '.join(unknown)} is none of {', '.join(DESIGNS)}")
    require("yosys")
    require("opensta")
    for technology in technologies:
        load(technology)  # a missing library is told before an hour of work
    campaign = [
        point
        for point in points(
            [options.only] if options.only else ACTIVATIONS,
            technologies,
            [known[name] for name in names],
            designs,
        )
        if str(point.group_size) in groups
    ]
    results = []
    with console.status("") as status:
        for number, point in enumerate(campaign, 1):
            status.update(f"{point.name} ({number} of {len(campaign)})")
            results.append(measure(point))
        cores = []
        for result in report.best_of(results):
            assert isinstance(result, Result)
            status.update(f"whole core of {result.point.name}")
            cores.append((result, whole_core(result)))
    return results, cores


def _print(results: Sequence[Result], cores: Sequence[tuple[Result, Mapped]]) -> None:
    output = Console()
    output.width = max(output.width, 120)
    tables = dict.fromkeys((r.point.activation, r.point.technology) for r in results)
    for activation, technology in tables:
        clock = next(
            r.point.clock_ps
            for r in results
            if (r.point.activation, r.point.technology) == (activation, technology)
        )
        title = f"{activation}, {technology}, clock target {clock / 1000:g} ns"
        rows = report.rows(results, activation, technology)
        output.print(_table(title, report.HEADINGS, rows))
    for result, mapped in cores:
        rows = report.breakdown(result.best)
        output.print(_table(f"{result.point.name}: its datapath", report.BREAKDOWN, rows))
        output.print(report.core_sentence(result, mapped), highlight=False)
    output.print(_table("goals", report.GOALS, report.goal_rows(results)))


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


if __name__ == "__main__":
    raise SystemExit(main())
