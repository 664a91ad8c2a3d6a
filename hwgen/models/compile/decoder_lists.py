# SPDX-License-Identifier: Apache-2.0
"""A decoder layer as a command list: memory to memory, with no arithmetic on the host.

Weights are integers with a scale for each column, activations of products have one for each row.
Queries, keys and values go into attention with a scale for all of a layer each; its results are
quantised by rows again.  The position of the first token is a register, so that one list serves
all tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.core.lists.builder import ListBuilder, Number, Rows

if TYPE_CHECKING:
    from hwgen.families.transformer.params import TransformerConfig

POSITION, TURNS, CACHE = 1, 2, 3
"""Registers: position of the first token, and what it is times the bytes of a row of turns, and of
a head of keys."""


@dataclass(frozen=True)
class LayerShape:
    """Sizes of a layer.

    Parameters
    ----------
    tokens : int
        That a run of the list takes.
    width, hidden : int
        Elements of a token, and between the products of the gated part.
    heads, kv_heads, elements : int
        Heads of queries, of keys, and elements of each.
    context : int
        Positions that the cache has room for.
    epsilon : float
        Of normalisations.
    sub_norms : bool
        Whether what goes into the products behind attention and gate is normalised.
    """

    tokens: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    elements: int
    context: int
    epsilon: float = 1e-5
    sub_norms: bool = False

    @property
    def queries(self) -> int:
        """Elements of all queries of a token."""
        return self.heads * self.elements

    @property
    def joined(self) -> int:
        """Elements of the queries, keys and values of a token."""
        return (self.heads + 2 * self.kv_heads) * self.elements


@dataclass(frozen=True)
class LayerScales:
    """What units of integers stand for, once for all rows of a layer.

    Parameters
    ----------
    query, key, value : float
        Steps of the integers that attention takes.
    output : float
        What a unit of its results stands for, that of V over its bits behind the point.
    """

    query: float
    key: float
    value: float
    output: float


def arrays_of(shape: LayerShape, weight_bytes: dict[str, int]) -> dict[str, int]:
    """Return the bytes of each array of a layer, by name.

    Parameters
    ----------
    shape : LayerShape
    weight_bytes : dict of int
        Bytes of the packed weights ``joined``, ``out``, ``gate_up`` and ``down``.

    Notes
    -----
    The host fills ``x`` (bf16, tokens x width; it holds the result in the end), the weights, their
    scales of columns (``joined_scales``, ..., bf16), the norms (bf16), ``turns`` (bf16, context x
    elements: cosine and sine of pairs in turn) and ``query_scale`` (one word).
    """
    t, d, f, q = shape.tokens, shape.width, shape.hidden, shape.queries
    kv = shape.kv_heads * shape.context * shape.elements
    widest = max(shape.joined, 2 * f, d)
    found = {"x": 2 * t * d, "norm": 2 * d, "ffn_norm": 2 * d, "turns": 2 * shape.context *
             shape.elements, "query_scale": 4, "keys": kv, "values": kv}  # fmt: skip
    for name, columns in (("joined", shape.joined), ("out", d), ("gate_up", 2 * f), ("down", d)):
        found |= {name: weight_bytes[name], f"{name}_scales": 2 * columns}
    if shape.sub_norms:
        found |= {"attention_norm": 2 * q, "hidden_norm": 2 * f}
    return found | {
        "normed": 2 * t * max(d, q, f), "integers": t * max(d, q, f), "steps": 4 * t,
        "sums": 4 * t * widest, "mixed": 2 * t * widest, "turned": 2 * t * q, "turned_keys": 2 * t *
        shape.kv_heads * shape.elements, "query": t * q, "heads": 2 * t * q, "gated": 2 * t * f,
    }  # fmt: skip


class LayerBuilder:
    """Appends decoder layers to a list.

    Parameters
    ----------
    config : TransformerConfig
        It needs units of ``gemm`` on int8 activations, row operations on bf16, ``quantise`` of bf16
        and, without `sub_norms`, of int16, else ``rms_norm`` of int16, ``dequantise_rows`` of int32
        to bf16, and ``attention`` without scales of tokens.
    shape : LayerShape
    scales : LayerScales
    at : dict of int
        Address of each of `arrays_of`.
    """

    def __init__(
        self, config: TransformerConfig, shape: LayerShape, scales: LayerScales, at: dict[str, int]
    ) -> None:
        self.list, self.shape, self.scales, self.at = ListBuilder(config), shape, scales, at
        of = self.list.unit
        self.real = {name: of(name, x="bf16", result="bf16")
                     for name in ("rms_norm", "rope", "gated", "add")}  # fmt: skip
        self.quantise = of("quantise", x="bf16", result="int8")
        self.dequantise = of("dequantise_rows", x="int32", result="bf16")
        self.attend = of("attention")
        self.behind = (
            of("rms_norm", x="int16", result="bf16")
            if shape.sub_norms
            else of("quantise", x="int16", result="int8")
        )

    def begin(self) -> None:
        """Compute what depends on the position, which the host has put into its register."""
        program, bytes_ = self.list.program, self.shape.elements
        program.multiply(TURNS, POSITION, 2 * bytes_)
        program.multiply(CACHE, POSITION, bytes_)

    def layer(self) -> None:
        """Append the layer."""
        shape, t, d, f = self.shape, self.shape.tokens, self.shape.width, self.shape.hidden
        self._norm("x", "norm", d)
        self._product("normed", "joined", d, shape.joined)
        self._heads()
        if shape.sub_norms:
            self.list.rows(
                "rms_norm", shape.queries,
                {"x": self._rows("heads", t), "gamma": self._rows("attention_norm", t, stride=0),
                 "result": self._rows("normed", t)},
                unit=self.behind,
                scalars={"epsilon": shape.epsilon / self.scales.output**2},
            )  # fmt: skip
            self._product("normed", "out", shape.queries, d)
        else:
            self._integers("heads", shape.queries, unit=self.behind)
            self._multiply("out", shape.queries, d, self.scales.output)
        self._residual(d)
        self._norm("x", "ffn_norm", d)
        self._product("normed", "gate_up", d, 2 * f)
        self.list.rows(
            "gated", f,
            {"x": self._rows("mixed", t, stride=4 * f),
             "y": self._rows("mixed", t, stride=4 * f, offset=2 * f),
             "result": self._rows("gated", t)},
            unit=self.real["gated"],
        )  # fmt: skip
        if shape.sub_norms:
            self._norm("gated", "hidden_norm", f)
        self._product("normed" if shape.sub_norms else "gated", "down", f, d)
        self._residual(d)

    def finish(self) -> bytes:
        """End the list and return it."""
        self.list.program.halt()
        return self.list.program.encode()

    # -- parts -----------------------------------------------------------------------------

    def _rows(
        self, array: str, rows: int, *, stride: int = -1, offset: int = 0, **others: Any
    ) -> Rows:
        return Rows(array, self.at[array] + offset, rows, stride, **others)

    def _norm(self, array: str, gamma: str, length: int) -> None:
        t = self.shape.tokens
        self.list.rows(
            "rms_norm", length,
            {"x": self._rows(array, t), "gamma": self._rows(gamma, t, stride=0),
             "result": self._rows("normed", t)},
            unit=self.real["rms_norm"], scalars={"epsilon": self.shape.epsilon},
        )  # fmt: skip

    def _integers(self, array: str, length: int, *, unit: str) -> None:
        """Quantise rows, each with a step of its own."""
        t = self.shape.tokens
        self.list.rows(
            "quantise", length,
            {"x": self._rows(array, t), "result": self._rows("integers", t),
             "scales": self._rows("steps", t)},
            unit=unit,
        )  # fmt: skip

    def _product(self, array: str, weights: str, k: int, n: int) -> None:
        """Multiply rows of bf16 with weights; results are ``mixed``."""
        self._integers(array, k, unit=self.quantise)
        self._multiply(weights, k, n, 1.0)

    def _multiply(self, weights: str, k: int, n: int, scale: float) -> None:
        t = self.shape.tokens
        self.list.gemm(
            self._rows("integers", t), self._rows(weights, 1), self._rows("sums", t), k, n
        )
        self.list.rows(
            "dequantise_rows", n,
            {"x": self._rows("sums", t), "row_scales": self._rows("steps", t),
             "scales": self._rows(f"{weights}_scales", t, stride=0),
             "result": self._rows("mixed", t)},
            unit=self.dequantise, scalars={"scale": scale},
        )  # fmt: skip

    def _residual(self, d: int) -> None:
        t = self.shape.tokens
        self.list.rows(
            "add", d,
            {"x": self._rows("mixed", t), "y": self._rows("x", t), "result": self._rows("x", t)},
            unit=self.real["add"],
        )  # fmt: skip

    def _heads(self) -> None:
        """Turn queries and keys, append keys and values to the cache, attend."""
        shape, size = self.shape, self.shape.elements
        t, row, room = shape.tokens, 2 * self.shape.joined, self.shape.context * size
        key_at, value_at = 2 * shape.queries, 2 * (shape.queries + shape.kv_heads * size)
        for array, heads, offset in (("turned", shape.heads, 0),
                                     ("turned_keys", shape.kv_heads, key_at)):  # fmt: skip
            here = {"blocks": t, "stride": 2 * size}
            self.list.rows(
                "rope", size,
                {"x": self._rows("mixed", heads, offset=offset, step=row, **here),
                 "turns": self._rows("turns", heads, stride=0, blocks=t, step=2 * size,
                                     register=TURNS),
                 "result": self._rows(array, heads, step=2 * heads * size, **here)},
                unit=self.real["rope"],
            )  # fmt: skip
        self.list.rows(
            "quantise_tensor", size,
            {"x": self._rows("turned", t * shape.heads),
             "result": self._rows("query", t * shape.heads)},
            unit=self.quantise, scalars={"scale": 1 / self.scales.query},
        )  # fmt: skip
        heads = shape.kv_heads
        for array, cache, source, scale in (
            ("turned_keys", "keys", {"step": 2 * heads * size}, self.scales.key),
            ("mixed", "values", {"step": row, "offset": value_at}, self.scales.value),
        ):
            self.list.rows(
                "quantise_tensor", size,
                {"x": self._rows(array, heads, stride=2 * size, blocks=t, **source),
                 "result": self._rows(cache, heads, stride=room, blocks=t, step=size,
                                      register=CACHE)},
                unit=self.quantise, scalars={"scale": 1 / scale},
            )  # fmt: skip
        self._attend()

    def _attend(self) -> None:
        shape, size = self.shape, self.shape.elements
        group = shape.heads // shape.kv_heads
        core: Any = self.list.config.units[self.attend].compute
        at_once = max(1, core.array.rows // group)
        for head in range(shape.kv_heads):
            for first in range(0, shape.tokens, at_once):
                count = min(at_once, shape.tokens - first)
                there = first * shape.queries + head * group * size
                cache = head * shape.context * size
                self.list.attention(
                    {
                        "query": self._rows("query", group, stride=size, blocks=count,
                                            step=shape.queries, offset=there),
                        "query_scale": self._rows("query_scale", group * count, stride=0),
                        "key": self._rows("keys", 1, offset=cache),
                        "value": self._rows("values", 1, offset=cache),
                        "output": self._rows("heads", group, stride=2 * size, blocks=count,
                                             step=2 * shape.queries, offset=2 * there),
                    },
                    unit=self.attend, queries=count, group=group,
                    keys=Number(first + count, POSITION),
                    key_bytes=Number((first + count) * size, CACHE),
                    last=Number(first + 1, POSITION),
                )  # fmt: skip
