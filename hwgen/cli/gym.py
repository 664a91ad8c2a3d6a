# SPDX-License-Identifier: Apache-2.0
"""Enumerate spaces into tables, for search agents that are compared with the optimum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hwgen.cli.support.common import (
    emit_json,
    example,
    force_option,
    jobs_option,
    json_option,
    new_table,
    path_option,
    task_progress,
)
from hwgen.cli.support.groups import AliasedGroup
from hwgen.reports.terminal import console


@click.group(cls=AliasedGroup, epilog=example("hwgen gym problems"))
def command() -> None:
    """Enumerate spaces into tables, for search agents that are compared with the optimum."""


@command.command("problems", epilog=example("hwgen gym problems --json"))
@json_option
def problems_command(as_json: bool) -> None:
    """List the problems with their optima."""
    from hwgen.gym.problem import catalogue, problems

    known = catalogue()
    if as_json:
        emit_json({name: known[name] for name in problems()})
        return
    table = new_table("problem", "table", "points", "within limits", "optimum", "median")
    for name in problems():
        entry = known[name]
        table.add_row(
            name,
            entry["table"],
            f"{entry['points']:,}",
            f"{entry['within_limits']:,}",
            f"{entry['optimum']:.6g}",
            f"{entry['median']:.6g}",
        )
    console().print(table)


@command.command("table", epilog=example("hwgen gym table heterogeneous -o table.parquet"))
@click.argument("source", metavar="NAME|FILE.yaml")
@path_option("--output", "FILE.parquet", "Where to write the table; default NAME.parquet.")
@jobs_option("Processes that evaluate netlists")
@click.option(
    "--most",
    metavar="POINTS",
    type=click.IntRange(1),
    help="Of a FILE.yaml, points beside small designs that test the fits of costs, at most.",
)
@force_option
@json_option
def table_command(
    source: str,
    output: Path | None,
    jobs: int | None,
    most: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the table of a space: every point with its figures, illegal ones with their rule.

    NAME is a table of a problem, FILE.yaml a sweep file with one family.
    """
    from hwgen.cli.support.outputs import check_file, write_file
    from hwgen.gym.problem import load_table, tables

    if source.endswith((".yaml", ".yml")):
        file: Path | None = Path(source)
    else:
        file = None
        if source not in tables():
            load_table(source)  # says which there are
    path = output or Path(f"{Path(source).stem}.parquet")
    check_file(path, force=force)
    if file is None:
        table = load_table(source)
    else:
        from flows.gym.enumerate import table_of
        from flows.tools.executors import LocalProcesses
        from flows.tools.parallel import processors

        with (
            LocalProcesses(jobs or processors()) as executor,
            task_progress("enumerating", quiet=as_json) as shown,
        ):
            table = table_of(file, executor, lambda done, total: shown("points", done, total), most)
    write_file(path, table.encode(), force=force)
    summary: dict[str, Any] = {
        "file": str(path),
        "digest": table.digest,
        "points": table.size,
        "legal": int(table.legal.sum()),
        "bytes": path.stat().st_size,
    }
    if as_json:
        emit_json(summary)
        return
    console().print(
        f"{path}: {table.size:,} points, {summary['legal']:,} legal,"
        f" {summary['bytes'] / 1e6:.1f} MB, digest {table.digest[:16]}",
        soft_wrap=True,
    )
