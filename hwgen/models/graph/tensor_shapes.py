# SPDX-License-Identifier: Apache-2.0
"""Shapes and types of the results of operations on arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Shape = tuple[int, ...]


COMPARISONS = ("equal", "less", "less_equal", "greater", "greater_equal", "and", "or")
"""Functions of two numbers whose result is true or false."""


def window_counts(shape: tuple[int, ...], at: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the number of windows along each of the last axes."""
    spatial = shape[len(shape) - len(at["kernel"]) :]
    result = []
    for length, kernel, stride, dilation, before, after in zip(
        spatial, at["kernel"], at["strides"], at["dilations"], at["before"], at["after"],
        strict=True,
    ):  # fmt: skip
        result.append((length + before + after - dilation * (kernel - 1) - 1) // stride + 1)
    return tuple(result)


def shape_of(operation: str, at: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Shape:
    """Return the shape of a result.

    Parameters
    ----------
    operation : str
        One of `hwgen.models.graph.operations.OPERATIONS`.
    at : mapping
        Attributes of the node.
    shapes : mapping
        Shapes of operands by name.

    Raises
    ------
    ValueError
        If the shapes of the operands do not go together.
    """
    if operation in ("binary", "add", "where", "linear"):
        return np.broadcast_shapes(*shapes.values())
    if operation in ("gemm", "integer_gemm"):
        return _product(at, shapes["x"], shapes["weights"])
    if operation in ("matmul", "integer_matmul"):
        return _matmul(shapes["x"], shapes["y"])
    if operation == "concat":
        return _concat(at, [shapes[f"x{index}"] for index in range(len(shapes))])
    x = shapes["x"]
    match operation:
        case "reshape":
            result = tuple(at["shape"])
            if math.prod(result) != math.prod(x):
                raise ValueError(f"{x} cannot become {result}")
            return result
        case "transpose":
            if sorted(at["order"]) != list(range(len(x))):
                raise ValueError(f"{at['order']} is no order of {len(x)} axes")
            return tuple(x[axis] for axis in at["order"])
        case "expand":
            return np.broadcast_shapes(x, at["shape"])
        case "pad":
            sides = zip(x, at["before"], at["after"], strict=True)
            return tuple(length + before + after for length, before, after in sides)
        case "gather":
            axis = at["axis"] % len(x)
            return (*x[:axis], *shapes["indices"], *x[axis + 1 :])
        case "gather_nd":
            places = shapes["indices"]
            return (*places[:-1], *x[places[-1] :])
        case "slice":
            return _slice(at, x)
        case "reduce" | "linear_mean":
            return _reduced(at, x)
        case "pool" | "patches" | "linear_pool":
            return _windows(operation, at, x)
        case "dynamic_quantise":
            return x if at["part"] == "values" else ()
    return x


def type_of(operation: str, at: Mapping[str, Any], types: Mapping[str, str]) -> str:
    """Return the type of a result; see `shape_of`."""
    if "dtype" in at:
        return str(at["dtype"])
    if operation in ("gemm", "matmul", "dequantise_linear"):
        return "float32"
    if operation in ("integer_gemm", "integer_matmul"):
        return "int32"
    if operation == "dynamic_quantise":
        return "float32" if at["part"] == "scale" else "uint8"
    if at.get("function") in (*COMPARISONS, "not", "is_nan"):
        return "bool"
    return types.get("x") or types["x0"]


def _product(at: Mapping[str, Any], x: Shape, weights: Shape) -> Shape:
    groups = at.get("groups", 1)
    if not x or len(weights) != 2 or x[-1] != weights[1] * groups or weights[0] % groups:
        raise ValueError(
            f"rows of {x[-1] if x else 0} do not go with weights {weights} in {groups} groups"
        )
    return (*x[:-1], weights[0])


def _matmul(x: Shape, y: Shape) -> Shape:
    if len(x) < 2 or len(y) < 2 or x[-1] != y[-2]:
        raise ValueError(f"{x} cannot be multiplied by {y}")
    return (*np.broadcast_shapes(x[:-2], y[:-2]), x[-2], y[-1])


def _concat(at: Mapping[str, Any], parts: list[Shape]) -> Shape:
    axis = at["axis"] % len(parts[0])
    others = {(*part[:axis], *part[axis + 1 :]) for part in parts}
    if len(others) > 1:
        raise ValueError(f"{', '.join(map(str, parts))} cannot be joined along axis {axis}")
    return (*parts[0][:axis], sum(part[axis] for part in parts), *parts[0][axis + 1 :])


def _slice(at: Mapping[str, Any], x: Shape) -> Shape:
    result = list(x)
    for axis, start, stop, step in zip(
        at["axes"], at["starts"], at["stops"], at["steps"], strict=True
    ):
        result[axis] = len(range(start, stop, step))
    return tuple(result)


def _reduced(at: Mapping[str, Any], x: Shape) -> Shape:
    axes = {axis % len(x) for axis in at["axes"]}
    if at.get("keep", True):
        return tuple(1 if axis in axes else length for axis, length in enumerate(x))
    return tuple(length for axis, length in enumerate(x) if axis not in axes)


def _windows(operation: str, at: Mapping[str, Any], x: Shape) -> Shape:
    count = len(at["kernel"])
    counts = window_counts(x, at)
    if len(x) != count + 2 or min(counts) < 1:
        raise ValueError(f"windows of {at['kernel']} do not fit into {x}")
    if operation in ("pool", "linear_pool"):
        return (*x[:2], *counts)
    return (x[0], *counts, x[1] * math.prod(at["kernel"]))
