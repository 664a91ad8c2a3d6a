# SPDX-License-Identifier: Apache-2.0
"""Every file and module of the repository that the pages name exists.

``NAME`` and ``FAMILY`` in a path stand for any name; a file that a page lists itself counts as
one that exists, and so does a path within ``sim_tests``.
"""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from sim_tests.docs.installed_page import DOCS
from sim_tests.support.paths import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
PACKAGES = "hwgen|flows|cost_model|rtl_templates|sim_tests"

GROUPS = frozenset(
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
)
"""Groups of entry points, whose names look like those of modules."""

WRITTEN = {"sweep.md": {"configs/lut_0001.yaml"}}
"""Files that the commands of a page write."""

_PATH = re.compile(rf"(?<![\w./-])(?:{PACKAGES}|configs|docs)/[\w./*{{}},-]*[\w*}}]")
_ENVIRONMENT = re.compile(r"hwgen/\w+-v\d+")
"""Names that Gymnasium knows environments by."""

_DOTTED = re.compile(rf"(?<![\w./-])(?:{PACKAGES})(?:\.\w+)+")
_IMPORT = re.compile(rf"\bfrom ((?:{PACKAGES})(?:\.\w+)*) import (?:\(([^)]*)\)|([\w, ]*))")
_MEMBERS = re.compile(r"^::: (\S+)\n +options: \{[^}]*members: \[([^\]]*)\]", re.M)
"""Members of a module that a page of the Python interface shows."""

_LISTED = re.compile(r"^```\w+\n# (\S+)\n", re.M)
_ANY_NAME = re.compile(r"NAME|FAMILY|\{[^}]*\}")


def missing_paths(page: Path) -> list[str]:
    """Return the paths that a page names, and that do not exist."""
    text = page.read_text(encoding="utf-8")
    created = {*_LISTED.findall(text), *WRITTEN.get(page.name, ()), *_ENVIRONMENT.findall(text)}
    return [path for path in _PATH.findall(text) if path not in created and not any(_matches(path))]


def _matches(path: str) -> list[Path]:
    pattern = _ANY_NAME.sub("*", path)
    return [*ROOT.glob(pattern), *(ROOT / "sim_tests").glob(pattern)]


def missing_names(page: Path) -> list[str]:
    """Return the dotted names of modules, or of members of modules, that do not exist."""
    text = page.read_text(encoding="utf-8")
    created = {path.removesuffix(".py").replace("/", ".") for path in _LISTED.findall(text)}
    created |= GROUPS
    named = [
        *_DOTTED.findall(text),
        *(
            f"{module}.{name.split()[0]}"
            for module, *lists in (*_IMPORT.findall(text), *_MEMBERS.findall(text))
            for name in "".join(lists).split(",")
            if name.strip() and module not in created
        ),
    ]
    return [name for name in named if name not in created and not _is_member(name)]


def _is_member(name: str) -> bool:
    """Return whether a dotted name is a module, a member of one, or an attribute of a member."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        folder = ROOT.joinpath(*parts[:count])
        if folder.with_suffix(".py").is_file():
            return _defines(folder.with_suffix(".py"), parts[count:])
        if folder.is_dir():
            source = folder / "__init__.py"
            return count == len(parts) or (source.is_file() and _defines(source, parts[count:]))
    return False


def _defines(source: Path, names: list[str]) -> bool:
    top, every = _names(source)
    return not names or (names[0] in top and set(names[1:]) <= every)


@cache
def _names(source: Path) -> tuple[set[str], set[str]]:
    """Return the names that a module binds at its top, and all that it binds."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    top = {name for statement in tree.body for name in _bound(statement)}
    return top, {name for node in ast.walk(tree) for name in _bound(node)}


def _bound(node: ast.AST) -> list[str]:
    match node:
        case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=items)):
            # Names that a package offers, some of which it imports when they are used.
            return ["__all__", *(ast.literal_eval(item) for item in items)]
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)]):
            return [name]
        case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name)):
            return [name]
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return [alias.asname or alias.name for alias in aliases]
        case ast.If(body=body):
            return [name for statement in body for name in _bound(statement)]
    return []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_of_a_page_exist(page: Path) -> None:
    assert missing_paths(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_of_a_page_exist(page: Path) -> None:
    assert missing_names(page) == []


def test_what_does_not_exist_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`hwgen/families/NAME/core.py`, `hwgen/families/NAME/heart.py`, `docs/test_docs.py`,\n"
        "`hwgen.core.core.Core.golden`, `hwgen.core.core.Heart`, `hwgen.heart`\n"
        "```python\n# hwgen/formats/listed.py\nfrom hwgen.core.core import Core, Lung\n```\n"
        "`hwgen/formats/listed.py`\n",
        encoding="utf-8",
    )
    assert missing_paths(page) == ["hwgen/families/NAME/heart.py"]
    assert missing_names(page) == [
        "hwgen.core.core.Heart",
        "hwgen.heart",
        "hwgen.core.core.Lung",
    ]
