# SPDX-License-Identifier: Apache-2.0
"""Run matrices of any size through the RTL in simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.common import (
    config_option,
    emit_json,
    example,
    file_option,
    force_option,
    json_option,
    path_option,
    refused_option,
)
from hwgen.cli.support.operands import load_operand
from hwgen.cli.support.outputs import check_file, npy_bytes, write_file
from hwgen.cli.support.run_operation import run
from hwgen.cli.support.run_post import post_processing, with_second_scales
from hwgen.reports.terminal import console, cycle_progress

if TYPE_CHECKING:
    from flows.simulation.run import Engine
    from hwgen.core.post import Columns, PostSettings


@click.command(
    epilog=example("hwgen run -c tour.yaml --activations a.npy --weights w.npy -o c.npy --check")
)
@config_option
@path_option(
    "--activations", "A.npy",
    "Activations of shape (M, K): integers, or floats for a core that takes them.",
)  # fmt: skip
@path_option(
    "--weights", "W.npy", "Weights of shape (K, N): integers, or floats for a core that takes them."
)
@click.option(
    "--operation",
    "name",
    metavar="NAME",
    help="What to compute, of an accelerator that offers more than products of matrices.",
)
@click.option(
    "--operand",
    "operands",
    metavar="NAME=FILE.npy",
    multiple=True,
    help="An operand of --operation; may be repeated.",
)
@click.option(
    "--set",
    "scalars",
    metavar="NAME=VALUE",
    multiple=True,
    help="A number that goes with --operation; may be repeated.",
)
@path_option(
    "--output", "C.npy",
    "Where to write the result, shape (M, N); other results go beside it, C.RESULT.npy.",
    required=True,
)  # fmt: skip
@click.option(
    "--driver",
    type=click.Choice(["fast", "cocotb"]),
    default="fast",
    show_default=True,
    help="What drives the simulation: compiled C++, or cocotb, with the same result in more time.",
)
@file_option(
    "--post",
    "Post-processing (YAML or JSON): output, activation, scale, bias, ...; default: raw.",
)
@refused_option("--engine", "is called --driver here; --engine chooses what computes a model")
@click.option("--check", is_flag=True, help="Compare with the golden model; exit 1 if it differs.")
@force_option
@json_option
def command(
    config: Path,
    activations: Path | None,
    weights: Path | None,
    name: str | None,
    operands: tuple[str, ...],
    scalars: tuple[str, ...],
    output: Path,
    driver: Engine,
    post: Path | None,
    check: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Run matrices of any size through the RTL in simulation.

    Floating-point activations may be of any type, but each must be a number that the core's format
    holds exactly.  Files have no type for bf16 and the 8-bit formats: float32 holds their numbers,
    and is what such results are written as.

    A core that takes a block format is given numbers, which are quantised by the format's rule.
    Second scales are no part of a core: post-processing multiplies by them, if it has an output of
    fp32, else the host does, in single precision.

    An operation that is no product of matrices takes its operands by name.
    """
    from flows.build.load import load_config
    from hwgen.core.operation import GEMM
    from hwgen.core.registry import core_of

    core = load_config(config)
    operation = core_of(core).select_operation(name)
    if operation.name != GEMM:
        for option, value in (("activations", activations), ("weights", weights), ("post", post)):
            if value is not None:
                raise click.UsageError(
                    f"--{option} is for products of matrices; {operation.name} takes"
                    f" {' '.join(f'--operand {t.name}=FILE.npy' for t in operation.operands)}"
                )
        if driver != "fast":
            raise click.UsageError(
                f"--driver cocotb runs products of matrices, not {operation.name}"
            )
        run(core, operation, operands, scalars, output, check=check, force=force, as_json=as_json)
        return
    if operands or scalars:
        raise click.UsageError(
            "--operand and --set are for operations that are no products of matrices; these take"
            " --activations and --weights"
        )
    for option, value in (("activations", activations), ("weights", weights)):
        if value is None:
            raise click.UsageError(f"Missing option '--{option}'.")
    assert activations is not None
    assert weights is not None
    _multiply(core, activations, weights, output, driver, post, check, force, as_json)


def _multiply(
    core: Any,
    activations: Path,
    weights: Path,
    output: Path,
    engine: Engine,
    post: Path | None,
    check: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Run a product of matrices."""
    import time

    from flows.build.design import Design
    from flows.simulation.run import check_results, run_product
    from hwgen.core.registry import core_of
    from hwgen.errors import InputError

    a, a_second = load_operand(activations, core.activation, weights=False)
    w, w_second = load_operand(weights, core.weight, weights=True)
    if a.shape[1] != w.shape[0]:
        raise InputError(
            f"{activations} has K = {a.shape[1]} columns but {weights} has K = {w.shape[0]} rows;"
            " C = A W needs the same K"
        )
    processing = post_processing(core, post, w.shape[1], a_second, w_second)
    check_file(output, force=force)
    start = time.monotonic()
    with cycle_progress(quiet=as_json) as update:
        result = run_product(Design.of(core), a, w, *processing, engine=engine, on_progress=update)
    seconds = time.monotonic() - start
    c = result.result.astype(_file_dtype(core, *processing))
    scaled = with_second_scales(c, a_second, w_second, processing)
    if check:
        golden = core_of(core).multiply(a, w, *processing)
        check_results(f"{output} is not written", result.results, {"result": golden})
    write_file(output, npy_bytes(scaled), force=force)
    m, k, n = (*a.shape, w.shape[1])
    utilisation = m * k * n / (core.macs_per_cycle * result.cycles)
    if as_json:
        emit_json(
            {
                "output": str(output),
                "m": m,
                "k": k,
                "n": n,
                "cycles": result.cycles,
                "model": result.model
                and {"cycles": result.model.number, **result.model.document()},
                "utilisation": utilisation,
                "checked": check,
                "wall_seconds": round(seconds, 3),
            }
        )
        return
    out = console()
    checked = ", equal to the golden model" if check else ""
    out.print(f"{output}: {m} x {n} from {m} x {k} x {n} on {core.name}{checked}")
    remark = ""
    if result.model:
        agrees = result.model.number == result.cycles
        remark = (
            ", as the cycle model says" if agrees else f" (the cycle model says {result.model})"
        )
    out.print(
        f"  {result.cycles} cycles{remark}, {100 * utilisation:.1f} % of the PEs' cycles used",
        soft_wrap=True,
    )


def _file_dtype(
    core: Any, settings: PostSettings | None = None, columns: Columns | None = None
) -> Any:
    """Return NumPy's type of results in files."""
    from hwgen.core.post import output_format

    fmt = core.result if settings is None else output_format(settings.output, core.result)
    return fmt.file_dtype
