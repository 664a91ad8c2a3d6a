# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX, ONNX Runtime and QONNX that quantise, or work on quantised elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.models.onnx.builder import Builder, Codes, Unsupported, Value
from hwgen.models.onnx.file import TYPES, GraphNode
from hwgen.models.onnx.matrix_products import requantised
from hwgen.models.onnx.operators import (
    MICROSOFT,
    QONNX,
    axis_of,
    checked_scale,
    choice,
    constant_of,
    dequantised,
    integer,
    operator,
    optional,
    required,
)

Operands = list[Value | None]

_ROUNDINGS = {
    "ROUND": "even", "CEIL": "ceil", "FLOOR": "floor", "UP": "away", "DOWN": "zero",
    "HALF_EVEN": "even", "ROUND_TO_ZERO": "zero",
}  # fmt: skip


def _names(name: str) -> tuple[str, ...]:
    return tuple(domain + name for domain in QONNX)


@operator("QuantizeLinear", MICROSOFT + "QuantizeLinear",
          becomes="quantise_linear, or requantise, linear or linear_mean of what an operator gives"
          " in integers",
          restrictions="to int8 or uint8; scale and zero point: constant; no blocks")  # fmt: skip
def _quantize(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "x")
    scale = checked_scale(constant_of(required(v, 1, "y_scale"), "y_scale"), "y_scale")
    operand = optional(v, 2)
    asked = TYPES.get(integer(node, "output_dtype", 0), ("uint8", np.uint8))[0]
    stored = asked if operand is None else operand.stored or operand.dtype
    if stored not in ("int8", "uint8"):
        raise Unsupported(f"quantises to {stored}; int8 and uint8 are supported")
    zero = np.zeros((), stored) if operand is None else constant_of(operand, "y_zero_point")
    axis = _axis(node, x, scale, zero)
    if scale.size == 1 and zero.size == 1:
        done = _again(b, x, scale.reshape(()), int(zero.item()), zero.dtype.name)
        if done is not None:
            return [done]
    info = np.iinfo(zero.dtype)
    operands = {"x": x, "scale": b.constant(scale)}
    if zero.any():
        operands["zero"] = b.constant(zero)
    return [b.emit("quantise_linear", operands, axis=axis, dtype=zero.dtype.name,
                   low=int(info.min), high=int(info.max))]  # fmt: skip


def _again(b: Builder, x: Value, scale: NDArray[Any], zero: int, dtype: str) -> Value | None:
    """Return integers of what came from integers, None if it did not."""
    codes = x.codes
    if codes is not None and codes.single and x.constant is None:
        same = codes.scale.item() == scale.item() and int(codes.zero.item()) == zero
        if same and codes.value.dtype == dtype:
            return codes.value
    if x.sums is not None:
        return requantised(b, x.sums, scale, zero, dtype)
    if x.linear is not None:
        return x.linear(np.float32(scale), zero, dtype)
    return None


def _axis(node: GraphNode, x: Value, scale: NDArray[Any], zero: NDArray[Any]) -> int:
    """Return the axis that several scales go along."""
    if integer(node, "block_size", 0):
        raise Unsupported("scales of blocks are not supported; use one for each channel")
    if scale.size == 1 and zero.size == 1:
        return 0
    axis = axis_of(integer(node, "axis", 1), len(x.shape))
    if not x.shape or {scale.size, zero.size} - {1, x.shape[axis]}:
        raise Unsupported(
            f"{scale.size} scales and {zero.size} zero points do not go along axis {axis} of"
            f" {x.shape}"
        )
    return axis


@operator("DequantizeLinear", MICROSOFT + "DequantizeLinear",
          becomes="dequantise_linear, or nothing before an operator in integers",
          restrictions="of int8, uint8 and int32; scale and zero point: constant, but of"
          " dynamically quantised activations; no blocks")  # fmt: skip
def _dequantize(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, scale, operand = required(v, 0, "x"), required(v, 1, "x_scale"), optional(v, 2)
    if x.dtype not in ("int8", "uint8", "int32"):
        raise Unsupported(f"dequantises {x.dtype}; int8, uint8 and int32 are supported")
    if scale.constant is None or (operand is not None and operand.constant is None):
        operands = {"x": x, "scale": scale, **({"zero": operand} if operand is not None else {})}
        return [b.emit("dequantise_linear", operands, axis=-1)]
    factor = checked_scale(scale.constant, "x_scale")
    zero = np.zeros((), x.dtype) if operand is None else constant_of(operand, "x_zero_point")
    axis = _axis(node, x, factor, zero)
    if zero.dtype.kind not in "iu":
        raise Unsupported(f"x_zero_point must be integers, not {zero.dtype}")
    return [dequantised(b, x, Codes(x, factor, zero, axis))]


@operator("DynamicQuantizeLinear", becomes="dynamic_quantise", inputs=1)
def _dynamic(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = {"x": required(v, 0, "x")}
    if x["x"].dtype != "float32":
        raise Unsupported(f"quantises {x['x'].dtype}")
    return [b.emit("dynamic_quantise", x, part=part) for part in ("values", "scale", "zero")]


# -- ONNX Runtime --------------------------------------------------------------------------------


def _codes(v: Operands, at: int, what: str) -> Codes:
    """Return an operand with its scale and zero point, which follow it."""
    value = required(v, at, what)
    scale = checked_scale(
        constant_of(required(v, at + 1, f"{what}_scale"), f"{what}_scale"), f"{what}_scale"
    )
    zero = constant_of(required(v, at + 2, f"{what}_zero_point"), f"{what}_zero_point")
    if scale.size != 1 or zero.size != 1 or value.dtype not in ("int8", "uint8"):
        raise Unsupported(f"{what} must be int8 or uint8 with one scale and one zero point")
    return Codes(value, scale.reshape(()), zero.reshape(()), 0)


def _target(v: Operands, at: int, what: str) -> tuple[np.float32, int, str]:
    """Return scale, zero point and type of a result."""
    scale = checked_scale(
        constant_of(required(v, at, f"{what}_scale"), f"{what}_scale"), f"{what}_scale"
    )
    zero = constant_of(required(v, at + 1, f"{what}_zero_point"), f"{what}_zero_point")
    if scale.size != 1 or zero.size != 1 or zero.dtype.name not in ("int8", "uint8"):
        raise Unsupported("its result must be int8 or uint8 with one scale and one zero point")
    return np.float32(scale.item()), int(zero.item()), zero.dtype.name


@operator(MICROSOFT + "QLinearAdd", MICROSOFT + "QLinearMul", becomes="linear",
          restrictions="scales and zero points: constant", inputs=8)  # fmt: skip
def _linear(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    first, second = _codes(v, 0, "A"), _codes(v, 3, "B")
    scale, zero, dtype = _target(v, 6, "C")
    if not first.value.dtype == second.value.dtype == dtype:
        raise Unsupported("operands and result must be of one type")
    function = "add" if node.operator.endswith("Add") else "multiply"
    return [b.emit(
        "linear", {"x": first.value, "y": second.value}, function=function,
        x_scale=float(first.scale), x_zero=int(first.zero), y_scale=float(second.scale),
        y_zero=int(second.zero), scale=float(scale), zero=zero, dtype=dtype,
    )]  # fmt: skip


@operator(MICROSOFT + "QLinearGlobalAveragePool", becomes="linear_mean",
          restrictions="channels_last 0; scales and zero points: constant", inputs=5)  # fmt: skip
def _linear_mean(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    codes, (scale, zero, dtype) = _codes(v, 0, "X"), _target(v, 3, "Y")
    if integer(node, "channels_last", 0) or len(codes.value.shape) < 3:
        raise Unsupported("channels_last must be 0")
    axes = tuple(range(2, len(codes.value.shape)))
    elements = np.float32(np.prod([codes.value.shape[axis] for axis in axes]))
    factor = float(codes.scale / (scale * elements))
    return [b.emit("linear_mean", {"x": codes.value}, axes=axes, x_zero=int(codes.zero),
                   scale=factor, zero=zero, dtype=dtype)]  # fmt: skip


@operator(MICROSOFT + "QLinearConcat", becomes="concat of operands in the result's scale",
          restrictions="scales and zero points: constant", inputs=1 << 12)  # fmt: skip
def _linear_concat(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    scale, zero, dtype = _target(v, 0, "Y")
    parts = {}
    for index, at in enumerate(range(2, len(v) - 2, 3)):
        codes = _codes(v, at, f"X{index}")
        part = _again(b, dequantised(b, codes.value, codes), np.asarray(scale), zero, dtype)
        parts[f"x{index}"] = part or _quantised(
            b, dequantised(b, codes.value, codes), scale, zero, dtype
        )
    if not parts:
        raise Unsupported("joins nothing")
    axis = axis_of(integer(node, "axis", 0), len(parts["x0"].shape))
    return [b.emit("concat", parts, axis=axis)]


def _quantised(b: Builder, x: Value, scale: np.float32, zero: int, dtype: str) -> Value:
    info = np.iinfo(dtype)
    operands = {"x": x, "scale": b.constant(scale), "zero": b.constant(zero, dtype)}
    return b.emit(
        "quantise_linear", operands, axis=0, dtype=dtype, low=int(info.min), high=int(info.max)
    )


# -- QONNX ---------------------------------------------------------------------------------------


def _line(x: Value, parameter: NDArray[Any], what: str) -> tuple[NDArray[Any], int]:
    """Return scales or zero points as one, or one for each place along an axis."""
    if parameter.size == 1:
        return parameter.reshape(()), 0
    shape = (1,) * (len(x.shape) - parameter.ndim) + parameter.shape
    places = [axis for axis, length in enumerate(shape) if length > 1]
    if len(places) != 1 or len(shape) != len(x.shape) or shape[places[0]] != x.shape[places[0]]:
        raise Unsupported(f"its {what} {parameter.shape} do not go along one axis of {x.shape}")
    return parameter.reshape(-1), places[0]


def _rounded(
    b: Builder, x: Value, scale: NDArray[Any], zero: NDArray[Any], low: int, high: int,
    rounding: str,
) -> Value:  # fmt: skip
    """Return numbers rounded to integers of a scale, and back."""
    factor, axis = _line(x, checked_scale(scale, "scale"), "scales")
    offset, other = _line(x, zero, "zero points")
    if factor.size > 1 and offset.size > 1 and axis != other:
        raise Unsupported("its scales and zero points go along different axes")
    whole = np.rint(offset)
    if low < -128 or high > 255 or (low < 0 and high > 127) or (whole != offset).any():
        raise Unsupported(
            f"its integers {low}..{high} are not of 8 bits, or a zero point is no integer"
        )
    dtype = "int8" if low < 0 else "uint8"
    info = np.iinfo(dtype)
    if whole.min() < info.min or whole.max() > info.max:
        raise Unsupported(f"a zero point is not within {dtype}")
    operands = {"x": x, "scale": b.constant(factor)}
    if whole.any():
        operands["zero"] = b.constant(whole, dtype)
    result = b.emit("quantise_linear", operands, axis=max(axis, other), dtype=dtype, low=low,
                   high=high, zero_first=True, rounding=rounding)  # fmt: skip
    return dequantised(b, result, Codes(result, factor, whole.astype(dtype), max(axis, other)))


@operator(*_names("Quant"), becomes="quantise_linear and dequantise_linear",
          restrictions="up to 8 bits; scale, zero point and bits: constant, scales along one axis;"
          " rounding_mode ROUND, CEIL, FLOOR, ROUND_TO_ZERO", inputs=4)  # fmt: skip
def _quant(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "X")
    scale, zero, bits = (
        constant_of(required(v, i, w), w) for i, w in ((1, "scale"), (2, "zero point"), (3, "bits"))
    )
    rounding = choice(node, "rounding_mode", "ROUND", ("ROUND", "CEIL", "FLOOR", "ROUND_TO_ZERO"))
    signed, narrow = bool(integer(node, "signed", 1)), bool(integer(node, "narrow", 0))
    if bits.size != 1 or not 1 <= float(bits.item()) <= 8 or float(bits.item()) % 1:
        raise Unsupported(f"its bits must be 1 to 8, not {bits.reshape(-1)[:3]}")
    width = int(bits.item())
    low = -(1 << width - 1) + narrow if signed else 0
    high = (1 << width - 1) - 1 if signed else (1 << width) - 1 - narrow
    return [_rounded(b, x, scale, zero.astype(np.float32), low, high, _ROUNDINGS[rounding])]


@operator(*_names("BipolarQuant"), becomes="quantise_linear of signs, and dequantise_linear",
          restrictions="scale: constant", inputs=2)  # fmt: skip
def _bipolar(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, scale = required(v, 0, "X"), constant_of(required(v, 1, "scale"), "scale")
    factor, axis = _line(x, checked_scale(scale, "scale"), "scales")
    below = b.emit("binary", {"x": x, "y": b.constant(0, "float32")}, function="less")
    signs = b.emit("where", {"condition": below, "x": b.constant(-1, "int8"),
                             "y": b.constant(1, "int8")})  # fmt: skip
    return [dequantised(b, signs, Codes(signs, factor, np.zeros((), np.int8), axis))]


@operator(*_names("Trunc"), becomes="unary and binary",
          restrictions="scale, zero point and bits: constant; rounding_mode FLOOR, ROUND, CEIL",
          inputs=5)  # fmt: skip
def _trunc(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "X")
    names = ("scale", "zero point", "input bits", "output bits")
    scale, zero, wide, narrow = (constant_of(required(v, i, w), w) for i, w in enumerate(names, 1))
    rounding = choice(node, "rounding_mode", "FLOOR", ("FLOOR", "ROUND", "CEIL"))
    bits = float(wide.item()) - float(narrow.item()) if wide.size == narrow.size == 1 else -1
    if not 0 <= bits <= 32:
        raise Unsupported("must take away 0 to 32 bits")
    step = checked_scale(scale, "scale")
    function = {"FLOOR": "floor", "ROUND": "round", "CEIL": "ceil"}[rounding]
    offset, unit, by = (
        b.constant(zero, "float32"),
        b.constant(step),
        b.constant(2.0**bits, "float32"),
    )
    result = b.emit("binary", {"x": x, "y": unit}, function="divide")
    result = b.emit("binary", {"x": result, "y": offset}, function="add")
    result = b.emit("unary", {"x": result}, function="round")
    result = b.emit("binary", {"x": result, "y": by}, function="divide")
    result = b.emit("unary", {"x": result}, function=function)
    result = b.emit("binary", {"x": result, "y": offset}, function="subtract")
    return [b.emit("binary", {"x": result, "y": unit}, function="multiply")]
