# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX Runtime that are functions of quantised elements, and its product QGemm.

A function of one element of 8 bits is a table of 256 results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.models.onnx.builder import Builder, Codes, Sums, Unsupported, Value
from hwgen.models.onnx.elementwise import window
from hwgen.models.onnx.file import GraphNode
from hwgen.models.onnx.matrix_products import integer_rows, requantised
from hwgen.models.onnx.operators import (
    MICROSOFT,
    axis_of,
    checked_scale,
    constant_of,
    integer,
    ints,
    moved,
    number,
    operator,
    optional,
    required,
)
from hwgen.models.run.tensor_integers import fused, limits_of

Operands = list[Value | None]
Function = Callable[[NDArray[np.float32]], NDArray[Any]]

_BYTES = ("int8", "uint8")
_CONSTANT = "scales and zero points: constant"


def point(v: Operands, at: int, what: str, dtype: str) -> tuple[np.float32, int]:
    """Return one scale and zero point, 0 if there is none."""
    name = f"{what}_scale"
    scale = checked_scale(constant_of(required(v, at, name), name), name)
    operand = optional(v, at + 1)
    zero = np.zeros((), dtype)
    if operand is not None:
        zero = constant_of(operand, f"{what}_zero_point")
    if scale.size != 1 or zero.size != 1 or zero.dtype.name != dtype:
        raise Unsupported(f"{what} must have one scale, and one zero point of {dtype}")
    return np.float32(scale.item()), int(zero.item())


def _codes(v: Operands, index: int, what: str) -> Value:
    x = required(v, index, what)
    if x.dtype not in _BYTES:
        raise Unsupported(f"{what} must be int8 or uint8, not {x.dtype}")
    return x


def tabulated(
    b: Builder, x: Value, before: tuple[np.float32, int], after: tuple[np.float32, int],
    function: Function,
) -> Value:  # fmt: skip
    """Return a function of quantised elements, by a table of its results."""
    low, high = limits_of(x.dtype)
    codes = np.arange(256)
    codes = np.where(codes > high, codes - 256, codes)  # negative indices count from the end
    (x_scale, x_zero), (scale, zero) = before, after
    with np.errstate(all="ignore"):
        results = function((x_scale * (codes - x_zero).astype(np.float32)).astype(np.float32))
        integers = np.rint(results / scale) + np.float32(zero)
    table = b.constant(np.clip(integers, low, high), x.dtype)
    places = b.emit("cast", {"x": x}, dtype="int32")
    return b.emit("gather", {"x": table, "indices": places}, axis=0)


_NUMERATOR = (4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05,
              8.51377133304701e-03, 2.48287947061529e-01)  # fmt: skip
_DENOMINATOR = (6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06,
                1.70198817374094e-03, 1.16817656904453e-01, 9.93151921023180e-01)  # fmt: skip


def _logistic(x: NDArray[np.float32]) -> NDArray[Any]:
    """Return the rational function that ONNX Runtime has for the logistic one."""
    x = np.clip(x, np.float32(-18), np.float32(18))
    squares = x * x

    def polynomial(factors: Sequence[float]) -> Any:
        result: Any = np.full_like(x, factors[0])
        for factor in factors[1:]:
            result = fused(result, squares, np.float32(factor))
        return result

    quotient = polynomial(_NUMERATOR) * x / polynomial(_DENOMINATOR)
    return np.asarray(np.clip(quotient + np.float32(0.5), np.float32(0), np.float32(1)))


@operator(MICROSOFT + "QLinearSigmoid", becomes="cast, gather in a table", restrictions=_CONSTANT,
          inputs=5)  # fmt: skip
@operator(MICROSOFT + "QLinearLeakyRelu", becomes="cast, gather in a table", restrictions=_CONSTANT,
          inputs=5)  # fmt: skip
def _function(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = _codes(v, 0, "X")
    before, after = point(v, 1, "X", x.dtype), point(v, 3, "Y", x.dtype)
    alpha = np.float32(number(node, "alpha", 0.01))
    function: Function = _logistic
    if node.operator.endswith("QLinearLeakyRelu"):

        def function(x: NDArray[np.float32]) -> NDArray[Any]:
            return np.where(x >= 0, x, x * alpha)

    return [tabulated(b, x, before, after, function)]


@operator(MICROSOFT + "QLinearWhere", becomes="where, of operands in the result's scale by tables",
          restrictions=_CONSTANT, inputs=9)  # fmt: skip
def _where(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, y = _codes(v, 1, "X"), _codes(v, 4, "Y")
    if x.dtype != y.dtype:
        raise Unsupported(f"its operands are {x.dtype} and {y.dtype}")
    after = point(v, 7, "Z", x.dtype)
    parts = {"condition": required(v, 0, "condition")}
    for key, value, at in (("x", x, 2), ("y", y, 5)):
        before = point(v, at, key.upper(), x.dtype)
        parts[key] = value if before == after else tabulated(b, value, before, after, lambda n: n)
    return [b.emit("where", parts)]


@operator(MICROSOFT + "QLinearSoftmax", becomes="linear_softmax",
          restrictions="run, but not compiled; " + _CONSTANT, inputs=5)  # fmt: skip
def _softmax(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = _codes(v, 0, "X")
    (x_scale, _), (scale, zero) = point(v, 1, "X", x.dtype), point(v, 3, "Y", x.dtype)
    version = integer(node, "opset", 13)
    axis = axis_of(integer(node, "axis", 1 if version < 13 else -1), len(x.shape))
    shape = x.shape
    if version < 13:  # over all axes from that one
        lines = (int(np.prod(shape[:axis])), int(np.prod(shape[axis:])))
        x, axis = b.emit("reshape", {"x": x}, shape=lines), 1
    result = b.emit("linear_softmax", {"x": x}, axis=axis, x_scale=float(x_scale),
                    scale=float(scale), zero=zero, dtype=x.dtype)  # fmt: skip
    return [b.emit("reshape", {"x": result}, shape=shape) if result.shape != shape else result]


@operator(MICROSOFT + "QLinearAveragePool", becomes="linear_pool, or linear_mean of all elements",
          restrictions="channels_last 0, ceil_mode 0; windows are run, but not compiled; "
          + _CONSTANT, inputs=5)  # fmt: skip
def _pool(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = _codes(v, 0, "X")
    (x_scale, x_zero), (scale, zero) = point(v, 1, "X", x.dtype), point(v, 3, "Y", x.dtype)
    if integer(node, "channels_last", 0) or integer(node, "ceil_mode", 0):
        raise Unsupported("channels_last and ceil_mode must be 0")
    spatial = x.shape[2:]
    at = window(node, spatial, ints(node, "kernel_shape", ()))
    if at["kernel"] == spatial and not any((*at["before"], *at["after"])):  # of all elements
        axes = tuple(range(2, len(x.shape)))
        factor = float(x_scale / (scale * np.float32(math.prod(spatial))))
        return [b.emit("linear_mean", {"x": x}, axes=axes, x_zero=x_zero, scale=factor, zero=zero,
                       dtype=x.dtype)]  # fmt: skip
    return [b.emit(
        "linear_pool", {"x": x}, padded=bool(integer(node, "count_include_pad", 0)),
        x_scale=float(x_scale), x_zero=x_zero, scale=float(scale), zero=zero, dtype=x.dtype, **at,
    )]  # fmt: skip


@operator(MICROSOFT + "QGemm", becomes="integer_gemm, and requantise or dequantise_linear",
          restrictions="B and C: constant; " + _CONSTANT, inputs=9)  # fmt: skip
def _gemm(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, w, bias = _codes(v, 0, "A"), _codes(v, 3, "B"), optional(v, 6)
    x_scale, x_zero = point(v, 1, "A", x.dtype)
    scales = checked_scale(constant_of(required(v, 4, "B_scale"), "B_scale"), "B_scale")
    zeros = constant_of(required(v, 5, "B_zero_point"), "B_zero_point")
    weights = constant_of(w, "B")
    if len(x.shape) != 2 or weights.ndim != 2:
        raise Unsupported(f"multiplies {x.shape} by {w.shape}")
    if integer(node, "transA", 0):
        x = moved(b, "transpose", x, order=(1, 0))
    rows = weights if integer(node, "transB", 0) else np.ascontiguousarray(weights.T)
    if scales.size not in (1, len(rows)):
        raise Unsupported(f"B_scale must be one or {len(rows)}, not {scales.shape}")
    terms = None
    if bias is not None:
        terms = constant_of(bias, "C")
        if terms.size not in (1, len(rows)) or terms.dtype != np.int32:
            raise Unsupported(f"C must be {len(rows)} int32, not {terms.dtype} {terms.shape}")
        terms = np.broadcast_to(terms.reshape(-1), (len(rows),))
    zero = b.constant(x_zero, x.dtype)
    sums = integer_rows(b, x, zero, Codes(w, scales, zeros, 0), rows, terms)
    alpha = np.float32(number(node, "alpha", 1.0))
    columns = scales.reshape(() if scales.size == 1 else (-1,))
    factor = np.asarray(alpha * x_scale, np.float32)
    if optional(v, 7) is None:
        scale = b.constant((factor * columns).astype(np.float32))
        return [b.emit("dequantise_linear", {"x": sums, "scale": scale}, axis=-1)]
    after, y_zero = point(v, 7, "Y", x.dtype)
    return [requantised(b, Sums(sums, (factor, columns)), after, y_zero, x.dtype)]
