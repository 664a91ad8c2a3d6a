# SPDX-License-Identifier: Apache-2.0
"""The description of a network: named operations on named arrays, and where the weights lie.

Operations are those of accelerators (`hwgen.models.graph.operations`), each with its operands by
name. An operand is the result of an earlier operation, an input, or a tensor of `weights.bin`.

Weights of products are stored by output channel, shape (N, K), so that groups with a scale of
their own run along the rows.  A tensor of integers stands for ``values * scales + offsets``, all
in single precision, where a row of K values has as many scales as it has groups.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from hwgen.models.graph.operations import OPERATIONS

VERSION = 1
"""Version of the form; a reader refuses others."""

_SHORT_SCALES = ("mxfp4", "nvfp4")  # formats whose scales have 8 bits

WIDTHS = {
    "float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "int32": 4, "int64": 8,
}  # fmt: skip
"""Bytes of an element of each type."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=300)]
Size = Annotated[int, Field(ge=1, le=1 << 40)]
DType = Literal["float32", "float16", "bfloat16", "int8", "uint8", "int32", "int64"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Part(_Frozen):
    """An array in `weights.bin`, little-endian, the last index fastest.

    Attributes
    ----------
    dtype : str
    shape : tuple of int
    offset : int
        Byte where it begins.
    """

    dtype: DType
    shape: tuple[Size, ...]
    offset: int = Field(ge=0)

    @property
    def bytes(self) -> int:
        """Length in bytes."""
        return math.prod(self.shape) * WIDTHS[self.dtype]


class Tensor(_Frozen):
    """Weights.

    Attributes
    ----------
    values : Part
        Numbers, or integers if there are scales.
    origin : str
        Type in the file, such as ``Q4_1`` or ``BF16``.
    bits : int
        Of an element as the file had it, scales not counted.
    scales : Part or None
        Shape (rows or 1, groups of a row).
    offsets : Part or None
        What is added, of the shape of `scales`.
    tensor_scale : float
        Factor that all scales contain, of a format that stores it apart (NVFP4); else 1.
    """

    values: Part
    origin: Text
    bits: int = Field(ge=1, le=64)
    scales: Part | None = None
    offsets: Part | None = None
    tensor_scale: float = Field(default=1.0, gt=0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.values.shape

    @property
    def group(self) -> int | None:
        """Elements along a row that share a scale; None of numbers."""
        return None if self.scales is None else self.shape[-1] // self.scales.shape[-1]

    @property
    def stored_bits(self) -> float:
        """Bits of the elements, as the file has them, and of scales: of MX 8 each, else 16."""
        elements = math.prod(self.shape)
        if self.scales is None:
            return float(elements * self.bits)
        per_scale = 8 if self.origin.lower() in _SHORT_SCALES else 16
        per_scale += 0 if self.offsets is None else 16
        return float(elements * self.bits + math.prod(self.scales.shape) * per_scale)

    @model_validator(mode="after")
    def _check(self) -> Tensor:
        if self.scales is None:
            if self.offsets is not None:
                raise ValueError("offsets need scales")
            return self
        if len(self.shape) != 2 or self.values.dtype not in ("int8", "uint8"):
            raise ValueError("scales belong to a matrix of int8 or uint8")
        rows, columns = self.shape
        if (
            len(self.scales.shape) != 2
            or self.scales.shape[0] not in (1, rows)
            or columns % self.scales.shape[1]
        ):
            raise ValueError(
                f"scales of shape {self.scales.shape} do not fit a matrix of {rows} x {columns}"
            )
        if self.offsets is not None and self.offsets.shape != self.scales.shape:
            raise ValueError("offsets must be as many as scales")
        return self


class Node(_Frozen):
    """An operation of the network.

    Attributes
    ----------
    name : str
    operation : str
        One of `hwgen.models.graph.operations.OPERATIONS`.
    inputs : dict
        Arrays by the operand's name.
    output : str
        Name of its result.
    attributes : dict
        What else it is to know.
    layer : int or None
        Which of the repeated layers it is in.
    """

    name: Text
    operation: Text
    inputs: dict[str, Text]
    output: Text
    attributes: dict[str, bool | int | float | str | tuple[int, ...]] = Field(default_factory=dict)
    layer: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _check(self) -> Node:
        kind = OPERATIONS.get(self.operation)
        if kind is None:
            raise ValueError(f"{self.name}: no operation is called {self.operation!r}")
        kind.check(self.name, self.inputs, self.attributes)
        return self


class Source(_Frozen):
    """Origin of a model."""

    format: Literal["gguf", "safetensors", "onnx", "tflite"]
    file: Text
    architecture: Text
    licence: str = Field(default="", max_length=300)


class Description(_Frozen):
    """A network.

    Attributes
    ----------
    hwgen_model : int
        `VERSION`.
    name : str
    source : Source
    inputs, outputs : tuple of str
        Names of arrays.
    arrays : dict
        Shapes of all arrays that are no weights; ``"tokens"`` is chosen at run time.
    tensors : dict of Tensor
        Weights by name.
    nodes : tuple of Node
        In an order in which they can be computed.
    types : dict of str
        Types of arrays that are no floats.
    context : int or None
        Most positions of a decoder.
    vocabulary : int or None
        Tokens of a language model.
    """

    hwgen_model: Literal[1]
    name: Text
    source: Source
    inputs: tuple[Text, ...]
    outputs: tuple[Text, ...]
    arrays: dict[str, tuple[Size | Literal["tokens"], ...]]
    tensors: dict[str, Tensor]
    nodes: tuple[Node, ...]
    types: dict[str, Literal["int8", "uint8", "int32", "int64", "bool"]] = Field(
        default_factory=dict
    )
    context: int | None = Field(default=None, ge=1)
    vocabulary: int | None = Field(default=None, ge=1)

    @property
    def layers(self) -> int:
        """Number of repeated layers."""
        return 1 + max((node.layer for node in self.nodes if node.layer is not None), default=-1)

    @property
    def decodes(self) -> bool:
        """Whether it is a decoder: it takes tokens, and its attention keeps a cache."""
        return any(n.operation == "attention" and n.attributes.get("causal") for n in self.nodes)

    @property
    def logits(self) -> frozenset[str]:
        """Arrays of a decoder of which only the last token's row is needed."""
        result = set(self.outputs) if self.decodes else set()
        for node in self.nodes[:-3:-1]:
            if node.operation == "soft_cap" and node.output in result:
                result.add(node.inputs["x"])
        return frozenset(result)

    def _check_blocks(self, node: Node) -> None:
        """Raise `ValueError` where rows that are turned in blocks are no whole blocks."""
        size = node.attributes.get("hadamard", 0)
        if not size:
            return
        assert isinstance(size, int)
        if not self.decodes:
            raise ValueError(f"{node.name}: hadamard is for decoders")
        shape = self.arrays.get(node.output, ())
        length = node.attributes.get("elements", shape[-1] if shape else 0)
        if not isinstance(length, int) or length % size:
            raise ValueError(f"{node.name}: rows of {length} are no whole blocks of {size}")

    @model_validator(mode="after")
    def _check(self) -> Description:
        defined = set(self.inputs) | set(self.tensors)
        names: set[str] = set()
        for node in self.nodes:
            for operand, array in node.inputs.items():
                if array not in defined:
                    raise ValueError(
                        f"{node.name}: {operand} is {array!r}, which nothing before it makes"
                    )
            if node.output in defined or node.name in names:
                raise ValueError(f"{node.name}: the name or its result {node.output!r} is not new")
            defined.add(node.output)
            names.add(node.name)
            self._check_blocks(node)
        for array in (*self.inputs, *self.outputs, *(node.output for node in self.nodes)):
            if array not in defined:
                raise ValueError(f"nothing makes {array!r}")
            if array not in self.arrays:
                raise ValueError(f"{array!r} has no shape in arrays")
        return self


def real(node: Node, key: str, default: float = 0.0) -> float:
    """Return an attribute that is a number."""
    value = node.attributes.get(key, default)
    assert isinstance(value, (int, float))
    return value


def score_scale(node: Node) -> float:
    """Return the factor of the scores of an attention."""
    return real(node, "scale") or 1.0 / math.sqrt(real(node, "elements"))


def sizes_of(node: Node) -> tuple[int, int, int]:
    """Return the heads of queries, those of keys, and the elements of an attention."""
    heads, kv_heads, elements = (int(real(node, k)) for k in ("heads", "kv_heads", "elements"))
    return heads, kv_heads, elements
