# SPDX-License-Identifier: Apache-2.0
"""``hwgen model estimate``: tokens or frames a second of a model on an accelerator."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from hwgen.cli.support.activity import activity_option, requested_activity
from hwgen.cli.support.common import (
    at_once_option,
    clock_option,
    configs_option,
    emit_json,
    example,
    force_option,
    fpga_energies_option,
    json_option,
    memory_options,
    path_option,
    requested_memory,
    target_option,
    task_progress,
)
from hwgen.progress import steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flows.build.design import Design
    from hwgen.core.params.base import FamilyConfig
    from hwgen.models.files.store import Model
    from hwgen.models.graph.description import Description
    from hwgen.workloads.network import Network


def pass_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which passes of a decoder are estimated."""
    for decorator in (
        click.option(
            "--context",
            metavar="POSITIONS",
            type=click.IntRange(0, 1 << 24),
            help="Earlier positions of a decode step; default those of the prompt.",
        ),
        click.option(
            "--prompt",
            "prompt",
            metavar="TOKENS",
            type=click.IntRange(1, 1 << 24),
            default=128,
            show_default=True,
            help="Tokens of a prompt, or of a pass of an encoder.",
        ),
    ):
        command = decorator(command)
    return command


@click.command(
    "estimate",
    epilog=example(
        "hwgen model estimate austen-int8 -c configs/decoder_ternary/products.yaml --memory lpddr4x"
    ),
)
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@configs_option("Configuration file (YAML); `hwgen init FAMILY` writes one.", required=True)
@pass_options
@path_option(
    "--unit",
    "FILE",
    "Configuration of a unit beside the core, for operations that are no products; may be"
    " repeated.",
    "units",
    multiple=True,
)
@at_once_option
@target_option(
    "Technology instead of the configuration's; several are compared in one table.",
    "targets",
    multiple=True,
)
@clock_option("Clock instead of the configuration's.")
@memory_options
@fpga_energies_option
@activity_option("assumed|typical|worst", type=click.Choice(["assumed", "typical", "worst"]))
@path_option(
    "--report",
    "FILE",
    "Also a data sheet of the accelerator with the model, NAME.md or NAME.html: its passes,"
    " and their layers in pictures of the roofline.",
)
@force_option
@json_option
def estimate_command(
    source: Path,
    configs: tuple[Path, ...],
    prompt: int,
    context: int | None,
    units: tuple[Path, ...],
    at_once: int,
    targets: tuple[str, ...],
    clock_mhz: float | None,
    memory: str | None,
    gb_s: str | None,
    efficiency: str | None,
    fpga_energies: bool,
    activity: str,
    report: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Estimate tokens or frames a second and joules of each, of a model on an engine.

    Two passes are estimated: prefill computes the prompt, decode one token behind the context; of a
    network that is no decoder a frame. On an engine with all units (configs/decoder_engine) every
    operation is in the figures, attention and the output layer included, as the compiled list
    executes them; on an engine that multiplies in memory every job of the queue, without the host;
    on other cores every product, and with --unit all operations of the units. Each job has its
    constant cost. Several -c are compared in one table, a row each.
    """
    from flows.build.build import Build, retarget
    from hwgen.cli.model import estimate as shown
    from hwgen.models.files.store import Model
    from hwgen.technologies import target_of

    for target in targets:
        target_of(target)  # refuses an unknown name
    if report is not None:
        shown.check_report(report, configs, targets, force=force)
    elif force:
        raise click.UsageError("--force belongs to --report")
    model = Model(source)
    description = model.description
    conditions = Conditions(
        prompt, context, at_once, clock_mhz, (memory, gb_s, efficiency), fpga_energies, activity
    )
    with task_progress("estimating", quiet=as_json) as update:
        update("operations", 0, 0)
        pairs = load_pairs([(model, config, units) for config in configs], conditions)
        results = estimate_pairs(pairs, targets or (None,), conditions)
    first = results[0]
    if report is not None:
        from hwgen.cli.report import sheet_of

        core = first.core
        served = requested_memory(core.target, memory, gb_s, efficiency)
        own = next(iter(targets), None)
        build = Build(pairs[0].designs[0], retarget(core.target, own, clock_mhz, served))
        sheet = sheet_of(build, first.workloads, estimate=first.entry)  # with all operations
        about = {"name": description.name, "passes": first.passes}
        shown.write_report(report, about, sheet, force=force)
    frame = next((each for each in first.workloads.values() if each.tokens is None), None)
    if as_json:
        layers = {} if frame is None else {"layers": shown.layers_document(frame)}
        documents = [
            {"model": description.name, "config": str(each.config), "passes": each.passes,
             "missing": each.missing, "estimate": each.entry, **layers}
            for each in results
        ]  # fmt: skip
        several = "designs" if len(configs) > 1 else "targets"
        emit_json(documents[0] if len(documents) == 1 else {several: documents})
        return
    if frame is not None and len(configs) == 1:
        weight: Any = first.core.weight
        shown.print_layers(frame, weight.width, first.core.activation.width)
    if len(results) == 1:
        shown.print_speeds(description.name, first.passes, first.entry)
    else:
        passes_of_all, entries = [each.passes for each in results], [each.entry for each in results]
        names = [str(each.config) for each in results] if len(configs) > 1 else []
        included = ["products" if each.missing else "all" for each in results]
        shown.print_targets(description.name, passes_of_all, entries, included, names)


_COMPLETE = "all operations are in these figures"


class Conditions(NamedTuple):
    """Options of estimates: the passes, the clock, the memory, and the energies."""

    prompt: int
    context: int | None
    at_once: int
    clock_mhz: float | None
    memory: tuple[str | None, str | None, str | None]
    fpga_energies: bool
    activity: str


class Pair(NamedTuple):
    """A model, and the designs of an engine that take it."""

    model: Model
    config: Path
    designs: Sequence[Design]
    workloads: dict[str, Network]


class Result(NamedTuple):
    """Estimate of a model on a design, for a target."""

    config: Path
    core: FamilyConfig
    workloads: dict[str, Network]
    missing: str | None
    entry: dict[str, Any]
    passes: dict[str, dict[str, Any]]


def estimate_pairs(
    pairs: Sequence[Pair], targets: Sequence[str | None], conditions: Conditions
) -> list[Result]:
    """Return the passes of each pair, by each target; None is the configuration's own."""
    from flows.build.build import retarget
    from flows.build.engine_estimate import engine_estimate
    from hwgen.cli.model.estimate import NOT_INCLUDED
    from hwgen.models.compile.engine_passes import engine_passes
    from hwgen.models.graph.passes import speeds
    from hwgen.models.run.group_weights import difference

    timed = []
    for pair in steps("operations", pairs):
        parts = [each.params for each in pair.designs]
        with _named(pair.config):
            timed.append(engine_passes(pair.model, parts, pair.workloads, conditions.at_once))
    result = []
    chosen = [(*each, aim) for each in zip(pairs, timed, strict=True) for aim in targets]
    for pair, timings, aim in steps("estimates", chosen):
        core, missing = pair.designs[0].params, next(iter(timings.values())).missing
        note = f"{NOT_INCLUDED}{missing}" if missing else _COMPLETE
        served = requested_memory(core.target, *conditions.memory)
        entry = engine_estimate(
            pair.designs, retarget(core.target, aim, conditions.clock_mhz, served),
            pair.workloads, timings, fpga_energies=conditions.fpga_energies,
            activity=lambda build: requested_activity(build, conditions.activity),
        )  # fmt: skip
        differs = filter(None, [difference(pair.model, core)])
        entry["notes"] = [note, *differs, *entry["notes"]]
        passes = speeds(entry, pair.workloads)
        result.append(Result(pair.config, core, pair.workloads, missing, entry, passes))
    return result


@contextmanager
def _named(config: Path) -> Iterator[None]:
    """Begin the message of a refusal with the path of the configuration that is refused."""
    from hwgen.errors import InputError

    try:
        yield
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(str(config)) else f"{config}: {text}") from None


def load_pairs(
    pairs: Sequence[tuple[Model, Path, Sequence[Path]]], conditions: Conditions
) -> list[Pair]:
    """Return models with the designs of their engines, if every engine takes its model.

    Parameters
    ----------
    pairs : sequence of tuple
        Of each: the model, the configuration of the core, and those of units beside it.
    conditions : Conditions

    Raises
    ------
    InputError
        A line for each engine that does not.
    """
    from flows.build.load import load_design
    from hwgen.errors import InputError
    from hwgen.models.compile.engine_passes import check_engine

    engines = [[load_design(path) for path in (config, *units)] for _, config, units in pairs]
    result, refusals = [], []
    for (model, config, _), designs in zip(pairs, engines, strict=True):
        parts = [each.params for each in designs]
        length, context = conditions.prompt, conditions.context
        try:
            with _named(config):
                passes = _workloads(model.description, length, context, model.path, parts[0])
                check_engine(model, parts, passes)
                result.append(Pair(model, config, designs, passes))
        except InputError as error:
            refusals.append(str(error))
    if refusals:
        raise InputError("\n".join(refusals))
    return result


def _workloads(
    description: Description,
    prompt: int,
    context: int | None,
    source: Path,
    config: FamilyConfig,
) -> dict[str, Network]:
    """Return the passes of a model, if an accelerator can compute their products."""
    from hwgen.core.jobs import must_multiply
    from hwgen.errors import InputError
    from hwgen.models.graph.passes import passes_of

    must_multiply(config, "hwgen model estimate")
    workloads = passes_of(description, prompt, prompt if context is None else context)
    for network in workloads.values():
        if not network.products:
            raise InputError(f"{source}: the network has no products of matrices to estimate")
        longest = max(gemm.k for gemm in network)
        if config.max_k is not None and longest > config.max_k:
            raise InputError(f"max_k: must be {longest} or more for this model, not {config.max_k}")
    return workloads
