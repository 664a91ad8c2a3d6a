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
from hwgen.cli.support.outputs import atomic_directory
from hwgen.reports.terminal import console


@click.command(epilog=example("hwgen build -c tour.yaml -o build/tour"))
@config_option
@path_option("--output", "DIR", "Directory to write into; default build/NAME.")
@force_option
@json_option
def command(config: Path, output: Path | None, force: bool, as_json: bool) -> None:
    """Write the Verilog of a configuration and the files beside it."""
    from flows.build.build import Build
    from flows.build.load import load_design

    design = load_design(config)
    core = design.core
    directory = output or Path("build") / core.name
    build = Build(design)
    with atomic_directory(directory, force=force) as staging:
        for name, text in build.files.items():
            (staging / name).write_text(text, encoding="utf-8")
    for problem in (*build.problems, *build.warnings):
        click.echo(f"warning: {problem}", err=True)
    if as_json:
        emit_json(
            {
                "name": core.name,
                "digest": core.digest,
                "directory": str(directory),
                "files": {name: len(text) for name, text in build.files.items()},
                "warnings": build.warnings,
            }
        )
        return
    out = console()
    out.print(headed(core.name, f" ({core.family_name()}) -> {directory}"))
    for name, text in build.files.items():
        out.print(f"  {name:<24} {len(text) / 1024:8.1f} KiB")
