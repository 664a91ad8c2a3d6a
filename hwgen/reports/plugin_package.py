# SPDX-License-Identifier: Apache-2.0
"""Package of a new family, which passes the contract test as it is written.

The files in ``plugin/`` are its one source; ``docs/adding-a-family.md`` shows them for the name
``dot``, and is compared.
"""

from __future__ import annotations

import keyword
import re
from pathlib import Path

from hwgen.core.registry import families
from hwgen.errors import InputError
from hwgen.plugins import match_name

_TEMPLATES = Path(__file__).parent / "plugin"

_PATHS = {
    "pyproject.toml": "{name}",
    "README.md": "{name}",
    "__init__.py": "{package}/{name}",
    "params.py": "{package}/{name}",
    "schedule.py": "{package}/{name}",
    "core.py": "{package}/{name}",
    "rtl.py": "{package}/{name}",
    "test_contract.py": "tests/{name}",
}


def plugin_files(family: str) -> dict[str, str]:
    """Return the files of a package that offers a new family: path to text.

    Parameters
    ----------
    family : str
        Its name, a Python identifier in lower case.

    Raises
    ------
    InputError
        If the name cannot be used, or a family has it.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", family) or keyword.iskeyword(family):
        raise InputError(
            f"--plugin: the name of a family must be a Python identifier of at most 40 lower-case"
            f" letters, digits and underscores that begins with a letter and is no keyword, not"
            f" {family[:80]!r}"
        )
    taken = match_name(family, families())
    if taken is not None:
        raise InputError(f"--plugin: a family {taken!r} is installed; choose another name")
    fields = {
        "name": family,
        "Name": "".join(part.capitalize() for part in family.split("_")),
        "distribution": f"{'-'.join(filter(None, family.split('_')))}-family",
    }
    files = {}
    for name, path in _PATHS.items():
        text = (_TEMPLATES / f"{name}.template").read_text(encoding="utf-8")
        text = re.sub(r"@(\w+)@", lambda match: fields[match[1]], text)
        files[path.format(package=f"{family}_family", name=name)] = text
    return files
