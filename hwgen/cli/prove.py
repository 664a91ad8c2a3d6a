# SPDX-License-Identifier: Apache-2.0
"""Prove properties of the RTL of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hwgen.cli.support.common import (
    config_option,
    emit_json,
    example,
    force_option,
    jobs_option,
    json_option,
    new_table,
    path_option,
    task_progress,
)
from hwgen.cli.support.outputs import atomic_directory, check_directory
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from flows.formal.certificate import Certificate


@click.command(epilog=example("hwgen prove -c tour.yaml"))
@config_option
@click.option("--timeout", metavar="SECONDS", type=click.IntRange(1, 86400), default=60,
              show_default=True, help="Limit of the search for each property.")  # fmt: skip
@click.option("--datapaths", is_flag=True,
              help="Also compare datapaths with their arithmetic definitions.")  # fmt: skip
@click.option("--deadlock", is_flag=True,
              help="Also search a small job of an engine that stands still.")  # fmt: skip
@path_option("--write-properties", "DIR",
             "Write the properties in SystemVerilog for other tools, and end.")  # fmt: skip
@click.option("--no-cache", is_flag=True, help="Prove again what was proven before.")
@jobs_option("Proofs at once")
@path_option("--output", "DIR", "Directory for the certificate; default build/NAME-proofs.")
@force_option
@json_option
def command(
    config: Path,
    timeout: int,
    datapaths: bool,
    deadlock: bool,
    write_properties: Path | None,
    no_cache: bool,
    jobs: int | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Prove properties of the RTL of a configuration, for all inputs and all times.

    Writes a certificate: properties, engines, solvers, and the digest of the Verilog.  Exit status
    0: everything is proven; 1: a property is refuted, with a waveform, or unknown.
    """
    import time

    from flows.build.load import load_design
    from flows.formal import monitors
    from flows.formal.prove import prove_design
    from flows.tools.parallel import processors

    for directory in filter(None, (output, write_properties)):
        check_directory(directory)
    design = load_design(config)
    if write_properties:
        with atomic_directory(write_properties, force=force) as directory:
            names = monitors.write_properties(design, directory)
        if as_json:
            emit_json({"design": design.name, "files": names, "results": str(write_properties)})
        else:
            console().print(f"{len(names) - 1} modules of properties in {write_properties}")
        return 0
    work = output or Path("build") / f"{design.name}-proofs"
    check_directory(work)
    start = time.monotonic()
    with task_progress("proving", quiet=as_json) as update:
        certificate = prove_design(
            design,
            seconds=timeout,
            jobs=jobs or processors(),
            use_cache=not no_cache,
            datapaths=datapaths,
            deadlock=deadlock,
            on_progress=update,
        )
    with atomic_directory(work, force=force) as directory:
        certificate.write(directory)
    seconds = time.monotonic() - start
    if as_json:
        document = certificate.document()
        emit_json({**document, "wall_seconds": round(seconds, 3), "results": str(work)})
    else:
        _print(certificate, seconds, work)
    return 0 if certificate.status == "proven" else 1


def _print(certificate: Certificate, seconds: float, work: Path) -> None:
    table = new_table("properties of", "proven", "refuted", "unknown", left=())
    for group in certificate.groups.values():
        if group["status"] == "absent":
            table.add_row(str(group["about"]), "none there", "", "")
        else:
            counts = [str(group[each]) for each in ("proven", "refuted", "unknown")]
            table.add_row(str(group["about"]), *counts)
    out = console()
    out.print(table)
    for entry in certificate.entries:
        for result in entry.results:
            if result.status != "proven":
                out.print(
                    f"{entry.module}: {result.name}: {result.status} ({result.detail})",
                    markup=False,
                )
    out.print(
        f"{certificate.design.name}: {certificate.status}, {seconds:.1f} s; certificate in {work}"
    )
