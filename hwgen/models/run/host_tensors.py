# SPDX-License-Identifier: Apache-2.0
"""Operations on arrays that the host of an engine computes, defined to the last bit.

Single operations in single precision, and those in integers, are those of
`hwgen.models.run.tensor_operations` and `hwgen.models.run.tensor_integers`.  Here stand those that
would else be a library's: functions of a number, and sums of floats, which run from the first
element to the last in double precision.  No result is minus zero where NumPy leaves its sign open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hwgen.models.run.host_arithmetic import total as running
from hwgen.models.run.host_functions import FUNCTIONS, exponential, inverse_root, less_one, power
from hwgen.models.run.tensor_integers import INTEGERS
from hwgen.models.run.tensor_operations import HOST, Array, Attributes, Host, pool, windows_of


def total(x: Array) -> Array:
    """Return sums along the last axis in double precision, from 0 on; see `running`."""
    return running(x) + 0.0


def unary(at: Attributes, x: Array) -> Array:
    """Return a function of each element."""
    name = at["function"]
    if name in FUNCTIONS:
        return np.asarray(FUNCTIONS[name](x.astype(np.float64)), np.float32)
    if name == "relu":
        return np.where(x > 0, x, x.dtype.type(0))
    if name == "elu":
        factor = float(np.float32(at.get("alpha", 0.0)))
        below = factor * less_one(np.where(x < 0, x, 0).astype(np.float64))
        return np.where(x < 0, below.astype(np.float32), x)
    if name in ("hard_sigmoid", "hard_swish"):
        alpha, beta = (np.float32(at.get(key, 0.0)) for key in ("alpha", "beta"))
        if name == "hard_swish":
            alpha, beta = np.float32(1 / 6), np.float32(0.5)
        share = limited(x * alpha + beta, np.float32(0), np.float32(1))
        return np.asarray(share if name == "hard_sigmoid" else x * share)
    result = HOST["unary"](at, x)
    return positive_zero(result) if name in ("floor", "ceil", "round", "abs", "sign") else result


def positive_zero(x: Array) -> Array:
    """Return numbers with a zero that is not minus zero; integers as they are."""
    return np.asarray(x + np.float32(0)) if x.dtype == np.float32 else x


def limited(x: Array, low: Any, high: Any) -> Array:
    """Return elements within limits."""
    result = np.where(x < low, low, x)
    return np.asarray(np.where(result > high, high, result), x.dtype)


def clip(at: Attributes, x: Array) -> Array:
    """Return elements within the limits of a node."""
    return limited(x, *clip_limits(at, x.dtype))


def clip_limits(at: Attributes, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the limits of a node in the type of its elements."""
    low, high = at["low"], at["high"]
    if dtype.kind != "f":
        info = np.iinfo(dtype)
        low, high = max(low, info.min), min(high, info.max)
    return dtype.type(low), dtype.type(high)


def binary(at: Attributes, x: Array, y: Array) -> Array:
    """Return a function of two elements."""
    name = at["function"]
    if name == "maximum":
        return np.where(x > y, x, y)
    if name == "minimum":
        return np.where(x < y, x, y)
    if name == "power":
        wide = power(*np.broadcast_arrays(x.astype(np.float64), y.astype(np.float64)))
        return np.asarray(wide, np.float32)
    return HOST["binary"](at, x, y)


def cast(at: Attributes, x: Array) -> Array:
    """Return elements in another type; floats are cut, and limited to what an integer holds."""
    dtype = np.dtype(at["dtype"])
    if x.dtype.kind != "f" or dtype.kind not in "iu":
        return np.asarray(x.astype(dtype))
    info: Any = np.iinfo(dtype)
    inside = (x >= np.float64(info.min)) & (x < np.float64(info.max) + (dtype.itemsize < 8))
    cut = np.where(inside, x, np.float32(0)).astype(np.float64).astype(dtype)
    return np.where(inside, cut, np.where(x > 0, info.max, np.where(x < 0, info.min, 0))).astype(
        dtype
    )


def reduce(at: Attributes, x: Array) -> Array:
    """Return one element for those along axes, taken in the order in which they lie."""
    axes = tuple(sorted(axis % x.ndim for axis in at["axes"]))
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    lines = x.transpose(kept + axes).reshape(*(x.shape[axis] for axis in kept), -1)
    result = _line(at["function"], lines)
    if at["keep"]:
        return result.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])
    return result


def _line(function: str, lines: Array) -> Array:
    if function == "largest":
        return positive_zero(lines.max(-1))
    if function == "least":
        return positive_zero(lines.min(-1))
    if lines.dtype.kind == "f":
        sums = total(lines.astype(np.float64))
        count = float(lines.shape[-1])
        return np.asarray(sums / count if function == "mean" else sums, np.float32)
    return np.asarray(lines.sum(-1, dtype=np.int64).astype(lines.dtype))


def softmax(at: Attributes, x: Array) -> Array:
    """Return exponentials over their sum."""
    lines = np.moveaxis(x, at["axis"], -1).astype(np.float64)
    powers = exponential(lines - lines.max(-1, keepdims=True))
    result = np.asarray(powers / total(powers)[..., None], np.float32)
    return np.ascontiguousarray(np.moveaxis(result, -1, at["axis"]))


def layer_norm(at: Attributes, x: Array, gamma: Array, beta: Array) -> Array:
    """Return rows with mean 0 and variance 1, times gamma, plus beta."""
    wide, count = x.astype(np.float64), float(x.shape[-1])
    centred = wide - (total(wide) / count)[..., None]
    variance = total(centred * centred) / count
    factor = inverse_root(np.atleast_1d(variance + float(at["epsilon"]))).reshape(variance.shape)
    result = centred * factor[..., None] * gamma.astype(np.float64) + beta.astype(np.float64)
    return np.asarray(result, np.float32)


def pooled(at: Attributes, x: Array) -> Array:
    """Return the largest or the mean element of each window."""
    if at["function"] == "largest":
        return positive_zero(pool(at, x))
    count = len(at["kernel"])
    windows = windows_of(at, x, 0)
    sums = total(windows.reshape(*windows.shape[:-count], -1).astype(np.float64))
    ones = np.ones(x.shape[-count:])
    inside = windows_of(at, ones, int(at["padded"])).sum(tuple(range(-count, 0)))
    return np.asarray(sums / inside, np.float32)


NOT_COMPILED = ("linear_pool", "linear_softmax")
"""Operations that only run by NumPy."""

OPERATIONS: Mapping[str, Host] = {
    **HOST, **{name: function for name, function in INTEGERS.items() if name not in NOT_COMPILED},
    "unary": unary, "binary": binary, "clip": clip, "cast": cast, "reduce": reduce,
    "softmax": softmax, "layer_norm": layer_norm, "pool": pooled,
}  # fmt: skip
"""Operations of the host by name; each takes attributes and operands."""
