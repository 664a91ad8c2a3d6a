# SPDX-License-Identifier: Apache-2.0
"""A network on arrays for a host and an engine that multiplies: its products, and what neither has.

Products of matrices are jobs of the engine.  Everything else is the host's, who has the operations
of `hwgen.models.run.host_tensors` on elements of the types that stand here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hwgen.models.compile.compilation import engine_problem
from hwgen.models.graph.description import Description, Node
from hwgen.models.graph.tensor_shapes import COMPARISONS
from hwgen.models.run.host_functions import FUNCTIONS
from hwgen.models.run.host_tensors import OPERATIONS
from hwgen.models.run.tensor_integers import narrow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.families.gemm_stream.schedule import JobEngine
    from hwgen.models.files.store import Model

PRODUCTS = ("gemm", "integer_gemm", "matmul", "integer_matmul")
"""Operations that are jobs."""

BY_WEIGHTS = ("gemm", "integer_gemm")
"""Those of them whose right operand is constant."""

AXES = 8
"""Most axes that remain of an array's when neighbours that lie behind one another are joined."""

WINDOW_AXES = 3
_WIDEST = 128  # largest magnitude of an activation
_INTEGERS = ("int8", "uint8", "int32", "int64")
_OF_ANYTHING = (
    "where", "cast", "reshape", "transpose", "concat", "slice", "expand", "pad", "patches",
)  # fmt: skip
_OF_FLOATS = ("softmax", "layer_norm", "quantise", "dynamic_quantise")
_UNARY_INTEGERS = ("relu", "negative", "abs", "sign", "not")
_UNARY_FLOATS = (
    *FUNCTIONS, *_UNARY_INTEGERS, "leaky_relu", "elu", "hard_sigmoid", "hard_swish", "sqrt",
    "reciprocal", "floor", "ceil", "round", "is_nan",
)  # fmt: skip
_DIVISIONS = ("divide", "mod")
_TO_FLOATS = "cast to float32 before it and back behind it"


@dataclass(frozen=True)
class Product:
    """A product of matrices as jobs of one shape.

    Parameters
    ----------
    name : str
        Of the operation.
    m, k, n : int
        Of each job.
    parts : int
        Jobs: groups of columns of one product, or matrices of a batch.
    constant : bool
        Whether the right operand is constant; then the parts stand beside one another in the rows
        of activations and of results, else behind one another.
    """

    name: str
    m: int
    k: int
    n: int
    parts: int
    constant: bool

    @property
    def row_bytes(self) -> int:
        """Bytes from one row of activations to the next."""
        return self.k * self.parts if self.constant else self.k

    @property
    def row_sums(self) -> int:
        """Sums from one row of results to the next."""
        return self.n * self.parts if self.constant else self.n

    def places(self, part: int) -> tuple[int, int]:
        """Return the first byte of activations and the first sum of a part."""
        if self.constant:
            return part * self.k, part * self.n
        return part * self.m * self.k, part * self.m * self.n


class Shapes:
    """Shapes and types of the arrays of a network.

    Parameters
    ----------
    description : Description
    """

    def __init__(self, description: Description) -> None:
        self.description = description

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array or a tensor."""
        if name in self.description.tensors:
            return self.description.tensors[name].shape
        return tuple(int(length) for length in self.description.arrays[name])

    def type(self, name: str) -> str:
        """Return the type of an array or a tensor."""
        if name in self.description.tensors:
            dtype = self.description.tensors[name].values.dtype
            return "float32" if dtype in ("float16", "bfloat16") else dtype
        return self.description.types.get(name, "float32")

    def bytes(self, name: str) -> int:
        """Return the bytes of an array."""
        return math.prod(self.shape(name)) * np.dtype(self.type(name)).itemsize

    def product(self, node: Node) -> Product:
        """Return the jobs of a product."""
        x = self.shape(node.inputs["x"])
        if node.operation in BY_WEIGHTS:
            parts = int(node.attributes.get("groups", 1))  # type: ignore[arg-type]
            n, k = self.shape(node.inputs["weights"])
            return Product(node.name, math.prod(x[:-1]), k, n // parts, parts, constant=True)
        result = self.shape(node.output)
        k = x[-1]
        return Product(node.name, result[-2], k, result[-1], math.prod(result[:-2]), constant=False)


def int8_weights(model: Model, node: Node) -> NDArray[np.int8]:
    """Return the weights of a product in int8, shape (parts * n, k)."""
    values = model.part(model.description.tensors[node.inputs["weights"]].values)
    return narrow(values, None)[0]


class Checks:
    """Checks of a network against the operations of host and engine.

    Parameters
    ----------
    model : Model
    config : JobEngine
    """

    def __init__(self, model: Model, config: JobEngine) -> None:
        self.model, self.config = model, config
        self.description = model.description
        self.shapes = Shapes(model.description)

    def problems(self) -> list[str]:
        """Return the operations that cannot be compiled, with the reason and an alternative."""
        result = []
        for node in self.description.nodes:
            result += [f"{node.name}: {problem}" for problem in self._of(node)]
        return result

    def _of(self, node: Node) -> Iterator[str]:
        at = node.attributes
        types = {key: self.shapes.type(name) for key, name in node.inputs.items()}
        if node.operation in PRODUCTS:
            yield from self._product(node)
        elif node.operation == "quantise":
            if at["bits"] != 8:
                yield f"its rows have {at['bits']} bits; quantise activations to 8"
        elif node.operation not in OPERATIONS:
            yield f"{node.operation} is no operation of the host; export it as simpler operators"
        else:
            name = str(at.get("function", ""))
            problem = self._elements(node, name, types)
            if problem:
                yield problem
        if len(at.get("kernel", ())) > WINDOW_AXES:  # type: ignore[arg-type]
            yield f"its windows have more than {WINDOW_AXES} axes; use those of fewer"
        if max(len(self.shapes.shape(a)) for a in (*node.inputs.values(), node.output)) > AXES:
            yield f"an array has more than {AXES} axes; reshape it to fewer"

    def _elements(self, node: Node, name: str, types: Mapping[str, str]) -> str:
        """Return the problem of an operation on elements of some types."""
        x = types.get("x", "float32")
        integers = x in _INTEGERS
        match node.operation:
            case operation if operation in _OF_ANYTHING:
                return ""
            case operation if operation in _OF_FLOATS and x != "float32":
                return f"{operation} of {x}; {_TO_FLOATS}"
            case "unary":
                supported = _UNARY_INTEGERS if integers else _UNARY_FLOATS
                supported = ("not",) if x == "bool" else supported
                return "" if name in supported else f"{name} of {x}; {_TO_FLOATS}"
            case "binary" | "add":
                return self._binary(node, name, types)
            case "reduce" if x == "bool" or (integers and name == "mean"):
                return f"{name} of {x}; {_TO_FLOATS}"
            case "pool" if name != "largest" and x != "float32":
                return f"{name} of {x}; {_TO_FLOATS}"
            case "clip" if x == "bool":
                return f"limits of {x}; {_TO_FLOATS}"
            case "gather" | "gather_nd" if types["indices"] not in ("int32", "int64"):
                return f"numbers of {types['indices']}; cast them to int64"
        return ""

    def _binary(self, node: Node, name: str, types: Mapping[str, str]) -> str:
        x = types["x"]
        if x == "bool" and name not in COMPARISONS:
            return f"{name or 'add'} of bool; {_TO_FLOATS}"
        if x == "float32":
            return f"mod of {x}; cast to int32 before it" if name == "mod" else ""
        if name == "power":
            return f"{name} of {x}; {_TO_FLOATS}"
        tensor = self.description.tensors.get(node.inputs["y"])
        if name in _DIVISIONS and (tensor is None or not np.all(self.model.part(tensor.values))):
            return f"{name} of {x} by what is not constant, or 0; {_TO_FLOATS}"
        return ""

    # -- products --------------------------------------------------------------------------

    def _product(self, node: Node) -> Iterator[str]:
        low, high = -_WIDEST, _WIDEST - 1
        if node.operation in BY_WEIGHTS:
            problem = self._weights(node)
            if problem:
                yield problem
                return
            weights = int8_weights(self.model, node)
            low, high = int(weights.min()), int(weights.max())
        else:
            if node.operation == "matmul" and node.attributes.get("bits", 0) != 8:
                yield (
                    "multiplies floats; run `hwgen model quantise` first, or export the network"
                    " quantised"
                )
                return
            if self.config.loop_nest.image:
                yield (
                    f"multiplies by activations, but {self.config.name} takes weights packed"
                    " beforehand; use an engine around an array that multiplies"
                )
                return
        length = self.shapes.product(node).k
        if problem := engine_problem(self.config, low, high, length, _WIDEST):
            yield f"cannot be multiplied by {self.config.name}: {problem}"

    def _weights(self, node: Node) -> str:
        """Return the problem of the weights of a product."""
        tensor = self.description.tensors.get(node.inputs["weights"])
        if node.operation == "gemm":
            if tensor is None or tensor.scales is None:
                return (
                    "multiplies floats; run `hwgen model quantise` first, or export the network"
                    " quantised"
                )
            if tensor.scales.shape[1] != 1 or tensor.offsets is not None:
                return "its weights have scales in groups; quantise the network without --group"
            maker = {each.output: each for each in self.description.nodes}.get(node.inputs["x"])
            if maker is None or maker.operation != "quantise":
                return "its rows are no integers; run `hwgen model quantise` first"
        elif tensor is None:
            return "its weights are not constant; export it as MatMulInteger"
        elif node.inputs.get("weights_zero", "") not in ("", *self.description.tensors):
            return "the zero point of its weights is not constant; fold it into them"
        return ""
