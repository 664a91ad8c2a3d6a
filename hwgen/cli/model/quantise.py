# SPDX-License-Identifier: Apache-2.0
"""``hwgen model quantise``: a model in integers, and the distance of its predictions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from hwgen.cli.support.common import (
    emit_json,
    example,
    force_option,
    json_option,
    new_table,
    path_option,
    refused_option,
    task_progress,
)
from hwgen.cli.support.outputs import atomic_directory, check_directory
from hwgen.progress import steps
from hwgen.reports.terminal import console, duration_text

POSITIONS = 512
"""Tokens of a text that predictions are compared on, if nothing else is said."""

_LONG = 20.0  # seconds of a quantisation that are announced


class _Weights(click.Choice[str]):
    """Formats of weights; an earlier name is refused with the new one."""

    def convert(self, value: str, param: Any, ctx: Any) -> str:
        if value == "kept":
            self.fail("'kept' is called 'original'", param, ctx)
        return super().convert(value, param, ctx)


def _check_activation_bits(ctx: Any, param: Any, value: int) -> int:
    """Refuse activations that no unit computes with, before anything is read."""
    if value not in (4, 8):
        raise click.BadParameter(
            f"must be 4 or 8, not {value}: units quantise rows to int4, int8, or MXFP8"
            " (--activations mxfp8), and multiply these by weights of 8, 4 or 2 bits",
            ctx,
            param,
        )
    return value


@click.command(
    "quantise",
    epilog=example(
        "hwgen model quantise austen --calibration configs/models/emma.txt -o austen-int8"
    ),
)
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@path_option("--output", "DIR", "Directory to write the quantised model into.", required=True)
@path_option(
    "--calibration",
    "FILE",
    "Text, or tokens (.npy), that shows how large activations are; 2,048 tokens of each are"
    " read; may be repeated, up to 8,192 tokens. Of a network that is no decoder an input (.npy, or"
    " .npz by name) that errors are measured with.",
    required=True,
    multiple=True,
)
@click.option(
    "--weights",
    type=_Weights(["int8", "int4", "mxfp4", "nvfp4", "ternary", "original"]),
    default="int8",
    show_default=True,
    help="Weights of products; original: integers as the file has them, others int8.",
)
@click.option(
    "--group",
    type=click.Choice(["32", "64", "128"]),
    help="Elements along K that share a scale, instead of an output channel's; of mxfp4 32, of"
    " nvfp4 16.",
)
@click.option(
    "--product",
    "products",
    metavar="PATTERN=FORMAT",
    multiple=True,
    help="Format of the weights of some products, by a pattern of their names such as"
    " 'layers.*.down=int8'; may be repeated, the last one that matches holds. `hwgen model mix`"
    " finds them.",
)
@click.option(
    "--activation-bits",
    metavar="BITS",
    type=int,
    default=8,
    show_default=True,
    callback=_check_activation_bits,
    help="Bits of activations, each row with its own scale: 8, or 4 (engine"
    " configs/decoder_w4/int4.yaml).",
)
@click.option(
    "--activations",
    type=click.Choice(["int8", "mxfp8"]),
    default="int8",
    show_default=True,
    help="Format of rows before products: int8 with a scale a row, or MXFP8 (E4M3 in blocks of 32"
    " with powers of two), with weights in groups of 32.",
)
@click.option(
    "--kv-format",
    type=click.Choice(["integers", "mxfp8", "mxfp4"]),
    default="integers",
    show_default=True,
    help="Format of keys and values: int8 with a scale a token and head, or blocks of 32 elements"
    " with a power of two: 8.25 bits an element, or 4.25 (engines configs/decoder_w4/kv_mxfp8.yaml"
    " and kv_mxfp4.yaml).",
)
@click.option("--no-smooth", is_flag=True, help="Leave channels of activations as they are. By"
              " default large ones are divided by a factor, and their weights multiplied by it (as"
              " SmoothQuant does).")  # fmt: skip
@click.option(
    "--rotate/--no-rotate",
    default=None,
    help="Multiply what stands between layers by an orthogonal matrix, and weights by its inverse,"
    " so that no channel is much larger than the others (as QuaRot does); default with int8, int4,"
    " mxfp4 and nvfp4.",
)
@click.option(
    "--compensate/--no-compensate",
    default=None,
    help="Round weights one after the other along K, and change those behind so that results in"
    " calibration change least (as GPTQ does); default with int8, int4, mxfp4 and nvfp4.",
)
@click.option(
    "--hadamard",
    type=click.Choice(["2", "4", "8", "16", "32", "64"]),
    help="Elements of blocks that hardware turns by a Hadamard matrix before it quantises them"
    " (`hadamard_quantise`); int8 is then nearest to the model. Default: hardware turns nothing.",
)
@path_option(
    "--evaluate",
    "FILE",
    "Text, or tokens (.npy), to compare predictions with those of the model on, in single"
    " precision: where both find the same token the most likely (top-1), and the mean"
    " Kullback-Leibler divergence from the model, KL(model || quantised), in nats; may be"
    " repeated.",
    "evaluated",
    multiple=True,
)
@refused_option("--judge", "is called --evaluate")
@click.option(
    "--positions",
    metavar="TOKENS",
    type=click.IntRange(2, 1 << 20),
    help="Tokens of that text; default 512, or the positions of the model's context if fewer.",
)
@force_option
@json_option
def quantise_command(
    source: Path,
    output: Path,
    calibration: tuple[Path, ...],
    weights: str,
    group: str | None,
    products: tuple[str, ...],
    activation_bits: int,
    activations: str,
    kv_format: str,
    no_smooth: bool,
    rotate: bool | None,
    compensate: bool | None,
    hadamard: str | None,
    evaluated: tuple[Path, ...],
    positions: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Turn weights and activations of a model into integers, keys and values of a decoder too.

    Activations have a scale for each token or row, keys and values one for each token and head,
    or for each block.
    For every product it reports the error of results in calibration, the share of weights at the
    largest or smallest integer (saturated), and in how many layers channels of its input were
    smoothed.
    """
    from hwgen.cli.model.arrays import calibrated
    from hwgen.models.files.store import Model
    from hwgen.models.quantise.evaluation import compare_predictions
    from hwgen.models.quantise.quantise import quantise
    from hwgen.models.quantise.recipe import Recipe
    from hwgen.models.quantise.record import file_digests, quantisation_record, write_record
    from hwgen.models.run.float_engine import FloatEngine
    from hwgen.models.run.shipped import engines_for, engines_named

    if positions is not None and not evaluated:
        raise click.UsageError("--positions: belongs to --evaluate FILE, which is not there")
    check_directory(output)
    model = Model(source)
    before = file_digests(source)
    recipe = Recipe(
        weights,  # type: ignore[arg-type]  # of the option's choices
        int(group) if group else None,
        not no_smooth,
        activation_bits,
        rotate=rotate,
        compensate=compensate,
        activations=activations,  # type: ignore[arg-type]  # likewise
        hadamard=int(hadamard or 0),
        kv_format=kv_format,  # type: ignore[arg-type]  # likewise
        products=tuple(map(_pattern, products)),
    )
    if not model.description.decodes:
        _refuse_of_decoders(calibration, evaluated, rotate or hadamard, compensate, products)
        with (
            atomic_directory(output, force=force) as directory,
            task_progress("quantising", quiet=as_json),
        ):
            reports = calibrated(model, directory, calibration[0], recipe)
        result = {}
    else:
        if weights != "original" and _is_ternary(model):
            note = "note: the weights of this model are ternary; --weights original leaves them so"
            click.echo(note, err=True)
        first, *more = [text_tokens(model, path) for path in calibration]
        texts = evaluated_texts(model, evaluated, positions)
        if not as_json:
            _print_estimate(model, [len(tokens) for tokens in (first, *more)], recipe)
        with (
            atomic_directory(output, force=force) as directory,
            task_progress("quantising", quiet=as_json),
        ):
            reports = quantise(model, directory, first, recipe, more)
        engines = FloatEngine(model), FloatEngine(Model(output))
        with task_progress("evaluating", quiet=as_json):
            result = {
                name: compare_predictions(*engines, tokens)
                for name, tokens in steps("texts", texts.items())
            }
    layers = [report.document() for report in reports]
    record = quantisation_record(
        model.description.name, before, recipe, calibration, layers, result
    )
    write_record(output, record)
    quantised = Model(output)
    if as_json:
        evaluations = {name: each.document() for name, each in result.items()}
        emit_json({
            "output": str(output), "layers": layers, "evaluations": evaluations,
            "engines": engines_for(quantised),
        })  # fmt: skip
        return
    _print_quantised(output, reports, result)
    if executing := engines_named(quantised):
        console().print(f"runs on: {', '.join(executing)}", highlight=False, soft_wrap=True)


def _pattern(text: str) -> tuple[str, str]:
    """Return the pattern and the format that ``--product`` states."""
    pattern, sign, weights = text.rpartition("=")
    if not (pattern and sign):
        raise click.UsageError(f"--product: must be PATTERN=FORMAT, not {text[:80]!r}")
    return pattern, weights


def _is_ternary(model: Any) -> bool:
    """Return whether the weights of a model's first product are -1, 0 and 1."""
    product = next((node for node in model.description.nodes if node.operation == "gemm"), None)
    groups = None if product is None else model.groups(product.inputs["weights"])
    if groups is None or groups.offsets is not None:
        return False
    return bool(groups.values.min() >= -1 and groups.values.max() <= 1)


def _print_estimate(model: Any, texts: list[int], recipe: Any) -> None:
    """Print on stderr what takes how long on this machine, if it is long, and what shortens it."""
    from hwgen.models.quantise.duration import estimated_steps

    found = estimated_steps(model.description, texts, recipe)
    total = sum(step.seconds for step in found)
    if total < _LONG:
        return
    out = console(stderr=True)
    out.print(f"quantising takes about {duration_text(total)} on this machine:")
    for step in sorted(found, key=lambda each: -each.seconds):
        out.print(f"  {step.name}, {duration_text(step.seconds)}: less with {step.option}")


def _refuse_of_decoders(
    calibration: tuple[Path, ...],
    evaluated: tuple[Path, ...],
    rotates: bool | str | None,
    compensate: bool | None,
    products: tuple[str, ...],
) -> None:
    """Refuse what only decoders have."""
    if products:
        raise click.UsageError("--product belongs to decoders, which this is not")
    if evaluated:
        raise click.UsageError("--evaluate compares predictions of a decoder, which this is not")
    if rotates or compensate:
        raise click.UsageError(
            "--rotate, --hadamard and --compensate belong to decoders, which this is not"
        )
    if len(calibration) > 1:
        raise click.UsageError("--calibration: one file with inputs, of a network on arrays")


def evaluated_texts(
    model: Any, paths: tuple[Path, ...], positions: int | None
) -> dict[str, list[int]]:
    """Return the tokens to compare predictions on, by file.

    Raises
    ------
    InputError
        If more are asked for than the context of the model has positions.
    """
    from hwgen.errors import InputError

    context = model.description.context or POSITIONS
    most = min(POSITIONS, context) if positions is None else positions
    result = {str(path): text_tokens(model, path)[:most] for path in paths}
    for name, tokens in result.items():
        if len(tokens) > context:
            raise InputError(
                f"{name}: {len(tokens)} tokens do not fit in the context of {context}; use"
                f" --positions {context} or fewer"
            )
    return result


def text_tokens(model: Any, path: Path) -> list[int]:
    """Return the tokens of a file: numbers, or a text."""
    from hwgen.core.files.arrays import check_regular
    from hwgen.errors import InputError
    from hwgen.models.files.tokenizer_json import tokenizer_of

    check_regular(path, "texts")
    if path.suffix == ".npy":
        from hwgen.cli.model.run import token_numbers

        result = token_numbers(path)
    else:
        with path.open("rb") as file:
            text = file.read(1 << 20).decode("utf-8", "surrogateescape")
        result = tokenizer_of(model.tokenizer()).encode(text, special=False)
    if len(result) < 2:
        raise InputError(f"{path}: holds {len(result)} tokens; two are needed at least")
    return result


def _print_quantised(output: Path, reports: Any, evaluations: dict[str, Any]) -> None:
    """Print the error of each product, the worst of a kind, and how near predictions are."""
    from hwgen.cli.model.estimate import shortened

    out = console()
    kinds: dict[str, list[Any]] = {}
    for report in reports:
        kinds.setdefault(re.split("[./]", report.name)[-1], []).append(report)
    headings = ("product", "layers", "mean error", "largest", "in", "saturated", "smoothed")
    table = new_table(*headings, left=("in",))
    for kind, result in kinds.items():
        worst = max(result, key=lambda report: report.error)
        mean = sum(report.error for report in result) / len(result)
        parts = [report.saturated for report in result if report.saturated is not None]
        table.add_row(
            kind,
            str(len(result)),
            f"{100 * mean:.2f} %",
            f"{100 * worst.error:.2f} %",
            shortened(worst.name),
            f"{100 * sum(parts) / len(parts):.2f} %" if parts else "-",
            f"{sum(report.smoothed for report in result)}",
        )
    out.print(f"{output}: errors of products in calibration, relative to their results")
    out.print(table)
    for name, evaluation in evaluations.items():
        out.print(
            f"{name}, {evaluation.positions} positions: the same token is the most likely in"
            f" {100 * evaluation.top1:.1f} %, divergence {evaluation.kl:.4f}, loss"
            f" {evaluation.loss:.3f}, before {evaluation.reference_loss:.3f} (nats)",
            soft_wrap=True,
        )
