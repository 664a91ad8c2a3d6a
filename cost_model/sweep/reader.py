# SPDX-License-Identifier: Apache-2.0
"""Collecting what is wrong with a sweep file, each problem with its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cost_model.sweep.expressions import Expression, ExpressionError, parse
from hwgen.config.document import Document
from hwgen.config.parameters import either
from hwgen.config.validate import in_order, problem_at, shown
from hwgen.errors import ConfigError, Problem, did_you_mean

Path = tuple[str | int, ...]


class Reader:
    """A document and the problems that have been found in it.

    Parameters
    ----------
    document : Document
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = list(document.problems)

    def error(self) -> ConfigError:
        """Return the error that holds every problem."""
        return ConfigError(in_order(self.problems))

    def at(self, path: Iterable[str | int]) -> Any:
        """Return the plain data at a path that exists."""
        data: Any = self.document.data
        for step in path:
            data = data[step]
        return data

    def complain(self, path: Path, text: str) -> None:
        """Add a problem with the value at `path`, unless its text is what is wrong."""
        if not self.document.is_spoilt(path):
            self.problems.append(problem_at(self.document, path, text))

    def refuse(self, path: Path, value: Any, allowed: str, hint: str = "") -> None:
        """Add the problem that a value is not what it must be."""
        missing = value is None and not _has(self.document.data, path)
        text = f"missing; it must be {allowed}" if missing else f"must be {allowed}, not "
        self.complain(path, text if missing else text + shown(value) + hint)

    def keys(self, path: Path, legal: Sequence[str]) -> None:
        """Check the keys of a group, if there is one."""
        for key in self.at(path) if _has(self.document.data, path) else ():
            if key not in legal:
                self.complain(
                    (*path, key),
                    f"unknown key{did_you_mean(key, legal)}; legal here: {', '.join(legal)}",
                )

    def choice(self, path: Path, value: Any, legal: Sequence[str]) -> str:
        """Return a word, one of some."""
        if value not in legal:
            near = did_you_mean(value, legal) if isinstance(value, str) else ""
            self.refuse(path, value, either(legal), near)
        return str(value)

    def integer(self, path: Path, value: Any, low: int, high: int) -> int:
        """Return an integer within bounds; `low` if it is not."""
        if type(value) is not int or not low <= value <= high:
            self.refuse(path, value, f"an integer in {low}..{high}")
            return low
        return value

    def expression(self, path: Path, value: Any) -> Expression | None:
        """Return the expression at a place, or add why it is none."""
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            self.refuse(path, value, "an expression")
            return None
        try:
            return parse(str(value))
        except ExpressionError as error:
            self.complain(path, str(error))
            return None

    def expressions(self, path: Path, value: Any) -> list[Expression]:
        """Return a list of expressions; a single one may stand alone."""
        if isinstance(value, str):
            expression = self.expression(path, value)
            return [] if expression is None else [expression]
        if not isinstance(value, list):
            self.refuse(path, value, "a list of expressions")
            return []
        several = [self.expression((*path, i), item) for i, item in enumerate(value)]
        return [item for item in several if item is not None]


def _has(data: Any, path: Path) -> bool:
    try:
        for step in path:
            data = data[step]
    except (KeyError, IndexError, TypeError):
        return False
    return True
