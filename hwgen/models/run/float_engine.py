# SPDX-License-Identifier: Apache-2.0
"""The reference: a decoder in single precision, by NumPy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.arithmetic.hadamard import hadamard_transform
from hwgen.models.graph.description import Node, real, score_scale, sizes_of
from hwgen.models.run.block_rows import KEY_FORMATS, key_format, round_blocks
from hwgen.models.run.engine import Cache, Engine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float32]


class FloatEngine(Engine):
    """Operations in single precision; the order of additions is NumPy's."""

    def gemm(self, node: Node, x: Reals) -> Reals:
        """Return x times weights, plus bias."""
        result = x @ self.weights(node.inputs["weights"]).T
        if "bias" in node.inputs:
            result = result + self.weights(node.inputs["bias"])
        return result

    def rms_norm(self, node: Node, x: Reals) -> Reals:
        """Return rows, or heads, divided by the root of their mean square, times gamma."""
        heads = x.reshape(len(x), int(real(node, "heads", 1)), -1)
        mean = np.mean(heads * heads, axis=2, keepdims=True) + np.float32(real(node, "epsilon"))
        result = heads / np.sqrt(mean) * self.weights(node.inputs["gamma"])
        return np.asarray(result.reshape(x.shape), np.float32)

    def layer_norm(self, node: Node, x: Reals) -> Reals:
        """Return rows of mean 0 and variance 1, times gamma, plus beta."""
        gamma, beta = (self.weights(node.inputs[name]) for name in ("gamma", "beta"))
        centred = x - np.mean(x, axis=1, keepdims=True)
        variance = np.mean(centred * centred, axis=1, keepdims=True)
        result = centred / np.sqrt(variance + np.float32(real(node, "epsilon"))) * gamma + beta
        return np.asarray(result, np.float32)

    def rope(self, node: Node, x: Reals, positions: NDArray[Any]) -> Reals:
        """Return rows with pairs of neighbours turned."""
        turns = self.rope_angles(node, positions)[:, None]
        heads = x.reshape(len(x), -1, turns.shape[-1])
        result = np.empty_like(heads)
        u, w, c, s = heads[..., ::2], heads[..., 1::2], turns[..., ::2], turns[..., 1::2]
        result[..., ::2], result[..., 1::2] = u * c - w * s, w * c + u * s
        return np.asarray(result.reshape(x.shape))

    def attention(self, node: Node, cache: Cache, query: Reals, key: Reals, value: Reals) -> Reals:
        """Return attention of rows behind what is in a cache, which takes their keys and values."""
        heads, kv_heads, elements = sizes_of(node)
        rows, group, before = len(query), heads // kv_heads, cache.length
        shape = (rows, kv_heads, elements)
        bits, block = int(real(node, "bits")), int(real(node, "hadamard"))
        if block:
            query, key = hadamard_transform(query, block), hadamard_transform(key, block)
        if blocks := key_format(node):
            element = KEY_FORMATS[blocks]
            key, value = (round_blocks(x.reshape(-1, elements), element) for x in (key, value))
        elif bits:
            query, key, value = (
                rounded(x.reshape(-1, elements), bits) for x in (query, key, value)
            )
        cache.append(key=key.reshape(shape), value=value.reshape(shape))
        keys = cache.rows("key").transpose(1, 2, 0)  # kv_heads, elements, keys
        values = cache.rows("value").transpose(1, 0, 2)
        queries = query.reshape(rows, kv_heads, group, elements).transpose(1, 2, 0, 3)
        scores = queries.reshape(kv_heads, group * rows, elements) @ keys
        scores = scores.reshape(kv_heads, group, rows, -1) * np.float32(score_scale(node))
        if cap := np.float32(real(node, "cap")):
            scores = cap * np.tanh(scores / cap)
        scores = np.where(seen(node, rows, before), scores, np.float32(-np.inf))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        result = weights.reshape(kv_heads, group * rows, -1) @ values
        by_head = result.reshape(kv_heads, group, rows, elements)
        return np.asarray(by_head.transpose(2, 0, 1, 3).reshape(rows, -1))

    def quantise(self, node: Node, x: Reals) -> Reals:
        """Return rows quantised to integers or blocks, and converted back."""
        if node.attributes.get("format"):
            return round_blocks(x)
        return rounded(hadamard_transform(x, int(real(node, "hadamard"))), int(real(node, "bits")))

    def gated(self, node: Node, x: Reals, y: Reals) -> Reals:
        """Return gate(x) times y."""
        return gate(str(node.attributes["gate"]), x) * y

    def add(self, node: Node, x: Reals, y: Reals) -> Reals:
        """Return x times scale, plus y."""
        return x * np.float32(real(node, "scale", 1.0)) + y

    def soft_cap(self, node: Node, x: Reals) -> Reals:
        """Return cap * tanh(x / cap)."""
        cap = np.float32(real(node, "cap"))
        return np.asarray(cap * np.tanh(x / cap))


def seen(node: Node, rows: int, before: int) -> NDArray[np.bool_]:
    """Return the mask of keys that rows attend to after others, shape (rows, before + rows)."""
    position = np.arange(before, before + rows)[:, None]
    key = np.arange(before + rows)
    window = node.attributes.get("window", 0) or before + rows
    assert isinstance(window, int)
    return (key <= position) & (key > position - window)


def rounded(x: Reals, bits: int) -> Reals:
    """Return rows as integers would have them, each with its own scale."""
    most = (1 << (bits - 1)) - 1
    scale = np.abs(x).max(axis=-1, keepdims=True) / np.float32(most)
    scale = np.where(scale > 0, scale, np.float32(1))
    return np.asarray(np.rint(x / scale) * scale, np.float32)


def gate(name: str, x: Reals) -> Reals:
    """Return a gate of numbers, in single precision."""
    wide = x.astype(np.float64)
    if name == "relu2":
        result = np.maximum(wide, 0) ** 2
    elif name == "gelu":
        result = 0.5 * wide * (1 + _erf(wide / math.sqrt(2)))
    elif name == "gelu_tanh":
        result = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    else:
        sigmoid = 0.5 * (1 + np.tanh(0.5 * wide))
        result = sigmoid if name == "sigmoid" else wide * sigmoid
    return result.astype(np.float32)


def _erf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.vectorize(math.erf, [np.float64])(x))
