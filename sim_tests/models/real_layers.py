# SPDX-License-Identifier: Apache-2.0
"""Decoders in double precision, which keep what goes from layer to layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwgen.models.files.store import Model
from hwgen.models.graph.description import Node, real, sizes_of
from hwgen.models.run.engine import Cache
from hwgen.models.run.float_engine import FloatEngine, seen

Doubles = Any
"""Arrays of float64; the engine that is refined has arrays of float32."""


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
