# SPDX-License-Identifier: Apache-2.0
"""The operations that networks are described by, and the work of each.

Where an accelerator has an operation of the same name, it is that one: ``gemm`` of cores, ``rope``
or ``gated`` of vector units, ``attention`` of attention units.  The others move elements, or take
few operations on them, and are done by whoever feeds the accelerator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hwgen.arithmetic.hadamard import LARGEST
from hwgen.errors import did_you_mean

GATES = ("silu", "gelu", "gelu_tanh", "sigmoid", "relu2")
"""Gates of ``gated``, as vector units have them."""


@dataclass(frozen=True)
class Form:
    """An operation.

    Parameters
    ----------
    summary : str
    operands : tuple of str
        Operands that must be there.
    optional : tuple of str
        Those that may.
    attributes : dict
        Type of each attribute that must be there.
    defaults : dict
        Attributes that may be there, and what they are if they are not.
    per_element : int
        Operations for each element of the result; 0 of what is counted otherwise or moves only.
    repeated : bool
        Whether there may be any number of operands, ``x0``, ``x1`` and so on.
    """

    summary: str
    operands: tuple[str, ...] = ("x",)
    optional: tuple[str, ...] = ()
    attributes: Mapping[str, type] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    per_element: int = 0
    repeated: bool = False

    def check(self, name: str, inputs: Mapping[str, str], attributes: Mapping[str, Any]) -> None:
        """Raise `ValueError` if a node lacks an operand or an attribute, or has one unknown."""
        operands = (*self.operands, *self.optional)
        if self.repeated:
            operands = (*operands, *(f"x{index}" for index in range(len(inputs))))
        for operand in self.operands:
            if operand not in inputs:
                raise ValueError(f"{name}: needs the operand {operand}")
        for operand in inputs:
            if operand not in operands:
                raise ValueError(
                    f"{name}: has no operand {operand!r}{did_you_mean(operand, operands)}"
                )
        for key, kind in self.attributes.items():
            value = attributes.get(key)
            fits = isinstance(value, (int, float) if kind is float else kind)
            if not fits or (isinstance(value, bool) and kind is not bool):
                raise ValueError(f"{name}: needs the attribute {key}, {kind.__name__}")
        for key, value in attributes.items():
            if key not in self.attributes and key not in self.defaults:
                there = (*self.attributes, *self.defaults)
                raise ValueError(f"{name}: has no attribute {key!r}{did_you_mean(key, there)}")
            if not _like(value, self.defaults.get(key, value)):
                raise ValueError(f"{name}: {key} must be like {self.defaults[key]!r}")
            if key == "hadamard" and value not in _BLOCKS:
                raise ValueError(
                    f"{name}: hadamard must be 0 or a power of two up to {_BLOCKS[-1]}, not {value}"
                )
            if key == "bits" and not 0 <= value <= 16:
                raise ValueError(f"{name}: bits must be 0..16, not {value}")
            if key in ("heads", "kv_heads", "elements", "groups") and not 0 < value < 1 << 20:
                raise ValueError(f"{name}: {key} must be 1 or more, not {value}")
        for key, choices in CHOICES.items():
            if key in attributes and attributes[key] not in choices:
                raise ValueError(f"{name}: {key} must be one of {', '.join(choices)}")


_BLOCKS = (0, *(1 << power for power in range(1, LARGEST.bit_length())))


def _like(value: Any, default: Any) -> bool:
    """Return whether an attribute is of the type of another value."""
    if isinstance(value, bool) or isinstance(default, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    return isinstance(value, (int, float) if isinstance(default, float) else type(default))


_WINDOW = {"kernel": tuple, "strides": tuple, "dilations": tuple, "before": tuple, "after": tuple}
_POINTS = {"x_scale": float, "x_zero": int, "scale": float, "zero": int, "dtype": str}
_INTEGERS = {"dtype": str, "low": int, "high": int}

TENSOR_OPERATIONS: dict[str, Form] = {
    "matmul": Form(
        "x times y, matrices of activations; with bits, rows of x and columns of y in integers",
        ("x", "y"), defaults={"bits": 0},
    ),
    "integer_gemm": Form(
        "(x - x_zero) times (weights - weights_zero), plus bias, in int32",
        ("x", "weights"), ("bias", "x_zero", "weights_zero"), defaults={"groups": 1},
    ),
    "integer_matmul": Form(
        "(x - x_zero) times (y - y_zero), in int32", ("x", "y"), ("x_zero", "y_zero"),
    ),
    "quantise_linear": Form(
        "clip(round(x / scale) + zero), along an axis if there are several scales; the zero is"
        " added before rounding if that is said",
        ("x", "scale"), ("zero",), _INTEGERS, {"axis": -1, "zero_first": False, "rounding": "even"},
        per_element=3,
    ),
    "dequantise_linear": Form(
        "(x - zero) * scale, along an axis if there are several scales",
        ("x", "scale"), ("zero",), defaults={"axis": -1}, per_element=2,
    ),
    "requantise": Form(
        "clip(round(x * scale) + zero) of int32 sums, a scale for each column or one for all",
        ("x", "scale"), ("zero",), _INTEGERS, per_element=3,
    ),
    "dynamic_quantise": Form(
        "x in uint8 by a scale and a zero from its least and largest element; one of the three",
        attributes={"part": str}, per_element=3,
    ),
    "linear": Form(
        "function of (x - x_zero) * x_scale and (y - y_zero) * y_scale, in integers",
        ("x", "y"), attributes={
            "function": str, "x_scale": float, "x_zero": int, "y_scale": float, "y_zero": int,
            "scale": float, "zero": int, "dtype": str,
        },
        per_element=6,
    ),
    "linear_mean": Form(
        "clip(round(sum of (x - x_zero) * scale) + zero) over axes, in integers",
        attributes={"axes": tuple, "x_zero": int, "scale": float, "zero": int, "dtype": str},
        per_element=4,
    ),
    "linear_pool": Form(
        "mean of (x - x_zero) * x_scale in each window, over scale, plus zero, in integers",
        attributes={**_WINDOW, "padded": bool, **_POINTS}, per_element=4,
    ),
    "linear_softmax": Form(
        "softmax of x * x_scale along an axis, over scale, plus zero, in integers",
        attributes={"axis": int, "x_scale": float, "scale": float, "zero": int, "dtype": str},
        per_element=6,
    ),
    "rescale": Form(
        "x * multiplier / 2^31 * 2^shift, rounded at both divisions or once, plus zero, in limits;"
        " a multiplier and a shift for each column, or one",
        ("x", "multiplier", "shift"), attributes={"zero": int, **_INTEGERS},
        defaults={"once": False}, per_element=4,
    ),
    "table_softmax": Form(
        "shares of table[255 + x - largest x] in its sum along the last axis, in 256ths less 128",
        ("x", "table"), attributes={"dtype": str}, per_element=4,
    ),
    "unary": Form(
        "function of x", attributes={"function": str}, defaults={"alpha": 0.0, "beta": 0.0},
        per_element=1,
    ),
    "binary": Form("function of x and y", ("x", "y"), attributes={"function": str}, per_element=1),
    "where": Form("x where the condition holds, else y", ("condition", "x", "y"), per_element=1),
    "clip": Form("x within limits", attributes={"low": float, "high": float}, per_element=2),
    "cast": Form("x in another type", attributes={"dtype": str}),
    "reduce": Form(
        "function of the elements along axes",
        attributes={"function": str, "axes": tuple, "keep": bool}, per_element=1,
    ),
    "softmax": Form("softmax along an axis", attributes={"axis": int}, per_element=4),
    "pool": Form(
        "largest or mean element of each window of the last axes",
        attributes={"function": str, **_WINDOW, "padded": bool}, per_element=1,
    ),
    "patches": Form(
        "the elements of each window of all channels as a row, one channel behind another",
        operands=("x",), optional=("fill",), attributes=_WINDOW,
    ),
    "reshape": Form("x in another shape", attributes={"shape": tuple}),
    "transpose": Form("axes in another order", attributes={"order": tuple}),
    "concat": Form("arrays one behind another", (), attributes={"axis": int}, repeated=True),
    "slice": Form(
        "some elements along axes",
        attributes={"axes": tuple, "starts": tuple, "stops": tuple, "steps": tuple},
    ),
    "gather": Form("elements along an axis by number", ("x", "indices"), attributes={"axis": int}),
    "gather_nd": Form("elements by their places", ("x", "indices")),
    "expand": Form("x repeated to a shape", attributes={"shape": tuple}),
    "pad": Form(
        "x with a number before and behind it",
        attributes={"before": tuple, "after": tuple, "value": float},
    ),
}  # fmt: skip
"""Operations of networks that take arrays of any shape, such as those of ONNX."""

CHOICES: dict[str, tuple[str, ...]] = {
    "gate": GATES,
    "format": ("", "mxfp8_e4m3"),
    "key_format": ("", "mxfp8", "mxfp4"),
    "part": ("values", "scale", "zero"),
    "dtype": ("float32", "int8", "uint8", "int32", "int64", "bool"),
    "rounding": ("even", "zero", "floor", "ceil", "half_up"),
    "function": (
        "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "equal", "less",
        "less_equal", "greater", "greater_equal", "and", "or", "mod", "relu", "leaky_relu", "elu",
        "sigmoid", "hard_sigmoid", "hard_swish", "tanh", "erf", "gelu", "gelu_tanh", "exp", "log",
        "sqrt", "reciprocal", "negative", "abs", "floor", "ceil", "round", "not", "is_nan", "sign",
        "softplus", "sin", "cos", "sum", "mean", "largest", "least", "average",
    ),
}  # fmt: skip
"""What attributes that name something may be."""

_HEADS = {"heads": int, "kv_heads": int, "elements": int}
_EPSILON = {"epsilon": float}

OPERATIONS: dict[str, Form] = {
    "embed": Form(
        "rows of a table by number, times scale", ("x", "table"), defaults={"scale": 1.0}
    ),
    "gemm": Form(
        "x times weights, plus bias; parts of x's columns and of the weights' rows, if in groups",
        ("x", "weights"), ("bias",), defaults={"groups": 1},
    ),
    "rms_norm": Form(
        "x / sqrt(mean of squares + epsilon), times gamma, of rows or of each of `heads` parts",
        ("x", "gamma"), attributes=_EPSILON, defaults={"heads": 1}, per_element=4,
    ),
    "layer_norm": Form(
        "(x - mean) / sqrt(variance + epsilon), times gamma, plus beta", ("x", "gamma", "beta"),
        attributes=_EPSILON, per_element=7,
    ),
    "rope": Form(
        "pairs of neighbours of each head, rotated by position * base^(-2 i / rotated) * scale"
        " / factors[i], times amplitude; elements behind the first `rotated` stay (0: all rotate)",
        optional=("factors",), attributes={"heads": int, "elements": int, "base": float},
        defaults={"scale": 1.0, "amplitude": 1.0, "rotated": 0},
        per_element=3,
    ),
    "attention": Form(
        "softmax(query key^T * scale) value, heads in groups that share keys; scale 0 is 1 /"
        " sqrt(elements), scores become cap * tanh(scores / cap); queries and keys first as"
        " `quantise` has it with hadamard; with key_format, keys and values in blocks, each with a"
        " power of two",
        ("query", "key", "value"), attributes={**_HEADS, "causal": bool},
        defaults={"window": 0, "bits": 0, "query_unit": 0.0, "key_unit": 0.0, "value_unit": 0.0,
                  "hadamard": 0, "scale": 0.0, "cap": 0.0, "key_format": ""},
    ),
    "quantise": Form(
        "x in integers, each row divided by its largest magnitude over the largest integer; with"
        " hadamard, blocks of so many elements are first turned by a Hadamard matrix of 1 and -1;"
        " with format, in blocks of elements with a scale each instead",
        attributes={"bits": int}, defaults={"hadamard": 0, "format": ""}, per_element=2,
    ),
    "gated": Form("gate(x) times y", ("x", "y"), attributes={"gate": str}, per_element=3),
    "add": Form("x times scale, plus y", ("x", "y"), defaults={"scale": 1.0}, per_element=1),
    "soft_cap": Form("cap * tanh(x / cap)", attributes={"cap": float}, per_element=3),
    **TENSOR_OPERATIONS,
}  # fmt: skip
"""Operations by name."""
