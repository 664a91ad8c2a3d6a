# SPDX-License-Identifier: Apache-2.0
"""Real models cut down: a few layers and tokens, with the weights as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hwgen.models.files.gguf_blocks import Groups
from hwgen.models.files.store import WEIGHTS, Model, Writer, write_description
from hwgen.models.graph.description import Description, Node, real, sizes_of
from hwgen.models.run.engine import Cache
from hwgen.models.run.float_engine import FloatEngine, seen

Doubles = Any
"""Arrays of float64; the engine that is refined has arrays of float32."""


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
            known = {x, *description.tensors, *(n.output for n in nodes)}
            inputs = {key: name if name in known else x for key, name in inputs.items()}
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


class DoubleEngine(FloatEngine):
    """Operations of a decoder in double precision; keeps what goes from layer to layer."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.streams: list[Doubles] = []

    def weights(self, name: str) -> Doubles:
        """Return a tensor."""
        return super().weights(name).astype(np.float64)

    def rms_norm(self, node: Node, x: Doubles) -> Doubles:
        """Return normalised rows."""
        self.streams.append(x)
        mean = np.mean(x * x, axis=1, keepdims=True) + real(node, "epsilon")
        return x / np.sqrt(mean) * self.weights(node.inputs["gamma"])

    def rope(self, node: Node, x: Doubles, positions: Any) -> Doubles:
        """Return turned rows."""
        turns = self.rope_angles(node, positions).astype(np.float64)[:, None]
        heads = x.reshape(len(x), -1, turns.shape[-1])
        u, w, c, s = heads[..., ::2], heads[..., 1::2], turns[..., ::2], turns[..., 1::2]
        return np.stack([u * c - w * s, w * c + u * s], axis=-1).reshape(x.shape)

    def gated(self, node: Node, x: Doubles, y: Doubles) -> Doubles:
        """Return SiLU of x, times y."""
        assert node.attributes["gate"] == "silu"
        return x / (1 + np.exp(-x)) * y

    def attention(
        self, node: Node, cache: Cache, query: Doubles, key: Doubles, value: Doubles
    ) -> Doubles:
        """Return attention of the first rows."""
        heads, kv_heads, elements = sizes_of(node)
        rows, group = len(query), heads // kv_heads
        q = query.reshape(rows, kv_heads, group, elements)
        k, v = key.reshape(rows, kv_heads, elements), value.reshape(rows, kv_heads, elements)
        scores = np.einsum("qhge,khe->hgqk", q, k) / np.sqrt(elements)
        scores = np.where(seen(node, rows, 0), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return np.einsum("hgqk,khe->qhge", weights, v).reshape(rows, -1)
