# SPDX-License-Identifier: Apache-2.0
"""The registry of boards.

A board is one data file.  An entry point of the group ``hwgen.boards`` announces it: its name is
that of the board, its value the package in which ``NAME.yaml`` lies.  The files ``NAME.yaml`` in
the directories of the environment variable ``HWGEN_BOARDS`` are boards as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

from hwgen.board.model import BoardData
from hwgen.errors import ConfigError, InputError
from hwgen.plugins import Registry, data_file

GROUP = "hwgen.boards"

DIRECTORIES = "HWGEN_BOARDS"
"""Environment variable: directories of data files, separated as in ``PATH``."""


def boards() -> Registry[BoardData]:
    """Return every installed board by name; looking one up reads its file.

    Raises
    ------
    InputError
        If two packages offer one name, or a directory of `DIRECTORIES` does not exist.
    """
    return _boards(os.environ.get(DIRECTORIES, ""))


def board(name: str) -> BoardData:
    """Return the board called `name`.

    Raises
    ------
    InputError
        If no installed package offers it, or its file cannot be used.
    """
    return boards().named(name)


@cache
def _boards(directories: str) -> Registry[BoardData]:
    return Registry(GROUP, "board", _load, tuple(_files(directories)))


def _files(directories: str) -> Iterator[EntryPoint]:
    for directory in filter(None, directories.split(os.pathsep)):
        if not Path(directory).is_dir():
            raise InputError(f"{DIRECTORIES}: {directory} is not a directory")
        for path in sorted(Path(directory).absolute().glob("*.yaml")):
            yield EntryPoint(path.stem, str(path), GROUP)


def _load(point: EntryPoint) -> BoardData:
    from hwgen.config.validate import load_model, problem_at, shown  # start-up time
    from hwgen.technologies import technology_of

    result, document = load_model(data_file("board", point), BoardData)
    problems = []
    if result.name != point.name:
        text = f"must be {point.name}, as its entry point or file says, not {shown(result.name)}"
        problems.append(problem_at(document, ("name",), text))
    if technology_of(result.device) is None:
        text = f"no device is called {shown(result.device)}; `hwgen technologies NAME` lists them"
        problems.append(problem_at(document, ("device",), text))
    if problems:
        raise ConfigError(problems)
    return result
