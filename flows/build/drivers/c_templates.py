# SPDX-License-Identifier: Apache-2.0
"""Templates of C files: Jinja with delimiters that are comments in C, and ``@field@``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from flows.build.files import header

if TYPE_CHECKING:
    from hwgen.core.core import Core

_COLUMNS = 84


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        block_start_string="/*%",
        block_end_string="%*/",
        variable_start_string="@",
        variable_end_string="@",
        comment_start_string="/*#",
        comment_end_string="#*/",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        autoescape=False,
    )


def render(core: Core[Any], template: str, values: Mapping[str, object]) -> dict[str, str]:
    """Return the header and the source of a driver.

    Parameters
    ----------
    core : Core
        Its name is ``name``, in capitals ``NAME``.
    template : str
        Name of the templates, without their suffixes.
    values : mapping
        Other fields of the templates.
    """
    files = {}
    for suffix in ("h", "c"):
        text = _environment().get_template(f"{template}.{suffix}").render(_named(core.name, values))
        licence, rest = text.split("\n", 1)
        files[f"{core.name}_{template.rsplit('_', 1)[-1]}.{suffix}"] = (
            f"{licence}\n/*\n{header(core, ' *')} */\n{rest}"
        )
    return files


def blocks(name: str, template: str, values: Mapping[str, object], *names: str) -> dict[str, str]:
    """Return the text of blocks of a template by name, of all unless some are named.

    `name` is that of the core.
    """
    source = _environment().get_template(template)
    context = source.new_context(_named(name, values))
    return {block: "".join(source.blocks[block](context)) for block in names or source.blocks}


def _named(name: str, values: Mapping[str, object]) -> dict[str, object]:
    return {**values, "name": name, "NAME": name.upper()}


def wrapped_list(parts: Sequence[str], indent: str) -> str:
    """Return parts with commas between them, in lines of a readable length."""
    lines = [""]
    for number, part in enumerate(parts):
        text = part + ("," if number + 1 < len(parts) else "")
        if len(lines[-1]) + len(text) > _COLUMNS and lines[-1]:
            lines.append("")
        lines[-1] += f" {text}" if lines[-1] else text
    return indent + f"\n{indent}".join(lines)
