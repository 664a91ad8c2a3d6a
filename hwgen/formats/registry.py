# SPDX-License-Identifier: Apache-2.0
"""All number formats by name: scalars, shipped block formats, and groups of integers of any size.

A block format is one YAML file (`hwgen.formats.block.file.FormatFile`).  The shipped ones are in
``block/shipped``.  Groups of integers need no file: ``int4_g128`` is 4-bit integers, 128 of which
share an fp16 scale, ``int4_g128_min`` has a minimum as well, ``int4_g128_zero`` a zero point.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, TypeGuard

import yaml

from hwgen.errors import InputError, did_you_mean
from hwgen.formats.bit_planes import BINARY
from hwgen.formats.block.file import FormatFile, ScaleOf
from hwgen.formats.block.format import BlockFormat, Rule
from hwgen.formats.floating import FLOATS, SMALL_FLOATS, FloatFormat
from hwgen.formats.format import Format, ScalarFormat
from hwgen.formats.integer import IntegerFormat, integer
from hwgen.formats.ternary import TERNARY

NumberFormat = IntegerFormat | FloatFormat
"""Formats of operands whose sums have a format: of integers, or of floating-point numbers."""

SCALARS: dict[str, ScalarFormat] = {
    fmt.name: fmt for fmt in (TERNARY, BINARY, *FLOATS.values(), *SMALL_FLOATS.values())
}
"""Scalar formats by name, besides integers of any width."""

EXACT = tuple(
    name for name, fmt in SCALARS.items() if name not in (TERNARY.name, BINARY.name, "fp32")
)
"""Names of scalars, besides integers, whose products can be summed exactly in integers."""

GROUPS = "int2..int8 or ternary, _g16.._g256, optionally _min or _zero: for example int4_g128_min"
"""Names of groups of integers, in words."""

_SHIPPED = Path(__file__).parent / "block" / "shipped"
_GROUP = re.compile(r"(int[2-8]|ternary)_g([1-9][0-9]{1,2})(?:_(min|zero))?")


def is_format(value: object) -> TypeGuard[Format]:
    """Return whether a value is a number format."""
    return isinstance(value, Format)


def format_name(value: object) -> object:
    """Return the name of a format, and any other value as it is."""
    return value.name if is_format(value) else value


def number_format(name: str) -> NumberFormat:
    """Return the number format called `name`; ``int1`` is -1 and 1, the weights of one bit.

    Raises
    ------
    ValueError
        If there is none.
    """
    named: dict[str, NumberFormat] = {TERNARY.name: TERNARY, BINARY.name: BINARY, **FLOATS}
    if name in named:
        return named[name]
    try:
        return integer(name)
    except ValueError as error:
        raise ValueError(f"{error}, or one of {', '.join([TERNARY.name, *FLOATS])}") from None


def scalar_format(name: str) -> ScalarFormat:
    """Return the scalar format called `name`.

    Raises
    ------
    ValueError
        If there is none.
    """
    return SCALARS[name] if name in SCALARS else integer(name)


def shipped() -> tuple[str, ...]:
    """Return the names of the shipped formats that have a file, in alphabetical order."""
    return tuple(sorted(path.stem for path in _SHIPPED.glob("*.yaml")))


@cache
def block_format(name: str) -> BlockFormat:
    """Return a shipped block format, or a group of integers, by its name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name in shipped():
        text = (_SHIPPED / f"{name}.yaml").read_text(encoding="utf-8")
        return FormatFile.model_validate(yaml.safe_load(text)).format()
    match = _GROUP.fullmatch(name)
    if match and 16 <= int(match[2]) <= 256 and not (match[1] == "ternary" and match[3]):
        return _group(name, match[1], int(match[2]), match[3])
    raise InputError(
        f"no block format is called {name!r}{did_you_mean(name, shipped())}; there are"
        f" {', '.join(shipped())}, groups of integers ({GROUPS}), and formats of your own in files"
        " (NAME.yaml)"
    )


def _group(name: str, element: str, block: int, offset: str | None) -> BlockFormat:
    """Return groups of `block` integers, with a minimum or a zero point if `offset` says so."""
    ternary = element == "ternary"
    words = "ternary weights" if ternary else f"{element[3:]}-bit integers"
    rule: Rule = "mean" if ternary else "range" if offset else "absmax"
    zero_point: Any = f"u{element}" if offset == "zero" else None
    more = {None: "", "min": " and minimum", "zero": f" and a zero point of {element[3:]} bits"}
    return FormatFile(
        name=name,
        summary=f"{words}, {block} to an fp16 scale{more[offset]}",
        element=f"u{element}" if offset else element,
        block=block,
        scale=ScaleOf(format="fp16", rule=rule),
        minimum="fp16" if offset == "min" else None,
        zero_point=zero_point,
    ).format()
