# SPDX-License-Identifier: Apache-2.0
"""Searches of `hwgen search` with two workloads: for an engine that computes both at once."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.common import emit_json, new_table, task_progress
from hwgen.cli.support.outputs import atomic_directory, write_file
from hwgen.cli.support.searching import searching
from hwgen.reports.roofline import number
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flows.search.goals import Goal
    from flows.search.journal import SearchJournal
    from flows.search.systems import SystemRequest
    from hwgen.core.params.target import Target


def metrics_of_systems() -> Mapping[str, tuple[str, bool]]:
    """Return the metrics that goals of two workloads may be of."""
    from flows.search.systems import METRICS

    return METRICS


def system_request(
    workloads: Sequence[Path],
    weights: Sequence[str],
    goals: Sequence[Goal],
    target: Target,
    clock_mhz: float | None,
    cores: Sequence[str],
    ports: Sequence[str],
    count: int,
) -> SystemRequest:
    """Return the request that the options make.

    Raises
    ------
    InputError
        If a workload, a format or a width is none.
    """
    from flows.search.systems import FORMATS, Pass, SystemRequest, legal_widths
    from hwgen.errors import InputError, did_you_mean
    from hwgen.models.workload import load_network

    if len(weights) not in (0, 1, len(workloads)):
        raise InputError(f"--weights: {len(weights)} formats for {len(workloads)} workloads")
    for name in weights:
        if name not in FORMATS:
            raise InputError(
                f"--weights: must be one of {', '.join(FORMATS)}, not {name[:40]!r}"
                f"{did_you_mean(name, FORMATS)}"
            )
    formats = list(weights) if len(weights) > 1 else [*weights, "int8"][:1] * len(workloads)
    tasks = list[Pass]()
    for path, name in zip(workloads, formats, strict=True):
        title, network = load_network(str(path))
        if not network.products:
            raise InputError(f"{path} has no products with weights")
        title = title if all(title != task.name for task in tasks) else f"{title}_2"
        tasks.append(Pass(title, name, tuple(network.products)))
    widths = tuple(sorted(map(int, set(ports))))
    if wrong := [str(width) for width in widths if width not in legal_widths()]:
        raise InputError(
            f"--port: systems of two workloads have ports of"
            f" {', '.join(map(str, legal_widths()))} bits, not {', '.join(wrong)}"
        )
    return SystemRequest(
        tuple(tasks), tuple(goals), target, clock_mhz,
        tuple(sorted(map(int, set(cores)))) or (1, 2), widths, count,
    )  # fmt: skip


def find_systems(
    request: SystemRequest,
    directory: Path,
    journal: SearchJournal,
    apply: int | None,
    jobs: int | None,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Search for systems, write the short list, and print it; perhaps build and simulate one."""
    from flows.search.journal import FILE
    from flows.search.search import Work
    from flows.search.system_files import write_systems
    from flows.search.systems import search_systems

    with searching(directory, journal, jobs, as_json=as_json) as executor:
        answer = search_systems(request, Work(executor, journal))
        with atomic_directory(directory, force=force) as staging:
            document = write_systems(staging, request, answer)
            shutil.copy(journal.path, staging / FILE)  # for --resume with other goals
    if not as_json:
        _report(document, directory)
    applied = {}
    if apply is not None:
        applied = {"applied": _apply(request, answer.best, directory, apply, quiet=as_json)}
    if as_json:
        emit_json({"met": True, **document, **applied, "directory": str(directory)})


def _apply(
    request: SystemRequest, best: Sequence[Any], directory: Path, which: int, *, quiet: bool
) -> dict[str, Any]:
    """Build a system of the short list, and simulate both workloads on it at once."""
    from flows.search.system_files import apply_system

    if which > len(best):
        raise click.UsageError(f"--apply: the short list has {len(best)} engines, not {which}")
    folder = directory / str(which)
    with task_progress("applying", quiet=quiet):
        files, applied = apply_system(request, best[which - 1])
    with atomic_directory(folder / "build") as staging:
        for name, text in files.items():
            (staging / name).write_text(text, encoding="utf-8")
    write_file(folder / "applied.json", json.dumps(applied, indent=1) + "\n", force=True)
    if not quiet:
        ranked, cycles = applied["ranked"], applied["cycles"]
        console().print(
            f"{folder}: both workloads simulated at once, {applied['products']} products equal to"
            f" the golden model; {cycles:,} cycles, {ranked:,} ranked"
            f" ({100 * (ranked / cycles - 1):+.1f} %), modelled between {applied['least']:,} and"
            f" {applied['most']:,}",
            soft_wrap=True,
        )
    return applied


def _report(document: Mapping[str, Any], directory: Path) -> None:
    """Print the short list."""
    out = console()
    names = " and ".join(f"{each['name']} ({each['weights']})" for each in document["workloads"])
    out.print(f"{names}: {', '.join(document['goals'])} -> {directory}", soft_wrap=True)
    out.print(f"  {document['points']:,} systems ranked, every one; {document['feasible']:,} meet"
              " all")  # fmt: skip
    for entry in document["rejected"]:
        out.print(f"  {entry['points']:,} {entry['reason']}")
    if document["unusable"]:
        out.print(
            f"  {len(document['unusable']):,} cores cannot compute a workload, such as"
            f" {document['unusable'][0]}", soft_wrap=True,
        )  # fmt: skip
    cells = document["systems"][0]["metrics"]["area_mm2"] is not None
    headings = {"ms": "ms", "cycles": "cycles", "clock_mhz": "MHz"}
    headings |= {"area_mm2": "mm²", "power_w": "W"} if cells else {"luts": "LUTs", "dsps": "DSPs"}
    table = new_table("engine", *headings.values(), "port", "cores", left=("cores",))
    for each in document["systems"]:
        shown = (each["metrics"][name] for name in headings)
        table.add_row(
            each["engine"], *("-" if value is None else number(value) for value in shown),
            str(each["port"]), " + ".join(each["cores"]),
        )  # fmt: skip
    out.print(table)
    out.print(f"  {document['verdict']}")
    out.print(f"next: hwgen build --config {directory / document['systems'][0]['engine']} --output"
              " engine", soft_wrap=True)  # fmt: skip
