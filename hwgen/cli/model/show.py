# SPDX-License-Identifier: Apache-2.0
"""``hwgen model show``: a model that was imported, quantised or compiled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from hwgen.cli.support.common import emit_json, example, json_option
from hwgen.errors import InputError
from hwgen.reports.terminal import console


@click.command("show", epilog=example("hwgen model show austen-int8"))
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@json_option
def show_command(source: Path, as_json: bool) -> None:
    """Show a model: size, formats, how it was quantised, how accurate it is, and what runs it.

    DIR is what `hwgen model import`, `quantise` or `compile` wrote.
    """
    from hwgen.models.compile.compiled_files import DOCUMENT
    from hwgen.models.quantise.record import read_record

    record = read_record(source)
    if (source / DOCUMENT).exists():
        parts = _compiled(source)
        lines = _compiled_lines(parts)
    else:
        parts, lines = _stored(source, quantised=record is not None)
    result = {"directory": str(source), **parts, "quantised": record}
    if as_json:
        emit_json(result)
        return
    out = console()
    out.print(f"{source}: {parts['name']}", highlight=False, markup=False)
    for line in (*lines, *_record_lines(record)):
        out.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)


def _stored(source: Path, *, quantised: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the parts of a model that is not compiled, and lines that say them."""
    from hwgen.cli.model.importing import model_lines, model_summary
    from hwgen.models.files.store import Model
    from hwgen.models.run.shipped import engines_for, engines_named

    model = Model(source)
    summary = model_summary(model.description)
    parts = {"form": "model", **summary, "engines": engines_for(model) if quantised else []}
    lines = [summary["architecture"], *model_lines(summary)]
    if quantised and (names := engines_named(model)):
        lines.append(f"runs on: {', '.join(names)}")
    return parts, lines


def _compiled(source: Path) -> dict[str, Any]:
    """Return the parts of a compiled model."""
    from hwgen.models.compile.compiled_files import (
        DOCUMENT,
        ENGINE,
        HOST_FILE,
        IMAGE_FILE,
        LIST_FILE,
    )
    from hwgen.models.files.store import read_json

    document = read_json(source / DOCUMENT)
    engine = read_json(source / ENGINE)
    if not isinstance(document, dict) or not isinstance(engine, dict):
        raise InputError(f"{source / DOCUMENT}: must be an object; compile the model again")
    files = [source / name for name in (IMAGE_FILE, LIST_FILE, HOST_FILE)]
    return {
        "form": document.get("form") or "list",
        "name": document.get("name"),
        "engine": document.get("engine"),
        "family": engine.get("family"),
        "layers": document.get("layers"),
        "context": document.get("context"),
        "bytes": {path.name: path.stat().st_size for path in files if path.exists()},
        "memory_bytes": document.get("bytes"),
    }


def _compiled_lines(parts: Mapping[str, Any]) -> list[str]:
    forms = {"list": "a command list, which the engine runs alone", "jobs": "jobs of a host",
             "network": "jobs of a host, a network on arrays"}  # fmt: skip
    sizes = ", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in parts["bytes"].items())
    of = "" if parts["context"] is None else f", up to {parts['context']} tokens"
    return [
        f"compiled for {parts['engine']} ({parts['family']}) as {forms[parts['form']]}",
        f"{parts['layers']} layers{of}; {(parts['memory_bytes'] or 0) / 1e6:.1f} MB of memory",
        f"files: {sizes}",
    ]


def _record_lines(record: Mapping[str, Any] | None) -> list[str]:
    from hwgen.models.quantise.record import weight_format

    if record is None:
        return ["not quantised by hwgen"]
    recipe = record["recipe"]
    bits = record.get("weight_bits")
    made = [
        name for name, chosen in (
            ("channels made alike", recipe.get("smooth")), ("rotated", recipe.get("rotate")),
            ("errors compensated", recipe.get("compensate")),
            ("rotated by hardware", recipe.get("hadamard")),
        ) if chosen
    ]  # fmt: skip
    activations = recipe.get("activations", "int8")
    bits_of = f"int{recipe.get('activation_bits')}" if activations == "int8" else activations
    kv = recipe.get("kv_format", "integers")
    kv = f"int{recipe.get('kv_bits')}" if kv == "integers" else kv
    weights = weight_format(record)
    width = f" ({bits:g} bits)" if bits and weights != "original" else ""
    weights = "as the file has them" if weights == "original" else weights
    lines = [
        f"weights {weights}{width}, activations {bits_of}, keys and values {kv}"
        + (f"; {', '.join(made)}" if made else "")
    ]
    for each in record["evaluations"]:
        lines.append(
            f"accuracy on {each['file']}, {each['positions']} positions: KL {each['kl']:.4f} nats,"
            f" top-1 {100 * each['top1']:.1f} %, loss {each['loss']:.3f}, before"
            f" {each['reference_loss']:.3f}"
        )
    if not record["evaluations"]:
        lines.append("accuracy: not measured; `hwgen model quantise --evaluate TEXT` measures it")
    layers = record["layers"]
    if layers:
        worst = max(layers, key=lambda each: float(each["error"]))
        lines.append(f"largest error of a product: {100 * worst['error']:.2f} %, {worst['name']}")
    return lines
