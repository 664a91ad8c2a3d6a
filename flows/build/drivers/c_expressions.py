# SPDX-License-Identifier: Apache-2.0
"""C of operations on single elements: what `hwgen.models.run.host_tensors` computes, in every bit.

An expression is of operands ``a``, ``b`` and ``c``, and names functions of the template
``host_arrays.c``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flows.build.drivers.c_functions import name_in_c
from hwgen.models.run.host_functions import FUNCTIONS
from hwgen.models.run.host_tensors import clip_limits
from hwgen.models.run.tensor_integers import limits_of

C_TYPES = {
    "float32": "float", "int8": "int8_t", "uint8": "uint8_t", "int32": "int32_t",
    "int64": "int64_t", "bool": "uint8_t",
}  # fmt: skip
"""Types of elements in C."""

_ROUNDINGS = {"even": "even_of", "zero": "cut_of", "floor": "floor_of", "ceil": "ceil_of"}
_SYMBOLS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "equal": "==", "less": "<",
    "less_equal": "<=", "greater": ">", "greater_equal": ">=", "and": "&&", "or": "||",
}  # fmt: skip
_ARITHMETIC = ("add", "subtract", "multiply")
_FUNCTIONS = {
    name: f"(float){name_in_c(function)}((double)a)" for name, function in FUNCTIONS.items()
} | {
    "sqrt": "root(a)",
    "reciprocal": "1.0f / a",
    "floor": "floor_of(a)",
    "ceil": "ceil_of(a)",
    "round": "even_of(a)",
    "is_nan": "a != a",
}


def number(value: Any) -> str:
    """Return a number in single precision as C has it."""
    return f"{float(np.float32(value))!r}f"


def wide(value: Any) -> str:
    """Return a number in double precision as C has it."""
    return repr(float(value))


def integer(value: int) -> str:
    """Return an integer as C has it."""
    if value == -(1 << 63):
        return "(-INT64_C(9223372036854775807) - 1)"
    return f"INT64_C({value})" if abs(value) >= 1 << 31 else str(value)


def wrapped(dtype: str, text: str, *names: str) -> str:
    """Return arithmetic of integers modulo what a type holds; `text` has a place for each name."""
    kind = "uint64_t" if dtype == "int64" else "uint32_t"
    return f"({C_TYPES[dtype]})({text.format(*(f'({kind}){name}' for name in names))})"


def expression(operation: str, at: Mapping[str, Any], types: Sequence[str], result: str) -> str:
    """Return the expression of an operation on elements.

    Parameters
    ----------
    operation : str
    at : mapping
        Attributes.
    types : sequence of str
        Of the operands.
    result : str
        Type of the result.
    """
    match operation:
        case "unary":
            return _unary(at, types[0])
        case "binary" | "add":
            return _binary(str(at.get("function", "add")), types[0])
        case "where":
            return "a != 0 ? b : c"
        case "clip":
            return _clip(at, types[0])
        case "cast":
            return _cast(types[0], result)
        case "quantise_linear":
            return _quantise(at, result, zero=len(types) > 2)
        case "dequantise_linear":
            difference = wrapped("int32", "{} - {}", "a", "c")
            return f"(float){difference} * b" if len(types) > 2 else "(float)a * b"
        case "rescale":
            function = "rescaled_once" if at.get("once", False) else "rescaled_twice"
            text = f"{function}((int32_t)a, b, c) + {at['zero']}"
            limits = f"{integer(int(at['low']))}, {integer(int(at['high']))}"
            return f"({C_TYPES[result]})within_integers({text}, {limits})"
        case "requantise":
            return requantised(at, result, "b", "(int32_t)c" if len(types) > 2 else "0")
    return _linear(at, result)


def requantised(at: Mapping[str, Any], result: str, scale: str, zero: str) -> str:
    """Return narrow integers of sums."""
    low, high = limits_of(result)
    low, high = at.get("low", low), at.get("high", high)
    inside = f"within((float)a * {scale}, (float)({low} - {zero}), (float)({high} - {zero}))"
    return f"({C_TYPES[result]})((int32_t)even_of({inside}) + {zero})"


def _unary(at: Mapping[str, Any], dtype: str) -> str:
    name, kind = at["function"], C_TYPES[dtype]
    unsigned, floats = dtype in ("uint8", "bool"), dtype == "float32"
    alpha, beta = (at.get(key, 0.0) for key in ("alpha", "beta"))
    match name:
        case "relu":
            return "a" if unsigned else "a > 0 ? a : 0"
        case "negative":
            return "-a" if floats else wrapped(dtype, "0u - {}", "a")
        case "abs":
            less = "0.0f - a" if floats else wrapped(dtype, "0u - {}", "a")
            return "a" if unsigned else f"a > 0 ? a : {less}"
        case "sign":
            return f"({kind})(a > 0)" if unsigned else f"({kind})((a > 0) - (a < 0))"
        case "not":
            return "!(a != 0)"
        case "leaky_relu":
            return f"a < 0.0f ? a * {number(alpha)} : a"
        case "elu":
            return f"a < 0.0f ? (float)({wide(np.float32(alpha))} * less_one_of((double)a)) : a"
        case "hard_sigmoid":
            return f"within(a * {number(alpha)} + {number(beta)}, 0.0f, 1.0f)"
        case "hard_swish":
            return f"a * within(a * {number(1 / 6)} + 0.5f, 0.0f, 1.0f)"
    return _FUNCTIONS[name]


def _binary(name: str, dtype: str) -> str:
    floats, kind = dtype == "float32", C_TYPES[dtype]
    signed = dtype not in ("uint8", "bool")
    if name in ("maximum", "minimum"):
        return f"a {'>' if name == 'maximum' else '<'} b ? a : b"
    if name in ("and", "or"):
        return f"a != 0 {_SYMBOLS[name]} b != 0"
    if name == "power":
        return "(float)power_of((double)a, (double)b)"
    if floats or (name in _SYMBOLS and name not in (*_ARITHMETIC, "divide")):
        return f"a {_SYMBOLS[name]} b"
    if name in _ARITHMETIC:
        return wrapped(dtype, f"{{}} {_SYMBOLS[name]} {{}}", "a", "b")
    if name == "divide":
        less = wrapped(dtype, "0u - {}", "a")
        return f"({kind})(b == -1 ? {less} : a / b)" if signed else f"({kind})(a / b)"
    if not signed:
        return f"({kind})(a % b)"
    return (
        f"({kind})(b == -1 ? 0 : a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b)"
    )  # fmt: skip


def _clip(at: Mapping[str, Any], dtype: str) -> str:
    low, high = clip_limits(at, np.dtype(dtype))
    if dtype == "float32":
        return f"within(a, {number(low)}, {number(high)})"
    limits = f"{integer(int(low))}, {integer(int(high))}"
    return f"({C_TYPES[dtype]})within_integers((int64_t)a, {limits})"


def _cast(dtype: str, result: str) -> str:
    if dtype == result:
        return "a"
    if result == "bool":
        return "a != 0"
    if dtype != "float32" or result == "float32":
        return f"({C_TYPES[result]})a"
    low, high = limits_of(result)
    return f"({C_TYPES[result]})whole_of(a, {integer(low)}, {integer(high)})"


def _quantise(at: Mapping[str, Any], result: str, *, zero: bool) -> str:
    rounding, text = at.get("rounding", "even"), "(float)a / b"
    offset = " + (float)c" if zero else ""

    def rounded(text: str) -> str:
        if rounding == "half_up":
            return f"floor_of({text} + 0.5f)"
        return f"{_ROUNDINGS[rounding]}({text})"

    text = rounded(text + offset) if at.get("zero_first") else rounded(text) + offset
    return f"({C_TYPES[result]})code_of({text}, {number(at['low'])}, {number(at['high'])})"


def _linear(at: Mapping[str, Any], result: str) -> str:
    """Return a sum or product of quantised numbers.

    See `hwgen.models.run.tensor_integers.linear`.
    """
    single = np.float32
    x_scale, y_scale, scale = (single(at[key]) for key in ("x_scale", "y_scale", "scale"))
    if at["function"] == "multiply":
        product = f"(float)(((int32_t)a - {at['x_zero']}) * ((int32_t)b - {at['y_zero']}))"
        text = f"{product} * {number(x_scale * y_scale / scale)} + {number(at['zero'])}"
    else:
        x_ratio, y_ratio = x_scale / scale, y_scale / scale
        fixed = (np.float64(at["x_zero"]) * np.float64(x_ratio)
                 + np.float64(single(at["y_zero"]) * y_ratio)).astype(single)  # fmt: skip
        term = single(at["zero"]) - fixed
        inner = f"(float)((double)b * {wide(y_ratio)} + {wide(term)})"
        text = f"(float)((double)a * {wide(x_ratio)} + (double){inner})"
    low, high = (number(limit) for limit in limits_of(result))
    return f"({C_TYPES[result]})code_of(even_of({text}), {low}, {high})"
