# SPDX-License-Identifier: Apache-2.0
"""Python files with constants of an engine: templates that are modules themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

from flows.build.files import header
from hwgen.core.core import Core

_TEMPLATES = Path(__file__).parent / "templates"
_BEGIN, _END = "# begin: engine\n", "# end: engine\n"


def python_file(core: Core[Any], template: str, constants: Mapping[str, object]) -> str:
    """Return a template with constants in place of its examples.

    Parameters
    ----------
    core : Core
    template : str
        Name of the file in ``templates``.
    constants : mapping
        Value of each constant; a type behind its name, as in ``"OUTPUTS: tuple[str, ...]"``.
    """
    text = (_TEMPLATES / template).read_text(encoding="utf-8")
    licence, rest = text.split("\n", 1)
    before, rest = rest.split(_BEGIN)
    _, after = rest.split(_END)
    lines = [
        f"{name} = {pformat(value, width=88, sort_dicts=False)}\n"
        for name, value in constants.items()
    ]
    return "".join([licence, "\n", header(core, "#"), before, _BEGIN, *lines, _END, after])
