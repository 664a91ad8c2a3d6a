# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX on single elements, rows and windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hwgen.models.onnx.builder import Builder, Unsupported, Value
from hwgen.models.onnx.file import GraphNode
from hwgen.models.onnx.operators import (
    MICROSOFT,
    axis_of,
    choice,
    constant_of,
    dequantised,
    integer,
    ints,
    moved,
    number,
    operator,
    optional,
    required,
    whole,
)

Operands = list[Value | None]

_UNARY = {
    "Relu": "relu", "LeakyRelu": "leaky_relu", "Elu": "elu", "Sigmoid": "sigmoid",
    "HardSigmoid": "hard_sigmoid", "HardSwish": "hard_swish", "Tanh": "tanh", "Erf": "erf",
    "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Reciprocal": "reciprocal", "Neg": "negative",
    "Abs": "abs", "Floor": "floor", "Ceil": "ceil", "Round": "round", "Sign": "sign",
    "Not": "not", "IsNaN": "is_nan", "Softplus": "softplus", "Sin": "sin", "Cos": "cos",
}  # fmt: skip
_PARAMETERS = {"LeakyRelu": (0.01, 0.0), "Elu": (1.0, 0.0), "HardSigmoid": (0.2, 0.5)}
_BINARY = {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Pow": "power",
    "Max": "maximum", "Min": "minimum", "Sum": "add", "Mod": "mod", "Equal": "equal",
    "Less": "less", "LessOrEqual": "less_equal", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "And": "and", "Or": "or",
}  # fmt: skip


@operator(*_UNARY, becomes="unary", inputs=1)
def _unary(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, name = required(v, 0, "X"), node.operator
    parameters: dict[str, float] = {}
    if name in _PARAMETERS:
        for key, default in zip(("alpha", "beta"), _PARAMETERS[name], strict=True):
            parameters[key] = number(node, key, default)
    result = b.emit("unary", {"x": x}, function=_UNARY[name], **parameters)
    if name == "Relu" and x.sums is not None:
        sums = x.sums
        result.sums = replace(sums, low=max(sums.low, 0.0), high=max(sums.high, 0.0))
    return [result]


@operator("Gelu", MICROSOFT + "Gelu", MICROSOFT + "FastGelu", becomes="unary", inputs=1)
def _gelu(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    tanh = node.operator.endswith("FastGelu") or (
        choice(node, "approximate", "none", ("none", "tanh")) == "tanh"
    )
    return [b.emit("unary", {"x": required(v, 0, "X")}, function="gelu_tanh" if tanh else "gelu")]


@operator("PRelu", becomes="where, binary", inputs=2)
def _prelu(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, slope = required(v, 0, "X"), required(v, 1, "slope")
    below = b.emit("binary", {"x": x, "y": slope}, function="multiply")
    negative = b.emit("binary", {"x": x, "y": b.constant(0, x.dtype)}, function="less")
    return [b.emit("where", {"condition": negative, "x": below, "y": x})]


_ONE_TYPE = "operands of one type"


@operator("Add", "Mul", becomes="add of equal shapes, else binary; in integers linear",
          restrictions=_ONE_TYPE, inputs=2)  # fmt: skip
@operator("Mod", becomes="binary", restrictions="fmod 0; " + _ONE_TYPE, inputs=2)
@operator("Max", "Min", "Sum", becomes="binary", restrictions=_ONE_TYPE, inputs=1 << 10)
@operator("Pow", becomes="binary", inputs=2)
@operator(*(name for name in _BINARY if name not in ("Add", "Mul", "Mod", "Max", "Min", "Sum",
          "Pow")), becomes="binary", restrictions=_ONE_TYPE, inputs=2)  # fmt: skip
def _binary(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    name = node.operator
    if name not in ("Max", "Min", "Sum") and len(v) != 2:
        raise Unsupported(f"needs 2 inputs, and has {len(v)}")
    if name == "Mod" and integer(node, "fmod", 0):
        raise Unsupported("fmod must be 0")
    result = required(v, 0, "A")
    for index in range(1, len(v)):
        result = _pair(b, _BINARY[name], result, required(v, index, f"{index}"))
    return [result]


def _pair(b: Builder, function: str, x: Value, y: Value) -> Value:
    """Return a function of two arrays."""
    if x.dtype != y.dtype and function != "power":
        raise Unsupported(f"its operands are {x.dtype} and {y.dtype}; Cast one of them")
    operands = {"x": x, "y": y}
    if function == "add" and x.shape == y.shape and x.dtype == "float32":
        result = b.emit("add", operands)
    else:
        result = b.emit("binary", operands, function=function)
    first, second = x.codes, y.codes
    if function in ("add", "multiply") and first and second and first.single and second.single:

        def linear(scale: np.float32, zero: int, dtype: str) -> Value:
            if not first.value.dtype == second.value.dtype == dtype:
                operands = {"x": result, **_parameters(b, scale, zero, dtype)}
                return b.emit("quantise_linear", operands, **_limits(dtype))
            return b.emit(
                "linear", {"x": first.value, "y": second.value}, function=function,
                x_scale=float(first.scale.item()), x_zero=int(first.zero.item()),
                y_scale=float(second.scale.item()), y_zero=int(second.zero.item()),
                scale=float(scale), zero=zero, dtype=dtype,
            )  # fmt: skip

        result.linear = linear
    return result


def _parameters(b: Builder, scale: np.float32, zero: int, dtype: str) -> dict[str, Value]:
    return {"scale": b.constant(scale, "float32"), "zero": b.constant(zero, dtype)}


def _limits(dtype: str) -> dict[str, int | str]:
    info = np.iinfo(dtype)
    return {"dtype": dtype, "low": int(info.min), "high": int(info.max)}


@operator("Where", becomes="where")
def _where(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, y = required(v, 1, "X"), required(v, 2, "Y")
    if x.dtype != y.dtype:
        raise Unsupported(f"its operands are {x.dtype} and {y.dtype}")
    return [b.emit("where", {"condition": required(v, 0, "condition"), "x": x, "y": y})]


@operator("Clip", becomes="clip", restrictions="min, max: constant")
def _clip(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "input")
    limits = []
    for index, key, default in ((1, "min", -np.finfo(np.float32).max),
                                (2, "max", np.finfo(np.float32).max)):  # fmt: skip
        operand = optional(v, index)
        if operand is not None:
            limits.append(float(constant_of(operand, key).reshape(-1)[0]))
        else:
            limits.append(number(node, key, float(default)))
    low, high = (float(np.nan_to_num(limit)) for limit in limits)
    result = b.emit("clip", {"x": x}, low=low, high=high)
    if x.sums is not None and low <= high:
        sums = x.sums
        bounds = (min(max(bound, low), high) for bound in (sums.low, sums.high))
        result.sums = replace(sums, low=next(bounds), high=next(bounds))
    return [result]


@operator("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", becomes="reduce",
          restrictions="axes: constant", inputs=2)  # fmt: skip
def _reduce(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, operand = required(v, 0, "data"), optional(v, 1)
    axes = whole(operand, "axes") if operand is not None else ints(node, "axes", ())
    if not axes:
        if integer(node, "noop_with_empty_axes", 0):
            return [x]
        axes = tuple(range(len(x.shape)))
    places = tuple(sorted({axis_of(axis, len(x.shape)) for axis in axes}))
    keep = bool(integer(node, "keepdims", 1))
    name = node.operator.removeprefix("Reduce")
    if name == "L2":
        squares = b.emit("binary", {"x": x, "y": x}, function="multiply")
        total = b.emit("reduce", {"x": squares}, function="sum", axes=places, keep=keep)
        return [b.emit("unary", {"x": total}, function="sqrt")]
    function = {"Sum": "sum", "Mean": "mean", "Max": "largest", "Min": "least"}[name]
    return [b.emit("reduce", {"x": x}, function=function, axes=places, keep=keep)]


@operator("Softmax", becomes="softmax", inputs=1)
@operator("LogSoftmax", becomes="softmax, unary", inputs=1)
def _softmax(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "input")
    axis = axis_of(integer(node, "axis", 1 if b.opset < 13 else -1), len(x.shape))
    flat = b.opset < 13 and axis != len(x.shape) - 1  # over all axes from that one, then
    if flat:
        rows = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
        result = b.emit("softmax", {"x": b.emit("reshape", {"x": x}, shape=rows)}, axis=1)
        result = b.emit("reshape", {"x": result}, shape=x.shape)
    else:
        result = b.emit("softmax", {"x": x}, axis=axis)
    if node.operator == "LogSoftmax":
        result = b.emit("unary", {"x": result}, function="log")
    return [result]


@operator("BatchNormalization", becomes="two binary; folded into a Conv before it",
          restrictions="not in training; parameters: constant", inputs=5)  # fmt: skip
def _batch_norm(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "X")
    if integer(node, "training_mode", 0) or len(x.shape) < 2:
        raise Unsupported("must be for inference, on channels")
    factor, term = batch_norm_line(node, v, x.shape[1])
    shape = (x.shape[1], *(1,) * (len(x.shape) - 2))
    scaled = b.emit("binary", {"x": x, "y": b.constant(factor.reshape(shape))}, function="multiply")
    return [b.emit("binary", {"x": scaled, "y": b.constant(term.reshape(shape))}, function="add")]


def batch_norm_line(node: GraphNode, v: Operands, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return factor and term of each channel that a BatchNormalization is."""
    names = ("scale", "B", "mean", "var")
    parts = [constant_of(required(v, index, name), name) for index, name in enumerate(names, 1)]
    if any(part.shape != (channels,) for part in parts):
        raise Unsupported(f"its parameters are not one for each of {channels} channels")
    scale, bias, mean, variance = (part.astype(np.float64) for part in parts)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + number(node, "epsilon", 1e-5))
    if not np.isfinite(factor).all():
        raise Unsupported("its variance gives no finite factor")
    return factor.astype(np.float32), (bias - mean * factor).astype(np.float32)


# -- windows -------------------------------------------------------------------------------------


def window(
    node: GraphNode, spatial: tuple[int, ...], kernel: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """Return kernel, strides, dilations and padding of the windows of a node."""
    count = len(spatial)
    strides, dilations = ints(node, "strides", (1,) * count), ints(node, "dilations", (1,) * count)
    pads = ints(node, "pads", (0,) * (2 * count))
    auto = choice(node, "auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    if not count or not len(kernel) == len(strides) == len(dilations) == count == len(pads) // 2:
        raise Unsupported(f"windows of {kernel} do not go with {count} axes")
    if not all(0 < n < 1 << 16 for n in (*kernel, *strides, *dilations)) or not all(
        0 <= n < 1 << 16 for n in pads
    ):
        raise Unsupported(f"windows of {kernel} every {strides}, padded by {pads}, cannot be")
    before, after = pads[:count], pads[count:]
    if auto.startswith("SAME"):
        sides = []
        for n, k, s, d in zip(spatial, kernel, strides, dilations, strict=True):
            missing = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            small, large = missing // 2, missing - missing // 2
            sides.append((small, large) if auto == "SAME_UPPER" else (large, small))
        before, after = (tuple(side) for side in zip(*sides, strict=True))
    elif auto == "VALID":
        before = after = (0,) * count
    if integer(node, "ceil_mode", 0):
        more = []
        for n, k, s, d, p, q in zip(
            spatial, kernel, strides, dilations, before, after, strict=True
        ):
            reach = d * (k - 1) + 1
            steps = -(-(n + p + q - reach) // s)
            if steps * s >= n + p:  # a window that would begin in the padding is left out
                steps -= 1
            more.append(max(steps * s + reach - n - p, 0))
        after = tuple(more)
    return {"kernel": kernel, "strides": strides, "dilations": dilations, "before": before,
            "after": after}  # fmt: skip


@operator("MaxPool", becomes="pool, of integers where they are quantised",
          restrictions="no indices", inputs=1)  # fmt: skip
@operator("AveragePool", becomes="pool", inputs=1)
def _pool(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "X")
    largest = node.operator == "MaxPool"
    at = window(node, x.shape[2:], ints(node, "kernel_shape", ()))
    padded = bool(integer(node, "count_include_pad", 0))
    if not largest and padded and integer(node, "ceil_mode", 0):
        # What is behind the padding does not count: the padding becomes a part of x.
        attributes = node.attributes | {"ceil_mode": 0}
        plain = window(replace(node, attributes=attributes), x.shape[2:], at["kernel"])
        after = tuple(min(sides) for sides in zip(at["after"], plain["after"], strict=True))
        x = b.emit("pad", {"x": x}, before=(0, 0, *at["before"]), after=(0, 0, *after), value=0.0)
        more = tuple(n - m for n, m in zip(at["after"], after, strict=True))
        at |= {"before": (0,) * len(more), "after": more}
        padded = False
    function = "largest" if largest else "average"
    if largest:
        return [moved(b, "pool", x, function=function, padded=padded, **at)]
    return [b.emit("pool", {"x": x}, function=function, padded=padded, **at)]


@operator("GlobalAveragePool", becomes="reduce; in integers linear_mean", inputs=1)
@operator("GlobalMaxPool", becomes="reduce, of integers where they are quantised", inputs=1)
def _global_pool(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "X")
    axes = tuple(range(2, len(x.shape)))
    if not axes:
        raise Unsupported(f"{x.shape} has no axes behind the channels")
    if node.operator == "GlobalMaxPool":
        if x.codes is not None and x.codes.single and x.constant is None:
            most = b.emit("reduce", {"x": x.codes.value}, function="largest", axes=axes, keep=True)
            return [dequantised(b, most, x.codes)]
        return [b.emit("reduce", {"x": x}, function="largest", axes=axes, keep=True)]
    result = b.emit("reduce", {"x": x}, function="mean", axes=axes, keep=True)
    codes = x.codes
    if codes is not None and codes.single:
        elements = np.float32(math.prod(x.shape[2:]))

        def linear(scale: np.float32, zero: int, dtype: str) -> Value:
            return b.emit(
                "linear_mean", {"x": codes.value}, axes=axes, x_zero=int(codes.zero.item()),
                scale=float(codes.scale.reshape(()) / (scale * elements)), zero=zero, dtype=dtype,
            )  # fmt: skip

        result.linear = linear
    return [result]
