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
@click.option(
    "--structure", is_flag=True,
    help="The costs of what emitted hardware consists of (standard cells), which estimates use.",
)  # fmt: skip
@force_option
@json_option
def command(
    target: str,
    output: Path | None,
    designs: int | None,
    structure: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Fit the costs of a technology to synthesis results.

    Maps a set of small cores with Yosys, times those of standard cells with OpenSTA, and fits the
    cost of each kind of component: those of the families' closed forms, or with --structure those
    that emitted hardware consists of.  The others stay as they are in the table.  What has been
    mapped is kept, so a run that was stopped goes on where it was.
    """
    from dataclasses import replace

    from rich.progress import Progress

    from cost_model.technology import Technology, is_calibrated, technology, write
    from flows.calibration import delays, structural
    from flows.calibration.calibrate import calibrate
    from hwgen.errors import InputError
    from hwgen.technologies import costs_of, file_of, of_kind

    path = output or costs_of(target)
    if path is None:
        raise InputError(
            f"{file_of(target)} names no table that hwgen would read; say `costs: {target}.json`"
            " there, or name a file with --output"
        )
    check_file(path, force=force or output is None)
    out = console()
    known = technology(target) if is_calibrated(target) else Technology(target, {})
    if structure and target not in of_kind("standard_cells"):
        raise InputError(
            f"--structure: {target} is an FPGA family; costs of structures are for standard cells"
        )
    with Progress(console=out, transient=True, disable=as_json or not out.is_terminal) as progress:
        task = progress.add_task("mapping", total=1)

        def follow(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        if structure:
            measured = structural.measured(target, follow, designs)
            tech = replace(
                known,
                structure=structural.table(target, measured),
                timing=delays.table(target, measured),
            )
        else:
            tech = calibrate(target, follow, designs)
            tech = replace(tech, structure=known.structure, timing=known.timing)
    write(path, tech)
    if as_json:
        emit_json(tech.document())
        return
    about = tech.structure["provenance"] if structure else tech.provenance
    residuals = about["left_out"] if structure else about["residuals"]
    number = about["designs"] if structure else about["cores"]
    out.print(f"{path}: {number} designs", markup=False)
    for quantity, summary in residuals.items():
        out.print(
            f"  {quantity.replace('_', ' ')}: {100 * summary['mape']:.1f} % on average,"
            f" {100 * summary['worst']:+.1f} % at worst"
        )
