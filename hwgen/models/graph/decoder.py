# SPDX-License-Identifier: Apache-2.0
"""Decoders of the Llama kind as operations: one shape for every file format.

A file format says the sizes (`DecoderShape`) and under which names its tensors lie; what must be
there, of which shape, and which operations they are part of is said here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hwgen.models.graph.description import Node


@dataclass(frozen=True)
class DecoderShape:
    """Sizes and variants of a decoder.

    Parameters
    ----------
    layers, width, hidden : int
        Hidden: elements between the products of the feed-forward part.
    heads, kv_heads, elements : int
        Of queries; of keys and values; elements of a head.
    vocabulary, context : int
        Tokens, and most positions.
    epsilon : float
        Of normalisations.
    base, scale : float
        Of rotations: the angle of pair i is ``position * base^(-2 i / elements) * scale``.
    gate : str
        As ``gated`` takes it.
    pairs : str
        Which elements of a head are turned together in the file: ``neighbours`` (0 with 1), or
        ``halves`` (0 with elements / 2).
    sub_norms : bool
        Whether a normalisation follows attention and gate, as in BitNet.
    window : int
        Positions that attention looks back; 0: all.
    """

    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    elements: int
    vocabulary: int
    context: int
    epsilon: float
    base: float = 10000.0
    scale: float = 1.0
    gate: str = "silu"
    pairs: Literal["neighbours", "halves"] = "neighbours"
    sub_norms: bool = False
    window: int = 0

    def problems(self) -> list[str]:
        """Return the contradictions between sizes."""
        result = []
        if self.heads % self.kv_heads:
            result.append(
                f"{self.heads} heads of queries do not share {self.kv_heads} heads of keys evenly"
            )
        if self.elements % 2:
            result.append(f"heads of {self.elements} elements cannot be turned in pairs")
        return result


def weights_of(shape: DecoderShape) -> dict[str, tuple[tuple[int, ...], bool]]:
    """Return the shape of every tensor, and whether it must be there, by name."""
    width, queries = shape.width, shape.heads * shape.elements
    keys = shape.kv_heads * shape.elements
    result: dict[str, tuple[tuple[int, ...], bool]] = {
        "embedding": ((shape.vocabulary, width), True),
        "output_norm": ((width,), True),
        "output": ((shape.vocabulary, width), False),
        "rope_factors": ((shape.elements // 2,), False),
    }
    for layer in range(shape.layers):
        at = f"layers.{layer}"
        result[f"{at}.attention_norm"] = ((width,), True)
        result[f"{at}.feed_norm"] = ((width,), True)
        if shape.sub_norms:
            result[f"{at}.attention_sub_norm"] = ((queries,), True)
            result[f"{at}.feed_sub_norm"] = ((shape.hidden,), True)
        for name, rows, columns in (
            ("query", queries, width),
            ("key", keys, width),
            ("value", keys, width),
            ("attention_output", width, queries),
            ("gate", shape.hidden, width),
            ("up", shape.hidden, width),
            ("down", width, shape.hidden),
        ):
            result[f"{at}.{name}"] = ((rows, columns), True)
            result[f"{at}.{name}.bias"] = ((rows,), False)
    return result


def has_rope_rows(name: str) -> bool:
    """Return whether a tensor's rows are elements of heads that are rotated."""
    return name.removesuffix(".bias").endswith((".query", ".key"))


def neighbours(rows: int, elements: int) -> list[int]:
    """Return the order of rows that puts elements which are turned together side by side.

    Parameters
    ----------
    rows : int
        Of all heads.
    elements : int
        Of a head, the first half of which is turned with the second.
    """
    half = elements // 2
    order = [place + part for place in range(half) for part in (0, half)]
    return [head + place for head in range(0, rows, elements) for place in order]


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
        "query_turned": shape.heads * shape.elements,
        "key_turned": shape.kv_heads * shape.elements,
        "attention": shape.heads * shape.elements,
        "attention_sub_norm": shape.heads * shape.elements,
        "gate": shape.hidden,
        "up": shape.hidden,
        "gated": shape.hidden,
        "feed_sub_norm": shape.hidden,
        "logits": shape.vocabulary,
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

    def node(
        self,
        name: str,
        operation: str,
        attributes: dict[str, bool | int | float | str],
        **inputs: str,
    ) -> Node:
        """Return an operation; its result is called like it, with a dot behind it."""
        full = name if self.layer is None else f"layers.{self.layer}.{name}"
        return Node(
            name=full, operation=operation, inputs=inputs, output=f"{full}:0",
            attributes=dict(attributes), layer=self.layer,
        )  # fmt: skip

    def norm(self, name: str, x: str) -> Node:
        gamma = name if self.layer is None else f"layers.{self.layer}.{name}"
        return self.node(name, "rms_norm", {"epsilon": self.shape.epsilon}, x=x, gamma=gamma)

    def product(self, name: str, x: str) -> Node:
        weights = f"layers.{self.layer}.{name}"
        bias = {"bias": f"{weights}.bias"} if f"{weights}.bias" in self.tensors else {}
        return self.node(name, "gemm", {}, x=x, weights=weights, **bias)

    def rope(self, name: str, x: str, heads: int) -> Node:
        shape = self.shape
        attributes: dict[str, bool | int | float | str] = {
            "heads": heads,
            "elements": shape.elements,
            "base": shape.base,
        }
        if shape.scale != 1.0:
            attributes["scale"] = shape.scale
        factors = {"factors": "rope_factors"} if "rope_factors" in self.tensors else {}
        return self.node(name, "rope", attributes, x=x, **factors)

    def nodes(self) -> Iterator[Node]:
        """Yield all operations in order."""
        embed = self.node("embed", "embed", {}, x="tokens", table="embedding")
        yield embed
        x = embed.output
        for layer in range(self.shape.layers):
            self.layer = layer
            for node in (*self.attention(x), *self.feed(f"layers.{layer}.attention_add:0")):
                yield node
            x = node.output
        self.layer = None
        norm = self.norm("output_norm", x)
        yield norm
        weights = "output" if "output" in self.tensors else "embedding"
        yield self.node("logits", "gemm", {}, x=norm.output, weights=weights)

    def attention(self, x: str) -> Iterator[Node]:
        """Yield the operations of the attention part."""
        shape = self.shape
        norm = self.norm("attention_norm", x)
        yield norm
        parts = [self.product(name, norm.output) for name in ("query", "key", "value")]
        yield from parts
        query, key, value = (part.output for part in parts)
        turned_query = self.rope("query_turned", query, shape.heads)
        turned_key = self.rope("key_turned", key, shape.kv_heads)
        yield turned_query
        yield turned_key
        attributes: dict[str, bool | int | float | str] = {
            "heads": shape.heads,
            "kv_heads": shape.kv_heads,
            "elements": shape.elements,
            "causal": True,
        }
        if shape.window:
            attributes["window"] = shape.window
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
        yield self.node("attention_add", "add", {}, x=output.output, y=x)

    def feed(self, x: str) -> Iterator[Node]:
        """Yield the operations of the feed-forward part."""
        norm = self.norm("feed_norm", x)
        yield norm
        gate, up = (self.product(name, norm.output) for name in ("gate", "up"))
        yield gate
        yield up
        last = self.node("gated", "gated", {"gate": self.shape.gate}, x=gate.output, y=up.output)
        yield last
        if self.shape.sub_norms:
            last = self.norm("feed_sub_norm", last.output)
            yield last
        down = self.product("down", last.output)
        yield down
        yield self.node("feed_add", "add", {}, x=down.output, y=x)
