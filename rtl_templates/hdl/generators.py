# SPDX-License-Identifier: Apache-2.0
"""The functions that return the hardware of a core, by family.

A family announces one by an entry point of the group ``hwgen.generators``, under its own name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

from hwgen.core.core import Core
from hwgen.core.params.base import FamilyConfig
from hwgen.core.params.protection import Protection
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.plugins import Registry, label, load_object

if TYPE_CHECKING:  # start-up time: digests of sources need the names only
    from amaranth.lib.wiring import Component

ENTRY_POINTS = "hwgen.generators"

Generator = Callable[[Core[Any]], "Component"]


@cache
def generators() -> Registry[Generator]:
    """Return the generators of all installed families by name."""
    return Registry(ENTRY_POINTS, "generator", _load)


def generate(core: Core[Any]) -> Component:
    """Return the hardware of a core, its ports inner streams and buses.

    Raises
    ------
    InputError
        If its family announces no generator, or it cannot be used.
    """
    family = core.params.family
    if family not in generators():
        raise InputError(
            f"the family {family!r} has no hardware: its package must announce a function in the"
            f" group {ENTRY_POINTS} of entry points, see docs/adding-a-family.md"
        )
    return generators()[family](core)


def generate_child(params: FamilyConfig, *, residues: bool = False) -> Component:
    """Return the hardware of a core inside an engine, its sums checked by residues if wanted."""
    if residues:
        params = params.model_copy(update={"protect": Protection(datapath="residue")})
    return generate(core_of(params))


def _load(point: EntryPoint) -> Generator:
    named = label("generator", point)
    loaded = load_object("generator", point)
    if not callable(loaded):
        raise InputError(f"{named} must be a function that takes a core, not {loaded!r}")
    generator: Generator = loaded
    return generator
