# SPDX-License-Identifier: Apache-2.0
"""The registry of accelerator families.

A family is announced by an entry point of the group ``hwgen.families`` whose value is a
`Family`.  Its parts live in the rooms (golden model, RTL, cost) under the family's own module
name and are imported only when something asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType
from typing import TYPE_CHECKING

from hwgen.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from hwgen.config.model import FamilyConfig

GROUP = "hwgen.families"


@dataclass(frozen=True)
class Family:
    """What the tool knows of one family.

    Parameters
    ----------
    name : str
        Value of ``family:`` in a configuration.
    summary : str
        One line for ``hwgen families``.
    config : type
        The configuration model, a subclass of `hwgen.config.model.FamilyConfig`.
    schedule, golden, rtl, cost : str
        Modules of the family in each room.  `schedule` offers ``schedule(config, m, k, n)``,
        which also packs and unpacks; `golden` offers ``golden(config, a, w)``; `rtl` offers
        ``generate(config)``; `cost` offers ``cycles(config, m, k, n)``.
    """

    name: str
    summary: str
    config: type[FamilyConfig]
    schedule: str
    golden: str
    rtl: str
    cost: str

    def part(self, room: str) -> ModuleType:
        """Import and return the family's ``schedule``, ``golden``, ``rtl`` or ``cost`` module."""
        return import_module(getattr(self, room))


@cache
def families() -> Mapping[str, Family]:
    """Return every installed family by name, in alphabetical order."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    return {name: found[name].load() for name in sorted(found)}


def family(name: str) -> Family:
    """Return the family called `name`.

    Raises
    ------
    InputError
        If no installed package offers it.
    """
    known = families()
    if name not in known:
        raise InputError(
            f"no family is called {name!r}{did_you_mean(name, known)}; there is: {', '.join(known)}"
        )
    return known[name]
