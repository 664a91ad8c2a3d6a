# SPDX-License-Identifier: Apache-2.0
"""Trail of the parameters of a core through a command: the functions that they are passed to.

``python -m sim_tests.support.trail build --config FILE --output DIR`` prints it.  An object is
passed where a function has it as an argument other than ``self``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import click

from flows.build.build import Build
from flows.build.design import Design
from hwgen.cli import main
from hwgen.core.core import Core
from hwgen.core.params.base import FamilyConfig

ROOT = f"{Path(__file__).parents[2]}/"
PARAMETERS: tuple[type, ...] = (FamilyConfig,)
OBJECTS: tuple[type, ...] = (FamilyConfig, Core, Design, Build)


@dataclass(frozen=True)
class Step:
    """A call of a function of the project with an object of interest.

    Parameters
    ----------
    file, function : str
    passed : object
    """

    file: str
    function: str
    passed: object


def record(action: Callable[[], object]) -> list[Step]:
    """Return the calls that have one of `OBJECTS` as an argument, in order."""
    steps: list[Step] = []

    def look(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(ROOT) or ".venv" in code.co_filename:
            return
        count = code.co_argcount + code.co_kwonlyargcount
        for name in code.co_varnames[:count]:
            value: Any = frame.f_locals.get(name)
            if name not in ("self", "cls") and isinstance(value, OBJECTS):
                file = code.co_filename.removeprefix(ROOT)
                steps.append(Step(file, code.co_name, value))

    sys.setprofile(look)
    try:
        action()
    finally:
        sys.setprofile(None)
    return steps


def visits(steps: Sequence[Step], types: tuple[type, ...]) -> list[Step]:
    """Return the steps at which an object of some types comes into another file."""
    result: list[Step] = []
    for step in steps:
        if isinstance(step.passed, types) and (not result or step.file != result[-1].file):
            result.append(step)
    return result


def counts(steps: Sequence[Step], types: tuple[type, ...]) -> tuple[int, int]:
    """Return the files that an object of some types is passed to, and returns to such a file."""
    trail = visits(steps, types)
    files = {step.file for step in trail}
    return len(files), len(trail) - len(files)


def _print_trail() -> None:
    steps = record(lambda: main(sys.argv[1:]))
    for title, types in (("parameters", PARAMETERS), ("parameters, core, design", OBJECTS)):
        for step in visits(steps, types):
            click.echo(f"  {step.file} {step.function}")
        files, returns = counts(steps, types)
        click.echo(f"{title}: {files} files, {returns} returns")


if __name__ == "__main__":
    _print_trail()
