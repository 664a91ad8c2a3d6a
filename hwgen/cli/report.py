# SPDX-License-Identifier: Apache-2.0
"""Write the data sheet of an accelerator: interface, speed, estimates, kept results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.activity import OF_FILES, activity_option, requested_activity
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
from hwgen.reports.datasheet import DIAGRAM, TIMING
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from flows.build.build import Build
    from hwgen.workloads import Network

_SUFFIXES = (".md", ".html")


@click.command(epilog=example("hwgen report -c tour.yaml --gemm 100,300,50 -o tour.html"))
@config_option
@workload_options
@memory_options
@activity_option(OF_FILES)
@path_option("--output", "FILE", "NAME.md or NAME.html; default: shown here.")
@path_option(
    "--diagram", "FILE", "NAME.svg: the block diagram; without --output nothing else is made."
)
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
    activity: str,
    output: Path | None,
    diagram: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the data sheet of an accelerator.

    It has a summary, a block diagram, the timing of a job, the ports, exact cycles, the estimate
    for the configured target, the results of `hwgen synth` and `hwgen pnr` for it that are kept
    and still hold, every parameter, and the registers. Nothing is built or run.
    """
    from flows.build.block_diagram import block_diagram
    from flows.build.build import Build, retarget
    from flows.build.load import load_design
    from hwgen.models.workload import named_workloads
    from hwgen.reports.datasheet import markdown
    from hwgen.reports.diagram import draw

    if output:
        check_sheet(output, "--output", force=force)
    if diagram:
        _check_suffix(diagram, "--diagram", (".svg",), force=force)
    with task_progress("estimating", quiet=as_json):
        design = load_design(config)
        core = design.params
        off_chip = requested_memory(core.target, memory, gb_s, efficiency)
        workloads = named_workloads(gemms, names, [core], context)
        if diagram:
            blocks = block_diagram(design)
            write_file(diagram, f"{draw(blocks)}\n", force=force)
            if not output:
                if as_json:
                    emit_json({"diagram": blocks.document()})
                else:
                    console().print(f"{diagram}: block diagram of {core.name}", soft_wrap=True)
                return
        build = Build(design, retarget(core.target, memory=off_chip))
        moved = requested_activity(build, activity)
        sheet = sheet_of(build, workloads, estimate=build.estimate(workloads, activity=moved))
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
    _check_suffix(output, option, _SUFFIXES, force=force)


def _check_suffix(output: Path, option: str, suffixes: Sequence[str], *, force: bool) -> None:
    from hwgen.errors import InputError

    if output.suffix not in suffixes:
        raise InputError(f"{option}: must end in {' or '.join(suffixes)}, not {output.name!r}")
    check_file(output, force=force)


def write_sheet(output: Path, title: str, sheet: Mapping[str, Any], *, force: bool) -> None:
    """Write a data sheet, with its pictures in the page or beside the Markdown."""
    from hwgen.reports.datasheet import markdown, tiles
    from hwgen.reports.datasheet_page import page

    drawn = _pictures(sheet)
    files = {name: f"{output.stem}{_FILES.get(name, f'.{name}')}.svg" for name in drawn}
    pictures = {files[name]: drawn[name] for name in files}
    if output.suffix == ".html":
        text = markdown(sheet, files, summary_table=False)
        write_file(output, page(text, title, pictures, tiles(sheet)), force=force)
        return
    for name in pictures:
        check_file(output.with_name(name), force=force)
    for name, svg in pictures.items():
        write_file(output.with_name(name), f"{svg}\n", force=force)
    write_file(output, markdown(sheet, files), force=force)


_FILES = {DIAGRAM: "-blocks", TIMING: "-timing"}


def _pictures(sheet: Mapping[str, Any]) -> dict[str, str]:
    """Return the pictures of a data sheet, those that there are, as SVG by name."""
    from cost_model.roofline.picture import of_estimate
    from hwgen.reports import diagram, job_timing

    entry = sheet["estimates"][0]
    limits = entry["roofline"] or {"workloads": {}}
    drawn = {name: of_estimate(entry, name) for name in limits["workloads"]}
    if blocks := sheet["diagram"]:
        drawn[DIAGRAM] = diagram.draw(diagram.Diagram.of_document(blocks))
    if trace := sheet["timing"]:
        drawn[TIMING] = job_timing.draw(job_timing.JobTrace.of_document(trace))
    return {name: svg for name, svg in drawn.items() if svg}


def sheet_of(
    build: Build,
    workloads: Mapping[str, Network],
    *,
    estimate: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the data of a datasheet, for the target of the build.

    `estimate` is by default that of the workloads' products on the build.
    """
    import yaml

    from flows.build.block_diagram import block_diagram
    from flows.build.files import description
    from flows.pnr import pnr
    from flows.simulation.job_trace import trace_job, typical_job
    from flows.synthesis import synth_cache

    design, target = build.design, build.target.technology
    core = design.core
    about = description(core)
    placed = pnr.cached_results(design, target)
    return {
        "manifest": about,
        "configuration": yaml.safe_dump(about["config"], sort_keys=False, allow_unicode=True),
        "diagram": block_diagram(design).document(),
        "timing": trace_job(core, typical_job(core)).document(),
        "estimates": [build.estimate(workloads) if estimate is None else estimate],
        "synthesis": [result.document() for result in synth_cache.cached_results(design, target)],
        "place_and_route": [result.document() for result in placed],
    }
