# SPDX-License-Identifier: Apache-2.0
"""Write the data sheet of an accelerator: interface, speed, estimates, kept results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.common import (
    config_option,
    emit_json,
    example,
    force_option,
    json_option,
    memory_options,
    path_option,
    requested_memory,
    task_progress,
    workload_options,
)
from hwgen.cli.support.outputs import check_file, write_file
from hwgen.progress import steps
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from flows.build.build import Build
    from hwgen.workloads import Network

_SUFFIXES = (".md", ".html")


@click.command(epilog=example("hwgen report -c tour.yaml --gemm 100,300,50 -o tour.html"))
@config_option
@workload_options
@memory_options
@path_option("--output", "FILE", "NAME.md or NAME.html; default: shown here.")
@force_option
@json_option
def command(
    config: Path,
    gemms: Sequence[str],
    names: Sequence[str],
    context: int | None,
    memory: str | None,
    gb_s: str | None,
    efficiency: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the data sheet of an accelerator.

    It has every parameter, the ports or registers, exact cycles, the estimate for each calibrated
    technology, and the results of `hwgen synth` and `hwgen pnr` that are kept and still hold.
    Nothing is built or run.
    """
    from flows.build.build import Build, retarget
    from flows.build.load import load_design
    from hwgen.models.workload import named_workloads
    from hwgen.reports.datasheet import markdown

    if output:
        check_sheet(output, "--output", force=force)
    with task_progress("estimating", quiet=as_json):
        design = load_design(config)
        core = design.params
        off_chip = requested_memory(core, memory, gb_s, efficiency)
        build = Build(design, retarget(core.target, memory=off_chip))
        sheet = sheet_of(build, named_workloads(gemms, names, [core], context))
    if output:
        write_sheet(output, core.name, sheet, force=force)
    if as_json:
        emit_json(sheet)
    elif output:
        console().print(f"{output}: data sheet of {core.name}", soft_wrap=True)
    else:
        from rich.markdown import Markdown

        console().print(Markdown(markdown(sheet)))


def check_sheet(output: Path, option: str, *, force: bool) -> None:
    """Refuse a file that no data sheet can be written to, before anything is computed."""
    from hwgen.errors import InputError

    if output.suffix not in _SUFFIXES:
        raise InputError(f"{option}: must end in {' or '.join(_SUFFIXES)}, not {output.name!r}")
    check_file(output, force=force)


def write_sheet(output: Path, title: str, sheet: Mapping[str, Any], *, force: bool) -> None:
    """Write a data sheet, with its pictures in the page or beside the Markdown."""
    from cost_model.roofline.picture import of_estimate
    from hwgen.reports.datasheet import markdown, page

    entry = sheet["estimates"][0]
    limits = entry["roofline"] or {"workloads": {}}
    drawn = {name: of_estimate(entry, name) for name in limits["workloads"]}
    files = {name: f"{output.stem}.{name}.svg" for name, svg in drawn.items() if svg}
    pictures = {files[name]: drawn[name] for name in files}
    text = markdown(sheet, files)
    if output.suffix == ".html":
        write_file(output, page(text, title, pictures), force=force)
        return
    for name in pictures:
        check_file(output.with_name(name), force=force)
    for name, svg in pictures.items():
        write_file(output.with_name(name), f"{svg}\n", force=force)
    write_file(output, text, force=force)


def sheet_of(
    build: Build, workloads: Mapping[str, Network], *, fpga_energies: bool = False
) -> dict[str, Any]:
    """Return the data of a datasheet, with estimates of other technologies at the same clock.

    `fpga_energies` is that of `cost_model.estimate.estimate.estimate`.
    """
    import yaml

    from cost_model.estimate.technology import calibrated
    from flows.build.build import Build, retarget
    from flows.build.files import description
    from flows.pnr import pnr
    from flows.synthesis import synth_cache
    from hwgen.technologies import technologies

    design = build.design
    about = description(design.core)
    targets = [*technologies()]
    others = [name for name in calibrated() if name != build.target.technology]
    builds = [build, *(Build(design, retarget(build.target, name)) for name in others)]
    return {
        "manifest": about,
        "configuration": yaml.safe_dump(about["config"], sort_keys=False, allow_unicode=True),
        "estimates": [
            each.estimate(workloads, fpga_energies=fpga_energies)
            for each in steps("technologies", builds)
        ],
        "synthesis": [
            result.document()
            for target in targets
            for result in synth_cache.cached_results(design, target)
        ],
        "place_and_route": [
            result.document() for target in targets for result in pnr.cached_results(design, target)
        ],
    }
