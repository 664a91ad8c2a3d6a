# SPDX-License-Identifier: Apache-2.0
"""Search for engines that execute a model, by goals and limits."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.common import (
    emit_json,
    example,
    force_option,
    jobs_option,
    json_option,
    memory_options,
    new_table,
    path_option,
    requested_memory,
    target_option,
    task_progress,
)
from hwgen.cli.support.outputs import MARKER, atomic_directory, check_directory, claim_entry
from hwgen.reports.roofline import number
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from flows.search.search import Request


@click.command(
    epilog=example(
        "hwgen search austen-int8 --goal 'tokens_per_s>=500' --max area_mm2=2 --target nangate45"
        " -o engines"
    )
)
@click.argument("model", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--goal",
    "goals",
    metavar="METRIC>=NUMBER",
    multiple=True,
    help="What an engine must reach; may be repeated. METRIC=NUMBER is at least, or at most, what"
    " is better. An unknown metric is answered with all that there are.",
)
@click.option(
    "--max",
    "limits",
    metavar="METRIC=NUMBER",
    multiple=True,
    help="What an engine may have at most; may be repeated.",
)
@target_option("Technology, or the device that an engine must fit.", "target", required=True)
@click.option(
    "--clock",
    metavar="MHZ|auto",
    default="auto",
    show_default=True,
    help="Clock that an engine must reach; auto: the one that it reaches.",
)
@memory_options
@click.option(
    "--context",
    metavar="POSITIONS",
    type=click.IntRange(1, 1 << 24),
    default=256,
    show_default=True,
    help="Positions that the cache has room for; decode is of the last one.",
)
@click.option(
    "--limit",
    "count",
    metavar="N",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="Engines of the short list.",
)
@path_option("--output", "DIR", "Directory for results; default build/NAME-search.")
@jobs_option("Processes")
@click.option("--resume", is_flag=True, help="Continue an interrupted search.")
@force_option
@json_option
def command(
    model: Path,
    goals: tuple[str, ...],
    limits: tuple[str, ...],
    target: str,
    clock: str,
    memory: str | None,
    gb_s: str | None,
    efficiency: str | None,
    context: int,
    count: int,
    output: Path | None,
    jobs: int | None,
    resume: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Search for engines that execute a quantised decoder, by goals and limits.

    An engine has all units of configs/decoder_engine. Every combination of sizes of its units is
    ranked by tables of their cycles and costs; the best have a complete estimate, and a directory
    each with engine.yaml, which `hwgen build` and `hwgen model compile` take. Where a goal of speed
    is stated, the smallest engine that meets it is the best, else the fastest within the limits. If
    none meets all, the exit status is 1, and the nearest is named.
    """
    from flows.build.build import retarget
    from flows.search.goals import parse_goals
    from flows.search.output import write_result
    from flows.search.search import Request, Unmet, search
    from flows.search.space import needs_of
    from flows.tools.executors import LocalProcesses
    from flows.tools.parallel import processors
    from hwgen.core.params.target import Target
    from hwgen.errors import InputError
    from hwgen.models.files.store import Model

    conditions = parse_goals(goals, limits)
    if not conditions:
        raise click.UsageError("nothing is asked for: state a --goal, or a limit by --max")
    served = requested_memory(Target(), memory, gb_s, efficiency)
    aim = retarget(Target(), target, _megahertz(clock), served)
    directory = output or Path("build") / f"{_name(model)}-search"
    check_directory(directory)
    needs_of(Model(model), context)  # refuses a model before anything is written
    request = Request(model, tuple(conditions), aim, _megahertz(clock), context, count)
    journal = _journal(directory, request, resume=resume, force=force)
    try:
        with (
            task_progress("searching", quiet=as_json),
            LocalProcesses(jobs or processors()) as executor,
        ):
            result = search(request, executor, journal)
            with atomic_directory(directory, force=force) as staging:
                document = write_result(staging, result)
    except InputError:  # there is nothing to continue
        journal.path.unlink(missing_ok=True)
        if [entry.name for entry in directory.iterdir()] == [MARKER]:
            shutil.rmtree(directory)
        raise
    except Unmet as error:
        if as_json:
            emit_json({"met": False, **error.document})
            raise click.exceptions.Exit(1) from None
        raise
    except (KeyboardInterrupt, SystemExit):  # the latter by SIGTERM
        click.echo(f"{directory}: continue with --resume", err=True)
        raise
    finally:
        journal.close()
    if as_json:
        emit_json({"met": True, **document, "directory": str(directory)})
    else:
        _report(document, directory)


def _name(model: Path) -> str:
    """Return a name of a model for files."""
    return re.sub(r"[^\w.-]+", "-", model.resolve().name) or "model"


def _megahertz(text: str) -> float | None:
    """Return the clock that ``--clock`` states, None for auto."""
    from hwgen.core.params.target import CLOCK_MHZ

    if text == "auto":
        return None
    low, high = CLOCK_MHZ
    with suppress(ValueError):
        if low <= (clock := float(text)) <= high:
            return clock
    raise click.UsageError(f"--clock: must be auto, or {low:g} to {high:g} MHz, not {text[:40]!r}")


def _journal(directory: Path, request: Request, *, resume: bool, force: bool) -> Any:
    """Return the journal of a search, empty unless the search is to be continued."""
    from flows.search.journal import FILE, SearchJournal
    from hwgen.errors import InputError

    fingerprint = request.fingerprint
    path = claim_entry(directory, FILE, force=force)
    if path.exists() and not resume:
        if not force:
            raise InputError(
                f"{directory} holds an unfinished search; continue it with --resume, or start anew"
                " with --force"
            )
        path.unlink()
    return SearchJournal(path, fingerprint)


def _report(document: dict[str, Any], directory: Path) -> None:
    """Print the short list."""
    out = console()
    out.print(f"{document['model']}: {', '.join(document['goals'])} -> {directory}")
    out.print(f"  {document['points']:,} engines ranked, {document['feasible']:,} meet all")
    for entry in document["rejected"]:
        out.print(f"  {entry['points']:,} {entry['reason']}")
    for entry in document["illegal"]:
        out.print(f"  {entry['options']:,} options of units break a rule: {entry['reason']}")
    if document["unusable"]:
        first = document["unusable"][0]
        out.print(
            f"  {len(document['unusable']):,} options of units cannot execute the model, such as"
            f" {first['option']}: {first['reason']}",
            soft_wrap=True,
        )
    out.print(f"  {document['guarantee']}", soft_wrap=True)
    engines = document["engines"]
    headings = {
        "tokens_per_s": "tokens/s", "j_per_token": "J/token", "clock_mhz": "MHz",
        "area_mm2": "mm²", "power_w": "W", "luts": "LUTs", "dsps": "DSPs", "brams": "BRAMs",
    }  # fmt: skip
    stated = [
        name for name in headings if any(each["metrics"][name] is not None for each in engines)
    ]
    table = new_table("engine", *(headings[name] for name in stated), "sizes", left=("sizes",))
    for each in engines:
        table.add_row(
            each["engine"], *(number(each["metrics"][name]) for name in stated),
            _sizes(each["parameters"]),
        )  # fmt: skip
    out.print(table)
    for line in engines[0]["limits"]:
        out.print(f"  {line}", soft_wrap=True)
    first = directory / engines[0]["engine"]
    out.print(f"next: hwgen model compile {document['model']} -c {first} -o compiled",
              soft_wrap=True)  # fmt: skip


def _sizes(parameters: dict[str, Any]) -> str:
    """Return options in a few words: of each unit its sizes."""
    units: dict[str, list[str]] = {}
    for name, value in parameters.items():
        unit, _, short = name.partition(".")
        units.setdefault(unit, []).append(f"{short} {value}" if unit == "products" else f"{value}")
    return "; ".join(
        f"{unit} {' x '.join(values) if unit != 'products' else ', '.join(values)}"
        for unit, values in units.items()
    )
