# SPDX-License-Identifier: Apache-2.0
"""Registration of ONNX operators, and the checks of operands that converters share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.models.onnx.builder import Builder, Codes, Unsupported, Value
from hwgen.models.onnx.file import GraphNode

Converter = Callable[[Builder, GraphNode, list[Value | None]], Sequence[Value]]

MICROSOFT = "com.microsoft:"
QONNX = ("qonnx.custom_op.general:", "finn.custom_op.general:", "onnx.brevitas:")
"""Domains of operators for quantised networks, of QONNX and of what it was before."""


@dataclass(frozen=True)
class Operator:
    """An operator that is read.

    Parameters
    ----------
    name : str
        With its domain, unless that is ONNX's.
    becomes : str
        Operations of the description that it becomes, or what is done with it.
    restrictions : str
        What of it is not supported.
    most_inputs : int
    convert : Converter
    """

    name: str
    becomes: str
    restrictions: str
    most_inputs: int
    convert: Converter


OPERATORS: dict[str, Operator] = {}
"""Operators by name; `hwgen.models.onnx.operator_table` imports the modules that register them."""

ALTERNATIVES: dict[str, str] = {
    "LSTM": "recurrent networks are not read; use a network of convolutions or attention",
    "GRU": "recurrent networks are not read; use a network of convolutions or attention",
    "RNN": "recurrent networks are not read; use a network of convolutions or attention",
    "Loop": "export with the loop unrolled, e.g. by simplifying the graph for fixed shapes",
    "Scan": "export with the loop unrolled, e.g. by simplifying the graph for fixed shapes",
    "ArgMax": "let the graph end before it and take the largest element of the result yourself",
    "ArgMin": "let the graph end before it and take the least element of the result yourself",
    "TopK": "let the graph end before it and sort the result yourself",
    "NonMaxSuppression": "let the graph end before it, and do it on the result yourself",
    "Einsum": "export it as MatMul and Transpose",
    "com.microsoft:Attention": "export without fusing attention: as MatMul and Softmax",
    "com.microsoft:MultiHeadAttention": "export without fusing attention: as MatMul and Softmax",
    "com.microsoft:SkipLayerNormalization": "export without fusing: as Add and LayerNormalization",
    "com.microsoft:EmbedLayerNormalization": "export without fusing: as Gather and Add",
    "com.microsoft:MatMulNBits": "export weights by DequantizeLinear, or as floats",
}
"""What to do about operators that are not read."""


def operator(
    *names: str, becomes: str, restrictions: str = "", inputs: int = 3
) -> Callable[[Converter], Converter]:
    """Return a decorator that makes a function the converter of operators."""

    def register(convert: Converter) -> Converter:
        for name in names:
            OPERATORS[name] = Operator(name, becomes, restrictions, inputs, convert)
        return convert

    return register


# -- checks and conversions of operands --------------------------------------------------------


def required(v: Sequence[Value | None], index: int, what: str) -> Value:
    """Return an operand that must be there."""
    result = v[index] if index < len(v) else None
    if result is None:
        raise Unsupported(f"lacks its input {what}")
    return result


def optional(v: Sequence[Value | None], index: int) -> Value | None:
    """Return an operand that may be there."""
    return v[index] if index < len(v) else None


def constant_of(value: Value, what: str) -> NDArray[Any]:
    """Return the elements of an operand that must be constant."""
    if value.constant is None:
        raise Unsupported(
            f"its {what} is computed from the inputs; it must be known at import: simplify the"
            " graph for fixed shapes, or give every length with --size"
        )
    return value.constant


def whole(value: Value, what: str) -> tuple[int, ...]:
    """Return the integers of a constant operand."""
    array = constant_of(value, what)
    if array.dtype.kind not in "iu" or array.size > 1 << 16:
        raise Unsupported(f"its {what} must be integers, not {array.dtype} {array.shape}")
    return tuple(int(number) for number in array.reshape(-1))


def axis_of(axis: int, ndim: int) -> int:
    """Return an axis counted from the first one."""
    if not -ndim <= axis < max(ndim, 1):
        raise Unsupported(f"axis {axis} is not one of {ndim}")
    return axis % max(ndim, 1)


def ints(node: GraphNode, key: str, default: Sequence[int]) -> tuple[int, ...]:
    """Return an attribute of integers."""
    result = node.attributes.get(key, tuple(default))
    if not isinstance(result, tuple) or not all(isinstance(i, int) for i in result):
        raise Unsupported(f"{key} must be integers")
    return tuple(result)


def integer(node: GraphNode, key: str, default: int) -> int:
    """Return an attribute that is an integer."""
    result = node.attributes.get(key, default)
    if not isinstance(result, int):
        raise Unsupported(f"{key} must be an integer")
    return result


def number(node: GraphNode, key: str, default: float) -> float:
    """Return an attribute that is a number."""
    result = node.attributes.get(key, default)
    if not isinstance(result, (int, float)) or not np.isfinite(result):
        raise Unsupported(f"{key} must be a finite number")
    return float(np.float32(result))


def choice(node: GraphNode, key: str, default: str, choices: Sequence[str]) -> str:
    """Return an attribute that names something."""
    result = node.attributes.get(key, default)
    if result not in choices:
        raise Unsupported(f"{key} {str(result)[:40]!r} is not supported; {', '.join(choices)} is")
    return str(result)


def checked_scale(scale: NDArray[Any], what: str) -> NDArray[np.float32]:
    """Return scales, which must be finite and above 0."""
    wrong = ~(np.isfinite(scale) & (scale > 0)) if scale.dtype.kind == "f" else np.ones(1, bool)
    if wrong.any() or not scale.size:
        at = int(np.flatnonzero(wrong)[0]) if wrong.any() and scale.dtype.kind == "f" else 0
        value = scale.reshape(-1)[at] if scale.size else "nothing"
        raise Unsupported(f"{what} must be finite and above 0; number {at} is {value}")
    return scale.astype(np.float32)


def moved(b: Builder, operation: str, x: Value, **at: Any) -> Value:
    """Return elements of `x` in other places, with the integers that they came from."""
    if x.constant is not None:
        return b.emit(operation, {"x": x}, **at)
    if x.codes is not None and x.codes.single:
        return dequantised(b, b.emit(operation, {"x": x.codes.value}, **at), x.codes)
    result = b.emit(operation, {"x": x}, **at)
    if x.sums is not None:
        result.sums = replace(x.sums, moves=(*x.sums.moves, (operation, at)))
    return result


def dequantised(b: Builder, value: Value, codes: Codes) -> Value:
    """Return the numbers of integers, which know where they came from."""
    inputs = {"x": value, "scale": b.constant(codes.scale)}
    if codes.zero.any():
        inputs["zero"] = b.constant(codes.zero)
    result = b.emit("dequantise_linear", inputs, axis=codes.axis)
    result.codes = replace(codes, value=value)
    return result
