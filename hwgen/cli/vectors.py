# SPDX-License-Identifier: Apache-2.0
"""Export stimuli and expected results of a core, with a testbench for any simulator."""

from __future__ import annotations

from pathlib import Path

import click

from hwgen.cli.support.common import (
    config_option,
    emit_json,
    example,
    file_option,
    force_option,
    headed,
    json_option,
    path_option,
)
from hwgen.cli.support.operands import read_operands
from hwgen.cli.support.outputs import atomic_directory, check_directory
from hwgen.cli.support.run_post import post_processing
from hwgen.reports.terminal import console


@click.command(epilog=example("hwgen vectors -c tour.yaml --gemm 8,16,8 -o vectors/tour"))
@config_option
@click.option(
    "--gemm", "gemms", metavar="M,K,N", multiple=True,
    help="A product of random matrices; may be repeated.",
)  # fmt: skip
@path_option("--activations", "A.npy", "Activations (M, K) of a product after those of --gemm.")
@path_option("--weights", "W.npy", "Its weights (K, N).")
@click.option(
    "--job", "jobs", metavar="NAME:SIZE=VALUE,...", multiple=True,
    help="An operation that is no product of matrices; may be repeated.",
)  # fmt: skip
@file_option("--post", "Post-processing (YAML or JSON) of the products; default: raw.")
@click.option(
    "--seed", metavar="N", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True,
    help="Of the operands.",
)  # fmt: skip
@path_option("--output", "DIR", "Directory to write into; default build/NAME-vectors.")
@force_option
@json_option
def command(
    config: Path,
    gemms: tuple[str, ...],
    activations: Path | None,
    weights: Path | None,
    jobs: tuple[str, ...],
    post: Path | None,
    seed: int,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Export stimuli and expected results of a core, with a testbench for any simulator.

    Each port has a file of hexadecimal beats, which $readmemh reads; an engine that works on
    memory has the memory before and after, and what its host does.  The testbench is plain
    Verilog, compares the results with those of the golden model, and prints PASS or FAIL.
    """
    from flows.build.load import load_design
    from flows.simulation.vectors.export import JobVectors, export_vectors
    from flows.simulation.vectors.memory_export import export_memory
    from hwgen.core.jobs import must_multiply, must_not_multiply, parse_job
    from hwgen.core.operation import gemm_operands
    from hwgen.workloads import parse_gemm

    if (activations is None) != (weights is None):
        raise click.UsageError("--activations and --weights belong together: give both.")
    if not gemms and not jobs and activations is None:
        raise click.UsageError(
            "Missing option '--gemm' or '--job', or --activations with --weights."
        )
    design = load_design(config)
    core = design.core
    planned = []
    if gemms or post:
        must_multiply(core.params, "--gemm" if gemms else "--post")
    for text in gemms:
        m, k, n = parse_gemm(text)
        settings, columns = post_processing(core.params, post, n) or (None, None)
        planned.append(JobVectors(core.gemm(m, k, n, settings), columns))
    for a, w in read_operands(core.params, activations, weights, None).values():
        m, k, n = (int(size) for size in (*a.shape, w.shape[1]))
        settings, columns = post_processing(core.params, post, n) or (None, None)
        job = core.gemm(m, k, n, settings)
        planned.append(JobVectors(job, columns, gemm_operands(a, w)))
    if jobs:
        must_not_multiply(core.params, "--job")
    planned += [JobVectors(parse_job(core, text)) for text in jobs]
    directory = output or Path("build") / f"{core.name}-vectors"
    check_directory(directory)
    export = export_memory if core.buses else export_vectors
    texts = export(design, planned, seed)
    with atomic_directory(directory, force=force) as staging:
        for name, text in texts.items():
            (staging / name).write_text(text, encoding="utf-8")
    if as_json:
        emit_json(
            {
                "name": core.name,
                "digest": core.digest,
                "directory": str(directory),
                "files": {name: len(text) for name, text in texts.items()},
            }
        )
        return
    out = console()
    out.print(headed(core.name, f" ({core.family_name()}) -> {directory}"))
    for name, text in texts.items():
        out.print(f"  {name:<24} {len(text) / 1024:8.1f} KiB")
    top = f"{core.name}_tb"
    out.print(
        f"next: cd {directory} && iverilog -g2005 -o {top} {top}.v {core.name}.v && vvp -n {top}",
        soft_wrap=True,
    )
