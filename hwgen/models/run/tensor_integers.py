# SPDX-License-Identifier: Apache-2.0
"""Quantised numbers on arrays of any shape: the integers are those of ONNX Runtime on a CPU.

An integer `q` with scale `s` and zero point `z` stands for ``(q - z) * s``.  Sums of products are
exact; they are turned into integers by one multiplication in single precision and rounded once, to
nearest, ties to even, before the zero point is added, as the kernels of ONNX Runtime do it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.models.run.tensor_operations import Array, Attributes, Host, windows_of

ROUNDINGS: dict[str, Any] = {
    "even": np.rint,
    "zero": np.trunc,
    "floor": np.floor,
    "ceil": np.ceil,
    "half_up": lambda x: np.floor(x + np.float32(0.5)),
}
"""Roundings to an integer by name."""


def limits_of(dtype: str) -> tuple[int, int]:
    """Return the least and the largest integer of a type."""
    info = np.iinfo(np.dtype(dtype))
    return int(info.min), int(info.max)


def _along(parameter: Array, ndim: int, axis: int) -> Array:
    """Return scales or zeros in a shape that goes with an array."""
    if parameter.size == 1:
        return parameter.reshape(())
    shape = [1] * ndim
    shape[axis] = parameter.size
    return parameter.reshape(shape)


def quantise_linear(at: Attributes, x: Array, scale: Array, zero: Array | None = None) -> Array:
    """Return integers of numbers."""
    axis = int(at.get("axis", -1))
    with np.errstate(all="ignore"):
        result = x.astype(np.float32) / _along(scale, x.ndim, axis)
        offset = np.float32(0) if zero is None else _along(zero, x.ndim, axis).astype(np.float32)
        rounded = ROUNDINGS[at.get("rounding", "even")]
        result = rounded(result + offset) if at.get("zero_first") else rounded(result) + offset
        result = np.nan_to_num(np.clip(result, at["low"], at["high"]))
    return np.asarray(result.astype(at["dtype"]))


def dequantise_linear(at: Attributes, x: Array, scale: Array, zero: Array | None = None) -> Array:
    """Return the numbers of integers."""
    axis = int(at.get("axis", -1))
    if zero is not None:
        x = x.astype(np.int32) - _along(zero, x.ndim, axis).astype(np.int32)
    return np.asarray(x.astype(np.float32) * _along(scale, x.ndim, axis))


def requantise(at: Attributes, x: Array, scale: Array, zero: Array | None = None) -> Array:
    """Return narrow integers of sums."""
    offset = 0 if zero is None else int(zero.reshape(-1)[0])
    return _requantised(at, x, scale.reshape(() if scale.size == 1 else (-1,)), offset)


def _requantised(at: Attributes, x: Array, scale: Any, zero: int) -> Array:
    low, high = limits_of(at["dtype"])
    low, high = at.get("low", low), at.get("high", high)
    with np.errstate(all="ignore"):
        result = np.clip(x.astype(np.float32) * scale, low - zero, high - zero)
    return np.asarray((np.rint(result).astype(np.int32) + zero).astype(at["dtype"]))


def dynamic_parameters(x: Array) -> tuple[np.float32, np.uint8]:
    """Return scale and zero point of uint8 that `x` is quantised by, as DynamicQuantizeLinear."""
    low = min(np.float32(x.min(initial=0)), np.float32(0))
    high = max(np.float32(x.max(initial=0)), np.float32(0))
    if not np.isfinite(low) or not np.isfinite(high):
        raise ValueError("an element is no finite number, so no scale fits")
    scale = np.float32(1) if low == high else np.float32((high - low) / np.float32(255))
    if scale == 0:
        raise ValueError("the elements are too small for a scale in single precision")
    zero = np.rint(np.clip(np.float32(0) - low / scale, 0, 255))
    return scale, np.uint8(zero)


def dynamic_quantise(at: Attributes, x: Array) -> Array:
    """Return integers by a scale from the elements themselves, or that scale, or its zero."""
    scale, zero = dynamic_parameters(x)
    if at["part"] == "scale":
        return np.array(scale, np.float32)
    if at["part"] == "zero":
        return np.array(zero, np.uint8)
    values = np.rint(x / scale) + np.float32(zero)
    return np.clip(values, 0, 255).astype(np.uint8)


def fixed_point(factor: float) -> tuple[int, int]:
    """Return an integer of 31 bits and a shift that stand for a factor above 0.

    The factor is about ``multiplier / 2^31 * 2^shift``; what is too small to matter is 0.
    """
    fraction, shift = math.frexp(factor)
    multiplier = math.floor(fraction * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift + 1
    return (0, 0) if shift < -31 else (multiplier, shift)


def rescale(at: Attributes, x: Array, multiplier: Array, shift: Array) -> Array:
    """Return integers times factors of `fixed_point`, plus a zero point.

    The product is rounded to nearest, halves up, as it is shifted by 31; a shift to the right
    behind that is rounded again, halves away from 0.  With `once` it is one shift.
    """
    if at.get("once", False):
        places = 31 - shift.astype(np.int64)
        wide = x.astype(np.int64) * multiplier.astype(np.int64) + (np.int64(1) << (places - 1))
        result = np.clip((wide >> places) + at["zero"], at["low"], at["high"])
        return np.asarray(result.astype(at["dtype"]))
    left, right = np.maximum(shift, 0).astype(np.int64), np.maximum(-shift, 0).astype(np.int64)
    wide = (x.astype(np.int64) << left).astype(np.int32).astype(np.int64)
    product = wide * multiplier.astype(np.int64)
    # Truncation behind a nudge that depends on the sign: halves go up.
    high = (product + np.int64(1 << 30)) >> 31
    rest = high & ((np.int64(1) << right) - 1)
    rounded = (high >> right) + (rest > (((np.int64(1) << right) - 1) >> 1) + (high < 0))
    result = np.clip(rounded + at["zero"], at["low"], at["high"])
    return np.asarray(result.astype(at["dtype"]))


def high_product(x: Any, y: Any) -> NDArray[np.int64]:
    """Return products of integers over 2^31, rounded to nearest, halves up."""
    return np.asarray((x * y + (1 << 30)) >> 31)


def _reciprocal(x: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 1 / (1 + x) for x from 0 to 1, both of 31 bits behind the point, by Newton's rule."""
    half = (x + (1 << 31)) >> 1
    result = 1515870810 + high_product(half, np.int64(-1010580540))  # 48/17 and -32/17, 29 bits
    for _ in range(3):
        error = (1 << 29) - high_product(half, result)
        result = result + (high_product(result, error) << 2)
    return np.asarray(np.minimum(result << 1, (1 << 31) - 1))


def table_softmax(at: Attributes, x: Array, table: Array) -> Array:
    """Return the softmax of rows in 256ths, less 128, by exponentials from a table.

    The table has 31 bits behind the point, sums have 19; see
    `hwgen.models.tflite.fixed_point.exponentials`.
    """
    lines = x.astype(np.int64)
    values = table[255 + lines - lines.max(-1, keepdims=True)].astype(np.int64)
    sums = ((values + (1 << 11)) >> 12).sum(-1, keepdims=True)
    digits = np.frexp(sums.astype(np.float64))[1].astype(np.int64)  # a sum is below 2^digits
    factors = _reciprocal((sums << (32 - digits)) - (1 << 31))
    places = digits + 3
    products = high_product(values, factors)
    result = (products + (np.int64(1) << (places - 1))) >> places
    return np.asarray(np.clip(result - 128, -128, 127).astype(at["dtype"]))


def linear(at: Attributes, x: Array, y: Array) -> Array:
    """Return a sum or product of quantised numbers as such a number.

    The zero point is added before rounding.  Sums are two fused multiply-adds behind a constant
    ``zero - (fused) (x_zero * x_scale + y_zero * y_scale) / scale``, as in ONNX Runtime on x86.
    """
    single = np.float32
    x_scale, y_scale, scale = (single(at[key]) for key in ("x_scale", "y_scale", "scale"))
    zero, low, high = single(at["zero"]), *limits_of(at["dtype"])
    with np.errstate(all="ignore"):
        if at["function"] == "multiply":
            differences = x.astype(np.int32) - at["x_zero"], y.astype(np.int32) - at["y_zero"]
            product = (differences[0] * differences[1]).astype(single)
            result = product * (x_scale * y_scale / scale) + zero
        else:
            x_ratio, y_ratio = x_scale / scale, y_scale / scale
            fixed = fused(single(at["x_zero"]), x_ratio, single(at["y_zero"]) * y_ratio)
            result = fused(y.astype(single), y_ratio, zero - fixed)
            result = fused(x.astype(single), x_ratio, result)
    return np.asarray(np.clip(np.rint(result), low, high).astype(at["dtype"]))


def fused(x: Any, factor: Any, term: Any) -> Any:
    """Return ``x * factor + term``, rounded once; the product is exact in double precision."""
    return (np.multiply(x, factor, dtype=np.float64) + term).astype(np.float32)


def linear_pool(at: Attributes, x: Array) -> Array:
    """Return the means of windows of quantised numbers, added up in single precision in order."""
    single = np.float32
    numbers = single(at["x_scale"]) * (x.astype(np.int32) - at["x_zero"]).astype(single)
    count = len(at["kernel"])

    def sums(values: Array, fill: int) -> Array:
        windows = windows_of(at, values, single(fill))
        lines = windows.reshape(*windows.shape[:-count], -1)
        return np.asarray(np.add.accumulate(lines, -1, single)[..., -1])

    inside = sums(np.ones(x.shape[-count:], single), int(at["padded"]))
    result = sums(numbers, 0) / inside / single(at["scale"]) + single(at["zero"])
    return np.asarray(np.clip(np.rint(result), *limits_of(at["dtype"])).astype(at["dtype"]))


def linear_softmax(at: Attributes, x: Array) -> Array:
    """Return the softmax of quantised numbers by a table of exponentials in single precision.

    The table reaches as high as sums of so many elements can be; they are added up in order.
    """
    single, low = np.float32, limits_of(at["dtype"])[0]
    lines = np.moveaxis(x, at["axis"], -1).astype(np.int32) - low
    most = np.log(np.finfo(single).max / single(lines.shape[-1]))
    step = float(single(at["x_scale"]))
    with np.errstate(all="ignore"):
        table = np.exp((np.arange(256) - 255 + max(0.0, float(most) - 5) / step) * step)
        values = table.astype(single)[lines + 255 - lines.max(-1, keepdims=True)]
        sums = np.add.accumulate(values, -1, single)[..., -1:]
        result = np.rint(values * np.floor(single(1) / single(at["scale"])) / sums) + at["zero"]
    result = np.clip(np.nan_to_num(result), *limits_of(at["dtype"])).astype(at["dtype"])
    return np.ascontiguousarray(np.moveaxis(result, -1, at["axis"]))


def linear_mean(at: Attributes, x: Array) -> Array:
    """Return the mean of quantised numbers along axes as such numbers."""
    axes = tuple(at["axes"])
    count = int(np.prod([x.shape[axis] for axis in axes]))
    sums = x.sum(axes, dtype=np.int32, keepdims=True) - np.int32(count * at["x_zero"])
    return _requantised(at, sums, np.float32(at["scale"]), at["zero"])


def narrow(x: Array, zero: Array | None) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Return int8 and zero points that stand for the same numbers as integers of 8 bits."""
    none = np.zeros((), np.int64) if zero is None else zero.astype(np.int64)
    if x.dtype == np.int8:
        return x, none
    return (x.astype(np.int16) - 128).astype(np.int8), none - 128


def corrected(
    sums: NDArray[np.int32],
    x: NDArray[np.int8],
    y: NDArray[np.int8],
    x_zero: NDArray[np.int64],
    y_zero: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Return sums of products of differences to zero points from sums of products.

    Parameters
    ----------
    sums : ndarray of int32, shape (m, n)
        Of ``x`` times ``y``.
    x, y : ndarray of int8, shapes (m, k) and (k, n)
    x_zero : ndarray, shape () or (m, 1)
    y_zero : ndarray, shape () or (n,)

    Returns
    -------
    ndarray of int32, shape (m, n)
        ``sums - x_zero * columns(y) - rows(x) * y_zero + k * x_zero * y_zero``, modulo 2^32.
    """
    result = sums.astype(np.int64)
    if x_zero.any():
        result = result - x_zero * y.sum(0, dtype=np.int64)
    if y_zero.any():
        result = result - x.sum(1, dtype=np.int64)[:, None] * y_zero
        result = result + x.shape[1] * x_zero * y_zero
    return result.astype(np.int32)


INTEGERS: dict[str, Host] = {
    "quantise_linear": quantise_linear, "dequantise_linear": dequantise_linear,
    "requantise": requantise, "dynamic_quantise": dynamic_quantise, "linear": linear,
    "linear_mean": linear_mean, "linear_pool": linear_pool, "linear_softmax": linear_softmax,
    "rescale": rescale, "table_softmax": table_softmax,
}  # fmt: skip
"""Operations of quantised numbers by name."""
