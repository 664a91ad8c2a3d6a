# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX that multiply matrices: in floats, of dequantised integers, and of integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.models.onnx.builder import Builder, Codes, Sums, Unsupported, Value
from hwgen.models.onnx.elementwise import window
from hwgen.models.onnx.file import GraphNode
from hwgen.models.onnx.operators import (
    MICROSOFT,
    checked_scale,
    constant_of,
    integer,
    moved,
    number,
    operator,
    optional,
    required,
)

Operands = list[Value | None]
_BYTES = ("int8", "uint8")


def _rows(b: Builder, x: Value, weights: NDArray[Any], groups: int, **operands: Value) -> Value:
    """Return rows times weights of shape (N, K), in int32 if they are integers."""
    operation = "integer_gemm" if x.dtype in _BYTES else "gemm"
    if operation == "gemm" and not np.isfinite(weights).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(weights))[0])
        raise Unsupported(f"its weights must be finite; that of output and input {place} is not")
    inputs = {"x": x, "weights": b.constant(weights), **operands}
    return b.emit(operation, inputs, **({"groups": groups} if groups > 1 else {}))


def _zeros(b: Builder, zero: NDArray[Any], key: str) -> dict[str, Value]:
    """Return an operand of zero points, none if all are 0."""
    return {key: b.constant(zero)} if zero.any() else {}


# -- in integers ---------------------------------------------------------------------------------


def _by_columns(parameter: NDArray[Any], columns: int, what: str) -> NDArray[Any]:
    """Return a scale or zero point for each column, or one."""
    if parameter.size not in (1, columns):
        raise Unsupported(f"{what} must be one or {columns}, not {parameter.shape}")
    return parameter.reshape(() if parameter.size == 1 else (columns,))


def integer_rows(
    b: Builder, x: Value, x_zero: Value | None, w: Codes, weights: NDArray[Any],
    bias: NDArray[np.int32] | None, groups: int = 1,
) -> Value:  # fmt: skip
    """Return sums in int32 of rows of integers times integer weights of shape (N, K)."""
    more: dict[str, Value] = {}
    if x_zero is not None and (x_zero.constant is None or x_zero.constant.any()):
        if math.prod(x_zero.shape) != 1:
            raise Unsupported("activations must have one zero point")
        more["x_zero"] = x_zero
    more |= _zeros(
        b, _by_columns(w.zero, len(weights), "the zero points of weights"), "weights_zero"
    )
    if bias is not None:
        if bias.shape != (len(weights),):
            raise Unsupported(f"its bias must be {len(weights)} numbers, not {bias.shape}")
        more["bias"] = b.constant(bias, "int32")
    return _rows(b, x, weights, groups, **more)


def unscaled(b: Builder, sums: Sums) -> Value:
    """Return the numbers that sums stand for."""
    x_scale, w_scale = sums.scales
    scale = b.constant((x_scale * w_scale).astype(np.float32))
    result = b.emit("dequantise_linear", {"x": sums.value, "scale": scale}, axis=-1)
    result.sums = sums
    return result


def _integer_bias(bias: Value | None, x: Codes, w: Codes) -> tuple[NDArray[Any] | None, bool]:
    """Return a bias in units of the sums, and whether there is none other."""
    if bias is None:
        return None, True
    codes = bias.codes
    if codes is None or codes.value.constant is None or codes.value.dtype != "int32":
        return None, False
    unit = (x.scale * w.scale).reshape(-1)
    if codes.zero.any() or not np.allclose(codes.scale.reshape(-1), unit, rtol=1e-4, atol=0):
        return None, False
    return codes.value.constant, True


def _convertible(x: Value, w: Value) -> bool:
    """Return whether both operands are dequantised from integers of 8 bits, `w` from constants."""
    if (
        x.codes is None
        or w.codes is None
        or not x.codes.single
        or x.codes.value.constant is not None
    ):
        return False
    return x.codes.value.dtype in _BYTES and w.codes.value.dtype in _BYTES


# -- Conv ----------------------------------------------------------------------------------------


def _conv(
    b: Builder, node: GraphNode, x: Value, weights: NDArray[Any]
) -> tuple[dict[str, Any], NDArray[Any], int]:
    """Return windows, weights of shape (N, K), and groups of a convolution."""
    groups = integer(node, "group", 1)
    if weights.ndim < 3 or len(x.shape) != weights.ndim or not 0 < groups <= weights.shape[0]:
        raise Unsupported(f"weights {weights.shape} do not go with {x.shape}")
    if x.shape[1] != weights.shape[1] * groups or weights.shape[0] % groups:
        raise Unsupported(
            f"{x.shape[1]} channels do not go with weights {weights.shape} in {groups} groups"
        )
    kernel = tuple(node.attributes.get("kernel_shape") or weights.shape[2:])
    if kernel != weights.shape[2:]:
        raise Unsupported(f"kernel_shape {kernel} is not that of the weights {weights.shape}")
    at = window(node, x.shape[2:], kernel)
    return at, weights.reshape(len(weights), -1), groups


def _back(ndim: int) -> tuple[int, ...]:
    """Return the order that brings channels from the last place to their own."""
    return (0, ndim - 1, *range(1, ndim - 1))


def _patches(b: Builder, x: Value, at: dict[str, Any], fill: Value | None = None) -> Value:
    operands = {"x": x}
    if fill is not None and any((*at["before"], *at["after"])):
        operands["fill"] = fill
    node, b.current = b.current, f"{b.current}.patches"  # the product has the node's own name
    result = b.emit("patches", operands, **at)
    b.current = node
    return result


@operator("Conv", becomes="patches, gemm or integer_gemm, transpose",
          restrictions="weights: constant; QDQ: one scale for activations")  # fmt: skip
def _conv_node(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, w, bias = required(v, 0, "X"), required(v, 1, "W"), optional(v, 2)
    weights = constant_of(w, "W")
    at, rows, groups = _conv(b, node, x, weights)
    order = _back(len(x.shape))
    if _convertible(x, w):
        assert x.codes is not None
        assert w.codes is not None
        integers, whole = _integer_bias(bias, x.codes, w.codes)
        along = w.codes.scale.size == 1 or w.codes.axis == 0
        if along and whole:
            zero = b.constant(x.codes.zero.reshape(()))
            lines = _patches(b, x.codes.value, at, zero)
            narrow = np.asarray(w.codes.value.constant).reshape(rows.shape)
            result = integer_rows(b, lines, zero, w.codes, narrow, integers, groups)
            sums = Sums(result, (x.codes.scale.reshape(()), w.codes.scale.reshape(
                () if w.codes.scale.size == 1 else (-1,))))  # fmt: skip
            return [moved(b, "transpose", unscaled(b, sums), order=order)]
    if x.dtype != "float32" or w.dtype != "float32":
        raise Unsupported(f"multiplies {x.dtype} by {w.dtype}; use QLinearConv or ConvInteger")
    more = {} if bias is None else {"bias": b.constant(constant_of(bias, "B"), "float32")}
    product = _rows(b, _patches(b, x, at), rows, groups, **more)
    return [moved(b, "transpose", product, order=order)]


# -- matrices ------------------------------------------------------------------------------------


def _flat(b: Builder, x: Value) -> Value:
    """Return a vector as a matrix of one row."""
    return moved(b, "reshape", x, shape=(1, *x.shape)) if len(x.shape) == 1 else x


@operator("MatMul", becomes="gemm by constants, else matmul; in integers integer_gemm,"
          " integer_matmul",
          restrictions="constant matrices: one, not several", inputs=2)  # fmt: skip
def _matmul(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, w = required(v, 0, "A"), required(v, 1, "B")
    if x.dtype != "float32" or w.dtype != "float32":
        raise Unsupported(f"multiplies {x.dtype} by {w.dtype}; use MatMulInteger")
    if w.constant is None or w.constant.ndim != 2 or x.constant is not None:
        return [_activations(b, x, w)]
    if not x.shape:
        raise Unsupported("multiplies a single number")
    if _convertible(x, w):
        assert x.codes is not None
        assert w.codes is not None
        if w.codes.scale.size == 1 or w.codes.axis == 1:
            narrow = np.ascontiguousarray(np.asarray(w.codes.value.constant).T)
            zero = b.constant(x.codes.zero.reshape(()))
            result = integer_rows(b, x.codes.value, zero, w.codes, narrow, None)
            scales = w.codes.scale.reshape(() if w.codes.scale.size == 1 else (-1,))
            return [unscaled(b, Sums(result, (x.codes.scale.reshape(()), scales)))]
    return [_rows(b, x, _transposed(b, w), 1)]


def _transposed(b: Builder, w: Value) -> NDArray[Any]:
    """Return weights of shape (K, N) as (N, K)."""
    return np.ascontiguousarray(constant_of(w, "weights").T)


def _activations(b: Builder, x: Value, y: Value) -> Value:
    """Return a product of activations."""
    if not x.shape or not y.shape:
        raise Unsupported("multiplies a single number")
    if min(len(x.shape), len(y.shape)) < 2:  # a vector is a row before, and a column behind
        left = _flat(b, x)
        right = moved(b, "reshape", y, shape=(*y.shape, 1)) if len(y.shape) == 1 else y
        result = _activations(b, left, right)
        shape = result.shape[: -1 - (len(x.shape) == 1)] if len(y.shape) == 1 else (
            (*result.shape[:-2], result.shape[-1]))  # fmt: skip
        return moved(b, "reshape", result, shape=shape)
    first, second = x.codes, y.codes
    if first and second and first.single and second.single and x.constant is y.constant is None:
        operands = {"x": first.value, "y": second.value}
        if first.value.dtype in _BYTES and second.value.dtype in _BYTES:
            operands |= _zeros(b, first.zero.reshape(()), "x_zero")
            operands |= _zeros(b, second.zero.reshape(()), "y_zero")
            result = b.emit("integer_matmul", operands)
            return unscaled(b, Sums(result, (first.scale.reshape(()), second.scale.reshape(()))))
    return b.emit("matmul", {"x": x, "y": y})


@operator("Gemm", becomes="gemm; in integers integer_gemm",
          restrictions="B: constant; QDQ: alpha and beta 1")  # fmt: skip
def _gemm(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, w, bias = required(v, 0, "A"), required(v, 1, "B"), optional(v, 2)
    alpha, beta = number(node, "alpha", 1.0), number(node, "beta", 1.0)
    weights = constant_of(w, "B")
    if weights.ndim != 2 or len(x.shape) != 2 or x.dtype != "float32" or w.dtype != "float32":
        raise Unsupported(f"multiplies {x.dtype} {x.shape} by {w.dtype} {w.shape}")
    if integer(node, "transA", 0):
        x = moved(b, "transpose", x, order=(1, 0))
    turned = bool(integer(node, "transB", 0))
    if _convertible(x, w) and alpha == beta == 1:
        assert x.codes is not None
        assert w.codes is not None
        integers, whole = _integer_bias(bias, x.codes, w.codes)
        if whole and (w.codes.scale.size == 1 or w.codes.axis == (0 if turned else 1)):
            array = np.asarray(w.codes.value.constant)
            zero = b.constant(x.codes.zero.reshape(()))
            narrow = array if turned else np.ascontiguousarray(array.T)
            result = integer_rows(b, x.codes.value, zero, w.codes, narrow, integers)
            scales = w.codes.scale.reshape(() if w.codes.scale.size == 1 else (-1,))
            return [unscaled(b, Sums(result, (x.codes.scale.reshape(()), scales)))]
    rows = weights if turned else np.ascontiguousarray(weights.T)
    result = _rows(b, x, np.asarray(rows * np.float32(alpha), np.float32), 1)
    if bias is None or beta == 0:
        return [result]
    scaled = bias
    if beta != 1:
        scaled = b.emit(
            "binary", {"x": bias, "y": b.constant(beta, "float32")}, function="multiply"
        )
    return [b.emit("binary", {"x": result, "y": scaled}, function="add")]


# -- operators of integers -----------------------------------------------------------------------


def _operand(v: Operands, index: int, what: str, dtype: str) -> NDArray[Any]:
    """Return a constant zero point, 0 if there is none."""
    result = optional(v, index)
    return np.zeros((), dtype) if result is None else constant_of(result, what)


@operator("MatMulInteger", becomes="integer_gemm by constants, else integer_matmul",
          restrictions="by constants: their zero point constant", inputs=4)  # fmt: skip
def _matmul_integer(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    return [_integers(b, required(v, 0, "A"), required(v, 1, "B"), optional(v, 2), optional(v, 3))]


def _integers(b: Builder, x: Value, w: Value, x_zero: Value | None, w_zero: Value | None) -> Value:
    """Return sums in int32 of products of integers."""
    if x.dtype not in _BYTES or w.dtype not in _BYTES:
        raise Unsupported(f"multiplies {x.dtype} by {w.dtype}; int8 and uint8 are supported")
    if w.constant is not None and w.constant.ndim == 2 and x.constant is None:
        zero = (
            np.zeros((), w.dtype)
            if w_zero is None
            else constant_of(w_zero, "zero point of weights")
        )
        codes = Codes(w, np.ones((), np.float32), zero, 1)
        return integer_rows(b, x, x_zero, codes, np.ascontiguousarray(w.constant.T), None)
    operands = {"x": x, "y": w}
    for key, value in (("x_zero", x_zero), ("y_zero", w_zero)):
        if value is not None:
            if math.prod(value.shape) != 1:
                raise Unsupported("products of activations must have one zero point each")
            if value.constant is None or value.constant.any():
                operands[key] = value
    return b.emit("integer_matmul", operands)


@operator("ConvInteger", becomes="patches, integer_gemm, transpose",
          restrictions="weights and their zero point: constant", inputs=4)  # fmt: skip
def _conv_integer(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, w, x_zero = required(v, 0, "x"), required(v, 1, "w"), optional(v, 2)
    if x.dtype not in _BYTES or w.dtype not in _BYTES:
        raise Unsupported(f"multiplies {x.dtype} by {w.dtype}; int8 and uint8 are supported")
    at, rows, groups = _conv(b, node, x, constant_of(w, "w"))
    codes = Codes(w, np.ones((), np.float32), _operand(v, 3, "w_zero_point", w.dtype), 0)
    lines = _patches(b, x, at, x_zero)
    result = integer_rows(b, lines, x_zero, codes, rows, None, groups)
    return [b.emit("transpose", {"x": result}, order=_back(len(x.shape)))]


def _scale(v: Operands, index: int, what: str) -> NDArray[np.float32]:
    """Return a constant scale.

    Raises
    ------
    Unsupported
        If it is not constant, or one is not finite and above 0.
    """
    result = constant_of(required(v, index, what), what)
    return checked_scale(result, what)


@operator("QLinearMatMul", becomes="integer_gemm or integer_matmul, requantise",
          restrictions="scales and zero points: constant; one scale for activations and results",
          inputs=8)  # fmt: skip
def _qlinear_matmul(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, w = required(v, 0, "a"), required(v, 3, "b")
    scales = [_scale(v, index, what) for index, what in ((1, "a_scale"), (4, "b_scale"))]
    x_zero, w_zero = optional(v, 2), optional(v, 5)
    if scales[0].size != 1 or scales[1].size not in (1, w.shape[-1]):
        raise Unsupported("a_scale must be one number, b_scale one or one for each column")
    sums = _integers(b, x, w, x_zero, w_zero)
    return [_result(b, sums, scales[0], scales[1], v, 6)]


def _result(
    b: Builder, sums: Value, x_scale: NDArray[Any], w_scale: NDArray[Any], v: Operands, at: int
) -> Value:
    """Return sums as integers of the scale and zero point that operands `at` name."""
    scale = _scale(v, at, "y_scale")
    zero = constant_of(required(v, at + 1, "y_zero_point"), "y_zero_point")
    if scale.size != 1 or zero.size != 1 or zero.dtype.name not in _BYTES:
        raise Unsupported("its result must have one scale and one zero point, of int8 or uint8")
    columns = w_scale.reshape(() if w_scale.size == 1 else (-1,))
    scaled = Sums(sums, (x_scale.reshape(()), columns))
    return requantised(b, scaled, scale.reshape(()), int(zero.item()), zero.dtype.name)


def requantised(b: Builder, sums: Sums, scale: Any, zero: int, dtype: str) -> Value:
    """Return sums as integers of a scale and a zero point."""
    x_scale, w_scale = sums.scales
    factor = np.asarray(x_scale * w_scale / np.float32(scale), np.float32)
    info = np.iinfo(dtype)
    bounds = [
        float(np.clip(np.rint(np.float32(bound) / np.float32(scale)) + zero, info.min, info.max))
        for bound in (sums.low, sums.high)
    ]
    operands = {"x": sums.value, "scale": b.constant(factor)}
    if zero:
        operands["zero"] = b.constant(zero, dtype)
    result = b.emit("requantise", operands, dtype=dtype, low=int(bounds[0]), high=int(bounds[1]))
    for operation, at in sums.moves:
        result = b.emit(operation, {"x": result}, **at)
    return result


@operator("QLinearConv", becomes="patches, integer_gemm, requantise, transpose",
          restrictions="weights, scales and zero points: constant", inputs=9)  # fmt: skip
def _qlinear_conv(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, w, bias = required(v, 0, "x"), required(v, 3, "w"), optional(v, 8)
    if x.dtype not in _BYTES or w.dtype not in _BYTES:
        raise Unsupported(f"multiplies {x.dtype} by {w.dtype}; int8 and uint8 are supported")
    x_scale, w_scale = _scale(v, 1, "x_scale"), _scale(v, 4, "w_scale")
    x_zero = b.constant(constant_of(required(v, 2, "x_zero_point"), "x_zero_point"))
    at, rows, groups = _conv(b, node, x, constant_of(w, "w"))
    codes = Codes(w, w_scale, constant_of(required(v, 5, "w_zero_point"), "w_zero_point"), 0)
    _by_columns(w_scale, len(rows), "w_scale")
    if x_scale.size != 1:
        raise Unsupported("x_scale must be one number")
    integers = None if bias is None else constant_of(bias, "B")
    lines = _patches(b, x, at, x_zero)
    sums = integer_rows(b, lines, x_zero, codes, rows, integers, groups)
    result = _result(b, sums, x_scale, w_scale, v, 6)
    return [b.emit("transpose", {"x": result}, order=_back(len(x.shape)))]


@operator(MICROSOFT + "MatMulIntegerToFloat", MICROSOFT + "DynamicQuantizeMatMul",
          becomes="as MatMulInteger, and dequantise_linear",
          restrictions="B, its scale and zero point: constant", inputs=7)  # fmt: skip
def _to_float(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    if node.operator.endswith("DynamicQuantizeMatMul"):
        x = {"x": required(v, 0, "A")}
        parts = [b.emit("dynamic_quantise", x, part=part) for part in ("values", "scale", "zero")]
        w, w_scale, w_zero, bias = (
            required(v, 1, "B"),
            _scale(v, 2, "b_scale"),
            optional(v, 3),
            optional(v, 4),
        )
    else:
        parts = [required(v, 0, "A"), required(v, 2, "a_scale"), optional(v, 4)]  # type: ignore[list-item]
        w, w_scale, w_zero, bias = (
            required(v, 1, "B"),
            _scale(v, 3, "b_scale"),
            optional(v, 5),
            optional(v, 6),
        )
    sums = _integers(b, parts[0], w, parts[2], w_zero)
    operands = {"x": parts[1], "y": b.constant(w_scale)}
    scale = b.emit("binary", operands, function="multiply")
    result = b.emit("dequantise_linear", {"x": sums, "scale": scale}, axis=-1)
    if bias is not None:
        result = b.emit("binary", {"x": result, "y": bias}, function="add")
    return [result]
