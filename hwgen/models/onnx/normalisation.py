# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX that normalise: over rows, groups of channels, or neighbouring channels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hwgen.models.onnx.builder import Builder, Unsupported, Value
from hwgen.models.onnx.file import GraphNode
from hwgen.models.onnx.operators import axis_of, integer, number, operator, optional, required

Operands = list[Value | None]


def _normalised(b: Builder, x: Value, groups: int, epsilon: float) -> Value:
    """Return groups of channels with mean 0 and variance 1."""
    rows = (x.shape[0], groups, math.prod(x.shape[1:]) // groups)
    operands = {
        "x": b.emit("reshape", {"x": x}, shape=rows),
        "gamma": b.constant(np.ones(rows[-1], np.float32)),
        "beta": b.constant(np.zeros(rows[-1], np.float32)),
    }
    result = b.emit("layer_norm", operands, epsilon=epsilon)
    return b.emit("reshape", {"x": result}, shape=x.shape)


def _line(b: Builder, x: Value, scale: Value, bias: Value) -> Value:
    """Return channels times factors, plus terms."""
    shape = (x.shape[1], *(1,) * (len(x.shape) - 2))
    factor, term = (b.emit("reshape", {"x": value}, shape=shape) for value in (scale, bias))
    scaled = b.emit("binary", {"x": x, "y": factor}, function="multiply")
    return b.emit("binary", {"x": scaled, "y": term}, function="add")


def _channels(x: Value, *parameters: Value) -> None:
    if len(x.shape) < 3 or x.dtype != "float32":
        raise Unsupported(f"normalises {x.dtype} {x.shape}; channels of float32 are normalised")
    if any(value.shape != (x.shape[1],) for value in parameters):
        raise Unsupported(f"scale and bias must be one for each of {x.shape[1]} channels")


@operator("LayerNormalization", becomes="layer_norm; reduce, binary and unary for more results",
          inputs=3)  # fmt: skip
def _layer(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, gamma = required(v, 0, "X"), required(v, 1, "Scale")
    beta = optional(v, 2) or b.constant(np.zeros(gamma.shape, np.float32))
    axis = axis_of(integer(node, "axis", -1), len(x.shape))
    inside = x.shape[axis:]
    if gamma.shape != inside or beta.shape != inside:
        raise Unsupported(f"scale {gamma.shape} and bias {beta.shape} do not fit {x.shape}")
    epsilon, rows = number(node, "epsilon", 1e-5), x
    if len(inside) > 1:
        length = (math.prod(inside),)
        rows = b.emit("reshape", {"x": x}, shape=(*x.shape[:axis], *length))
        gamma, beta = (b.emit("reshape", {"x": value}, shape=length) for value in (gamma, beta))
    result = b.emit("layer_norm", {"x": rows, "gamma": gamma, "beta": beta}, epsilon=epsilon)
    if len(inside) > 1:
        result = b.emit("reshape", {"x": result}, shape=x.shape)
    if len(node.outputs) == 1:
        return [result]
    at = {"function": "mean", "axes": tuple(range(axis, len(x.shape))), "keep": True}
    mean = b.emit("reduce", {"x": x}, **at)
    centred = b.emit("binary", {"x": x, "y": mean}, function="subtract")
    squares = b.emit("binary", {"x": centred, "y": centred}, function="multiply")
    operands = {"x": b.emit("reduce", {"x": squares}, **at), "y": b.constant(epsilon, "float32")}
    root = b.emit("unary", {"x": b.emit("binary", operands, function="add")}, function="sqrt")
    return [result, mean, b.emit("unary", {"x": root}, function="reciprocal")]


@operator("InstanceNormalization", becomes="reshape, layer_norm, two binary", inputs=3)
def _instance(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, scale, bias = (required(v, i, what) for i, what in enumerate(("input", "scale", "B")))
    _channels(x, scale, bias)
    rows = _normalised(b, x, x.shape[1], number(node, "epsilon", 1e-5))
    return [_line(b, rows, scale, bias)]


@operator("GroupNormalization", becomes="reshape, layer_norm, two binary", inputs=3)
def _group(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, scale, bias = (required(v, i, what) for i, what in enumerate(("X", "scale", "bias")))
    groups = integer(node, "num_groups", 0)
    if len(x.shape) < 2 or groups < 1 or x.shape[1] % groups:
        raise Unsupported(f"{x.shape} cannot be cut into {groups} groups of channels")
    each = x.shape[1] // groups
    if b.opset < 21 and scale.shape == bias.shape == (groups,):  # one for each group, then
        places = b.constant(np.repeat(np.arange(groups), each), "int64")
        scale, bias = (
            b.emit("gather", {"x": value, "indices": places}, axis=0) for value in (scale, bias)
        )
    _channels(x, scale, bias)
    rows = _normalised(b, x, groups, number(node, "epsilon", 1e-5))
    return [_line(b, rows, scale, bias)]


@operator("LRN", becomes="pool of squares of neighbouring channels, binary", inputs=1)
def _lrn(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, size = required(v, 0, "X"), integer(node, "size", 0)
    _channels(x)
    if not 0 < size < 1 << 16:
        raise Unsupported(f"size must be above 0, not {size}")
    squares = b.emit("binary", {"x": x, "y": x}, function="multiply")
    lines = (x.shape[0], 1, x.shape[1], math.prod(x.shape[2:]))
    before = (size - 1) // 2
    means = b.emit(
        "pool", {"x": b.emit("reshape", {"x": squares}, shape=lines)}, function="average",
        kernel=(size, 1), strides=(1, 1), dilations=(1, 1), before=(before, 0),
        after=(size - 1 - before, 0), padded=True,
    )  # fmt: skip
    result = b.emit("reshape", {"x": means}, shape=x.shape)
    for function, value in (
        ("multiply", number(node, "alpha", 1e-4)), ("add", number(node, "bias", 1.0)),
        ("power", number(node, "beta", 0.75)),
    ):  # fmt: skip
        operands = {"x": result, "y": b.constant(value, "float32")}
        result = b.emit("binary", operands, function=function)
    return [b.emit("binary", {"x": x, "y": result}, function="divide")]
