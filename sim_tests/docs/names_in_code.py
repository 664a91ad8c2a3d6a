# SPDX-License-Identifier: Apache-2.0
"""Modules that name something in identifiers, imports and texts, not in comments or docstrings."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from sim_tests.support.paths import ROOT

PACKAGES = ("hwgen", "rtl_templates", "cost_model", "flows")
_NOT_INSTALLED = "flows/bench/"


def modules() -> Iterator[str]:
    """Yield the paths of the modules of the product, from the root of the checkout."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(_NOT_INSTALLED):
                yield name


def naming(names: Iterable[str]) -> dict[str, set[str]]:
    """Return the modules in which each name stands as a whole word."""
    patterns = {name: re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])") for name in names}
    result: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        texts = "\n".join(_texts(ast.parse((ROOT / module).read_text(encoding="utf-8"))))
        for name, pattern in patterns.items():
            if pattern.search(texts):
                result[name].add(module)
    return result


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield identifiers, parts of the names of imported modules, and texts of a module."""
    pending = [tree]
    while pending:
        node = pending.pop()
        pending += [child for child in ast.iter_child_nodes(node) if not _is_docstring(child)]
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "").split(".")
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.arg, ast.keyword)):
            yield node.arg or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
