# SPDX-License-Identifier: Apache-2.0
"""Operations on arrays of any shape by NumPy, in single precision or in integers.

Each takes the attributes of a node and its operands by name, and returns its result.  What ONNX
defines for an operator of single elements is done in that order and precision; sums of floats are
NumPy's, so that their last bits may differ from those of other programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Attributes = Mapping[str, Any]
Host = Callable[..., Array]

_erf = np.vectorize(math.erf, [np.float64])


def _wide(function: Callable[[NDArray[np.float64]], Array]) -> Callable[[Array], Array]:
    """Return a function that is computed in double precision and rounded once."""
    return lambda x: np.asarray(function(x.astype(np.float64)), x.dtype)


def _gelu_tanh(x: NDArray[np.float64]) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _sigmoid(x: NDArray[np.float64]) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0, -x)))


UNARY: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "sigmoid": _wide(_sigmoid),
    "tanh": _wide(np.tanh),
    "erf": _wide(_erf),
    "gelu": _wide(lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2)))),
    "gelu_tanh": _wide(_gelu_tanh),
    "exp": _wide(np.exp),
    "log": _wide(np.log),
    "softplus": _wide(lambda x: np.logaddexp(0, x)),
    "sin": _wide(np.sin),
    "cos": _wide(np.cos),
    "sqrt": np.sqrt,
    "reciprocal": np.reciprocal,
    "negative": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sign": np.sign,
    "not": np.logical_not,
    "is_nan": np.isnan,
    "hard_swish": lambda x: x * np.clip(x * x.dtype.type(1 / 6) + x.dtype.type(0.5), 0, 1),
}
"""Functions of one number without parameters."""

SHAPED: dict[str, Callable[[Array, Any, Any], Array]] = {
    "leaky_relu": lambda x, alpha, beta: np.where(x < 0, x * alpha, x),
    "elu": lambda x, alpha, beta: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x),
    "hard_sigmoid": lambda x, alpha, beta: np.clip(x * alpha + beta, 0, 1),
}
"""Functions of one number with `alpha` and `beta`."""


def _divided(x: Array, y: Array) -> Array:
    """Return a quotient, of integers cut towards zero as ONNX has it."""
    if x.dtype.kind == "f":
        return np.asarray(x / y)
    if not np.all(y):
        raise ValueError("an integer is divided by zero")
    quotient, rest = np.divmod(x, y)
    return np.asarray(quotient + ((rest != 0) & ((x < 0) != (y < 0))), x.dtype)


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": _divided,
    "power": lambda x, y: np.power(x, y.astype(x.dtype)),
    "maximum": np.maximum, "minimum": np.minimum, "mod": np.mod,
    "equal": np.equal, "less": np.less, "less_equal": np.less_equal, "greater": np.greater,
    "greater_equal": np.greater_equal, "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip
"""Functions of two numbers."""

REDUCTIONS: dict[str, Callable[..., Array]] = {
    "sum": np.sum, "mean": np.mean, "largest": np.max, "least": np.min,
}  # fmt: skip
"""Reduction functions."""


def unary(at: Attributes, x: Array) -> Array:
    """Return a function of each element."""
    name = at["function"]
    with np.errstate(all="ignore"):
        if name in SHAPED:
            alpha, beta = (x.dtype.type(at.get(key, 0.0)) for key in ("alpha", "beta"))
            return np.asarray(SHAPED[name](x, alpha, beta))
        return np.asarray(UNARY[name](x))


def binary(at: Attributes, x: Array, y: Array) -> Array:
    """Return a function of two elements."""
    with np.errstate(all="ignore"):
        return np.asarray(BINARY[at["function"]](x, y))


def add(at: Attributes, x: Array, y: Array) -> Array:
    """Return sums."""
    with np.errstate(all="ignore"):
        return np.asarray(np.add(x, y))


def where(at: Attributes, condition: Array, x: Array, y: Array) -> Array:
    """Return one element or the other."""
    return np.where(condition.astype(bool), x, y)


def clip(at: Attributes, x: Array) -> Array:
    """Return elements within limits."""
    low, high = at["low"], at["high"]
    if x.dtype.kind != "f":
        info = np.iinfo(x.dtype)
        low, high = max(low, info.min), min(high, info.max)
    return np.asarray(np.clip(x, x.dtype.type(low), x.dtype.type(high)))


def cast(at: Attributes, x: Array) -> Array:
    """Return elements in another type."""
    with np.errstate(invalid="ignore"):
        return np.asarray(x.astype(at["dtype"]))


def reduce(at: Attributes, x: Array) -> Array:
    """Return one element for those along axes."""
    options: dict[str, Any] = {"axis": at["axes"], "keepdims": at["keep"]}
    return np.asarray(REDUCTIONS[at["function"]](x, **options), x.dtype)


def softmax(at: Attributes, x: Array) -> Array:
    """Return exponentials over their sum, in single precision."""
    axis = at["axis"]
    with np.errstate(all="ignore"):
        powers = np.exp(x - x.max(axis, keepdims=True))
        return np.asarray(powers / powers.sum(axis, keepdims=True), x.dtype)


def layer_norm(at: Attributes, x: Array, gamma: Array, beta: Array) -> Array:
    """Return rows with mean 0 and variance 1, times gamma, plus beta."""
    centred = x - x.mean(-1, keepdims=True, dtype=np.float32)
    variance = np.mean(centred * centred, -1, keepdims=True, dtype=np.float32)
    with np.errstate(all="ignore"):
        return np.asarray(centred / np.sqrt(variance + np.float32(at["epsilon"])) * gamma + beta)


# -- what moves only ---------------------------------------------------------------------------


def reshape(at: Attributes, x: Array) -> Array:
    """Return the elements in another shape."""
    return x.reshape(at["shape"])


def transpose(at: Attributes, x: Array) -> Array:
    """Return axes in another order."""
    return np.ascontiguousarray(x.transpose(at["order"]))


def concat(at: Attributes, **parts: Array) -> Array:
    """Return arrays one behind another."""
    return np.concatenate([parts[f"x{index}"] for index in range(len(parts))], at["axis"])


def cut(at: Attributes, x: Array) -> Array:
    """Return some elements along axes; a stop of -1 with a negative step is before the first."""
    places = [slice(None)] * x.ndim
    steps = zip(at["axes"], at["starts"], at["stops"], at["steps"], strict=True)
    for axis, start, stop, step in steps:
        places[axis] = slice(start, None if step < 0 and stop < 0 else stop, step)
    return np.ascontiguousarray(x[tuple(places)])


def gather(at: Attributes, x: Array, indices: Array) -> Array:
    """Return elements along an axis by number; negative ones count from the end."""
    axis = at["axis"]
    if indices.size and not -x.shape[axis] <= indices.min() <= indices.max() < x.shape[axis]:
        raise ValueError(
            f"indices {indices.min()}..{indices.max()} are not within the {x.shape[axis]}"
        )
    return np.take(x, indices, axis)


def gather_nd(at: Attributes, x: Array, indices: Array) -> Array:
    """Return elements by their places, which the last axis of the indices holds."""
    return np.asarray(x[tuple(np.moveaxis(indices, -1, 0))])


def expand(at: Attributes, x: Array) -> Array:
    """Return elements repeated to a shape."""
    return np.ascontiguousarray(np.broadcast_to(x, np.broadcast_shapes(x.shape, at["shape"])))


def pad(at: Attributes, x: Array) -> Array:
    """Return an array with a number before and behind it."""
    width = list(zip(at["before"], at["after"], strict=True))
    return np.pad(x, width, constant_values=x.dtype.type(at["value"]))


# -- windows -----------------------------------------------------------------------------------


def windows_of(at: Attributes, x: Array, fill: Any) -> Array:
    """Return windows: the axes of `x`, the last ones counting windows, then those of a window."""
    count = len(at["kernel"])
    lead = [(0, 0)] * (x.ndim - count)
    padded = np.pad(x, [*lead, *zip(at["before"], at["after"], strict=True)], constant_values=fill)
    reach = [d * (k - 1) + 1 for d, k in zip(at["dilations"], at["kernel"], strict=True)]
    axes = tuple(range(x.ndim - count, x.ndim))
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, axes)
    places = [slice(None)] * len(lead)
    places += [slice(None, None, stride) for stride in at["strides"]]
    places += [slice(None, None, dilation) for dilation in at["dilations"]]
    return np.asarray(view[tuple(places)])


def patches(at: Attributes, x: Array, fill: Array | None = None) -> Array:
    """Return each window as a row, shape (batch, windows..., elements), channel by channel."""
    value = x.dtype.type(0 if fill is None else fill.reshape(-1)[0])
    windows = windows_of(at, x, value)  # batch, channels, counts..., kernel...
    count = len(at["kernel"])
    order = (0, *range(2, 2 + count), 1, *range(2 + count, 2 + 2 * count))
    moved = windows.transpose(order)
    return np.ascontiguousarray(moved).reshape(*moved.shape[: 1 + count], -1)


def pool(at: Attributes, x: Array) -> Array:
    """Return the largest or the mean element of each window."""
    axes = tuple(range(-len(at["kernel"]), 0))
    if at["function"] == "largest":
        least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        return np.asarray(windows_of(at, x, x.dtype.type(least)).max(axes))
    sums = windows_of(at, x, 0).sum(axes, dtype=x.dtype)
    counted = np.ones(x.shape[-len(axes) :], x.dtype)
    inside = windows_of(at, counted, int(at["padded"])).sum(axes, dtype=x.dtype)
    return np.asarray(sums / inside, x.dtype)


HOST: dict[str, Host] = {
    "unary": unary, "binary": binary, "add": add, "where": where, "clip": clip, "cast": cast,
    "reduce": reduce, "softmax": softmax, "layer_norm": layer_norm, "reshape": reshape,
    "transpose": transpose, "concat": concat, "slice": cut, "gather": gather,
    "gather_nd": gather_nd, "expand": expand, "pad": pad, "patches": patches, "pool": pool,
}  # fmt: skip
"""Operations by name; `hwgen.models.run.tensor_integers` has those of quantised numbers."""
