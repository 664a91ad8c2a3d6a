# SPDX-License-Identifier: Apache-2.0
"""Channels of keys made alike, so that none decides about the power of two of its block.

A channel of keys is divided by a factor, that of the queries multiplied by it: scores stay what
they are.  Both neighbours of a pair that a position rotates have the same factor.  Queries are
floating point where keys are in blocks, and lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.errors import InputError
from hwgen.models.graph.description import Description, Node, sizes_of
from hwgen.models.graph.hadamard import operand_makers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float32]

MOST_FACTOR = 1e3
"""Largest factor, and one over the smallest."""


def makers_of_scores(description: Description) -> dict[str, tuple[Node, Node]]:
    """Return the products or norms that make queries and keys, by the name of the attention.

    Attentions whose queries or keys are made otherwise are left out.
    """
    made = []
    for operand in ("query", "key"):
        try:
            made.append(operand_makers(description, operand))
        except InputError:
            return {}
    queries, keys = made
    return {name: (queries[name], keys[name]) for name in queries}


def key_factors(node: Node, largest: Reals, *, of_a_head: bool) -> Reals:
    """Return the factors of the channels of keys, shape (kv_heads, elements), geometric mean 1.

    Parameters
    ----------
    node : Node
        The attention.
    largest : ndarray, shape (kv_heads * elements,)
        Largest magnitude of each channel.
    of_a_head : bool
        Whether all heads must have the same factors.
    """
    _, kv_heads, elements = sizes_of(node)
    pairs = largest.reshape(kv_heads, -1, 2).max(axis=2)
    if of_a_head:
        pairs = np.broadcast_to(pairs.max(axis=0), pairs.shape)
    power = np.log(np.maximum(pairs, np.float32(1e-20)))
    power = power - power.mean(axis=1, keepdims=True)
    factors = np.clip(np.exp(power), 1 / MOST_FACTOR, MOST_FACTOR)
    return np.asarray(np.repeat(factors, 2, axis=1).reshape(kv_heads, elements), np.float32)


def scale_channels(
    maker: Node, factors: Reals, weights: Callable[[str], Reals], names: dict[str, str]
) -> dict[str, Any]:
    """Return the changed weights, by name, of what makes queries or keys.

    Parameters
    ----------
    maker : Node
    factors : ndarray, shape (heads, elements)
        What channels are multiplied by.
    weights : callable
        Returns weights by name.
    names : dict of str
        Name of the changed weights of each product.
    """
    if maker.operation != "gemm":
        gamma = weights(maker.inputs["gamma"])
        flat = factors.reshape(-1)[: len(gamma)]
        return {maker.inputs["gamma"]: gamma * flat}
    name, flat = names[maker.name], factors.reshape(-1)
    result = {name: weights(name) * flat[:, None]}
    if "bias" in maker.inputs:
        result[maker.inputs["bias"]] = weights(maker.inputs["bias"]) * flat
    return result
