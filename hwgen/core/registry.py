# SPDX-License-Identifier: Apache-2.0
"""The registry of accelerator families.

A family is announced by an entry point of the group ``hwgen.families`` whose value is a subclass
of `hwgen.core.core.Core`.  It is imported only when something asks for it; one that cannot be used
is named in an error, and the others keep working.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint
from typing import Any

from hwgen.core.core import CONTRACT, Core
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import InputError
from hwgen.plugins import Registry, label, load_object

ENTRY_POINTS = "hwgen.families"


@cache
def families() -> Registry[type[Core[Any]]]:
    """Return every installed family by name, in alphabetical order.

    Looking one up imports it, and raises `InputError` if it cannot be used.

    Raises
    ------
    InputError
        If two packages offer one name.
    """
    return Registry(ENTRY_POINTS, "family", _load)


def family(name: str) -> type[Core[Any]]:
    """Return the family called `name`.

    Raises
    ------
    InputError
        If no installed package offers it, or it cannot be used.
    """
    return families().named(name)


def core_of(params: FamilyConfig) -> Core[Any]:
    """Return the core of parameters of any family."""
    return family(params.family)(params)


def _load(point: EntryPoint) -> type[Core[Any]]:
    """Return the family that an entry point announces; any package may have written it."""
    named = label("family", point)
    loaded = load_object("family", point)
    if not isinstance(loaded, type) or not issubclass(loaded, Core):
        raise InputError(f"{named} must be a subclass of hwgen.core.core.Core, not {loaded!r}")
    if loaded.contract != CONTRACT:
        raise InputError(
            f"{named} is written for version {loaded.contract} of what a family offers, not for"
            f" {CONTRACT}; update its package, see docs/adding-a-family.md"
        )
    if loaded.__abstractmethods__:
        missing = ", ".join(sorted(loaded.__abstractmethods__))
        raise InputError(f"{named} lacks {missing}, see docs/adding-a-family.md")
    announced = loaded.params_class.model_fields["family"].default
    if announced != point.name:
        raise InputError(
            f"{named} must have parameters of family {point.name!r}, not {announced!r}"
        )
    return loaded
