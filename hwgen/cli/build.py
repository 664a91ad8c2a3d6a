# SPDX-License-Identifier: Apache-2.0
"""Write the Verilog of a configuration and the files beside it."""

from __future__ import annotations

from pathlib import Path

import click

from hwgen.cli.support.common import (
    config_option,
    emit_json,
    example,
    force_option,
    headed,
    json_option,
    path_option,
)
from hwgen.cli.support.outputs import atomic_directory, written_entries
from hwgen.errors import InputError
from hwgen.reports.terminal import console


@click.command(epilog=example("hwgen build -c tour.yaml -o build/tour"))
@config_option
@path_option("--output", "DIR", "Directory to write into; default build/NAME.")
@click.option(
    "--start-values", metavar="N", type=click.IntRange(0, 2**32 - 1),
    help="Write also NAME_sim.v, whose registers and memories start at pseudo-random values of"
    " seed N: for simulators with unknown bits.",
)  # fmt: skip
@force_option
@json_option
def command(
    config: Path, output: Path | None, start_values: int | None, force: bool, as_json: bool
) -> None:
    """Write the Verilog of a configuration and the files beside it."""
    from flows.build.build import Build
    from flows.build.load import load_design

    design = load_design(config)
    core = design.core
    directory = output or Path("build") / core.name
    build = Build(design)
    if not force:
        _refuse_others(directory, core.name)
    with atomic_directory(directory, force=force) as staging:
        texts = dict(build.files)
        if start_values is not None:
            from flows.simulation.vectors.power_up import simulated_text

            texts[f"{core.name}_sim.v"] = simulated_text(design, start_values, memories=True)
        for name, text in texts.items():
            (staging / name).write_text(text, encoding="utf-8")
    for problem in (*build.problems, *build.warnings):
        click.echo(f"warning: {problem}", err=True)
    if as_json:
        emit_json(
            {
                "name": core.name,
                "digest": core.digest,
                "directory": str(directory),
                "files": {name: len(text) for name, text in texts.items()},
                "warnings": build.warnings,
            }
        )
        return
    out = console()
    out.print(headed(core.name, f" ({core.family_name()}) -> {directory}"))
    for name, text in texts.items():
        out.print(f"  {name:<24} {len(text) / 1024:8.1f} KiB")


def _refuse_others(directory: Path, name: str) -> None:
    """Refuse a directory with the build of another configuration.

    Raises
    ------
    InputError
        If it holds one.
    """
    manifests = [each for each in written_entries(directory) if each.endswith(".core")]
    if others := sorted({each.removesuffix(".core") for each in manifests} - {name}):
        raise InputError(
            f"{directory} holds the build of {others[0]!r}, not of {name!r}; choose another"
            " --output, or replace it with --force"
        )
