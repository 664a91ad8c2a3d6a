# SPDX-License-Identifier: Apache-2.0
"""Read a network from a file, run it, and say what it takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.common import console, emit_json, force_option, json_option
from hwgen.cli.outputs import atomic_directory, check_directory

if TYPE_CHECKING:
    from hwgen.models.description import Description


@click.group(epilog="Start with `hwgen model import FILE --output DIR`.")
def command() -> None:
    """Read a network from a file, run it, and say what it takes."""


@command.command("import")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--output",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="Directory to write the model into.",
)
@click.option(
    "--i2s-layout",
    type=click.Choice(["x86", "arm"]),
    help="Order of ternary weights of type I2_S, which the file does not say.",
)
@force_option
@json_option
def import_command(
    source: Path, output: Path, i2s_layout: str | None, force: bool, as_json: bool
) -> None:
    """Read a network: a GGUF file of a decoder of the Llama or BitNet kind.

    The model is a directory: model.json, a description of the network by operations of
    accelerators, weights.bin, and tokenizer.json.
    """
    from hwgen.models.importing import import_model

    check_directory(output)
    with atomic_directory(output, force=force) as directory:
        description = import_model(source, directory, i2s_layout)
    summary = _summary(description)
    if as_json:
        emit_json({"output": str(output), **summary})
        return
    out = console()
    out.print(f"{output}: {description.name}, {description.source.architecture}")
    for line in _lines(summary):
        out.print(f"  {line}", soft_wrap=True)


@command.command("run")
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--prompt", metavar="TEXT", help="What to continue; special tokens may stand in it.")
@click.option(
    "--prompt-tokens",
    metavar="FILE.npy",
    type=click.Path(path_type=Path),
    help="Tokens to continue by number, of a model without a tokenizer.",
)
@click.option(
    "--tokens",
    "count",
    metavar="N",
    type=click.IntRange(1, 1 << 20),
    default=32,
    show_default=True,
    help="Most tokens to add.",
)
@click.option(
    "--engine",
    type=click.Choice(["float"]),
    default="float",
    show_default=True,
    help="float: single precision, the reference.",
)
@json_option
def run_command(
    source: Path,
    prompt: str | None,
    prompt_tokens: Path | None,
    count: int,
    engine: str,
    as_json: bool,
) -> None:
    """Continue a text by a decoder: the most likely token, again and again."""
    import time

    from hwgen.models.engine import Run, generate
    from hwgen.models.float_engine import FloatEngine
    from hwgen.models.store import Model
    from hwgen.models.tokenizer import Tokenizer

    if (prompt is None) == (prompt_tokens is None):
        raise click.UsageError("give either --prompt or --prompt-tokens")
    model = Model(source)
    tokenizer = Tokenizer(model.tokenizer()) if prompt is not None else None
    given = tokenizer.encode(prompt or "") if tokenizer else _numbers(prompt_tokens)
    run = Run(FloatEngine(model))
    found: list[int] = []
    start = time.monotonic()
    for token in generate(run, given, count, tokenizer.end if tokenizer else None):
        found.append(token)
    seconds = time.monotonic() - start
    text = tokenizer.decode(found) if tokenizer else ""
    if as_json:
        emit_json(
            {
                "model": model.description.name,
                "engine": engine,
                "prompt_tokens": given,
                "tokens": found,
                "text": text,
                "wall_seconds": round(seconds, 3),
            }
        )
        return
    click.echo(f"{prompt}{text}" if tokenizer else " ".join(map(str, found)))


def _numbers(path: Path | None) -> list[int]:
    """Return tokens of a file."""
    from hwgen.arrays import read_npy
    from hwgen.errors import InputError

    assert path is not None
    array = read_npy(path)
    if array.ndim != 1 or array.dtype.kind not in "iu" or len(array) > 1 << 24:
        raise InputError(f"{path}: must be integers in one row, not {array.dtype} {array.shape}")
    return [int(number) for number in array]


def _summary(description: Description) -> dict[str, Any]:
    """Return what a model consists of."""
    from hwgen.models.work import kv_elements, work_of

    network = work_of(description, tokens=1)
    origins: dict[str, int] = {}
    for tensor in description.tensors.values():
        origins[tensor.origin] = origins.get(tensor.origin, 0) + 1
    operations: dict[str, int] = {}
    for node in description.nodes:
        operations[node.operation] = operations.get(node.operation, 0) + 1
    stored = sum(tensor.stored_bits for tensor in description.tensors.values())
    return {
        "name": description.name,
        "architecture": description.source.architecture,
        "layers": description.layers,
        "context": description.context,
        "vocabulary": description.vocabulary,
        "tensors": origins,
        "operations": operations,
        "weight_bytes": int(stored / 8),
        "macs_per_token": network.macs,
        "kv_elements_per_token": kv_elements(description),
    }


def _lines(summary: dict[str, Any]) -> list[str]:
    operations = ", ".join(f"{count} {name}" for name, count in summary["operations"].items())
    types = ", ".join(f"{count} of {name}" for name, count in summary["tensors"].items())
    found = [
        f"{summary['layers']} layers: {operations}",
        f"weights: {types}; {summary['weight_bytes'] / 1e6:.1f} MB",
        f"{summary['macs_per_token'] / 1e6:.1f} million multiply-accumulates a token",
    ]
    if summary["kv_elements_per_token"]:
        found.append(
            f"{summary['kv_elements_per_token']} elements of keys and values a token, up to"
            f" {summary['context']} tokens"
        )
    return found
