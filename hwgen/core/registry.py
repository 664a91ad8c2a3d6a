# SPDX-License-Identifier: Apache-2.0
"""The registry of accelerator families.

A family is announced by an entry point of the group ``hwgen.families`` whose value is a
`Family`.  Its parts live in the rooms (golden model, RTL, cost) under the family's own module
name and are imported only when something asks for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hwgen.core.figures import Cycles
from hwgen.errors import InputError
from hwgen.plugins import Registry, label

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.operation import Job
    from hwgen.core.params.base import FamilyConfig

ENTRY_POINTS = "hwgen.families"


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
        The configuration model, a subclass of `hwgen.core.params.base.FamilyConfig`.
    schedule, golden, rtl, cost : str
        Modules of the family in each room.  `schedule` offers ``schedule(config, m, k, n)``,
        which also packs and unpacks; `golden` offers ``golden(config, a, w)``; `rtl` offers
        ``generate(config)``; `cost` offers ``cycles(config, m, k, n)``.  What a family offers
        whose operations are no products of matrices says `hwgen.core.operation`.
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

    def cycles_of(
        self, config: FamilyConfig, operands: Sequence[tuple[NDArray[Any], NDArray[Any]]]
    ) -> int:
        """Return the exact cycles of products of given matrices that follow each other.

        Where cycles depend on values, `cost` offers ``cycles_of_operands``, and what its
        ``cycles_of`` says of sizes is an expectation.

        Parameters
        ----------
        config : FamilyConfig
        operands : sequence of (ndarray, ndarray)
            A, shape (m, k), and W, shape (k, n), of each product.
        """
        cost = self.part("cost")
        if hasattr(cost, "cycles_of_operands"):
            return int(cost.cycles_of_operands(config, operands))
        return int(cost.cycles_of(config, [(*a.shape, w.shape[1]) for a, w in operands]))

    def cycles_of_jobs(self, config: FamilyConfig, jobs: Sequence[Job]) -> int:
        """Return the exact cycles of jobs that are no products of matrices, without a pause.

        Parameters
        ----------
        config : FamilyConfig
        jobs : sequence of (Operation, sizes, scalars)
            See `hwgen.core.operation`.
        """
        return int(self.part("cost").cycles_of_jobs(config, jobs))

    def timed_jobs(self, config: FamilyConfig, jobs: Sequence[Job]) -> Cycles:
        """Return the cycles of jobs that are no products of matrices, and what the figure is.

        `cost` offers ``timed_jobs`` where they are not exact.
        """
        cost = self.part("cost")
        if hasattr(cost, "timed_jobs"):
            cycles: Cycles = cost.timed_jobs(config, jobs)
            return cycles
        return Cycles(self.cycles_of_jobs(config, jobs))

    def timed(self, config: FamilyConfig, sizes: Sequence[tuple[int, int, int]]) -> Cycles:
        """Return the cycles of products (m, k, n) of any values, and what the figure is.

        `cost` offers ``timed`` where they are not exact.
        """
        cost = self.part("cost")
        if hasattr(cost, "timed"):
            cycles: Cycles = cost.timed(config, sizes)
            return cycles
        return Cycles(int(cost.cycles_of(config, sizes)))

    def timed_operands(
        self, config: FamilyConfig, operands: Sequence[tuple[NDArray[Any], NDArray[Any]]]
    ) -> Cycles:
        """Return the cycles of products of given matrices; see `cycles_of` and `timed`."""
        if hasattr(self.part("cost"), "cycles_of_operands"):
            return Cycles(self.cycles_of(config, operands))
        return self.timed(config, [(*a.shape, w.shape[1]) for a, w in operands])

    def most_cycles_of(self, config: FamilyConfig, sizes: Sequence[tuple[int, int, int]]) -> int:
        """Return the cycles of products (m, k, n) of the values that take most of them."""
        cost = self.part("cost")
        return int(getattr(cost, "most_cycles_of", cost.cycles_of)(config, sizes))


@cache
def families() -> Registry[Family]:
    """Return every installed family by name, in alphabetical order.

    Looking one up imports it, and raises `InputError` if it cannot be used.

    Raises
    ------
    InputError
        If two packages offer one name.
    """
    return Registry(ENTRY_POINTS, "family", _load)


def _load(point: EntryPoint) -> Family:
    """Return the family that an entry point announces; any package may have written it."""
    named = label("family", point)
    try:
        loaded = point.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{named} cannot be loaded: {reason}; repair or uninstall its package"
        ) from error
    if not isinstance(loaded, Family) or loaded.name != point.name:
        raise InputError(
            f"{named} must be a hwgen.core.registry.Family of that name, not {loaded!r}"
        )
    return loaded


def family(name: str) -> Family:
    """Return the family called `name`.

    Raises
    ------
    InputError
        If no installed package offers it.
    """
    return families().named(name)
