# SPDX-License-Identifier: Apache-2.0
"""Show which external tools are there, and how to get those that are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hwgen.cli.support.common import emit_json, example, json_option
from hwgen.reports.terminal import print_whole

if TYPE_CHECKING:
    from flows.tools.toolchain import Status


@click.command(
    epilog=example(
        "hwgen doctor",
        "Exit status: 0 if hwgen build, sim and run have what they need, else 3.",
    )
)
@click.option(
    "--prepare",
    is_flag=True,
    help="Also compile tools that are WebAssembly, once, for up to a minute each; else their first"
    " use does.",
)
@json_option
def command(prepare: bool, as_json: bool) -> None:
    """Show which external tools are there, and how to get those that are not."""
    from flows.tools.toolchain import probe_all
    from flows.tools.wasm import prepare_all

    statuses = probe_all()
    ready = all(status.installation for status in statuses if status.tool.base)
    if as_json:
        emit_json({"ready": ready, "tools": [_as_json(status) for status in statuses]})
    else:
        _print(statuses)
    if prepare:
        prepare_all()
    if not ready:
        click.get_current_context().exit(3)


def _as_json(status: Status) -> dict[str, object]:
    from flows.tools.toolchain import version_text

    tool, installation = status.tool, status.installation
    return {
        "name": tool.name,
        "needed": version_text(tool) if tool.minimum else None,
        "found": version_text(installation) if installation and installation.version else None,
        "usable": installation is not None,
        "required": tool.base,
        "where": installation.where if installation else None,
        "source": installation.source if installation else None,
        "rejected": list(status.rejected),
        "used_for": tool.used_for,
        "get": tool.get,
        "variable": tool.variable or None,
        "line": status.line,
    }


def _print(statuses: list[Status]) -> None:
    from rich.table import Table
    from rich.text import Text

    from flows.tools.toolchain import version_text

    below: list[str] = []
    table = Table(box=None, pad_edge=False)
    for heading in ("tool", "found", "needed", "where, or how to get it", "used to"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "tool")
    for status in statuses:
        tool, installation = status.tool, status.installation
        mark = Text("missing", "red") if tool.base else Text("none", "yellow")
        if installation:
            mark = Text(
                version_text(installation) if installation.version else "yes", style="green"
            )
        needed = version_text(tool) if tool.minimum else "any"
        location = installation.where if installation else "; ".join((*status.rejected, tool.get))
        if len(location) > _LONG:
            below.append(f"{tool.name}: {location}")
            location = "see below"
        table.add_row(tool.name, mark, needed, location, tool.used_for)
    print_whole(table)
    for text in below:
        click.echo(text)


_LONG = 120
"""Characters from which on a text about a tool stands below the table."""
