# SPDX-License-Identifier: Apache-2.0
"""Models as work: products, attention and operations on elements of a pass."""

from __future__ import annotations

import math
from dataclasses import replace

from hwgen.models.graph.description import Description, Node
from hwgen.models.graph.operations import OPERATIONS
from hwgen.workloads.network import Attention, Gemm, Layer, Network


def work_of(
    description: Description, tokens: int, context: int = 0, kv_bits: int | None = None
) -> Network:
    """Return the work of a pass.

    Parameters
    ----------
    description : Description
    tokens : int
        Tokens that it computes: one of a decode step, those of a prompt, or of an encoder.
    context : int
        Positions before them, whose keys and values are in the cache.
    kv_bits : int, optional
        Of an element of the cache.

    Returns
    -------
    Network
        Groups of a product, and products of several matrices, are as many products; the second
        operand of a product of activations counts as weights, which a core takes it like.
        Products of all tokens but the last one are left out where they make logits: nobody asks
        for them.
    """
    layers: list[Layer] = []
    for node in description.nodes:
        layer = _layer(description, node, tokens)
        if layer is not None:
            layers.extend([replace(layer, repeat=1)] * layer.repeat)
    merged: dict[Layer, int] = {}
    for layer in layers:
        merged[layer] = merged.get(layer, 0) + 1
    result = tuple(
        Layer(layer.name, count, layer.product, layer.attention, layer.operations)
        for layer, count in merged.items()
    )
    products = tuple(layer.product for layer in layers if layer.product is not None)
    decodes = description.vocabulary is not None
    return Network(products, result, tokens if decodes else None, context, kv_bits)


def _layer(description: Description, node: Node, tokens: int) -> Layer | None:
    """Return a node as a layer, None of one that only moves elements."""
    name = node.name
    if node.layer is not None:
        name = name.removeprefix(f"layers.{node.layer}.")
    rows = math.prod(
        tokens if length == "tokens" else length for length in description.arrays[node.output][:-1]
    )
    if node.operation in ("gemm", "integer_gemm"):
        n, k = description.tensors[node.inputs["weights"]].shape
        if node.output in description.logits:
            rows = 1
        groups = int(_number(node, "groups")) if "groups" in node.attributes else 1
        return Layer(name, groups, Gemm(rows, k, n // groups))
    if node.operation in ("matmul", "integer_matmul"):
        *batch, m, n = (int(length) for length in description.arrays[node.output])
        return Layer(name, math.prod(batch), Gemm(m, _inner(description, node), n))
    if node.operation == "attention":
        sizes = [int(_number(node, key)) for key in ("heads", "kv_heads", "elements")]
        causal = bool(node.attributes["causal"])
        return Layer(name, 1, attention=Attention(rows, sizes[0], sizes[1], sizes[2], causal))
    length = (description.arrays[node.output] or (1,))[-1]
    each = (
        OPERATIONS[node.operation].per_element * rows * (tokens if length == "tokens" else length)
    )
    return Layer(name, 1, operations=each) if each else None


def _inner(description: Description, node: Node) -> int:
    """Return the length of the sums of a product of activations."""
    name = node.inputs["x"]
    tensor = description.tensors.get(name)
    shape = description.arrays[name] if tensor is None else tensor.shape
    return int(shape[-1])


def _number(node: Node, key: str) -> float:
    value = node.attributes[key]
    assert isinstance(value, (int, float))
    return value


def kv_elements(description: Description) -> int:
    """Return the elements of keys and values that each token adds to the cache."""
    return sum(
        int(2 * _number(node, "kv_heads") * _number(node, "elements"))
        for node in description.nodes
        if node.operation == "attention" and node.attributes["causal"]
    )
