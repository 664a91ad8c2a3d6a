# SPDX-License-Identifier: Apache-2.0
"""Search for engines that execute a model, by goals and limits."""

from __future__ import annotations

import json
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
from hwgen.cli.support.outputs import (
    MARKER,
    atomic_directory,
    check_directory,
    claim_entry,
    write_file,
)
from hwgen.cli.support.searching import searching
from hwgen.cli.support.systems import find_systems, metrics_of_systems, system_request
from hwgen.reports.roofline import number
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flows.search.goals import Goal
    from flows.search.result import Listed, Result
    from hwgen.core.params.target import Target


@click.command(
    epilog=example(
        "hwgen search austen-int8 --goal 'tokens_per_s>=500' --max area_mm2=2 --target nangate45"
        " -o engines"
    )
)
@click.argument(
    "models", metavar="DIR|WORKLOAD...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
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
@click.option(
    "--accuracy",
    "accuracies",
    metavar="CONDITION",
    multiple=True,
    help="How near a quantised model must be to the one before, as `hwgen model quantise"
    " --evaluate` measured it: kl<=NUMBER in nats, top1>=NUMBER; may be repeated.",
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
    "--scenario",
    "scenarios",
    metavar="NAME: KEY=VALUE, ...",
    multiple=True,
    help="A use that every engine is to serve, with its own context, memory, gb-s, efficiency or"
    " weight, such as 'chat: context=256, weight=0.7'; may be repeated. Speed and joules are then"
    " those of the worst one.",
)
@click.option(
    "--port",
    "ports",
    metavar="BITS",
    multiple=True,
    type=click.Choice(["32", "64", "128", "256"]),
    help="Width of the memory port to try, instead of all; may be repeated.",
)
@click.option(
    "--weights",
    "weights",
    metavar="FORMAT",
    multiple=True,
    help="Of two workloads: the format of weights of each in their order, or of both: int8, int4,"
    " ternary; default int8.",
)
@click.option(
    "--cores",
    "cores",
    metavar="N",
    multiple=True,
    type=click.Choice(["1", "2"]),
    help="Of two workloads: how many cores a system has, instead of whichever is better.",
)
@click.option(
    "--nodes", is_flag=True, help="Also estimate the best engine at all nodes of standard cells."
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
@click.option(
    "--apply",
    "apply",
    metavar="N",
    type=click.IntRange(1, 100),
    help="Also build engine N of the short list, simulate a layer, and synthesize: measurements"
    " beside estimates.",
)
@path_option("--output", "DIR", "Directory for results; default build/NAME-search.")
@jobs_option("Processes")
@click.option("--resume", is_flag=True, help="Continue an interrupted search.")
@force_option
@json_option
def command(
    models: tuple[Path, ...],
    goals: tuple[str, ...],
    limits: tuple[str, ...],
    accuracies: tuple[str, ...],
    target: str,
    clock: str,
    memory: str | None,
    gb_s: str | None,
    efficiency: str | None,
    context: int,
    scenarios: tuple[str, ...],
    ports: tuple[str, ...],
    weights: tuple[str, ...],
    cores: tuple[str, ...],
    nodes: bool,
    count: int,
    apply: int | None,
    output: Path | None,
    jobs: int | None,
    resume: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Search for engines that execute a quantised decoder, by goals and limits.

    Of a workload, or of a model that is no decoder, it searches for cores that multiply its
    products; of two workloads, for an engine that computes both at once, with one core or two
    behind one memory port.

    An engine has all units of configs/decoder_engine. Every combination of sizes of its units is
    ranked by tables of their cycles and costs; the best have a complete estimate, and a directory
    each with engine.yaml, which `hwgen build` and `hwgen model compile` take. Where a goal of speed
    is stated, the smallest engine that meets it is the best, else the fastest within the limits. If
    none meets all, the exit status is 1, and the nearest is named. Several models, one model in
    several formats, compete: the short list is of all of them.
    """
    from flows.build.build import retarget
    from flows.search.accuracy import accurate_models
    from flows.search.goals import METRICS, parse_accuracy, parse_goals
    from flows.search.journal import FILE
    from flows.search.output import write_result
    from flows.search.result import Request
    from flows.search.scenarios import parse_scenarios
    from flows.search.search import at_nodes, merged, search_all
    from flows.search.space import needs_of
    from hwgen.core.params.target import Target
    from hwgen.errors import CheckFailed
    from hwgen.models.files.store import Model

    of_workloads = _is_workload(models)
    several = of_workloads and len(models) > 1
    conditions = parse_goals(goals, limits, metrics_of_systems() if several else METRICS)
    if not conditions:
        raise click.UsageError("nothing is asked for: state a --goal, or a limit by --max")
    if apply is not None and apply > count:
        raise click.UsageError(f"--apply: must be {count} or less, the --limit, not {apply}")
    served = requested_memory(Target(), memory, gb_s, efficiency)
    aim = retarget(Target(), target, _megahertz(clock), served)
    directory = output or Path("build") / f"{_name(models[0])}-search"
    check_directory(directory)
    if (weights or cores) and not several:
        raise click.UsageError("--weights and --cores belong to two workloads")
    if several:
        if accuracies or scenarios or nodes:
            raise click.UsageError("--accuracy, --scenario and --nodes belong to decoders")
        request = system_request(models, weights, conditions, aim, _megahertz(clock), cores, ports,
                                 count)  # fmt: skip
        journal = _journal(directory, resume=resume, force=force)
        find_systems(request, directory, journal, apply, jobs, force=force, as_json=as_json)
        return
    if of_workloads:
        if accuracies or apply is not None or scenarios or nodes or ports:
            raise click.UsageError(
                "--accuracy, --apply, --scenario, --port and --nodes belong to decoders"
            )
        document = _cores(models[0], conditions, aim, _megahertz(clock), count, directory,
                          jobs, resume=resume, force=force, quiet=as_json)  # fmt: skip
        if as_json:
            emit_json({"met": True, **document, "directory": str(directory)})
        else:
            _report_cores(document, directory)
        return
    uses = parse_scenarios(
        scenarios, context, lambda *each: requested_memory(Target(), *each),
        (memory, gb_s, efficiency),
    )  # fmt: skip
    for model in models:
        needs_of(
            Model(model), max(each.context for each in uses)
        )  # refuses a model before anything is written
    accurate, excluded = accurate_models(models, parse_accuracy(accuracies))
    if not accurate:
        lines = [f"  {entry['model']}: {entry['reason']}" for entry in excluded]
        raise CheckFailed("\n".join(["no model is accurate enough", *lines]))
    requests = [
        Request(
            model,
            tuple(conditions),
            aim,
            _megahertz(clock),
            uses,
            count,
            tuple(sorted(map(int, set(ports)))),
        )
        for model in accurate
    ]
    journal = _journal(directory, resume=resume, force=force)
    with searching(
        directory, journal, jobs, as_json=as_json,
        interrupted=lambda: _provisional(directory, journal.ranking),
    ) as executor:  # fmt: skip
        results, unmet = search_all(requests, executor, journal)
        excluded += [{"model": error.document["model"], "reason": str(error)} for error in unmet]
        estimates = at_nodes(results, executor, journal) if nodes else {}
        with atomic_directory(directory, force=force) as staging:
            document = write_result(staging, results, excluded, estimates)
            shutil.copy(journal.path, staging / FILE)  # for --resume with other goals
    if not as_json:
        _report(document, directory)
    applied = {}
    if apply is not None:
        applied = {"applied": _apply(directory, merged(results), apply, quiet=as_json)}
    if as_json:
        emit_json({"met": True, **document, **applied, "directory": str(directory)})


def _provisional(directory: Path, ranking: Any) -> str:
    """Write the engines that are the best so far; say where, or why there are none."""
    from flows.search.provisional import FOLDER, Ranking, write_provisional

    if ranking is None:
        return "nothing was ranked yet"
    claim_entry(directory, FOLDER, force=True)  # the finished list replaces it
    files = write_provisional(directory, Ranking(*ranking))
    if not files:
        return "no engine that was ranked so far meets all goals"
    return f"provisional list, by tables: {', '.join(files)}"


def _name(model: Path) -> str:
    """Return a name of a model for files."""
    return re.sub(r"[^\w.-]+", "-", model.resolve().name) or "model"


def _is_workload(models: Sequence[Path]) -> bool:
    """Return whether a search is for cores: of workloads, or of models that are no decoders."""
    from hwgen.errors import InputError
    from hwgen.models.files.store import Model
    from hwgen.workloads import workload_path

    others = [
        model for model in models
        if workload_path(str(model)) is not None
        or (model.is_dir() and not Model(model).description.decodes)
    ]  # fmt: skip
    if others and len(others) < len(models):
        raise InputError(
            f"{others[0]} is no decoder; decoders and workloads are not searched for together"
        )
    if len(others) > 2:
        raise InputError(f"{len(others)} workloads: one, or two at once, are searched for")
    return bool(others)


def _cores(
    model: Path,
    goals: Sequence[Goal],
    target: Target,
    clock_mhz: float | None,
    count: int,
    directory: Path,
    jobs: int | None,
    *,
    resume: bool,
    force: bool,
    quiet: bool,
) -> dict[str, Any]:
    """Search for cores, and write the short list."""
    from flows.search.cores import search_cores, sweep_document
    from flows.tools.executors import LocalProcesses
    from flows.tools.parallel import processors
    from hwgen.errors import HwgenError
    from hwgen.models.workload import load_network

    _, network = load_network(str(model))
    if model.is_dir():
        workload: Any = {"model": str(model.resolve()), "prompt": network.tokens or 1}
    else:
        workload = str(model.resolve()) if model.is_file() else str(model)
    file = sweep_document(workload, network, goals, target, clock_mhz, count)
    journal = claim_entry(directory, "journal", force=force)
    if journal.exists() and not resume:
        shutil.rmtree(journal)
    try:
        with (
            task_progress("searching", quiet=quiet) as update,
            LocalProcesses(jobs or processors()) as executor,
        ):
            return search_cores(
                file, count, executor, journal,
                lambda: atomic_directory(directory, force=force), update,
            )  # fmt: skip
    except HwgenError:
        shutil.rmtree(journal, ignore_errors=True)
        if [entry.name for entry in directory.iterdir()] == [MARKER]:
            shutil.rmtree(directory)
        raise


def _report_cores(document: dict[str, Any], directory: Path) -> None:
    """Print the short list of cores."""
    out = console()
    removed = document["removed"]
    out.print(f"{document['evaluated']:,} cores evaluated, {document['feasible']:,} meet all"
              f" -> {directory}")  # fmt: skip
    for entry in removed["specs"]:
        if entry["points"]:
            out.print(f"  {entry['points']:,} miss {entry['spec']}")
    if removed["illegal"]:
        out.print(f"  {removed['illegal']:,} break a rule of their family")
    out.print("  every point of the space was ranked; the page report.html has those that nothing"
              " beats")  # fmt: skip
    table = new_table("best by", "value", "core", left=("core",))
    for best in document["best"]:
        shown = ", ".join(f"{name.split('.')[-1]} {v}" for name, v in best["parameters"].items())
        table.add_row(
            best["objective"], number(best["figures"][best["objective"]]),
            f"{best['family']}, {shown}",
        )  # fmt: skip
    out.print(table)
    out.print(f"short list: {', '.join(str(directory / core) for core in document['cores'])}",
              soft_wrap=True)  # fmt: skip


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


def _journal(directory: Path, *, resume: bool, force: bool) -> Any:
    """Return the journal of a search, empty unless the search is to be continued."""
    from flows.search.journal import FILE, SearchJournal
    from flows.search.output import RESULT
    from hwgen.errors import InputError

    path = claim_entry(directory, FILE, force=force)
    if path.exists() and not resume:
        if not force and not (directory / RESULT).exists():
            raise InputError(
                f"{directory} holds an unfinished search; continue it with --resume, or start anew"
                " with --force"
            )
        path.unlink()
    return SearchJournal(path)


def _apply(
    directory: Path, engines: Sequence[tuple[Result, Listed]], number: int, *, quiet: bool
) -> dict[str, Any]:
    """Build, simulate and synthesize an engine of the short list; return and print the results."""
    from flows.search.apply import apply_engine
    from hwgen.models.files.store import Model

    if number > len(engines):
        raise click.UsageError(f"--apply: the short list has {len(engines)} engines, not {number}")
    result, engine = engines[number - 1]
    model = result.request.model
    config = engine.config(f"engine_{number}")
    folder = directory / str(number)

    def write(files: dict[str, str]) -> None:
        with atomic_directory(folder / "build") as staging:
            for name, text in files.items():
                (staging / name).write_text(text, encoding="utf-8")

    def save(applied: dict[str, Any]) -> None:
        text = json.dumps(applied, indent=1) + "\n"
        write_file(folder / "applied.json", text, force=True)

    with task_progress("applying", quiet=quiet):
        applied = apply_engine(Model(model), config, write, save)
    save(applied)
    if not quiet:
        _report_applied(applied, folder)
    return applied


def _report_applied(applied: dict[str, Any], folder: Path) -> None:
    """Print the simulation, and measurements beside estimates."""
    out = console()
    simulated = applied["simulated"]
    out.print(
        f"{folder}: a layer simulated, {simulated['compared']:,} bytes of memory equal to the"
        f" golden model; {simulated['cycles']:,} cycles, {simulated['modelled']:,} modelled"
        f" ({100 * (simulated['modelled'] / simulated['cycles'] - 1):+.1f} %)",
        soft_wrap=True,
    )
    if applied["problem"]:
        out.print(f"  not synthesized: {applied['problem']}", soft_wrap=True)
    table = new_table("synthesized", "metric", "estimated", "measured", "difference", "±",
                      left=("metric",))  # fmt: skip
    every = {name: unit["metrics"] for name, unit in applied["units"].items()}
    for name, metrics in (every | {"all units": applied["synthesized"]}).items():
        for metric, row in metrics.items():
            if row["difference"] is not None:
                table.add_row(
                    name, metric, number(row["estimated"]), number(row["measured"]),
                    *("-" if row[key] is None else f"{100 * row[key]:{sign}.1f} %"
                      for key, sign in (("difference", "+"), ("uncertainty", ""))),
                )  # fmt: skip
    out.print(table)


def _report(document: dict[str, Any], directory: Path) -> None:
    """Print the short list."""
    out = console()
    for each in document["models"]:
        _report_model(each, document["goals"], directory)
    for entry in document["excluded"]:
        first, *_ = entry["reason"].splitlines()
        out.print(f"{entry['model']}: left out: {first}", soft_wrap=True)
    engines = document["engines"]
    headings = {
        "tokens_per_s": "tokens/s", "j_per_token": "J/token", "clock_mhz": "MHz",
        "area_mm2": "mm²", "power_w": "W", "luts": "LUTs", "dsps": "DSPs", "brams": "BRAMs",
    }  # fmt: skip
    stated = [
        name for name in headings if any(each["metrics"][name] is not None for each in engines)
    ]
    several = len(document["models"]) > 1
    of_models = ("model",) if several else ()
    names = (*of_models, *(headings[name] for name in stated), "sizes")
    table = new_table("engine", *names, left=("model", "sizes"))
    for each in engines:
        table.add_row(
            each["engine"], *((Path(each["model"]).name,) if several else ()),
            *(number(each["metrics"][name]) for name in stated),
            _sizes(each["parameters"]),
        )  # fmt: skip
    out.print(table)
    for line in engines[0]["limits"]:
        out.print(f"  {line}", soft_wrap=True)
    if len(document["scenarios"]) > 1:
        _report_scenarios(document, out)
    first = directory / engines[0]["engine"]
    out.print(f"next: hwgen model compile {engines[0]['model']} -c {first} -o compiled",
              soft_wrap=True)  # fmt: skip


def _report_scenarios(document: dict[str, Any], out: Any) -> None:
    """Print tokens a second of the short list in each scenario."""
    names = [each["name"] for each in document["scenarios"]]
    table = new_table("tokens/s", *names, "mean ms")
    for each in document["engines"]:
        speeds = (number(each["by_scenario"][name]["tokens_per_s"]) for name in names)
        table.add_row(each["engine"], *speeds, number(each["metrics"]["mean_ms_per_token"]))
    out.print(table)


def _report_model(each: dict[str, Any], goals: Sequence[str], directory: Path) -> None:
    """Print how many engines of a model meet the goals, and why the others do not."""
    out = console()
    accuracy = "".join(f", {name} {value:.4g}" for name, value in each["accuracy"].items())
    out.print(f"{each['model']}{accuracy}: {', '.join(goals)} -> {directory}", soft_wrap=True)
    out.print(f"  {each['points']:,} engines ranked, {each['feasible']:,} meet all")
    for entry in each["rejected"]:
        out.print(f"  {entry['points']:,} {entry['reason']}")
    for entry in each["illegal"]:
        out.print(f"  {entry['options']:,} options of units break a rule: {entry['reason']}")
    if each["unusable"]:
        first = each["unusable"][0]
        out.print(
            f"  {len(each['unusable']):,} options of units cannot execute the model, such as"
            f" {first['option']}: {first['reason']}",
            soft_wrap=True,
        )
    out.print(f"  {each['guarantee']}", soft_wrap=True)


def _sizes(parameters: dict[str, Any]) -> str:
    """Return options in a few words: of each unit its sizes."""
    units: dict[str, list[str]] = {}
    for name, value in parameters.items():
        unit, _, short = name.partition(".")
        units.setdefault(unit, []).append(
            f"{short} {value}" if unit.startswith("products") else f"{value}"
        )
    return "; ".join(
        f"{unit} {' x '.join(values) if not unit.startswith('products') else ', '.join(values)}"
        for unit, values in units.items()
    )
