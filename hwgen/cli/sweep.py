# SPDX-License-Identifier: Apache-2.0
"""Search a space of configurations for the ones that nothing beats."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.activity import OF_FILES, activity_option
from hwgen.cli.support.common import (
    emit_json,
    example,
    file_option,
    force_option,
    headed,
    jobs_option,
    json_option,
    new_table,
    path_option,
    task_progress,
)
from hwgen.cli.support.outputs import MARKER, atomic_directory, claim_entry
from hwgen.reports.datasheet import power_by_method
from hwgen.reports.sweep_words import candidates_left, empty_group
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from rich.console import Console

    from cost_model.sweep.document import SweepFile
    from cost_model.sweep.journal import Journal
    from cost_model.sweep.outcome import Executor, Outcome
    from cost_model.sweep.output.write import Verification
    from cost_model.sweep.plan import Evaluate
    from cost_model.sweep.probe import Probe
    from hwgen.core.params.base import FamilyConfig

_JOURNAL = "journal"


@click.command(epilog=example("hwgen sweep -c configs/sweeps/tradeoff.yaml -o tradeoff"))
@file_option("--config", "Sweep file (YAML); docs/sweep.md describes it.", required=True)
@path_option("--output", "DIR", "Directory for results; default build/NAME-sweep.")
@jobs_option("Processes")
@click.option(
    "--scheduler", metavar="ADDRESS", help="Of a Dask scheduler, whose workers then do the work."
)
@click.option(
    "--refine",
    metavar="N",
    type=click.IntRange(0, 100_000),
    help="Evaluate at most the N points nearest to the Pareto set by netlist; instead of `refine`"
    " in the file.",
)
@activity_option(OF_FILES)
@click.option("--resume", is_flag=True, help="Continue an interrupted sweep.")
@click.option(
    "--verify",
    metavar="WHICH",
    callback=lambda ctx, param, value: _which(value),
    help="Also synthesize: top:N, the first N, or sample:N, N of all.",
)
@force_option
@json_option
def command(
    config: Path,
    output: Path | None,
    jobs: int | None,
    scheduler: str | None,
    refine: int | None,
    activity: str,
    resume: bool,
    verify: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Search a space of configurations for the ones that nothing beats.

    Evaluates every point of the space, or samples it, and writes the Pareto set: tables,
    configurations to build, and a page to explore.
    """
    from dataclasses import replace

    from cost_model.sweep.document import read_sweep
    from cost_model.sweep.fitted import Fitted
    from cost_model.sweep.journal import Journal
    from cost_model.sweep.output.write import finished, write_output
    from cost_model.sweep.plan import technologies_of
    from cost_model.sweep.probe import probe
    from flows.power.estimated_activity import check_activity
    from hwgen import __version__
    from hwgen.errors import ConfigError

    file = read_sweep(config, __version__)
    if refine is not None:
        file = replace(file, plan=replace(file.plan, refine=refine))
    file = replace(file, plan=replace(file.plan, activity=activity))
    check_activity(activity, technologies_of(file.plan))
    probed = probe(file, Fitted())
    directory = output or Path("build") / f"{file.plan.name}-sweep"
    summary = finished(directory, probed.fingerprint, verify) if resume else None
    announced = summary is None and verify is not None  # printed before anything is measured
    start = time.perf_counter()
    if summary is None:
        path = _journal(directory, resume, force)
        try:
            with (
                _executor(jobs, scheduler) as executor,
                Journal(path, probed.fingerprint) as journal,
            ):
                outcome, model = _swept(file, probed, executor, journal, quiet=as_json)
                with atomic_directory(directory, force=force) as staging:
                    summary = write_output(
                        staging,
                        outcome,
                        model,
                        probed,
                        _verification(verify, jobs, as_json, directory),
                    )
        except ConfigError:  # there is nothing to continue
            _discard(directory, path)
            raise
        except (KeyboardInterrupt, SystemExit):  # the latter by SIGTERM
            click.echo(f"{directory}: continue with --resume", err=True)
            raise
    if as_json:
        emit_json({**summary, "directory": str(directory)})
    else:
        if not announced:
            _report(summary, directory)
        if summary["verify"]:
            _report_verified(console(), summary["verified"])
        seconds = time.perf_counter() - start
        # A sweep that was continued did not evaluate all of its points in this time.
        speed = summary["evaluated"] / seconds
        speed_text = "" if resume else f": {speed:,.0f} points a second, netlists included"
        console().print(f"  {seconds:,.1f} s{speed_text}")


def _swept(
    file: SweepFile, probed: Probe, executor: Executor, journal: Journal, *, quiet: bool
) -> tuple[Outcome, Evaluate]:
    """Run a sweep, and return with its outcome the model that ranked its points."""
    from cost_model.sweep.netlists import Netlists
    from cost_model.sweep.refine import sweep
    from flows.build.costs import NetlistCosts

    units = {"samples": "netlists", "points": "points", "candidates": "candidates"}
    with task_progress("sweeping", quiet=quiet) as update:
        progress = {step: partial(update, unit) for step, unit in units.items()}
        return sweep(
            file, probed, Netlists(NetlistCosts(file.plan.activity)), executor, journal, progress
        )


def _journal(directory: Path, resume: bool, force: bool) -> Path:
    """Return the directory of finished chunks, emptied unless the sweep is to be continued."""
    from hwgen.errors import InputError

    journal = claim_entry(directory, _JOURNAL, force=force)
    if journal.exists() and not resume:
        if not force:
            raise InputError(
                f"{directory} holds an unfinished sweep; continue it with --resume, or start anew"
                " with --force"
            )
        shutil.rmtree(journal)
    return journal


def _discard(directory: Path, journal: Path) -> None:
    """Remove the journal, and the directory if it was made for it."""
    shutil.rmtree(journal, ignore_errors=True)
    if [entry.name for entry in directory.iterdir()] == [MARKER]:
        shutil.rmtree(directory)


def _executor(jobs: int | None, scheduler: str | None) -> AbstractContextManager[Executor]:
    from flows.tools.executors import DaskCluster, LocalProcesses
    from flows.tools.parallel import processors
    from hwgen.errors import InputError

    if scheduler is None:
        return LocalProcesses(jobs or processors())
    if jobs is not None:
        raise InputError("--jobs is for this machine; a --scheduler has its own workers")
    return nullcontext(DaskCluster(scheduler))


def _which(value: str | None) -> str | None:
    """Check the value of ``--verify``."""
    if value is not None and not re.fullmatch(r"(top|sample):[1-9][0-9]{0,5}", value):
        raise click.BadParameter(f"must be top:N or sample:N, such as top:5, not {value!r}")
    return value


def _verification(
    points: str | None, jobs: int | None, quiet: bool, directory: Path
) -> Verification | None:
    """Return the measurement of configurations, None if there is to be none."""
    if points is None:
        return None
    from cost_model.sweep.output.write import Verification
    from flows.synthesis.verify import measure
    from flows.tools.parallel import processors

    def measured(configs: Sequence[FamilyConfig]) -> list[Mapping[str, float] | str]:
        with _progress("synthesizing", "designs", quiet=quiet) as progress:
            results = measure(configs, jobs or processors(), progress)
        return [result.problem or result.metrics for result in results]

    def announce(summary: dict[str, Any]) -> None:
        if not quiet:
            _report(summary, directory)

    return Verification(points, measured, announce)


@contextmanager
def _progress(label: str, unit: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Give a function of the things done and the things in all, for a progress bar."""
    with task_progress(label, quiet=quiet) as update:
        yield partial(update, unit)


def _report(summary: dict[str, Any], directory: Path) -> None:
    out = console()
    removed = summary["removed"]
    out.print(headed(summary["name"], f" -> {directory}"))
    of = f" of {summary['points']:,}" if summary["points"] != summary["evaluated"] else ""
    legal = summary["evaluated"] - removed["illegal"]
    legal -= sum(item["points"] for item in removed["constraints"])
    out.print(f"  {summary['evaluated']:,}{of} points tried, {legal:,} legal ones evaluated")
    conditions = [
        *(
            (f"break {item['condition']!r} ({item['family']})", item["points"])
            for item in removed["constraints"]
        ),
        *((f"miss {item['spec']!r}", item["points"]) for item in removed["specs"]),
        ("have no known figure of an objective", removed["unknown"]),
        ("break a rule of their family", removed["illegal"]),
    ]
    for text, points in conditions:
        if points:
            out.print(f"  {points:,} {text}")
    for rule in removed["rules"]:
        out.print(f"    such as {rule['example']}")
    if summary["excluded"]:
        out.print(
            f"  {summary['excluded']:,} of these have no netlist: a smaller design already exceeds"
            " the limit"
        )
    out.print(
        f"  {summary['feasible']:,} feasible, {summary['pareto']:,} in the Pareto set,"
        f" {summary['configs']:,} configurations written"
    )
    for technology, source in summary.get("cost_tables", {}).items():
        out.print(f"  costs are of the user's table {technology}: {source}", markup=False)
    if (about := summary["activity"]["about"]) and about.startswith("assumed"):
        text = power_by_method(about, simulated=summary["activity"]["simulated"])
        out.print(f"  {text}")
    elif about:
        out.print(f"  power is at the {about}")
    if summary["assumed_clock"]:
        out.print(
            f"  no speed of {summary['assumed_clock']:,} kept points is known: their figures per"
            " second are at the clock that was asked for", style="yellow",
        )  # fmt: skip
    for key, text in (("clock_within", _CLOCK_WITHIN), ("clock_missed", _CLOCK_MISSED)):
        if summary[key]:
            out.print("  " + text.format(points=summary[key], of=summary["pareto"]), style="yellow")
    for name, problem in summary["refused_configs"].items():
        click.echo(f"no {name}, although its costs are known: {problem}", err=True)
    if summary["refine"]:
        _report_refined(out, summary["refine"])
    for entry in summary["empty_groups"]:
        out.print(f"  {empty_group(entry)}", style="yellow", markup=False)
    grouped = any("group" in best for best in summary["best"])
    columns = (("group",) if grouped else ()) + ("best by", "figure", "point")
    table = new_table(*columns, left=("group", "best by", "point"))
    for best in summary["best"]:
        group = best.get("group", {})
        parameters = ", ".join(
            f"{name.split('.')[-1]} {value}"
            for name, value in best["parameters"].items()
            if name not in group
        )
        name = f"{'largest' if best['maximise'] else 'smallest'} {best['objective']}"
        origin = f"{best['config']}: {best['family']}" if best["config"] else best["family"]
        figure = best["figures"][best["objective"]]
        row = (name, f"{figure:.5g}", f"{origin}, {parameters}" if parameters else origin)
        table.add_row(*([", ".join(map(str, group.values()))] if grouped else []), *row)
    out.print(table)


_CLOCK_WITHIN = (
    "{points:,} of {of:,} points of the Pareto set meet their clock only within the ± of Fmax"
    " (`meets_clock` is `within ±`): synthesis may miss it"
)
_CLOCK_MISSED = (
    "{points:,} of {of:,} points of the Pareto set do not reach their clock"
    " (`meets_clock` is `no`): their figures per second are at Fmax"
)


def _report_refined(out: Console, refined: Mapping[str, Any]) -> None:
    if refined["samples"]:
        margins = ", ".join(f"{k} {100 * error:.1f} %" for k, error in refined["margins"].items())
        out.print(
            f"  ranked by fits to {refined['samples']:,} netlists, left-out points: {margins}"
        )
    out.print(f"  {refined['by_netlist']:,} of {refined['total']:,} candidates have a netlist")
    if text := candidates_left(refined):
        out.print(f"  {text}", style="yellow", markup=False)
    for metric, difference in refined["differences"].items():
        out.print(
            f"  fits of {metric}: off by {100 * difference['mean']:.1f} % on average,"
            f" {100 * difference['worst']:+.1f} % at worst"
        )
    for entry in refined["refused"]:
        click.echo(f"point {entry['index']} is refused: {entry['problem']}", err=True)


def _report_verified(out: Console, verified: Sequence[Mapping[str, Any]]) -> None:
    table = new_table("synthesized", "metric", "estimated", "measured", "error", left=("metric",))
    for entry in verified:
        if entry["problem"]:
            click.echo(f"{entry['config']}: {entry['problem']}", err=True)
        for metric, pair in entry["metrics"].items():
            estimated, measured = pair["estimated"], pair["measured"]
            comparable = estimated is not None and measured
            table.add_row(
                entry["config"],
                metric,
                "not known" if estimated is None else f"{estimated:.5g}",
                f"{measured:.5g}",
                f"{100 * (estimated / measured - 1):+.1f} %" if comparable else "",
            )
    out.print(table)
