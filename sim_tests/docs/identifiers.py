# SPDX-License-Identifier: Apache-2.0
"""Identifiers that the source defines, and those with words that the glossary avoids."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hwgen.core.post.words import REGISTERS
from sim_tests.contract.contract import contracts
from sim_tests.support.designs import design_of
from sim_tests.support.paths import DOCS, ROOT

PACKAGES = ("hwgen", "rtl_templates", "cost_model", "flows", "sim_tests")
VERILOG = "verilog"
"""Package of the names in emitted Verilog."""


_QUESTION = re.compile(r"(What|How|Where|When|Which|Who|Why|Return (what|how|where|which|who))\b")
_COMPOUND = ("place", "and", "route")
"""The name of a step of FPGA tools, whose first word is a verb."""

_KEYS = frozenset(
    {("OffChip", "kind"), ("StandardCells", "kind"), ("CostTable", "kind"), ("Fpga", "kind")}
)
"""Fields whose names users write: keys of configurations and of data files of technologies."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Za-z][a-z]*")
_ROW = re.compile(r"^\| (`.*`)(?: \((.*?)\))? \|")
_DECLARED = re.compile(
    r"^\s*(?:module|input|output|wire|reg)\b(?: signed)?(?: \[[^]]*\])? (\w+)", re.M
)


@dataclass(frozen=True)
class Avoided:
    """A word that identifiers avoid.

    Parameters
    ----------
    word : str
    noun : bool
        Whether it is allowed as the verb that begins the name of a function.
    rtl : bool
        Whether it is avoided in hardware alone.
    """

    word: str
    noun: bool
    rtl: bool


def avoided_words() -> dict[str, Avoided]:
    """Return the words to avoid that the glossary lists."""
    text = (DOCS / "glossary.md").read_text(encoding="utf-8").partition("## Words to avoid")[2]
    result = {}
    for line in text.splitlines():
        row = _ROW.match(line)
        if row:
            for word in re.findall(r"`(\w+)`", row[1]):
                note = row[2] or ""
                result[word] = Avoided(word, "noun" in note, "hardware" in note)
    return result


def words(name: str) -> list[str]:
    """Return the words of an identifier, in lower case, without those of `_COMPOUND`."""
    result = [word.lower() for word in _WORD.findall(name)]
    start = next((i for i in range(len(result)) if tuple(result[i : i + 3]) == _COMPOUND), None)
    return result if start is None else result[:start] + result[start + 3 :]


def is_avoided(name: str, package: str, avoided: Mapping[str, Avoided], *, verb: bool) -> bool:
    """Return whether an identifier has a word to avoid.

    Parameters
    ----------
    name : str
    package : str
        Top-level package, or `VERILOG`.
    avoided : mapping
        Word to its rule.
    verb : bool
        Whether the first word is a verb: the identifier is a function's.
    """
    for index, word in enumerate(words(name)):
        rule = avoided.get(word)
        if rule is None or (rule.rtl and package not in ("rtl_templates", VERILOG)):
            continue
        if not (rule.noun and verb and index == 0):
            return True
    return False


def defined(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield the identifiers that a module defines for others, and whether each is a function's.

    These are functions, classes, parameters, attributes and names of the module.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, True
            arguments = node.args
            for group in (arguments.posonlyargs, arguments.args, arguments.kwonlyargs):
                yield from ((argument.arg, False) for argument in group)
        elif isinstance(node, ast.ClassDef):
            yield node.name, False
            for name, verb in _assigned(node.body):
                if (node.name, name) not in _KEYS:
                    yield name, verb
        elif isinstance(node, ast.Module):
            yield from _assigned(node.body)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, False


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, bool]]:
    for statement in body:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        for target in targets:
            for node in ast.walk(target):
                if isinstance(node, ast.Name):
                    yield node.id, False


def modules() -> Iterator[tuple[str, Path]]:
    """Yield the package and the path of every module."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield package, path


def of_source() -> dict[str, set[str]]:
    """Return the identifiers of each package that have a word to avoid."""
    avoided, result = avoided_words(), defaultdict(set)
    for package, path in modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        folders = [(part, False) for part in path.relative_to(ROOT).with_suffix("").parts]
        for name, verb in [*folders, *defined(tree)]:
            # A test is named by a sentence; it is no interface.
            if not name.startswith("test_") and is_avoided(name, package, avoided, verb=verb):
                result[package].add(name)
    return result


def of_verilog() -> set[str]:
    """Return the names of modules, ports and signals of small cores that have a word to avoid.

    A signal may have the name of the field of a register that sets it.
    """
    avoided, result = avoided_words(), set()
    fields = {field.name for register in REGISTERS for field in register.fields}
    for contract in contracts().values():
        for config in contract.small:
            for name in _DECLARED.findall(design_of(config).verilog):
                # Numbers of registers, lanes and columns follow the name.
                local = re.sub(r"_\d.*$", "", name.removeprefix(f"{config.name}_"))
                if local not in fields and is_avoided(local, VERILOG, avoided, verb=False):
                    result.add(local)
    return result


def question_openings() -> list[str]:
    """Return the docstrings that open with a question word, each with its file."""
    result = []
    for _, path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node) or ""
                if _QUESTION.match(docstring):
                    result.append(f"{path.relative_to(ROOT)}: {docstring.splitlines()[0]}")
    return result
