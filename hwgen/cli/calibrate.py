# SPDX-License-Identifier: Apache-2.0
"""Fit the costs of a technology to synthesis results."""

from __future__ import annotations

from pathlib import Path

import click

from hwgen.cli.support.common import (
    emit_json,
    example,
    force_option,
    jobs_option,
    json_option,
    path_option,
    target_option,
)
from hwgen.cli.support.outputs import check_file
from hwgen.reports.terminal import console


@click.command(epilog=example("hwgen calibrate --target nangate45"))
@target_option("Technology or FPGA family.", required=True)
@path_option("--output", "FILE", "Where to write the table; default where hwgen reads it.")
@click.option(
    "--designs", metavar="N", type=click.IntRange(1),
    help="Only the first N designs of each kind: a quick look, which leaves costs unknown;"
    " default all.",
)  # fmt: skip
@jobs_option("Designs of a standard-cell technology that are mapped at once")
@force_option
@json_option
def command(
    target: str,
    output: Path | None,
    designs: int | None,
    jobs: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Fit the costs of a technology to synthesis results.

    Designs are mapped with Yosys and timed by OpenSTA, those of FPGA families with place and route
    timed by it, and the costs of what emitted hardware consists of are fitted to the results.
    What has been mapped is kept, so a run that was stopped goes on where it was.
    """
    from rich.progress import Progress

    from cost_model.estimate.technology import write
    from flows.calibration.calibrate import calibrate
    from flows.tools.parallel import processors
    from hwgen.errors import InputError
    from hwgen.technologies import cell_library, costs_of, file_of, technology

    if technology(target).kind != "fpga":
        cell_library(target)  # refuses a table of costs, which has no library
    path = output or costs_of(target)
    if path is None:
        raise InputError(
            f"{file_of(target)} names no table that hwgen would read; say `costs: {target}.json`"
            " there, or name a file with --output"
        )
    check_file(path, force=force or output is None)
    out = console()
    with Progress(console=out, transient=True, disable=as_json or not out.is_terminal) as progress:
        task = progress.add_task("designs", total=1)

        def follow(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        tech = calibrate(target, follow, designs, jobs or processors())
    write(path, tech)
    if as_json:
        emit_json(tech.document())
        return
    about = tech.structure["provenance"]
    designs = about["designs"]
    of_each = designs if isinstance(designs, dict) else {"": designs}
    counts = ", ".join(f"{count} designs {name}".rstrip() for name, count in of_each.items())
    out.print(f"{path}: {counts}", markup=False)
    # An ASIC technology is fitted to two distributions of designs, an FPGA family to one.
    by_distribution = about["left_out"] if isinstance(designs, dict) else {"": about["left_out"]}
    for distribution, summaries in by_distribution.items():
        for quantity, summary in summaries.items():
            out.print(
                f"  {quantity.replace('_', ' ')}{', ' if distribution else ''}{distribution}:"
                f" {100 * summary['mape']:.1f} % on average,"
                f" {100 * summary['worst']:+.1f} % at worst"
            )
