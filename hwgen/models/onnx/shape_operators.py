# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX that move elements, or say something about shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hwgen.models.onnx.builder import Builder, Unsupported, Value
from hwgen.models.onnx.file import MOST_ELEMENTS, TYPES, Graph, GraphNode
from hwgen.models.onnx.operators import (
    axis_of,
    constant_of,
    integer,
    ints,
    moved,
    operator,
    optional,
    required,
    whole,
)

Operands = list[Value | None]
_CONSTANT = "computed at import"


@operator("Identity", becomes="nothing", inputs=1)
@operator("Dropout", becomes="nothing", restrictions="not in training")
def _identity(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    training = optional(v, 2)
    if training is not None and constant_of(training, "training_mode").any():
        raise Unsupported("training_mode must be false; export the network for inference")
    return [required(v, 0, "data")]


@operator("Constant", becomes=_CONSTANT, restrictions="no strings, no sparse tensors")
def _constant(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    for key, dtype in (("value_float", "float32"), ("value_floats", "float32"),
                       ("value_int", "int64"), ("value_ints", "int64")):  # fmt: skip
        if node.attributes.get(key) is not None:
            return [b.constant(node.attributes[key], dtype)]
    value = node.attributes.get("value")
    if not isinstance(value, np.ndarray):
        raise Unsupported("holds no tensor of numbers")
    return [b.constant(value)]


@operator("Shape", becomes=_CONSTANT, inputs=1)
def _shape(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    shape = required(v, 0, "data").shape
    stop = node.attributes.get("end")
    return [b.constant(shape[integer(node, "start", 0) : stop], "int64")]


@operator("Size", becomes=_CONSTANT, inputs=1)
def _size(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    return [b.constant(math.prod(required(v, 0, "data").shape), "int64")]


@operator("ConstantOfShape", becomes=_CONSTANT, restrictions="shape: constant", inputs=1)
def _constant_of_shape(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    shape = whole(required(v, 0, "shape"), "shape")
    if min(shape, default=0) < 0 or math.prod(shape) > MOST_ELEMENTS:
        raise Unsupported(f"the shape {shape[:8]} is too large")
    value = node.attributes.get("value", np.zeros(1, np.float32))
    return [b.constant(np.broadcast_to(np.asarray(value).reshape(-1)[:1], (1,)).repeat(
        math.prod(shape)).reshape(shape))]  # fmt: skip


@operator("Range", becomes=_CONSTANT, restrictions="operands: constant")
def _range(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    limits = [
        constant_of(required(v, i, what), what)
        for i, what in enumerate(("start", "limit", "delta"))
    ]
    start, stop, step = (array.reshape(-1)[0] for array in limits)
    if step == 0 or not np.isfinite([start, stop, step]).all():
        raise Unsupported("its operands must be finite, and delta not 0")
    if abs((float(stop) - float(start)) / float(step)) > 1 << 24:
        raise Unsupported("it has too many elements")
    return [b.constant(np.arange(start, stop, step), limits[0].dtype.name)]


@operator("Cast", becomes="cast", restrictions="to float32, int8, uint8, int32, int64 or bool;"
          " float16, bfloat16 and float64 of constants only", inputs=1)  # fmt: skip
def _cast(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "input")
    name = TYPES.get(integer(node, "to", 1), ("?", None))[0]
    if name in ("float16", "bfloat16", "float64"):
        if x.constant is None:
            raise Unsupported(f"{name} is not computed in; export the network in float32")
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = x.constant.astype(TYPES[integer(node, "to", 1)][1])
        return [b.constant(narrow.astype(np.float32))]
    if name not in ("float32", "int8", "uint8", "int32", "int64", "bool"):
        raise Unsupported(f"type {name} is not computed in")
    return [x if name == x.dtype else b.emit("cast", {"x": x}, dtype=name)]


@operator("Reshape", becomes="reshape", restrictions="shape: constant", inputs=2)
def _reshape(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, asked = required(v, 0, "data"), whole(required(v, 1, "shape"), "shape")
    shape = list(asked)
    if not integer(node, "allowzero", 0):
        for axis, length in enumerate(shape):
            if length == 0:
                if axis >= len(x.shape):
                    raise Unsupported(f"shape {asked} takes over an axis that is not there")
                shape[axis] = x.shape[axis]
    if shape.count(-1) == 1:
        rest = -math.prod(shape)
        if rest <= 0 or math.prod(x.shape) % rest:
            raise Unsupported(f"{x.shape} cannot become {asked}")
        shape[shape.index(-1)] = math.prod(x.shape) // rest
    if min(shape, default=1) < 0:
        raise Unsupported(f"{x.shape} cannot become {asked}")
    return [moved(b, "reshape", x, shape=tuple(shape))]


@operator("Flatten", becomes="reshape", inputs=1)
def _flatten(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "input")
    axis = integer(node, "axis", 1)
    axis += len(x.shape) * (axis < 0)
    if not 0 <= axis <= len(x.shape):
        raise Unsupported(f"axis {axis} is not one of {x.shape}")
    shape = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    return [moved(b, "reshape", x, shape=shape)]


@operator("Squeeze", "Unsqueeze", becomes="reshape", restrictions="axes: constant", inputs=2)
def _squeeze(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, operand = required(v, 0, "data"), optional(v, 1)
    axes = whole(operand, "axes") if operand is not None else ints(node, "axes", ())
    if node.operator == "Squeeze":
        if operand is None and "axes" not in node.attributes:
            axes = tuple(axis for axis, length in enumerate(x.shape) if length == 1)
        gone = {axis_of(axis, len(x.shape)) for axis in axes}
        if any(x.shape[axis] != 1 for axis in gone):
            raise Unsupported(f"axes {axes} of {x.shape} are not all of length 1")
        shape = [length for axis, length in enumerate(x.shape) if axis not in gone]
    else:
        ndim = len(x.shape) + len(axes)
        new = {axis_of(axis, ndim) for axis in axes}
        rest = iter(x.shape)
        shape = [1 if axis in new else next(rest, 0) for axis in range(ndim)]
    return [moved(b, "reshape", x, shape=tuple(shape))]


@operator("Transpose", becomes="transpose", inputs=1)
def _transpose(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "data")
    return [moved(b, "transpose", x, order=ints(node, "perm", range(len(x.shape))[::-1]))]


@operator("Concat", becomes="concat", inputs=1 << 16)
def _concat(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    parts = [required(v, index, f"{index}") for index in range(len(v))]
    if not parts:
        raise Unsupported("joins nothing")
    axis = axis_of(integer(node, "axis", 0), len(parts[0].shape))
    parts = [part for part in parts if math.prod(part.shape)] or parts[:1]
    return [b.emit("concat", {f"x{i}": part for i, part in enumerate(parts)}, axis=axis)]


@operator("Split", becomes="slice", restrictions="split: constant", inputs=2)
def _split(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, operand = required(v, 0, "input"), optional(v, 1)
    axis = axis_of(integer(node, "axis", 0), len(x.shape))
    count = len(node.outputs)
    lengths = whole(operand, "split") if operand is not None else ints(node, "split", ())
    if not lengths:
        each = -(-x.shape[axis] // max(count, 1))
        lengths = (each,) * (count - 1) + (x.shape[axis] - each * (count - 1),)
    if sum(lengths) != x.shape[axis] or len(lengths) != count or min(lengths) < 0:
        raise Unsupported(f"{x.shape[axis]} cannot be split into {lengths} for {count} results")
    result, start = [], 0
    for length in lengths:
        if not length:
            shape = (*x.shape[:axis], 0, *x.shape[axis + 1 :])
            result.append(b.constant(np.zeros(shape), x.dtype))
            continue
        result.append(moved(b, "slice", x, axes=(axis,), starts=(start,), stops=(start + length,),
                           steps=(1,)))  # fmt: skip
        start += length
    return result


@operator("Slice", becomes="slice", restrictions="all but data: constant", inputs=5)
def _slice(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "data")
    if len(v) == 1:
        starts, stops = ints(node, "starts", ()), ints(node, "ends", ())
        axes, steps = ints(node, "axes", range(len(starts))), (1,) * len(starts)
    else:
        starts, stops = (whole(required(v, i, w), w) for i, w in ((1, "starts"), (2, "ends")))
        third, fourth = optional(v, 3), optional(v, 4)
        axes = whole(third, "axes") if third is not None else tuple(range(len(starts)))
        steps = whole(fourth, "steps") if fourth is not None else (1,) * len(starts)
    if not len(starts) == len(stops) == len(axes) == len(steps) or 0 in steps:
        raise Unsupported("starts, ends, axes and steps do not go together")
    result = []
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        place = axis_of(axis, len(x.shape))
        result.append((place, *slice(start, stop, step).indices(x.shape[place]), step)[:4])
    kept = [one for one in result if one[1:] != (0, x.shape[one[0]], 1)]
    if not kept:
        return [x]
    columns = [tuple(column) for column in zip(*kept, strict=True)]
    return [moved(b, "slice", x, axes=columns[0], starts=columns[1], stops=columns[2],
                  steps=columns[3])]  # fmt: skip


@operator("Gather", becomes="gather", restrictions="indices out of range are refused at run time",
          inputs=2)  # fmt: skip
def _gather(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, indices = required(v, 0, "data"), required(v, 1, "indices")
    axis = axis_of(integer(node, "axis", 0), len(x.shape))
    if indices.dtype not in ("int32", "int64"):
        raise Unsupported(f"indices must be int32 or int64, not {indices.dtype}")
    return [b.emit("gather", {"x": x, "indices": indices}, axis=axis)]


@operator("GatherND", becomes="gather_nd", restrictions="batch_dims: 0", inputs=2)
def _gather_nd(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, indices = required(v, 0, "data"), required(v, 1, "indices")
    if integer(node, "batch_dims", 0):
        raise Unsupported("batch_dims must be 0")
    if indices.dtype != "int64" or not indices.shape or not 1 <= indices.shape[-1] <= len(x.shape):
        raise Unsupported(f"indices {indices.shape} do not go with {x.shape}")
    return [b.emit("gather_nd", {"x": x, "indices": indices})]


@operator("Expand", becomes="expand", restrictions="shape: constant", inputs=2)
def _expand(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, shape = required(v, 0, "input"), whole(required(v, 1, "shape"), "shape")
    if min(shape, default=1) < 1:
        raise Unsupported(f"shape {shape} has lengths below 1")
    if math.prod(np.broadcast_shapes(x.shape, shape)) == math.prod(x.shape) and len(shape) <= len(
        x.shape
    ):
        return [x]
    return [b.emit("expand", {"x": x}, shape=shape)]


@operator("If", becomes="the branch that is taken", restrictions="condition: constant", inputs=1)
def _if(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    condition = constant_of(required(v, 0, "cond"), "condition")
    if condition.size != 1:
        raise Unsupported(f"its condition must be one, not {condition.shape}")
    key = "then_branch" if condition.any() else "else_branch"
    branch = node.attributes.get(key)
    if not isinstance(branch, Graph):
        raise Unsupported(f"has no {key}")
    return b.inline(branch)
