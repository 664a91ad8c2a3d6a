# SPDX-License-Identifier: Apache-2.0
"""Write a commented configuration file with every parameter of a family."""

from __future__ import annotations

from pathlib import Path

import click

from hwgen.cli.support.common import emit_json, example, json_option, path_option
from hwgen.cli.support.names import FamilyName
from hwgen.cli.support.outputs import write_file


@click.command(
    epilog=example(
        "hwgen init systolic --name tour -o tour.yaml",
        "`hwgen families` lists the families.",
    )
)
@click.argument("family", type=FamilyName())
@path_option("--output", "FILE", "File to write; default: standard output.")
@click.option("--name", metavar="NAME", default="", help="Name of the core; default: FAMILY_core.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def command(family: str, output: Path | None, name: str, force: bool, as_json: bool) -> None:
    """Write a commented configuration file with every parameter of FAMILY."""
    from hwgen.reports.configuration import template

    text = template(family, name)
    if output is not None:
        write_file(output, text, force=force)
    if as_json:
        emit_json({"family": family, "file": None if output is None else str(output), "text": text})
    elif output is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"{output} written; next: hwgen build --config {output}")
