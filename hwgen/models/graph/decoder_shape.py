# SPDX-License-Identifier: Apache-2.0
"""Sizes and variants of decoders, and the tensors that a decoder of some shape has.

A file format says the sizes (`DecoderShape`) and under which names its tensors lie.  Required
tensors and their shapes are defined here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Rotation:
    """Rotation of queries and keys by their position.

    Parameters
    ----------
    base, scale : float
        The angle of pair i is ``position * base^(-2 i / elements) * scale / factors[i]``.
    elements : int
        Elements of a head that are rotated, the first ones; 0: all.
    amplitude : float
        Factor of the rotated elements.
    factors : bool
        Whether angles are divided by the tensor ``rope_factors``.
    """

    base: float = 10000.0
    scale: float = 1.0
    elements: int = 0
    amplitude: float = 1.0
    factors: bool = False


NO_ROTATION = Rotation(scale=0.0)
"""Rotation of layers without positions: every angle is 0."""


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
    rotation : Rotation
    local_rotation : Rotation, optional
        Of the layers with a window; default `rotation`.
    unrotated : frozenset of int
        Layers without rotation.
    factors : tuple of float
        Contents of ``rope_factors`` where the file has no such tensor.
    gate : str
        As ``gated`` takes it.
    pairs : str
        Which elements of a head are rotated together in the file: ``neighbours`` (0 with 1), or
        ``halves`` (0 with elements / 2).
    norm : str
        Operation of normalisations.
    sub_norms : bool
        Whether a normalisation follows attention and gate, as in BitNet.
    pre_norms, post_norms : bool
        Whether a normalisation precedes attention and feed-forward part, and whether one follows.
    head_norms : str
        Normalisation of queries and keys before their rotation: ``none``, of each ``head``, or of
        the whole ``row``.
    parallel : bool
        Whether the feed-forward part reads what attention reads.
    window : int
        Positions that attention looks back; 0: all.
    windowed : frozenset of int, optional
        Layers with a window; default all.
    embedding_scale, residual_scale : float
        Factors of rows of the table of tokens, and of what is added to the residual stream.
    score_scale : float
        Factor of the scores of attention; 0: one over the root of `elements`.
    score_cap, logit_cap : float
        Soft caps ``cap * tanh(x / cap)`` of scores and logits; 0: none.
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
    rotation: Rotation = Rotation()
    local_rotation: Rotation | None = None
    unrotated: frozenset[int] = frozenset()
    factors: tuple[float, ...] = ()
    gate: str = "silu"
    pairs: Literal["neighbours", "halves"] = "neighbours"
    norm: Literal["rms_norm", "layer_norm"] = "rms_norm"
    sub_norms: bool = False
    pre_norms: bool = True
    post_norms: bool = False
    head_norms: Literal["none", "head", "row"] = "none"
    parallel: bool = False
    window: int = 0
    windowed: frozenset[int] | None = None
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    score_scale: float = 0.0
    score_cap: float = 0.0
    logit_cap: float = 0.0

    @property
    def rotated(self) -> int:
        """Elements of a head that are rotated."""
        return self.rotation.elements or self.elements

    def window_of(self, layer: int) -> int:
        """Return the positions that attention of a layer looks back; 0: all."""
        return self.window if self.windowed is None or layer in self.windowed else 0

    def rotation_of(self, layer: int) -> Rotation:
        """Return the rotation of a layer."""
        if layer in self.unrotated:
            return NO_ROTATION
        if self.local_rotation is not None and self.window_of(layer):
            return self.local_rotation
        return self.rotation

    def problems(self) -> list[str]:
        """Return the contradictions between sizes."""
        result = []
        if self.heads % self.kv_heads:
            result.append(
                f"{self.heads} heads of queries do not share {self.kv_heads} heads of keys evenly"
            )
        if self.elements % 2:
            result.append(f"heads of {self.elements} elements cannot be rotated in pairs")
        elif self.rotated % 2 or self.rotated > self.elements:
            result.append(
                f"rotation of {self.rotated} of {self.elements} elements of a head: must be an even"
                " number of them"
            )
        if self.factors and len(self.factors) != self.rotated // 2:
            result.append(
                f"{len(self.factors)} factors of rotations: must be {self.rotated // 2}, one a pair"
            )
        return result


FUSED = {"query_key_value": ("query", "key", "value"), "gate_up": ("gate", "up")}
"""Products that some files have as one matrix, by its name; rows one after the other."""

_PRODUCTS = ("query", "key", "value", "attention_output", "gate", "up", "down")


def products_of(shape: DecoderShape) -> dict[str, tuple[int, int]]:
    """Return the shapes of the products of a layer by name."""
    width, queries = shape.width, shape.heads * shape.elements
    keys = shape.kv_heads * shape.elements
    sizes = (
        (queries, width), (keys, width), (keys, width), (width, queries), (shape.hidden, width),
        (shape.hidden, width), (width, shape.hidden),
    )  # fmt: skip
    return dict(zip(_PRODUCTS, sizes, strict=True))


def _norms_of(shape: DecoderShape) -> dict[str, int]:
    """Return the lengths of the normalisations of a layer by name."""
    queries, keys = shape.heads * shape.elements, shape.kv_heads * shape.elements
    result = {}
    if shape.pre_norms:
        result["attention_norm"] = shape.width
        if not shape.parallel:
            result["feed_norm"] = shape.width
    if shape.post_norms:
        result |= {"attention_post_norm": shape.width, "feed_post_norm": shape.width}
    if shape.sub_norms:
        result |= {"attention_sub_norm": queries, "feed_sub_norm": shape.hidden}
    if shape.head_norms != "none":
        by_head = shape.head_norms == "head"
        result["query_norm"] = shape.elements if by_head else queries
        result["key_norm"] = shape.elements if by_head else keys
    return result


def weights_of(shape: DecoderShape) -> dict[str, tuple[tuple[int, ...], bool]]:
    """Return the shape of every tensor of a file, and whether it is required, by name."""
    result: dict[str, tuple[tuple[int, ...], bool]] = {
        "embedding": ((shape.vocabulary, shape.width), True),
        "output": ((shape.vocabulary, shape.width), False),
    }
    if shape.rotation.factors and not shape.factors:
        result["rope_factors"] = ((shape.rotated // 2,), True)
    norms = {"output_norm": shape.width}
    for layer in range(shape.layers):
        at = f"layers.{layer}"
        norms |= {f"{at}.{name}": length for name, length in _norms_of(shape).items()}
        for name, (rows, columns) in products_of(shape).items():
            result[f"{at}.{name}"] = ((rows, columns), True)
            result[f"{at}.{name}.bias"] = ((rows,), False)
    for name, length in norms.items():
        result[name] = ((length,), True)
        if shape.norm == "layer_norm":
            result[f"{name}.bias"] = ((length,), True)
    return result


def row_order(name: str, shape: DecoderShape, rows: int) -> list[int] | None:
    """Return the order of a tensor's rows in which rotated pairs are neighbours.

    Parameters
    ----------
    name : str
        Of the tensor, see `weights_of`.
    shape : DecoderShape
    rows : int

    Returns
    -------
    list of int or None
        None if the rows stay in the order of the file.
    """
    part = name.removesuffix(".bias").rpartition(".")[2]
    if shape.pairs == "neighbours" or part not in ("query", "key", "query_norm", "key_norm"):
        return None
    return neighbours(rows, shape.elements, shape.rotated)


def neighbours(rows: int, elements: int, rotated: int = 0) -> list[int]:
    """Return the order of rows that puts elements which are rotated together side by side.

    Parameters
    ----------
    rows : int
        Of all heads.
    elements : int
        Of a head.
    rotated : int
        The first ones of a head, the first half of which is rotated with the second; 0: all.
    """
    rotated = rotated or elements
    half = rotated // 2
    order = [place + part for place in range(half) for part in (0, half)]
    order += range(rotated, elements)
    return [head + place for head in range(0, rows, elements) for place in order]
