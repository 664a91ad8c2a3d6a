# SPDX-License-Identifier: Apache-2.0
"""List the families of accelerators, or the parameters of one."""

from __future__ import annotations

from typing import Any

import click

from hwgen.cli.support.common import emit_json, example, json_option
from hwgen.cli.support.names import FamilyName
from hwgen.reports.terminal import console


@click.command(
    epilog=example(
        "hwgen families systolic",
        "`hwgen init FAMILY` writes a configuration to start from.",
    )
)
@click.argument("name", metavar="[FAMILY]", default="", type=FamilyName())
@click.option("--matrix", is_flag=True, help="Which family has which feature, as Markdown.")
@json_option
def command(name: str, matrix: bool, as_json: bool) -> None:
    """List the families of accelerators, or the parameters of one FAMILY."""
    from hwgen.core.registry import family
    from hwgen.reports.configuration import overview

    if matrix:
        if name:
            raise click.UsageError("--matrix compares all families; leave FAMILY out")
        _matrix(as_json)
        return

    if not name and not as_json:
        _list()
        return
    entries = overview()
    if name:
        family(name)  # refuses an unknown name
        entries = [entry for entry in entries if entry["name"] == name]
    if as_json:
        emit_json(entries)
        return
    for entry in entries:
        _show(entry)


_WIDEST_DEFAULT = 24
"""Characters of a line of a default."""


def _list() -> None:
    """Print a line for each family."""
    from rich.table import Table

    from hwgen.core.registry import families

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True, min_width=max(map(len, families())))
    table.add_column(no_wrap=True, overflow="ellipsis")
    for name, entry in families().items():
        table.add_row(name, entry.summary)
    console().print(table)


def _show(entry: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from hwgen.config.parameters import yaml_value

    table = Table("parameter", "default", "allowed", "meaning", box=None, pad_edge=False)
    table.columns[0].no_wrap = True
    table.columns[1].max_width = _WIDEST_DEFAULT  # a core as a default would take half the table
    for row in entry["parameters"]:
        default = "(required)" if row["required"] else yaml_value(row["default"])
        allowed = " ".join(filter(None, (row["allowed"], row["unit"])))
        table.add_row(*map(Text, (row["name"], default, allowed, row["description"])))
    out = console()
    out.print(Text.assemble((entry["name"], "bold"), f": {entry['summary']}\n"))
    out.print(table)


def _matrix(as_json: bool) -> None:
    from hwgen.core.registry import families
    from hwgen.reports.features import cores_of_engines, described, features

    names = list(families())
    choices = {feature.name: feature.legal for feature in features()}
    cores = cores_of_engines()
    costs, unknown = _estimated()
    if as_json:
        document = {"features": choices, "cores_of_engines": cores, "estimates": costs}
        emit_json({**document, "unknown": unknown})
        return
    rows = [
        [f"`{name}`", *(described(legal[f]) if f in legal else "" for f in names)]
        for name, legal in choices.items()
    ]
    rows += [
        [f"core of `{engine}`", *("yes" if f in inside else "" for f in names)]
        for engine, inside in cores.items()
    ]
    sets = _name_long_cells(rows)
    table = _markdown(["parameter", *(f"`{f}`" for f in names)], rows)
    table = "\n\n".join(filter(None, (table, sets)))
    estimates = _markdown(
        ["technology", *(f"`{f}`" for f in names)],
        [[technology, *(by[f] for f in names)] for technology, by in costs.items()],
    )
    click.echo(f"{table}\n\n{estimates}\n\n{_nulls(unknown)}")


_LONG = 100
"""Characters of a cell from which on a table names a set of values, and lists them below."""


def _name_long_cells(rows: list[list[str]]) -> str:
    """Replace long cells of a table by names of sets, and return what these hold."""
    from textwrap import fill

    sets: dict[str, str] = {}
    for row in rows:
        for index, cell in enumerate(row[1:], 1):
            if len(cell) > _LONG:
                row[index] = sets.setdefault(cell, f"*set {len(sets) + 1}*")
    lines = [
        fill(f"- {name}: {values}", 100, subsequent_indent="  ", break_on_hyphens=False)
        for values, name in sets.items()
    ]
    return "\n".join(lines)


def _nulls(unknown: dict[str, dict[str, dict[str, str]]]) -> str:
    """Return why figures are null: a row for each reason, with its technologies and families."""
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    for technology, by in unknown.items():
        for name, reasons in by.items():
            texts: dict[str, list[str]] = {}
            for metric, reason in reasons.items():
                texts.setdefault(reason, []).append(f"`{metric}`")
            for reason, null in texts.items():
                where = groups.setdefault((", ".join(null), reason), {})
                where.setdefault(technology, []).append(name)
    rows = []
    for (metrics, reason), where in groups.items():
        places: dict[str, list[str]] = {}
        for technology, names in where.items():
            text = "all" if len(names) == len(unknown[technology]) else ", ".join(names)
            places.setdefault(text, []).append(technology)
        shown = "; ".join(f"{', '.join(result)}: {names}" for names, result in places.items())
        rows.append([metrics, shown, reason])
    return _markdown(["null in `estimate --json`", "technologies: families", "because"], rows)


def _estimated() -> tuple[dict[str, dict[str, str]], dict[str, dict[str, dict[str, str]]]]:
    """Return the estimated metrics of each family, by technology, and why others are null."""
    from flows.build.build import Build, retarget
    from flows.build.design import Design
    from flows.build.load import parse_config
    from hwgen.core.registry import families
    from hwgen.reports.configuration import template
    from hwgen.technologies import technologies

    words = {"area_mm2": "area", "power_w": "power", "fmax_mhz": "Fmax", "luts": "resources"}
    covered: dict[str, dict[str, str]] = {technology: {} for technology in technologies()}
    unknown: dict[str, dict[str, dict[str, str]]] = {technology: {} for technology in covered}
    for name in families():
        config = parse_config(template(name))
        design = Design.of(config)
        for technology, by in covered.items():
            result = Build(design, retarget(config.target, technology)).estimate()
            metrics, unknown[technology][name] = result["metrics"], result["unknown"]
            by[name] = ", ".join(
                ["cycles", *(word for key, word in words.items() if metrics.get(key) is not None)]
            )
    return covered, unknown


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
