# SPDX-License-Identifier: Apache-2.0
"""Operators of TensorFlow Lite on integers of 8 bits, and what they become.

Integers are those of its reference kernels: sums are multiplied by an integer of 31 bits and
shifted. Channels are the last axis there; windows take them as the second one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.models.onnx.builder import Builder, Codes, Unsupported, Value
from hwgen.models.onnx.matrix_products import integer_rows
from hwgen.models.run.tensor_integers import fixed_point
from hwgen.models.tflite.file import LiteOperator, LiteTensor
from hwgen.models.tflite.fixed_point import exponentials
from hwgen.models.tflite.flatbuffer import Table

_ACTIVATIONS = {0: "none", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH", 5: "SIGN_BIT"}
_MOST_STEP = 1 << 16


@dataclass(eq=False)
class Operand:
    """An operand.

    Parameters
    ----------
    value : Value
    tensor : LiteTensor
    """

    value: Value
    tensor: LiteTensor

    @property
    def scale(self) -> np.float32:
        """Its one scale."""
        return np.float32(self.tensor.scales[0])

    @property
    def zero(self) -> int:
        """Its one zero point."""
        return int(self.tensor.zeros[0])


@dataclass(eq=False)
class Conversion:
    """An operator that is converted.

    Parameters
    ----------
    builder : Builder
    operator : LiteOperator
    operands : list
        None where one is left out.
    result : LiteTensor
    """

    builder: Builder
    operator: LiteOperator
    operands: list[Operand | None]
    result: LiteTensor

    def operand(self, index: int) -> Operand:
        """Return an operand that must be there."""
        result = self.operands[index] if index < len(self.operands) else None
        if result is None:
            raise Unsupported(f"lacks its operand {index}")
        return result

    def codes(self, index: int) -> Operand:
        """Return an operand that must be int8 with one scale."""
        result = self.operand(index)
        if result.tensor.dtype != "int8" or result.tensor.scales.size != 1:
            raise Unsupported(
                f"operand {index} is {result.tensor.dtype} with {result.tensor.scales.size} scales;"
                " int8 with one is supported: convert the model to int8"
            )
        return result

    def constant(self, index: int) -> NDArray[Any]:
        """Return the elements of an operand that must be constant."""
        value = self.operand(index).value
        if value.constant is None:
            raise Unsupported(f"operand {index} must be constant")
        return value.constant

    @property
    def options(self) -> Table:
        """Options, which must be there."""
        if self.operator.options is None:
            raise Unsupported("has no options")
        return self.operator.options

    @property
    def after(self) -> Operand:
        """Scale and zero point of the result, which must be int8."""
        if self.result.dtype != "int8" or self.result.scales.size != 1:
            raise Unsupported(f"its result is {self.result.dtype}; int8 with one scale is")
        return Operand(Value("", (), "int8"), self.result)

    def limits(self, activation: int) -> tuple[int, int]:
        """Return least and largest integer of the result behind an activation."""
        name = _ACTIVATIONS.get(activation, str(activation))
        low, high = {"none": (None, None), "RELU": (0.0, None), "RELU6": (0.0, 6.0),
                     "RELU_N1_TO_1": (-1.0, 1.0)}.get(name, (math.nan, None))  # fmt: skip
        if low is not None and math.isnan(low):
            raise Unsupported(f"activation {name} is not supported; none, RELU and RELU6 are")
        bounds = [-128, 127]
        for index, limit in enumerate((low, high)):
            if limit is not None:
                steps = np.float32(limit) / self.after.scale
                whole = self.after.zero + int(math.floor(abs(steps) + 0.5) * np.sign(steps))
                bounds[index] = min(max(whole, -128), 127)
        return bounds[0], max(bounds)

    def rescaled(
        self, x: Value, factors: Sequence[float], zero: int, limits: tuple[int, int],
        dtype: str = "int8", *, once: bool = False,
    ) -> Value:  # fmt: skip
        """Return integers times factors, one or one for each column, plus a zero point."""
        if not all(0 < factor < 1 << 24 for factor in factors):
            raise Unsupported(f"its scales make factors from {min(factors)} to {max(factors)}")
        parts = [fixed_point(factor) for factor in factors]
        shape = () if len(parts) == 1 else (len(parts),)
        columns = np.array(parts, np.int32).T
        columns = np.array(parts, np.int32).T
        multiplier, shift = (column.reshape(shape) for column in columns)
        operands = {"x": x, "multiplier": self.builder.constant(multiplier),
                    "shift": self.builder.constant(shift)}  # fmt: skip
        return self.builder.emit("rescale", operands, zero=zero, dtype=dtype, low=limits[0],
                                 high=limits[1], **({"once": True} if once else {}))  # fmt: skip


Converter = Callable[[Conversion], Value]
OPERATORS: dict[str, Converter] = {}
"""Operators by name."""

NOTES: dict[str, str] = {}
"""What each of them becomes."""


def operator(*names: str, becomes: str) -> Callable[[Converter], Converter]:
    """Return a decorator that makes a function the converter of operators."""

    def register(convert: Converter) -> Converter:
        for name in names:
            OPERATORS[name], NOTES[name] = convert, becomes
        return convert

    return register


# -- windows -------------------------------------------------------------------------------------


def _windows(
    c: Conversion, spatial: tuple[int, ...], kernel: tuple[int, ...], steps: Sequence[int],
    dilations: Sequence[int] = (1, 1),
) -> dict[str, Any]:  # fmt: skip
    """Return windows of an operator whose option 0 is the padding."""
    if not all(0 < n < _MOST_STEP for n in (*kernel, *steps, *dilations)):
        raise Unsupported(f"windows of {kernel} every {tuple(steps)} cannot be")
    same = c.options.number(0, "i8") == 0
    before, after = [], []
    for n, k, s, d in zip(spatial, kernel, steps, dilations, strict=True):
        missing = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0) if same else 0
        before.append(missing // 2)
        after.append(missing - missing // 2)
    return {"kernel": kernel, "strides": tuple(steps), "dilations": tuple(dilations),
            "before": tuple(before), "after": tuple(after)}  # fmt: skip


def _image(c: Conversion, index: int = 0) -> tuple[Operand, Value]:
    """Return an operand of four axes, and its elements with channels as the second one."""
    x = c.codes(index)
    if len(x.value.shape) != 4:
        raise Unsupported(f"operand {index} has the shape {x.value.shape}, not four axes")
    return x, c.builder.emit("transpose", {"x": x.value}, order=(0, 3, 1, 2))


def _patches(c: Conversion, x: Value, at: dict[str, Any], zero: int) -> Value:
    operands = {"x": x}
    if any((*at["before"], *at["after"])):
        operands["fill"] = c.builder.constant(zero, "int8")
    return c.builder.emit("patches", operands, **at)


def _product(
    c: Conversion, x: Operand, lines: Value, weights: NDArray[Any], groups: int, activation: int
) -> Value:
    """Return rows times weights of shape (N, K), rescaled."""
    w = c.operand(1).tensor
    if w.dtype != "int8" or not w.scales.size or w.zeros.any():
        raise Unsupported(f"its weights must be int8 with zero points of 0, not {w.dtype}")
    bias = None
    if len(c.operands) > 2 and c.operands[2] is not None:
        bias = c.constant(2)
        if bias.dtype != np.int32 or bias.shape != (len(weights),):
            raise Unsupported(f"its bias must be {len(weights)} int32, not {bias.dtype}")
    codes = Codes(c.operand(1).value, w.scales, np.zeros((), np.int8), 0)
    zero = c.builder.constant(x.zero, "int8")
    sums = integer_rows(c.builder, lines, zero, codes, weights, bias, groups)
    scale = float(c.after.scale)
    matrix = c.operator.name == "FULLY_CONNECTED"
    if w.scales.size == 1 and matrix:
        factors = [float(x.scale * w.scales[0]) / scale]  # a product in single precision
    else:
        factors = [float(x.scale) * float(each) / scale for each in w.scales]
    return c.rescaled(sums, factors, c.after.zero, c.limits(activation), once=matrix)


@operator("CONV_2D", becomes="transpose, patches, integer_gemm, rescale")
def _conv(c: Conversion) -> Value:
    (x, image), weights, options = _image(c), c.constant(1), c.options
    if weights.ndim != 4 or image.shape[1] % max(weights.shape[3], 1):
        raise Unsupported(f"weights {weights.shape} do not go with {x.value.shape}")
    groups = image.shape[1] // weights.shape[3]
    at = _windows(c, image.shape[2:], weights.shape[1:3],
                  (options.number(2, "i32"), options.number(1, "i32")),
                  (options.number(5, "i32", 1), options.number(4, "i32", 1)))  # fmt: skip
    rows = np.ascontiguousarray(weights.transpose(0, 3, 1, 2)).reshape(len(weights), -1)
    return _product(c, x, _patches(c, image, at, x.zero), rows, groups, options.number(3, "i8"))


@operator("DEPTHWISE_CONV_2D", becomes="transpose, patches, integer_gemm in groups, rescale")
def _depthwise(c: Conversion) -> Value:
    (x, image), weights, options = _image(c), c.constant(1), c.options
    channels = image.shape[1]
    if weights.ndim != 4 or weights.shape[0] != 1 or weights.shape[3] % channels:
        raise Unsupported(f"weights {weights.shape} do not go with {x.value.shape}")
    if c.operand(1).tensor.axis != 3 and c.operand(1).tensor.scales.size > 1:
        raise Unsupported("the scales of its weights must go along channels")
    at = _windows(c, image.shape[2:], weights.shape[1:3],
                  (options.number(2, "i32"), options.number(1, "i32")),
                  (options.number(6, "i32", 1), options.number(5, "i32", 1)))  # fmt: skip
    rows = np.ascontiguousarray(weights[0].transpose(2, 0, 1)).reshape(weights.shape[3], -1)
    return _product(c, x, _patches(c, image, at, x.zero), rows, channels, options.number(4, "i8"))


@operator("FULLY_CONNECTED", becomes="reshape, integer_gemm, rescale")
def _fully_connected(c: Conversion) -> Value:
    x, weights, options = c.codes(0), c.constant(1), c.options
    if options.number(1, "i8") or weights.ndim != 2 or math.prod(x.value.shape) % weights.shape[1]:
        raise Unsupported(f"weights {weights.shape} do not go with {x.value.shape}")
    lead: tuple[int, ...] = (math.prod(x.value.shape) // weights.shape[1],)
    if options.number(2, "u8"):
        lead = x.value.shape[:-1]
    lines = c.builder.emit("reshape", {"x": x.value}, shape=(*lead, weights.shape[1]))
    return _product(c, x, lines, weights, 1, options.number(0, "i8"))


@operator("AVERAGE_POOL_2D", becomes="patches, reduce, and a division that rounds")
def _average(c: Conversion) -> Value:
    x, image = _image(c)
    _same_scale(c, x)
    batch, channels, *spatial = image.shape
    at = _pool_windows(c, image)
    lines = c.builder.emit("reshape", {"x": image}, shape=(batch * channels, 1, *spatial))
    lines = c.builder.emit("patches", {"x": lines}, **at)
    ones = np.ones((1, 1, *spatial), np.int8)
    counted = c.builder.emit("patches", {"x": c.builder.constant(ones)}, **at)
    counts = np.asarray(counted.constant).sum(-1, dtype=np.int32)
    wide = c.builder.emit("cast", {"x": lines}, dtype="int32")
    sums = c.builder.emit("reduce", {"x": wide}, function="sum", axes=(3,), keep=False)
    means = _divided(c, sums, counts)
    shape = (batch, channels, *means.shape[1:])
    means = c.builder.emit("reshape", {"x": means}, shape=shape)
    means = c.builder.emit("transpose", {"x": means}, order=(0, 2, 3, 1))
    return _narrow(c, means, c.options.number(5, "i8"))


def _divided(c: Conversion, sums: Value, counts: NDArray[np.int32]) -> Value:
    """Return sums over counts, rounded to nearest, halves away from zero."""
    sign = c.builder.emit("unary", {"x": sums}, function="sign")
    half = c.builder.constant(counts // 2)
    half = c.builder.emit("binary", {"x": sign, "y": half}, function="multiply")
    more = c.builder.emit("binary", {"x": sums, "y": half}, function="add")
    divisor = c.builder.constant(counts)
    return c.builder.emit("binary", {"x": more, "y": divisor}, function="divide")


def _narrow(c: Conversion, x: Value, activation: int) -> Value:
    low, high = c.limits(activation)
    inside = c.builder.emit("clip", {"x": x}, low=float(low), high=float(high))
    return c.builder.emit("cast", {"x": inside}, dtype="int8")


def _pool_windows(c: Conversion, image: Value) -> dict[str, Any]:
    options = c.options
    return _windows(c, image.shape[2:], (options.number(4, "i32"), options.number(3, "i32")),
                    (options.number(2, "i32"), options.number(1, "i32")))  # fmt: skip


def _same_scale(c: Conversion, *operands: Operand) -> None:
    after = c.after
    if any(x.scale != after.scale or x.zero != after.zero for x in operands):
        raise Unsupported("its operands and its result must have one scale and zero point")


@operator("MAX_POOL_2D", becomes="transpose, pool, clip")
def _largest(c: Conversion) -> Value:
    x, image = _image(c)
    _same_scale(c, x)
    at = _pool_windows(c, image)
    result = c.builder.emit("pool", {"x": image}, function="largest", padded=False, **at)
    result = c.builder.emit("transpose", {"x": result}, order=(0, 2, 3, 1))
    low, high = c.limits(c.options.number(5, "i8"))
    if (low, high) == (-128, 127):
        return result
    return c.builder.emit("clip", {"x": result}, low=float(low), high=float(high))


# -- elements ------------------------------------------------------------------------------------

_FRACTION = 20  # bits that the operands of a sum get


@operator("ADD", becomes="cast, binary, rescale")
def _add(c: Conversion) -> Value:
    first, second, after = c.codes(0), c.codes(1), c.after
    unit = 2 * max(float(first.scale), float(second.scale))
    wide = (-(1 << 31), (1 << 31) - 1)
    parts = []
    for x in (first, second):
        value = c.builder.emit("cast", {"x": x.value}, dtype="int32")
        for function, number in (("subtract", x.zero), ("multiply", 1 << _FRACTION)):
            operands = {"x": value, "y": c.builder.constant(number, "int32")}
            value = c.builder.emit("binary", operands, function=function)
        parts.append(c.rescaled(value, [float(x.scale) / unit], 0, wide, "int32"))
    total = c.builder.emit("binary", {"x": parts[0], "y": parts[1]}, function="add")
    factor = unit / ((1 << _FRACTION) * float(after.scale))
    return c.rescaled(total, [factor], after.zero, c.limits(c.options.number(0, "i8")))


@operator("SOFTMAX", becomes="table_softmax")
def _softmax(c: Conversion) -> Value:
    x, after = c.codes(0), c.after
    if (after.zero, after.scale) != (-128, np.float32(1 / 256)) or not x.value.shape:
        raise Unsupported("its result must have the scale 1/256 and the zero point -128")
    beta = np.float32(c.options.real(0, 0.0))
    if not 0 < beta < 1 << 10:
        raise Unsupported(f"beta must be above 0, not {beta}")
    factor = float(beta) * float(x.scale)
    if factor * (1 << 26) < 1:
        raise Unsupported(f"its scale {x.scale} is too small")
    operands = {"x": x.value, "table": c.builder.constant(exponentials(factor))}
    return c.builder.emit("table_softmax", operands, dtype="int8")


@operator("QUANTIZE", becomes="rescale of int8, quantise_linear of floats")
def _quantise(c: Conversion) -> Value:
    x, after = c.operand(0), c.after
    if x.tensor.dtype == "int8":
        wide = c.builder.emit("cast", {"x": c.codes(0).value}, dtype="int32")
        zero = c.builder.constant(x.zero, "int32")
        wide = c.builder.emit("binary", {"x": wide, "y": zero}, function="subtract")
        return c.rescaled(wide, [float(x.scale) / float(after.scale)], after.zero, (-128, 127))
    if x.tensor.dtype != "float32":
        raise Unsupported(f"quantises {x.tensor.dtype}; float32 and int8 are supported")
    operands = {"x": x.value, "scale": c.builder.constant(after.scale),
                "zero": c.builder.constant(after.zero, "int8")}  # fmt: skip
    return c.builder.emit("quantise_linear", operands, axis=0, dtype="int8", low=-128, high=127)


@operator("DEQUANTIZE", becomes="dequantise_linear")
def _dequantise(c: Conversion) -> Value:
    x = c.codes(0)
    operands = {"x": x.value, "scale": c.builder.constant(x.scale),
                "zero": c.builder.constant(x.zero, "int8")}  # fmt: skip
    return c.builder.emit("dequantise_linear", operands, axis=0)


# -- moves ---------------------------------------------------------------------------------------


@operator("RESHAPE", "SQUEEZE", "EXPAND_DIMS", becomes="reshape")
def _reshape(c: Conversion) -> Value:
    x = c.operand(0)
    if math.prod(c.result.shape) != math.prod(x.value.shape):
        raise Unsupported(f"{x.value.shape} cannot become {c.result.shape}")
    return c.builder.emit("reshape", {"x": x.value}, shape=c.result.shape)


@operator("TRANSPOSE", becomes="transpose")
def _transpose(c: Conversion) -> Value:
    order = tuple(int(axis) for axis in c.constant(1).reshape(-1))
    return c.builder.emit("transpose", {"x": c.operand(0).value}, order=order)


@operator("PAD", becomes="pad")
def _pad(c: Conversion) -> Value:
    x, sides = c.codes(0), c.constant(1)
    _same_scale(c, x)
    if sides.shape != (len(x.value.shape), 2) or sides.min() < 0 or sides.max() > _MOST_STEP:
        raise Unsupported(f"paddings {sides.shape} do not go with {x.value.shape}")
    before, after = (tuple(int(n) for n in sides[:, side]) for side in (0, 1))
    return c.builder.emit("pad", {"x": x.value}, before=before, after=after, value=float(x.zero))


@operator("CONCATENATION", becomes="concat")
def _concat(c: Conversion) -> Value:
    parts = [c.codes(index) for index in range(len(c.operands))]
    _same_scale(c, *parts)
    if c.options.number(1, "i8") or not parts:
        raise Unsupported("joins with an activation, or nothing")
    ndim, axis = len(parts[0].value.shape), c.options.number(0, "i32")
    if not -ndim <= axis < ndim:
        raise Unsupported(f"axis {axis} is not one of {ndim}")
    operands = {f"x{index}": part.value for index, part in enumerate(parts)}
    return c.builder.emit("concat", operands, axis=axis % ndim)
