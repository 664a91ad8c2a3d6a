# SPDX-License-Identifier: Apache-2.0
"""``hwgen model estimate``: tokens or frames a second of a model on an accelerator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.common import (
    clock_option,
    config_option,
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
    from hwgen.core.params.base import FamilyConfig
    from hwgen.models.graph.description import Description
    from hwgen.workloads.network import Network


@click.command(
    "estimate",
    epilog=example(
        "hwgen model estimate austen-int8 -c configs/decoder_ternary/products.yaml --memory lpddr4x"
    ),
)
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@config_option
@click.option(
    "--prompt",
    "prompt",
    metavar="TOKENS",
    type=click.IntRange(1, 1 << 24),
    default=128,
    show_default=True,
    help="Tokens of a prompt, or of a pass of an encoder.",
)
@click.option(
    "--context",
    metavar="POSITIONS",
    type=click.IntRange(0, 1 << 24),
    help="Earlier positions of a decode step; default those of the prompt.",
)
@target_option(
    "Technology instead of the configuration's; several are compared in one table.",
    "targets",
    multiple=True,
)
@clock_option("Clock instead of the configuration's.")
@memory_options
@fpga_energies_option
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
    config: Path,
    prompt: int,
    context: int | None,
    targets: tuple[str, ...],
    clock_mhz: float | None,
    memory: str | None,
    gb_s: str | None,
    efficiency: str | None,
    fpga_energies: bool,
    report: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Estimate tokens or frames a second and joules of each, of a model's products on a core.

    Two passes are estimated: prefill computes the prompt, decode one token behind the context. The
    products of weights are the accelerator's, which has them in its own format; keys and values
    are moved; attention's products and operations on rows take no time here. Of a network that is
    no decoder a frame is estimated: all its products, those of activations with activations too.
    """
    from flows.build.build import Build, retarget
    from flows.build.load import load_design
    from hwgen.cli.model import estimate as shown
    from hwgen.models.files.store import Model
    from hwgen.models.graph.passes import speeds
    from hwgen.technologies import target_of

    for target in targets:
        target_of(target)  # refuses an unknown name
    if report is not None:
        shown.check_report(report, targets, force=force)
    elif force:
        raise click.UsageError("--force belongs to --report")
    description = Model(source).description
    design = load_design(config)
    core = design.params
    served = requested_memory(core, memory, gb_s, efficiency)
    workloads = _workloads(description, prompt, context, source, (config, core))
    builds = [
        Build(design, retarget(core.target, target, clock_mhz, served))
        for target in targets or (None,)
    ]
    with task_progress("estimating", quiet=as_json):
        entries = [
            build.estimate(workloads, fpga_energies=fpga_energies)
            for build in steps("technologies", builds)
        ]
    result = [speeds(entry["metrics"], workloads) for entry in entries]
    if report is not None:
        from hwgen.cli.report import sheet_of

        own = next(iter(targets), None)
        build = Build(design, retarget(core.target, own, clock_mhz, served))
        sheet = sheet_of(build, workloads, fpga_energies=fpga_energies)
        about = {"name": description.name, "passes": result[0]}
        shown.write_report(report, about, sheet, force=force)
    frame = next((network for network in workloads.values() if network.tokens is None), None)
    if as_json:
        layers = {} if frame is None else {"layers": shown.layers_document(frame)}
        documents = [
            {"model": description.name, "passes": passes, "estimate": entry, **layers}
            for passes, entry in zip(result, entries, strict=True)
        ]
        emit_json(documents[0] if len(documents) == 1 else {"targets": documents})
        return
    if frame is not None:
        weight: Any = core.weight
        shown.print_layers(frame, weight.width, core.activation.width)
    if len(entries) == 1:
        shown.print_speeds(description.name, result[0], entries[0])
    else:
        shown.print_targets(description.name, result, entries)


def _workloads(
    description: Description,
    prompt: int,
    context: int | None,
    source: Path,
    core: tuple[Path, FamilyConfig],
) -> dict[str, Network]:
    """Return the passes of a model, if an accelerator can compute their products."""
    from hwgen.core.jobs import must_multiply
    from hwgen.errors import InputError
    from hwgen.models.graph.passes import passes_of

    path, config = core
    must_multiply(config, "hwgen model estimate")
    workloads = passes_of(description, prompt, prompt if context is None else context)
    for network in workloads.values():
        if not network.products:
            raise InputError(f"{source}: the network has no products of matrices to estimate")
        longest = max(gemm.k for gemm in network)
        if config.max_k is not None and longest > config.max_k:
            raise InputError(
                f"{path}: max_k: must be {longest} or more for this model, not {config.max_k}"
            )
    return workloads
