# SPDX-License-Identifier: Apache-2.0
"""Objects that installed packages announce by entry points of one group, by name.

Families and technologies are found in this way.  Names are known without a look at what they
stand for, which is loaded when something asks for it: that takes a while, and what one package
announces may be broken without harm to the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from hwgen.errors import ConfigError, InputError, Problem, did_you_mean

T = TypeVar("T")

_SEPARATORS = re.compile(r"[-_. ]")


def match_name(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is `name` but for letter case, dashes, underscores and dots.

    >>> match_name("ECP5-45F", ["ecp5-25f", "ecp5-45f"])
    'ecp5-45f'
    """
    names = tuple(names)
    if name in names:
        return name
    plain = _SEPARATORS.sub("", name).casefold()
    matches = [each for each in names if _SEPARATORS.sub("", each).casefold() == plain]
    return matches[0] if len(matches) == 1 else None


class Registry(Mapping[str, T]):
    """Objects that the entry points of a group announce, by name and in alphabetical order.

    Looking one up loads it, once, and raises what `load` raises.

    Parameters
    ----------
    group : str
        Group of entry points.
    noun : str
        What one is called in messages.
    load : callable
        Takes an entry point and returns what it announces.
    more : iterable of EntryPoint
        Further ones, which no package announces.

    Raises
    ------
    InputError
        If two packages offer one name.
    """

    def __init__(
        self,
        group: str,
        noun: str,
        load: Callable[[EntryPoint], T],
        more: Iterable[EntryPoint] = (),
    ) -> None:
        self.noun = noun
        self._load = load
        self._loaded: dict[str, T] = {}
        points: dict[str, EntryPoint] = {}
        for point in (*entry_points(group=group), *more):
            first = points.setdefault(point.name, point)
            if first.value != point.value:
                raise InputError(
                    f"two packages offer a {noun} called {point.name!r}: {first.value} and"
                    f" {point.value}; uninstall one of them"
                )
        self._points = {name: points[name] for name in sorted(points)}

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            self._loaded[name] = self._load(self._points[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._points

    def __iter__(self) -> Iterator[str]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)

    def loaded(self) -> Iterator[T]:
        """Give what has been looked up so far."""
        return iter(tuple(self._loaded.values()))

    def point(self, name: str) -> EntryPoint:
        """Return the entry point that announces a name."""
        return self._points[name]

    def named(self, name: str) -> T:
        """Return the object that is called `name`, as `match_name` reads it.

        Raises
        ------
        InputError
            If no installed package offers it, or what `load` raises.
        """
        match = match_name(name, self)
        if match is None:
            raise InputError(
                f"no {self.noun} is called {name!r}{did_you_mean(name, self)}; there is:"
                f" {', '.join(self)}"
            )
        return self[match]


def label(noun: str, point: EntryPoint) -> str:
    """Return the label of an entry point in messages: noun, name, value and package."""
    package = f", package {point.dist.name}" if point.dist else ""
    return f"the {noun} {point.name!r} ({point.value}{package})"


def load_object(noun: str, point: EntryPoint) -> object:
    """Return the object that an entry point names; any package may have written it.

    Raises
    ------
    InputError
        If importing it fails.
    """
    try:
        return point.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{label(noun, point)} cannot be loaded: {reason}; repair or uninstall its package"
        ) from error


def data_file(noun: str, point: EntryPoint) -> Path:
    """Return the data file that an entry point announces; any package may have written it.

    Its value is the path of a ``.yaml`` file, or the package in which ``NAME.yaml`` lies.

    Raises
    ------
    InputError
        If there is no such package or file.
    """
    if point.value.endswith(".yaml"):
        return Path(point.value)
    named = label(noun, point)
    try:
        spec = find_spec(point.value)
    except (ImportError, ValueError) as error:
        raise InputError(f"{named} is not there: {error}; repair or uninstall it") from None
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{named}: there is no such package; repair or uninstall it")
    paths = [Path(folder) / f"{point.name}.yaml" for folder in spec.submodule_search_locations]
    for path in paths:
        if path.is_file():
            return path
    problem = Problem("there is no such file", file=str(paths[0]))
    raise ConfigError([Problem(f"{named} has no data file", file=""), problem])
