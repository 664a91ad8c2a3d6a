# SPDX-License-Identifier: Apache-2.0
"""Models cut down to one layer and a few tokens, with the weights as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hwgen.models.files.gguf_blocks import Groups
from hwgen.models.files.store import WEIGHTS, Model, Writer, write_description
from hwgen.models.graph.description import Description, Node


def cut(model: Model, layer: int, tokens: Sequence[int], directory: Path) -> Model:
    """Return a model of one layer of another, that knows some of its tokens only, by new numbers.

    Parameters
    ----------
    model : Model
    layer : int
    tokens : sequence of int
        The ones that are known, in the order of their new numbers.
    directory : Path
        Empty.
    """
    description = model.description
    x = ""
    nodes: list[Node] = []
    for node in description.nodes:
        if node.layer is None and node.operation == "embed":
            x = node.output
        if node.layer not in (None, layer):
            continue
        inputs = dict(node.inputs)
        if node.layer == layer or node.operation != "embed":
            names = {x, *description.tensors, *(n.output for n in nodes)}
            inputs = {key: name if name in names else x for key, name in inputs.items()}
        name = node.name.replace(f"layers.{layer}.", "layers.0.")
        nodes.append(node.model_copy(update={
            "inputs": inputs, "name": name, "layer": None if node.layer is None else 0,
        }))  # fmt: skip
        if node.layer == layer:
            x = node.output
    wanted = {name for node in nodes for name in node.inputs.values()} & set(description.tensors)
    rows = {n for node in nodes for n in (node.inputs.get("table"),) if n}
    rows |= {node.inputs["weights"] for node in nodes if node.output in description.outputs}
    with (directory / WEIGHTS).open("wb") as file:
        writer = Writer(file)
        for name in sorted(wanted):
            _copy(model, writer, name, tokens if name in rows else None)
    arrays = {
        name: shape
        for name, shape in description.arrays.items()
        if name in description.inputs or name in {n.output for n in nodes}
    }
    arrays[nodes[-1].output] = ("tokens", len(tokens))
    made = description.model_copy(update={
        "nodes": tuple(nodes), "tensors": writer.tensors, "vocabulary": len(tokens),
        "arrays": arrays,
    })  # fmt: skip
    write_description(directory, Description.model_validate(made.model_dump()))
    return Model(directory)


def _copy(model: Model, writer: Writer, name: str, tokens: Sequence[int] | None) -> None:
    tensor, groups = model.description.tensors[name], model.groups(name)
    chosen = slice(None) if tokens is None else list(tokens)
    if groups is None:
        values = model.part(tensor.values)[chosen]
        writer.numbers(name, [np.ascontiguousarray(values)], values.shape, tensor.origin)
        return
    offsets = None if groups.offsets is None else groups.offsets[chosen]
    values, scales = np.ascontiguousarray(groups.values[chosen]), groups.scales[chosen]
    part = Groups(values, scales, offsets, groups.tensor_scale)
    writer.groups(name, [part], part.values.shape, tensor.origin, tensor.bits)
