# SPDX-License-Identifier: Apache-2.0
"""All number formats by name."""

from __future__ import annotations

from .floating import FLOATS, FloatFormat
from .integer import IntegerFormat, integer
from .ternary import TERNARY

NumberFormat = IntegerFormat | FloatFormat


def number_format(name: str) -> NumberFormat:
    """Return the number format called `name`.

    Raises
    ------
    ValueError
        If there is none.
    """
    named: dict[str, NumberFormat] = {TERNARY.name: TERNARY, **FLOATS}
    if name in named:
        return named[name]
    try:
        return integer(name)
    except ValueError as error:
        raise ValueError(f"{error}, or one of {', '.join(named)}") from None
