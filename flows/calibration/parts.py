# SPDX-License-Identifier: Apache-2.0
"""Parts of closed forms that the modules of a design belong to."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cost_model.closed_forms.component_counts import Part
from cost_model.families import CLOSED_FORMS
from hwgen.core.params.base import FamilyConfig

FLOAT = "float_"
"""Beginning of the kinds of floating-point operators."""

_OPERATOR = re.compile(r"(add|multiply)_(\w+?)_(\d+)e?")
_OPERATORS = {"add": "float_adder", "multiply": "float_multiplier"}


def float_operator(module: str) -> str | None:
    """Return the kind of the floating-point operator that a module is, None if it is none.

    Parameters
    ----------
    module : str
        Its name without that of the design.
    """
    match = _OPERATOR.fullmatch(module)
    return f"{_OPERATORS[match[1]]}_{match[2]}_{match[3]}" if match else None


def is_operator(component: str) -> bool:
    """Return whether a kind is that of an operator which is a module of its own."""
    return component.startswith(tuple(_OPERATORS.values()))


def without_operators(counts: Mapping[str, float]) -> dict[str, float]:
    """Return the components that are in no module of an operator."""
    return {component: n for component, n in counts.items() if not is_operator(component)}


def parts_of(config: FamilyConfig) -> tuple[Part, ...]:
    """Return the parts of a configuration's bill."""
    return tuple(CLOSED_FORMS[config.family].parts(config))


def separate_modules(config: FamilyConfig) -> tuple[str, ...]:
    """Return the beginnings of the names of the modules that are mapped on their own."""
    return tuple(dict.fromkeys(prefix for part in parts_of(config) for prefix in part.modules))


def owner(module: str, parts: tuple[Part, ...]) -> str | None:
    """Return the name of the part that a module belongs to, None if it is one of the rest."""
    return next((p.name for p in parts if p.modules and module.startswith(p.modules)), None)
