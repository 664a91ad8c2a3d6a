# SPDX-License-Identifier: Apache-2.0
"""Decoders as operations: one builder for every file format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from hwgen.models.graph.decoder_shape import DecoderShape
from hwgen.models.graph.description import Node

Attributes = dict[str, bool | int | float | str]


def nodes_of(shape: DecoderShape, tensors: set[str]) -> tuple[Node, ...]:
    """Return the operations of a decoder.

    Parameters
    ----------
    shape : DecoderShape
    tensors : set of str
        Names of the tensors that there are; see `weights_of`.
    """
    return tuple(_Decoder(shape, tensors).nodes())


def arrays_of(
    shape: DecoderShape, nodes: tuple[Node, ...]
) -> dict[str, tuple[int | Literal["tokens"], ...]]:
    """Return the shapes of the input and of all results."""
    lengths = {
        "query": shape.heads * shape.elements,
        "key": shape.kv_heads * shape.elements,
        "value": shape.kv_heads * shape.elements,
        "query_norm": shape.heads * shape.elements,
        "key_norm": shape.kv_heads * shape.elements,
        "query_turned": shape.heads * shape.elements,
        "key_turned": shape.kv_heads * shape.elements,
        "attention": shape.heads * shape.elements,
        "attention_sub_norm": shape.heads * shape.elements,
        "gate": shape.hidden,
        "up": shape.hidden,
        "gated": shape.hidden,
        "feed_sub_norm": shape.hidden,
        "logits": shape.vocabulary,
        "logits_cap": shape.vocabulary,
    }
    result: dict[str, tuple[int | Literal["tokens"], ...]] = {"tokens": ("tokens",)}
    for node in nodes:
        result[node.output] = ("tokens", lengths.get(node.name.split(".")[-1], shape.width))
    return result


class _Decoder:
    """Makes the operations one after the other."""

    def __init__(self, shape: DecoderShape, tensors: set[str]) -> None:
        self.shape = shape
        self.tensors = tensors
        self.layer: int | None = None

    def node(self, name: str, operation: str, attributes: Attributes, **inputs: str) -> Node:
        """Return an operation; its result is called like it, with ``:0`` appended."""
        full = name if self.layer is None else f"layers.{self.layer}.{name}"
        return Node(
            name=full,
            operation=operation,
            inputs=inputs,
            output=f"{full}:0",
            attributes=dict(attributes),
            layer=self.layer,
        )

    def norm(self, name: str, x: str, heads: int = 1) -> Node:
        """Return a normalisation of rows, or of each of `heads` parts of them."""
        gamma = name if self.layer is None else f"layers.{self.layer}.{name}"
        attributes: Attributes = {"epsilon": self.shape.epsilon}
        if heads > 1:
            attributes["heads"] = heads
        beta = {"beta": f"{gamma}.bias"} if self.shape.norm == "layer_norm" else {}
        return self.node(name, self.shape.norm, attributes, x=x, gamma=gamma, **beta)

    def product(self, name: str, x: str) -> Node:
        """Return a product with weights, and with a bias if there is one."""
        weights = f"layers.{self.layer}.{name}"
        bias = {"bias": f"{weights}.bias"} if f"{weights}.bias" in self.tensors else {}
        return self.node(name, "gemm", {}, x=x, weights=weights, **bias)

    def residual(self, name: str, x: str, stream: str) -> Node:
        """Return the sum of a part's result and of the residual stream."""
        scale = self.shape.residual_scale
        return self.node(name, "add", {"scale": scale} if scale != 1.0 else {}, x=x, y=stream)

    def rope(self, name: str, x: str, heads: int) -> Node:
        """Return the rotation of heads."""
        shape, rotation = self.shape, self.shape.rotation_of(self.layer or 0)
        attributes: Attributes = {
            "heads": heads,
            "elements": shape.elements,
            "base": rotation.base,
        }
        if rotation.scale != 1.0:
            attributes["scale"] = rotation.scale
        if rotation.amplitude != 1.0:
            attributes["amplitude"] = rotation.amplitude
        if rotation.elements not in (0, shape.elements):
            attributes["rotated"] = rotation.elements
        factors = {"factors": "rope_factors"} if rotation.factors else {}
        return self.node(name, "rope", attributes, x=x, **factors)

    def nodes(self) -> Iterator[Node]:
        """Yield all operations in order."""
        shape = self.shape
        scale = shape.embedding_scale
        attributes: Attributes = {"scale": scale} if scale != 1.0 else {}
        embed = self.node("embed", "embed", attributes, x="tokens", table="embedding")
        yield embed
        x = embed.output
        for layer in range(shape.layers):
            self.layer = layer
            for node in self.parts(x):
                yield node
            x = node.output
        self.layer = None
        norm = self.norm("output_norm", x)
        yield norm
        weights = "output" if "output" in self.tensors else "embedding"
        logits = self.node("logits", "gemm", {}, x=norm.output, weights=weights)
        yield logits
        if shape.logit_cap:
            yield self.node("logits_cap", "soft_cap", {"cap": shape.logit_cap}, x=logits.output)

    def parts(self, x: str) -> Iterator[Node]:
        """Yield the operations of a layer."""
        shape, read = self.shape, x
        if shape.pre_norms:
            norm = self.norm("attention_norm", x)
            yield norm
            read = norm.output
        for node in self.attention(read):
            yield node
        added = self.residual("attention_add", node.output, x)
        yield added
        if not shape.parallel:
            read = added.output
            if shape.pre_norms:
                norm = self.norm("feed_norm", read)
                yield norm
                read = norm.output
        for node in self.feed(read):
            yield node
        yield self.residual("feed_add", node.output, added.output)

    def attention(self, x: str) -> Iterator[Node]:
        """Yield the operations of the attention part."""
        shape = self.shape
        parts = [self.product(name, x) for name in ("query", "key", "value")]
        yield from parts
        query, key, value = (part.output for part in parts)
        if shape.head_norms != "none":
            by_head = shape.head_norms == "head"
            norms = [
                self.norm("query_norm", query, shape.heads if by_head else 1),
                self.norm("key_norm", key, shape.kv_heads if by_head else 1),
            ]
            yield from norms
            query, key = (norm.output for norm in norms)
        turned_query = self.rope("query_turned", query, shape.heads)
        turned_key = self.rope("key_turned", key, shape.kv_heads)
        yield turned_query
        yield turned_key
        attributes: Attributes = {
            "heads": shape.heads,
            "kv_heads": shape.kv_heads,
            "elements": shape.elements,
            "causal": True,
        }
        window = shape.window_of(self.layer or 0)
        for name, value_of in (
            ("window", window), ("scale", shape.score_scale), ("cap", shape.score_cap),
        ):  # fmt: skip
            if value_of:
                attributes[name] = value_of
        last = self.node(
            "attention", "attention", attributes,
            query=turned_query.output, key=turned_key.output, value=value,
        )  # fmt: skip
        yield last
        if shape.sub_norms:
            last = self.norm("attention_sub_norm", last.output)
            yield last
        output = self.product("attention_output", last.output)
        yield output
        if shape.post_norms:
            yield self.norm("attention_post_norm", output.output)

    def feed(self, x: str) -> Iterator[Node]:
        """Yield the operations of the feed-forward part."""
        gate, up = (self.product(name, x) for name in ("gate", "up"))
        yield gate
        yield up
        last = self.node("gated", "gated", {"gate": self.shape.gate}, x=gate.output, y=up.output)
        yield last
        if self.shape.sub_norms:
            last = self.norm("feed_sub_norm", last.output)
            yield last
        down = self.product("down", last.output)
        yield down
        if self.shape.post_norms:
            yield self.norm("feed_post_norm", down.output)
