# SPDX-License-Identifier: Apache-2.0
"""Write a commented configuration file with every parameter of a family."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hwgen.cli.support.common import emit_json, example, json_option, path_option
from hwgen.cli.support.names import BoardName, FamilyName
from hwgen.cli.support.outputs import (
    MARKER,
    atomic_directory,
    check_directory,
    write_file,
)
from hwgen.errors import InputError


@click.command(
    epilog=example(
        "hwgen init systolic --name tour -o tour.yaml",
        "`hwgen families` lists the families. `hwgen init --plugin NAME` starts a family of your"
        " own: a package that pip installs, with a test that hwgen's contract of families holds.",
    )
)
@click.argument("family", type=FamilyName(), required=False)
@path_option(
    "--output", "PATH",
    "File to write; default: standard output. With --plugin, a directory that does not exist;"
    " default NAME-family.",
)  # fmt: skip
@click.option("--name", metavar="NAME", default="", help="Name of the core; default: FAMILY_core.")
@click.option("--plugin", metavar="NAME", help="Write a package with a new family of this name.")
@click.option(
    "--board", "board", metavar="NAME", type=BoardName(),
    help="Choose the largest core that fits a board by estimate, and a clock.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def command(
    family: str | None,
    output: Path | None,
    name: str,
    plugin: str | None,
    board: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write a commented configuration file with every parameter of FAMILY.

    With --board FAMILY may be left out.
    """
    if plugin is not None:
        if family is not None or name or board or force:
            raise click.UsageError("--plugin goes without FAMILY, --name, --board and --force")
        _write_plugin(plugin, output, as_json)
        return
    if board is not None:
        _write_proposal(board, family, name, output, force=force, as_json=as_json)
        return
    if family is None:
        raise click.UsageError("Missing argument 'FAMILY'; `hwgen families` lists them.")
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


def _write_proposal(
    board_name: str, family: str | None, name: str, output: Path | None, *, force: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Write the configuration of the largest core of a family that fits a board."""
    from flows.board.proposal import natural_family, propose
    from hwgen.board.registry import board

    data = board(board_name)
    family = family or natural_family(data)

    def show(size: str) -> None:
        if not as_json:
            click.echo(f"estimating {family}: {size}", err=True)

    proposal = propose(data, family, name, show)
    if output is not None:
        write_file(output, proposal.text, force=force)
    luts = proposal.estimate["device"]["resources"]["luts"]
    if as_json:
        emit_json({
            "family": family, "board": board_name, "file": None if output is None else str(output),
            "size": dict(proposal.size), "clock_mhz": proposal.clock_mhz,
            "luts": luts["used"], "text": proposal.text,
        })  # fmt: skip
        return
    if output is None:
        click.echo(proposal.text, nl=False)
    click.echo(
        f"{output or family}: {luts['used']:,} of {luts['available']:,} look-up tables of"
        f" {board_name} by estimate, with all that surrounds it, at {proposal.clock_mhz:g} MHz;"
        f" next: hwgen board build --board {board_name} --config {output or 'FILE'}"
        f" --clock {proposal.clock_mhz:g} --output build/{board_name}",
        err=output is None,
    )


def _write_plugin(family: str, output: Path | None, as_json: bool) -> None:
    """Write the package of a new family to a directory that does not exist."""
    from hwgen.reports.plugin_package import plugin_files

    files = plugin_files(family)
    directory = output or Path(f"{family}-family")
    if os.path.lexists(directory):
        raise InputError(f"{directory} exists; choose another output directory, or remove it")
    check_directory(directory)
    with atomic_directory(directory) as staging:
        for path, text in files.items():
            (staging / path).parent.mkdir(exist_ok=True)
            (staging / path).write_text(text, encoding="utf-8")
    (directory / MARKER).unlink()  # the files are the user's from now on
    if as_json:
        emit_json({"family": family, "directory": str(directory), "files": sorted(files)})
        return
    for path in files:
        click.echo(f"{directory / path}")
    click.echo(f"next: pip install -e '{directory}[test]' && pytest {directory}")
