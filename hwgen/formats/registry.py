# SPDX-License-Identifier: Apache-2.0
"""Block formats by name: those that models ship in, groups of integers of any size, and files.

A format is one YAML file (`hwgen.formats.format_file.FormatFile`).  The shipped ones lie beside
this module.  Groups of integers need no file: ``int4_g128`` is 4-bit integers, 128 of which share
an fp16 scale, ``int4_g128_min`` has a minimum as well, ``int4_g128_zero`` a zero point.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwgen.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from hwgen.formats.block import BlockFormat
    from hwgen.formats.block.model import Rule

GROUPS = "int2..int8 or ternary, _g16.._g256, optionally _min or _zero: for example int4_g128_min"
"""Names of groups of integers, in words."""

FORMATS_BESIDE: ContextVar[Path] = ContextVar("FORMATS_BESIDE", default=Path())
"""Directory of the configuration that is being read: files of formats are found beside it."""

_GROUP = re.compile(r"(int[2-8]|ternary)_g([1-9][0-9]{1,2})(?:_(min|zero))?")


def shipped() -> tuple[str, ...]:
    """Return the names of the shipped formats that have a file, in alphabetical order."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.yaml")))


def block_format(name: str) -> BlockFormat:
    """Return a format by its name, or from a file.

    Parameters
    ----------
    name : str
        That of a shipped format, of a group of integers, or the path of a file: what ends in
        ``.yaml`` or ``.yml``.

    Raises
    ------
    InputError
        If there is no such format, or the file cannot be used; `ConfigError` with every problem of
        a file.
    """
    if name.endswith((".yaml", ".yml")):
        return read_format(Path(name))
    return _named(name)


@cache
def _named(name: str) -> BlockFormat:
    if name in shipped():
        return read_format(Path(__file__).with_name(f"{name}.yaml"))
    match = _GROUP.fullmatch(name)
    if match and 16 <= int(match[2]) <= 256 and not (match[1] == "ternary" and match[3]):
        return _group(name, match[1], int(match[2]), match[3])
    raise InputError(
        f"no block format is called {name!r}{did_you_mean(name, shipped())}; there are"
        f" {', '.join(shipped())}, groups of integers ({GROUPS}), and formats of your own in files"
        " (NAME.yaml)"
    )


def read_format(path: Path) -> BlockFormat:
    """Return the format of a file; see `block_format`."""
    from hwgen.core.load import load_model
    from hwgen.formats.format_file import FormatFile

    return load_model(path, FormatFile)[0].format()


def _group(name: str, kind: str, block: int, beside: str | None) -> BlockFormat:
    from hwgen.formats.format_file import FormatFile, ScaleOf

    ternary = kind == "ternary"
    words = "ternary weights" if ternary else f"{kind[3:]}-bit integers"
    rule: Rule = "mean" if ternary else "range" if beside else "absmax"
    zero_point: Any = f"u{kind}" if beside == "zero" else None
    more = {None: "", "min": " and minimum", "zero": f" and a zero point of {kind[3:]} bits"}
    return FormatFile(
        name=name,
        summary=f"{words}, {block} to an fp16 scale{more[beside]}",
        element=f"u{kind}" if beside else kind,
        block=block,
        scale=ScaleOf(format="fp16", rule=rule),
        minimum="fp16" if beside == "min" else None,
        zero_point=zero_point,
    ).format()
