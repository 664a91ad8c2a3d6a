# SPDX-License-Identifier: Apache-2.0
"""``hwgen model import``: a network from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.common import (
    emit_json,
    example,
    force_option,
    json_option,
    path_option,
    task_progress,
)
from hwgen.cli.support.outputs import atomic_directory, check_directory
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from hwgen.models.graph.description import Description


@click.command(
    "import", epilog=example("hwgen model import configs/models/austen-16m.gguf -o austen")
)
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@path_option("--output", "DIR", "Directory to write the model into.", required=True)
@click.option(
    "--i2s-layout",
    type=click.Choice(["x86", "arm"]),
    help="Order of ternary weights of type I2_S, which the file does not say.",
)
@click.option(
    "--size",
    "sizes",
    metavar="NAME=N",
    multiple=True,
    help="Length that an ONNX file leaves open, by its name or as INPUT.AXIS; first axes are 1 by"
    " default.",
)
@force_option
@json_option
def import_command(
    source: Path,
    output: Path,
    i2s_layout: str | None,
    sizes: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Read a network: a decoder such as Llama or Gemma, or one of ONNX or TensorFlow Lite.

    FILE is a GGUF, ONNX or TensorFlow Lite file, or a directory with config.json and safetensors.

    The model is a directory: model.json, a description of the network by operations of
    accelerators, weights.bin, and tokenizer.json.
    """
    from hwgen.models.import_model import import_model

    check_directory(output)
    with (
        atomic_directory(output, force=force) as directory,
        task_progress("importing", quiet=as_json),
    ):
        description = import_model(source, directory, i2s_layout, _sizes(sizes))
    summary = model_summary(description)
    if as_json:
        emit_json({"output": str(output), **summary})
        return
    out = console()
    out.print(f"{output}: {description.name}, {description.source.architecture}")
    for line in model_lines(summary):
        out.print(f"  {line}", soft_wrap=True)


def _sizes(texts: tuple[str, ...]) -> dict[str, int]:
    """Return the lengths that options name."""
    result = {}
    for text in texts:
        name, separator, length = text.rpartition("=")
        if not separator or not length.isdecimal() or not 0 < int(length[:12]) <= 1 << 28:
            raise click.UsageError(f"--size: must be NAME=N with N from 1, not {text[:40]!r}")
        result[name] = int(length)
    return result


def model_summary(description: Description) -> dict[str, Any]:
    """Return the parts of a model."""
    from hwgen.models.graph.work import kv_elements, work_of

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
        **(
            {"macs_per_token": network.macs, "kv_elements_per_token": kv_elements(description)}
            if description.vocabulary is not None
            else {"macs_per_frame": network.macs}
        ),
    }


def model_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return lines that say the parts of a model."""
    each = "token" if "macs_per_token" in summary else "frame"
    operations = ", ".join(f"{count} {name}" for name, count in summary["operations"].items())
    types = ", ".join(f"{count} of {name}" for name, count in summary["tensors"].items())
    result = [
        f"{summary['layers']} layers: {operations}",
        f"weights: {types}; {summary['weight_bytes'] / 1e6:.1f} MB",
        f"{summary[f'macs_per_{each}'] / 1e6:.1f} million multiply-accumulates a {each}",
    ]
    if summary.get("kv_elements_per_token"):
        result.append(
            f"{summary['kv_elements_per_token']} elements of keys and values a token, up to"
            f" {summary['context']} tokens"
        )
    return result
