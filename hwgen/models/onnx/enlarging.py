# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX whose results are larger than their operands: Pad, Resize, ConvTranspose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.models.onnx.builder import Builder, Unsupported, Value
from hwgen.models.onnx.file import MOST_ELEMENTS, GraphNode
from hwgen.models.onnx.operators import (
    axis_of,
    choice,
    constant_of,
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

# -- Pad -----------------------------------------------------------------------------------------


@operator("Pad", becomes="pad; gather of reflections and edges; slice of negative pads",
          restrictions="pads: constant", inputs=4)  # fmt: skip
def _pad(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "data")
    mode = choice(node, "mode", "constant", ("constant", "reflect", "edge", "wrap"))
    operand, value, chosen = optional(v, 1), optional(v, 2), optional(v, 3)
    pads = whole(operand, "pads") if operand is not None else ints(node, "pads", ())
    ndim = len(x.shape)
    axes = whole(chosen, "axes") if chosen is not None else tuple(range(ndim))
    if len(pads) != 2 * len(axes) or any(abs(n) > 1 << 20 for n in pads):
        raise Unsupported(f"pads {pads[:8]} do not fit {ndim} axes")
    sides = np.zeros((2, ndim), int)
    for index, axis in enumerate(axes):
        sides[:, axis_of(axis, ndim)] = pads[index], pads[len(axes) + index]
    x = _cut(b, x, np.maximum(-sides, 0))
    sides = np.maximum(sides, 0)
    if mode != "constant":
        for axis in range(ndim):
            before, after = int(sides[0, axis]), int(sides[1, axis])
            if before or after:
                x = _repeated(b, x, axis, before, after, mode)
        return [x]
    if value is None:
        fill = number(node, "value", 0.0)
    else:
        fill = float(constant_of(value, "constant_value").reshape(-1)[0])
    if not sides.any():
        return [x]
    if not math.isfinite(fill):
        raise Unsupported(f"constant_value must be finite, not {fill}")
    lengths = [tuple(int(n) for n in side) for side in sides]
    return [b.emit("pad", {"x": x}, before=lengths[0], after=lengths[1], value=fill)]


def _cut(b: Builder, x: Value, sides: NDArray[Any]) -> Value:
    """Return an array without some elements of both sides of each axis."""
    axes = tuple(int(axis) for axis in np.flatnonzero(sides.any(0)))
    if not axes:
        return x
    starts = tuple(int(sides[0, axis]) for axis in axes)
    stops = tuple(x.shape[axis] - int(sides[1, axis]) for axis in axes)
    if any(stop <= start for start, stop in zip(starts, stops, strict=True)):
        raise Unsupported(f"nothing is left of {x.shape}")
    return moved(b, "slice", x, axes=axes, starts=starts, stops=stops, steps=(1,) * len(axes))


def _repeated(b: Builder, x: Value, axis: int, before: int, after: int, mode: str) -> Value:
    """Return an array with copies of its elements on both sides of an axis."""
    length = x.shape[axis]
    place = np.arange(-before, length + after)
    if mode == "reflect" and length > 1:
        place = np.abs((place + length - 1) % (2 * length - 2) - (length - 1))
    elif mode == "wrap":
        place = place % length
    else:
        place = np.clip(place, 0, length - 1)
    return b.emit("gather", {"x": x, "indices": b.constant(place, "int64")}, axis=axis)


# -- Resize --------------------------------------------------------------------------------------

_COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                "asymmetric", "tf_crop_and_resize")  # fmt: skip
_NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class _Sampling:
    """Rules of a Resize.

    Parameters
    ----------
    mode : str
        ``nearest``, ``linear`` or ``cubic``.
    coordinates, nearest : str
        Which position of the old axis belongs to one of the new axis, and its nearest element.
    cubic : float
        Coefficient of cubic interpolation.
    exclude : bool
        Whether elements outside have no weight; else the outermost ones are repeated.
    antialias : bool
        Whether the filter grows as an axis shrinks.
    """

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude: bool
    antialias: bool

    def positions(
        self, old: int, new: int, factor: float, region: tuple[float, float]
    ) -> NDArray[np.float64]:
        """Return positions on the old axis."""
        place = np.arange(new, dtype=np.float64)
        match self.coordinates:
            case "asymmetric":
                return place / factor
            case "align_corners":
                return place * (old - 1) / (factor * old - 1) if new > 1 else np.zeros(1)
            case "tf_crop_and_resize":
                start, end = region
                if new > 1:
                    return (start + place * (end - start) / (new - 1)) * (old - 1)
                return np.full(1, 0.5 * (start + end) * (old - 1))
            case "pytorch_half_pixel" if new == 1:
                return np.zeros(1)
        result = (place + 0.5) / factor - 0.5
        if self.coordinates == "half_pixel_symmetric":
            result = result + old / 2 * (1 - new / (factor * old))
        return result

    def weights(self, positions: NDArray[np.float64], old: int, factor: float) -> NDArray[Any]:
        """Return the weight of each element of the old axis in one of the new axis."""
        result = np.zeros((len(positions), old))
        rows = np.arange(len(positions))
        if self.mode == "nearest":
            single = positions.astype(np.float32)
            half = np.float32(0.5)
            nearest = {
                "floor": np.floor(single), "ceil": np.ceil(single),
                "round_prefer_floor": np.ceil(single - half),
                "round_prefer_ceil": np.floor(single + half),
            }[self.nearest]  # fmt: skip
            result[rows, np.clip(nearest, 0, old - 1).astype(int)] = 1
            return result
        shrunk = min(factor, 1.0) if self.antialias else 1.0
        reach = math.ceil((1 if self.mode == "linear" else 2) / shrunk)
        for step in range(-reach, reach + 2):
            place = np.floor(positions) + step
            weight = self._filter(np.abs(place - positions) * shrunk)
            if self.exclude:
                weight = np.where((place >= 0) & (place < old), weight, 0)
            np.add.at(result, (rows, np.clip(place, 0, old - 1).astype(int)), weight)
        return np.asarray(result / result.sum(1, keepdims=True))

    def _filter(self, distance: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.mode == "linear":
            return np.maximum(1 - distance, 0)
        a, x = self.cubic, distance
        near = (a + 2) * x**3 - (a + 3) * x**2 + 1
        far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0))


@operator("Resize", "Upsample", becomes="gather along each axis, weighted and added up",
          restrictions="sizes or scales, and roi: constant", inputs=4)  # fmt: skip
def _resize(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x = required(v, 0, "X")
    modes = ("nearest", "linear", "cubic")
    if b.opset < 11 or node.operator == "Upsample":
        rules = _Sampling(choice(node, "mode", "nearest", modes), "asymmetric", "floor", -0.75,
                          exclude=False, antialias=False)  # fmt: skip
        parts: tuple[Value | None, ...] = (None, optional(v, 1), None)
    else:
        rules = _Sampling(
            choice(node, "mode", "nearest", modes),
            choice(node, "coordinate_transformation_mode", "half_pixel", _COORDINATES),
            choice(node, "nearest_mode", "round_prefer_floor", _NEAREST),
            number(node, "cubic_coeff_a", -0.75),
            exclude=bool(integer(node, "exclude_outside", 0)),
            antialias=bool(integer(node, "antialias", 0)),
        )
        parts = (optional(v, 1), optional(v, 2), optional(v, 3))
    axes = [axis_of(a, len(x.shape)) for a in ints(node, "axes", range(len(x.shape)))]
    lengths, factors = _sizes(node, x, axes, parts[1], parts[2])
    region = [0.0] * len(axes) + [1.0] * len(axes)
    if rules.coordinates == "tf_crop_and_resize":
        region = [float(n) for n in constant_of(required(v, 1, "roi"), "roi").reshape(-1)]
        if len(region) != 2 * len(axes) or not np.isfinite(region).all():
            raise Unsupported(f"roi must be {2 * len(axes)} finite numbers")
    outside = number(node, "extrapolation_value", 0.0)
    rest = math.prod(x.shape) // math.prod(x.shape[a] for a in axes)
    sizes = (new * x.shape[a] for a, new in zip(axes, lengths, strict=True))  # of weights
    if max(rest * math.prod(lengths), *sizes) > MOST_ELEMENTS:
        raise Unsupported(f"a result of {lengths} is too large")
    for index, (axis, new, factor) in enumerate(zip(axes, lengths, factors, strict=True)):
        old = x.shape[axis]
        positions = rules.positions(old, new, factor, (region[index], region[index + len(axes)]))
        beyond = np.zeros(new, bool)
        if rules.coordinates == "tf_crop_and_resize":
            beyond = (positions < 0) | (positions > old - 1)
        weights = rules.weights(positions, old, factor)
        x = _sampled(b, x, axis, np.where(beyond[:, None], 0, weights), beyond, outside)
    return [x]


def _sizes(
    node: GraphNode, x: Value, axes: list[int], scales: Value | None, sizes: Value | None
) -> tuple[list[int], list[float]]:
    """Return the new lengths of axes, and how much longer they are."""
    old = [x.shape[axis] for axis in axes]
    listed = node.attributes.get("scales")
    if sizes is not None and sizes.shape != (0,):
        lengths = list(whole(sizes, "sizes"))
        factors = [new / length for new, length in zip(lengths, old, strict=False)]
        policy = choice(node, "keep_aspect_ratio_policy", "stretch",
                        ("stretch", "not_larger", "not_smaller"))  # fmt: skip
        if policy != "stretch" and factors:
            factor = min(factors) if policy == "not_larger" else max(factors)
            factors = [factor] * len(factors)
            lengths = [math.floor(factor * length + 0.5) for length in old]
    elif (scales is not None and scales.shape != (0,)) or isinstance(listed, tuple):
        array = np.asarray(listed) if scales is None else constant_of(scales, "scales")
        factors = [float(f) for f in array.reshape(-1)]
        lengths = [
            math.floor(f * n) if 0 < f < 1 << 16 else 0 for f, n in zip(factors, old, strict=False)
        ]
    else:
        raise Unsupported("has neither sizes nor scales")
    if not len(lengths) == len(old) == len(factors) or min(lengths, default=0) < 1:
        raise Unsupported(f"{x.shape} cannot be resized to {tuple(lengths)}")
    return lengths, factors


def _sampled(
    b: Builder, x: Value, axis: int, weights: NDArray[Any], beyond: NDArray[Any], outside: float
) -> Value:
    """Return an array whose elements along an axis are weighted sums of old ones."""
    new, old = weights.shape
    if new == old and (weights == np.eye(old)).all():
        return x
    count = int((weights != 0).sum(1).max(initial=1))
    order = np.argsort(weights == 0, axis=1, kind="stable")[:, :count]
    chosen = np.take_along_axis(weights, order, 1)
    if count == 1 and (chosen == 1).all():
        return b.emit("gather", {"x": x, "indices": b.constant(order[:, 0], "int64")}, axis=axis)
    if x.dtype != "float32":
        raise Unsupported(f"interpolates {x.dtype}; only float32 is interpolated")
    along = (-1, *(1,) * (len(x.shape) - axis - 1))
    total: Value | None = None
    for index in range(count):
        places = b.constant(order[:, index], "int64")
        part = b.emit("gather", {"x": x, "indices": places}, axis=axis)
        factor = b.constant(chosen[:, index].reshape(along), "float32")
        part = b.emit("binary", {"x": part, "y": factor}, function="multiply")
        total = part if total is None else b.emit("add", {"x": total, "y": part})
    assert total is not None
    if outside and beyond.any():
        term = b.constant(np.where(beyond, outside, 0).reshape(along), "float32")
        total = b.emit("binary", {"x": total, "y": term}, function="add")
    return total


# -- ConvTranspose -------------------------------------------------------------------------------


@operator("ConvTranspose", becomes="reshape, pad, patches, gemm, transpose: a convolution of x with"
          " zeros between its elements", restrictions="weights: constant")  # fmt: skip
def _conv_transpose(b: Builder, node: GraphNode, v: Operands) -> Sequence[Value]:
    x, bias = required(v, 0, "X"), optional(v, 2)
    weights = constant_of(required(v, 1, "W"), "W")
    groups, spatial = integer(node, "group", 1), x.shape[2:]
    if x.dtype != "float32" or weights.dtype != np.float32:
        raise Unsupported(f"multiplies {x.dtype} by {weights.dtype}")
    if weights.ndim < 3 or len(x.shape) != weights.ndim or x.shape[1] != weights.shape[0] or (
        groups < 1 or x.shape[1] % groups
    ):  # fmt: skip
        raise Unsupported(f"weights {weights.shape} in {groups} groups do not go with {x.shape}")
    kernel = ints(node, "kernel_shape", weights.shape[2:])
    if kernel != weights.shape[2:]:
        raise Unsupported(f"kernel_shape {kernel} is not that of the weights {weights.shape}")
    strides, dilations, before, after = _transposed_windows(node, spatial, kernel)
    x = _spread(b, x, strides)
    negative = np.minimum([before, after], 0)
    x = _cut(b, x, np.pad(-negative, ((0, 0), (2, 0))))
    channels, each = x.shape[1], weights.shape[1]
    turned = np.flip(weights, tuple(range(2, weights.ndim)))
    turned = turned.reshape(groups, channels // groups, each, *kernel).swapaxes(1, 2)
    rows = np.ascontiguousarray(turned.reshape(groups * each, -1))
    at = {"kernel": kernel, "strides": (1,) * len(spatial), "dilations": dilations,
          "before": tuple(max(n, 0) for n in before),
          "after": tuple(max(n, 0) for n in after)}  # fmt: skip
    own, b.current = b.current, f"{b.current}.patches"
    lines = b.emit("patches", {"x": x}, **at)
    b.current = own
    operands = {"x": lines, "weights": b.constant(rows)}
    if bias is not None:
        operands["bias"] = b.constant(constant_of(bias, "B"), "float32")
    product = b.emit("gemm", operands, **({"groups": groups} if groups > 1 else {}))
    ndim = len(x.shape)
    return [moved(b, "transpose", product, order=(0, ndim - 1, *range(1, ndim - 1)))]


def _transposed_windows(
    node: GraphNode, spatial: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], list[int], list[int]]:
    """Return strides and dilations, and the padding of a convolution of what is spread out."""
    count = len(spatial)
    strides, dilations = ints(node, "strides", (1,) * count), ints(node, "dilations", (1,) * count)
    extra = ints(node, "output_padding", (0,) * count)
    pads = ints(node, "pads", (0,) * (2 * count))
    auto = choice(node, "auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    wanted = ints(node, "output_shape", ())
    if not len(strides) == len(dilations) == len(extra) == count == len(pads) // 2 or not all(
        0 < n < 1 << 16 for n in (*kernel, *strides, *dilations)
    ) or not all(0 <= n < 1 << 16 for n in (*extra, *pads)):  # fmt: skip
        raise Unsupported(f"windows of {kernel} every {strides} do not go with {count} axes")
    sides = [list(pads[:count]), list(pads[count:])]
    if wanted or auto.startswith("SAME"):
        wanted = wanted[-count:] or tuple(n * s for n, s in zip(spatial, strides, strict=True))
        if len(wanted) != count or not all(0 < n < 1 << 20 for n in wanted):
            raise Unsupported(f"output_shape {wanted} does not go with {count} axes")
        for axis in range(count):
            reach = dilations[axis] * (kernel[axis] - 1) + 1
            total = strides[axis] * (spatial[axis] - 1) + extra[axis] + reach - wanted[axis]
            small = total // 2 if auto == "SAME_UPPER" else total - total // 2
            sides[0][axis], sides[1][axis] = small, total - small
    elif auto == "VALID":
        sides = [[0] * count, [0] * count]
    reaches = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
    before = [r - p for r, p in zip(reaches, sides[0], strict=True)]
    after = [r - p + e for r, p, e in zip(reaches, sides[1], extra, strict=True)]
    return strides, dilations, before, after


def _spread(b: Builder, x: Value, strides: tuple[int, ...]) -> Value:
    """Return an array with ``stride - 1`` zeros between its elements along the last axes."""
    for index, stride in enumerate(strides):
        if stride == 1:
            continue
        axis, shape = 2 + index, x.shape
        split = (*shape[: axis + 1], 1, *shape[axis + 1 :])
        more = tuple((stride - 1) * (place == axis + 1) for place in range(len(split)))
        x = b.emit("reshape", {"x": x}, shape=split)
        x = b.emit("pad", {"x": x}, before=(0,) * len(split), after=more, value=0.0)
        x = b.emit("reshape", {"x": x}, shape=(*shape[:axis], shape[axis] * stride,
                                               *shape[axis + 1 :]))  # fmt: skip
        x = b.emit("slice", {"x": x}, axes=(axis,), starts=(0,),
                   stops=((shape[axis] - 1) * stride + 1,), steps=(1,))  # fmt: skip
    return x
