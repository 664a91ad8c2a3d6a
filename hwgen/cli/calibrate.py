# SPDX-License-Identifier: Apache-2.0
"""Fit the costs of a technology to synthesis results."""

from __future__ import annotations

from pathlib import Path

import click

from hwgen.cli.common import (
    console,
    emit_json,
    force_option,
    json_option,
)
from hwgen.cli.outputs import check_file


@click.command()
@click.option("--target", metavar="T", required=True, help="Technology or FPGA family.")
@click.option(
    "--output", metavar="FILE", type=click.Path(path_type=Path),
    help="Where to write the table; default where hwgen reads it.",
)  # fmt: skip
@click.option(
    "--designs", metavar="N", type=click.IntRange(1),
    help="Only the first N designs: a quick look, which leaves costs unknown; default all.",
)  # fmt: skip
@force_option
@json_option
def command(
    target: str, output: Path | None, designs: int | None, force: bool, as_json: bool
) -> None:
    """Fit the costs of a technology to synthesis results.

    Maps a set of small cores with Yosys, times those of standard cells with OpenSTA, and fits the
    cost of each kind of component.  What has been mapped is kept, so a run that was stopped goes on
    where it was.
    """
    from rich.progress import Progress

    from cost_model.technology import write
    from flows.calibration.calibrate import calibrate
    from hwgen.errors import InputError
    from hwgen.technologies import costs_of, file_of

    path = output or costs_of(target)
    if path is None:
        raise InputError(
            f"{file_of(target)} names no table that hwgen would read; say `costs: {target}.json`"
            " there, or name a file with --output"
        )
    check_file(path, force=force or output is None)
    out = console()
    with Progress(console=out, transient=True, disable=as_json or not out.is_terminal) as progress:
        task = progress.add_task("mapping", total=1)
        tech = calibrate(
            target, lambda done, total: progress.update(task, completed=done, total=total), designs
        )
    write(path, tech)
    if as_json:
        emit_json(tech.document())
        return
    residuals = tech.provenance["residuals"]
    out.print(f"{path}: {tech.provenance['cores']} cores")
    for quantity, summary in residuals.items():
        out.print(
            f"  {quantity.replace('_', ' ')}: {100 * summary['mape']:.1f} % on average,"
            f" {100 * summary['worst']:+.1f} % at worst"
        )
