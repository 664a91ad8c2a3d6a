# SPDX-License-Identifier: Apache-2.0
"""Errors that reach a user, each with the exit status the command line gives it.

Everything a user can cause is one of these; any other exception is a defect of hwgen.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


class HwgenError(Exception):
    """Base of every error meant for a user.

    Attributes
    ----------
    exit_status : int
        1 the check failed, 2 bad input, 3 a tool is missing.
    """

    exit_status = 2


class InputError(HwgenError):
    """A file, option or array that cannot be used; the text says what to do."""


class CheckFailed(HwgenError):
    """The work was done and the result is wrong: mismatch, timing, failed test."""

    exit_status = 1


class ToolMissing(HwgenError):
    """An external tool is missing or too old."""

    exit_status = 3


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a file.

    Parameters
    ----------
    message : str
        What must hold and what was found.
    field : str
        Dotted path of the field, empty for the whole file.
    file : str
        Name of the file as the user gave it.
    line, column : int or None
        Position, counted from 1; None where the text has no such place.
    """

    message: str
    field: str = ""
    file: str = ""
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        place = self.file
        if self.line is not None:
            place += f":{self.line}:{self.column or 1}"
        return ": ".join(part for part in (place, self.field, self.message) if part)


class ConfigError(InputError):
    """A configuration that is not valid, with every problem found.

    Parameters
    ----------
    problems : iterable of Problem
        At least one.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def did_you_mean(word: str, candidates: Iterable[str], cutoff: float = 0.5) -> str:
    """Return `` (did you mean 'x'?)`` for the nearest known word, or an empty string."""
    near = difflib.get_close_matches(word[:64], list(candidates), n=1, cutoff=cutoff)
    return f" (did you mean {near[0]!r}?)" if near else ""
