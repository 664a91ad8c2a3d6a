# SPDX-License-Identifier: Apache-2.0
"""List the families of accelerators and their parameters."""

from __future__ import annotations

from typing import Any

import click

from hwgen.cli.common import console, emit_json, json_option


@click.command(epilog="`hwgen init FAMILY` writes a configuration to start from.")
@click.argument("name", metavar="[FAMILY]", default="")
@json_option
def command(name: str, as_json: bool) -> None:
    """List the families of accelerators and their parameters, or those of one FAMILY."""
    from hwgen.config.reference import overview
    from hwgen.families import family

    found = overview()
    if name:
        family(name)  # refuses an unknown name
        found = [entry for entry in found if entry["name"] == name]
    if as_json:
        emit_json(found)
        return
    for entry in found:
        _show(entry)


def _show(entry: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from hwgen.config.parameters import yaml_value

    table = Table("parameter", "default", "allowed", "meaning", box=None, pad_edge=False)
    table.columns[0].no_wrap = table.columns[1].no_wrap = True
    for row in entry["parameters"]:
        default = "(required)" if row["required"] else yaml_value(row["default"])
        allowed = " ".join(filter(None, (row["allowed"], row["unit"])))
        table.add_row(*map(Text, (row["name"], default, allowed, row["description"])))
    out = console()
    out.print(Text.assemble((entry["name"], "bold"), f": {entry['summary']}\n"))
    out.print(table)
