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

from hwgen.errors import did_you_mean

GATES = ("silu", "gelu", "gelu_tanh", "sigmoid", "relu2")
"""Gates of ``gated``, as vector units have them."""


@dataclass(frozen=True)
class Kind:
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
    """

    summary: str
    operands: tuple[str, ...] = ("x",)
    optional: tuple[str, ...] = ()
    attributes: Mapping[str, type] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    per_element: int = 0

    def check(self, name: str, inputs: Mapping[str, str], attributes: Mapping[str, Any]) -> None:
        """Raise `ValueError` if a node lacks an operand or an attribute, or has one unknown."""
        known = (*self.operands, *self.optional)
        for operand in self.operands:
            if operand not in inputs:
                raise ValueError(f"{name}: needs the operand {operand}")
        for operand in inputs:
            if operand not in known:
                raise ValueError(
                    f"{name}: has no operand {operand!r}{did_you_mean(operand, known)}"
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
            if key == "bits" and not 0 <= value <= 16:
                raise ValueError(f"{name}: bits must be 0..16, not {value}")
            if key in ("heads", "kv_heads", "elements", "groups") and not 0 < value < 1 << 20:
                raise ValueError(f"{name}: {key} must be 1 or more, not {value}")
        if attributes.get("gate", "silu") not in GATES:
            raise ValueError(f"{name}: gate must be one of {', '.join(GATES)}")


_HEADS = {"heads": int, "kv_heads": int, "elements": int}
_EPSILON = {"epsilon": float}

KINDS: dict[str, Kind] = {
    "embed": Kind("rows of a table by number", ("x", "table")),
    "gemm": Kind("x times weights, plus bias", ("x", "weights"), ("bias",)),
    "rms_norm": Kind(
        "x / sqrt(mean of squares + epsilon), times gamma", ("x", "gamma"),
        attributes=_EPSILON, per_element=4,
    ),
    "layer_norm": Kind(
        "(x - mean) / sqrt(variance + epsilon), times gamma, plus beta", ("x", "gamma", "beta"),
        attributes=_EPSILON, per_element=7,
    ),
    "rope": Kind(
        "pairs of neighbours of each head, turned by position * base^(-2 i / elements) * scale"
        " / factors[i]", optional=("factors",),
        attributes={"heads": int, "elements": int, "base": float}, defaults={"scale": 1.0},
        per_element=3,
    ),
    "attention": Kind(
        "softmax(query key^T / sqrt(elements)) value, heads in groups that share keys",
        ("query", "key", "value"), attributes={**_HEADS, "causal": bool},
        defaults={"window": 0, "bits": 0, "query_unit": 0.0, "key_unit": 0.0, "value_unit": 0.0},
    ),
    "quantise": Kind(
        "x in integers, each row divided by its largest magnitude over the largest integer",
        attributes={"bits": int}, per_element=2,
    ),
    "gated": Kind("gate(x) times y", ("x", "y"), attributes={"gate": str}, per_element=3),
    "add": Kind("x plus y", ("x", "y"), per_element=1),
}  # fmt: skip
"""Operations by name."""
