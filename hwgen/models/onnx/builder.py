# SPDX-License-Identifier: Apache-2.0
"""From the nodes of an ONNX graph to operations: what is known is computed, the rest described."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.models.files.import_common import readable
from hwgen.models.graph.description import Node
from hwgen.models.graph.tensor_shapes import shape_of, type_of
from hwgen.models.onnx.file import MOST_ELEMENTS, Graph
from hwgen.models.run.tensor_integers import INTEGERS
from hwgen.models.run.tensor_operations import HOST

PRODUCTS = ("gemm", "matmul", "integer_gemm", "integer_matmul")
"""Operations that multiply matrices; each begins a layer."""

_MOST_NODES = 1 << 18
_MOST_FOLDED = 1 << 30  # bytes of constants that are computed in all


def _no_graphs(graph: Graph) -> list[Value]:
    raise Unsupported("graphs inside of operators are not read here")


class Unsupported(Exception):
    """Refusal of a node; the text says what is supported."""


@dataclass(eq=False)
class Codes:
    """Integers that a value is dequantised from.

    Parameters
    ----------
    value : Value
    scale, zero : ndarray
        One, or one for each place along `axis`.
    axis : int
    """

    value: Value
    scale: NDArray[np.float32]
    zero: NDArray[Any]
    axis: int

    @property
    def single(self) -> bool:
        """Whether one scale and zero point serve all."""
        return self.scale.size == 1 and self.zero.size == 1


@dataclass(eq=False)
class Sums:
    """Sums in int32 that a value is dequantised from, behind limits and moves.

    Parameters
    ----------
    value : Value
    scales : tuple of ndarray
        Of the two operands; those of the second one for each column, or one.
    low, high : float
    moves : tuple
        Operations and attributes that bring the elements to their places.
    """

    value: Value
    scales: tuple[NDArray[np.float32], NDArray[np.float32]]
    low: float = -math.inf
    high: float = math.inf
    moves: tuple[tuple[str, Mapping[str, Any]], ...] = ()


@dataclass(eq=False)
class Value:
    """An array of the graph.

    Parameters
    ----------
    name : str
        Of the array; empty of a constant.
    shape : tuple of int
    dtype : str
    constant : ndarray, optional
        Its elements, where they are known.
    codes, sums : optional
        Integers that it came from, for operations that go back to integers.
    linear : callable, optional
        Makes it in integers from its operands' integers; takes scale, zero point and type.
    stored : str
        Type that a constant has in the file.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    constant: NDArray[Any] | None = None
    codes: Codes | None = None
    sums: Sums | None = None
    linear: Callable[[np.float32, int, str], Value] | None = None
    stored: str = ""


@dataclass
class Builder:
    """Operations that have been found so far.

    Parameters
    ----------
    opset : int
        Version of ONNX's own operators.

    Attributes
    ----------
    nodes : list of Node
    shapes, types : dict
        Of arrays by name.
    tensors : dict
        Constants that operations take, by name.
    current : str
        Name of the ONNX node that is converted.
    inline : callable
        Converts a graph inside of an operator, and returns its outputs.
    """

    opset: int
    nodes: list[Node] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, NDArray[Any]] = field(default_factory=dict)
    current: str = ""
    inline: Callable[[Graph], list[Value]] = _no_graphs
    _names: set[str] = field(default_factory=set)
    _called: set[str] = field(default_factory=set)
    _shown: set[str] = field(default_factory=set)
    _stored: dict[int, tuple[str, Any]] = field(default_factory=dict)
    _renamed: dict[str, str] = field(default_factory=dict)
    _folded: int = 0

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names for the arrays that have them in the file."""
        self._names |= {readable(name) for name in names}

    def unique(self, name: str, names: set[str] | None = None) -> str:
        """Return a name like this one that no array has yet, or that is not among others."""
        others = self._names if names is None else names
        base = readable(name)[:280] or "value"
        result, number = base, 1
        while result in others:
            number += 1
            result = f"{base}#{number}"
        others.add(result)
        return result

    def input(self, name: str, dtype: str, shape: tuple[int, ...]) -> Value:
        """Add an input."""
        result = self.unique(name)
        self.shapes[result] = shape
        if dtype != "float32":
            self.types[result] = dtype
        return Value(result, shape, dtype)

    def constant(self, array: Any, dtype: str | None = None) -> Value:
        """Return a value that is known; integers of 4 bits are computed with in 8."""
        result = np.asarray(array, dtype)
        stored = result.dtype.name
        if stored in ("int4", "uint4"):
            result = result.astype(stored.replace("4", "8"))
        return Value("", result.shape, result.dtype.name, result, stored=stored)

    def emit(self, operation: str, inputs: Mapping[str, Value], **at: Any) -> Value:
        """Add an operation and return its result; one of constants is computed at once.

        Raises
        ------
        Unsupported
            If operands do not go together, or something is too large.
        """
        present = {key: value for key, value in inputs.items() if value is not None}
        try:
            shape = shape_of(operation, at, {key: v.shape for key, v in present.items()})
            dtype = type_of(operation, at, {key: v.dtype for key, v in present.items()})
        except (ValueError, IndexError) as error:
            raise Unsupported(f"its operands do not go together: {error}") from None
        if math.prod(shape) > MOST_ELEMENTS:
            raise Unsupported(f"its result has {math.prod(shape)} elements, over {MOST_ELEMENTS}")
        if all(value.constant is not None for value in present.values()):
            return self._computed(operation, present, at, shape)
        if not math.prod(shape):
            raise Unsupported(f"its result of shape {shape} has no elements")
        if len(self.nodes) >= _MOST_NODES:
            raise Unsupported(f"the graph needs more than {_MOST_NODES} operations")
        name = self.unique(self.current)
        operands = {key: self._name(value, f"{name}.{key}") for key, value in present.items()}
        attributes = {key: tuple(v) if isinstance(v, list) else v for key, v in at.items()}
        own = self.unique(self.current, self._called)
        node = Node(name=own, operation=operation, inputs=operands, output=name,
                    attributes=attributes)  # fmt: skip
        self.nodes.append(node)
        self.shapes[name] = shape
        if dtype != "float32":
            self.types[name] = dtype
        return Value(name, shape, dtype)

    def _computed(
        self, operation: str, present: Mapping[str, Value], at: Mapping[str, Any], shape: Any
    ) -> Value:
        """Return the result of an operation on constants."""
        self._folded += 8 * math.prod(shape)
        if self._folded > _MOST_FOLDED:
            raise Unsupported("the constants that it makes are too many to be computed in advance")
        function = HOST.get(operation) or INTEGERS.get(operation)
        arrays = {key: value.constant for key, value in present.items()}
        if function is None:
            return self.constant(_multiplied(operation, at, arrays))
        try:
            return self.constant(function(at, **arrays))
        except (ValueError, IndexError, KeyError, TypeError, ArithmeticError) as error:
            raise Unsupported(f"cannot be computed from its constants: {error}") from None

    def _name(self, value: Value, hint: str) -> str:
        """Return the name of an array; a constant is put among the tensors."""
        if value.constant is None:
            return value.name
        kept = self._stored.get(id(value.constant))
        if kept is not None:
            return kept[0]
        if not value.constant.size:
            raise Unsupported(f"an operand of shape {value.shape} has no elements")
        name = self.unique(hint)
        array = value.constant
        self.tensors[name] = array.astype(np.uint8) if array.dtype == np.bool_ else array
        self._stored[id(array)] = name, array  # which keeps the array, and so its id
        return name

    def called(self, value: Value, name: str) -> None:
        """Let an array have the name that the file gives it, if it has none yet."""
        fresh = value.name and value.name not in self._renamed and value.name in self.shapes
        if fresh and any(node.output == value.name for node in self.nodes[-8:]):
            shown = readable(name)  # which cuts long names off, so that two may be the same
            used = shown in self._shown
            self._renamed[value.name] = self.unique(shown) if used else shown
            self._shown.add(shown)

    def name_of(self, value: Value) -> str:
        """Return the name that an array will have."""
        return self._renamed.get(value.name, value.name)

    def finished(
        self, inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> tuple[tuple[Node, ...], tuple[str, ...], dict[str, tuple[int, ...]], dict[str, Any]]:
        """Return nodes that outputs need, the outputs' names, shapes and types of all arrays."""
        needed = {value.name for value in outputs}
        kept = []
        for node in reversed(self.nodes):
            if node.output in needed:
                kept.append(node)
                needed |= set(node.inputs.values())
        new = self._renamed
        nodes, product = [], -1
        for node in reversed(kept):
            product += node.operation in PRODUCTS
            operands = {key: new.get(name, name) for key, name in node.inputs.items()}
            update = {"inputs": operands, "output": new.get(node.output, node.output),
                      "layer": max(product, 0)}  # fmt: skip
            nodes.append(node.model_copy(update=update))
        self.tensors = {name: array for name, array in self.tensors.items() if name in needed}
        names = [value.name for value in inputs]
        names += [node.output for node in kept]
        shapes = {new.get(name, name): self.shapes[name] for name in names}
        types = {new.get(name, name): self.types[name] for name in names if name in self.types}
        results = tuple(new.get(value.name, value.name) for value in outputs)
        return tuple(nodes), results, shapes, types


def _multiplied(operation: str, at: Mapping[str, Any], arrays: Mapping[str, Any]) -> NDArray[Any]:
    """Return a product of constants."""
    if operation == "matmul":
        return np.asarray(np.matmul(arrays["x"], arrays["y"]))
    if operation == "gemm" and at.get("groups", 1) == 1:
        result = arrays["x"] @ arrays["weights"].T
        return np.asarray(result + arrays["bias"] if "bias" in arrays else result)
    raise Unsupported("multiplies constants by constants; fold them before the export")
