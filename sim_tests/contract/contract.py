# SPDX-License-Identifier: Apache-2.0
"""Contract of a family: the data from which `sim_tests.contract.test_contract` makes its tests.

A file of ``sim_tests/families`` or ``sim_tests/engines`` holds the contract of a family, or of a
part of it, as ``CONTRACT``.  The tests of all contracts are in one place; a new family adds data.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

import sim_tests.engines
import sim_tests.families
from flows.build.design import Design
from flows.simulation.runner import regress
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import CheckFailed
from sim_tests.support.mutations import Mutation
from sim_tests.support.selection import covering_points, drawn, missing_pairs

Build = Callable[[str, dict[str, Any]], FamilyConfig]
"""Function that makes a configuration of a name and of a value of each axis."""

Check = Callable[[Design], None]
"""Function that tests a design, and raises an error if it fails."""

STREAM_CASES = (
    "shapes_7",
    "values_highest",
    "values_opposite",
    "stalls_4",
    "reset_0",
    "back_to_back_full_rate",
)
"""Cases that notice most mutations of a core with streams."""

COSTLY = 3
"""Commits of which one simulates a costly configuration of a covering set."""


def _always(point: Any) -> bool:
    return True


def _never(config: Any) -> bool:
    return False


@dataclass(frozen=True)
class Covering:
    """Covering set: every legal pair of values of two axes occurs in some configuration.

    Parameters
    ----------
    name : str
        Prefix of the names of the configurations.
    axes : mapping
        Values of each axis.
    build : callable
    every : int
        Number of commits that together simulate all configurations.
    legal : callable
        Whether a point, or the beginning of one, is legal.
    costly : callable
        Whether the simulation of a configuration takes minutes.
    """

    name: str
    axes: Mapping[str, Sequence[Any]]
    build: Build
    every: int
    legal: Callable[[list[Any]], bool] = _always
    costly: Callable[[Any], bool] = _never

    @cached_property
    def points(self) -> list[list[Any]]:
        """The points of the set, a value of each axis."""
        return covering_points(self.axes, self.legal)

    @cached_property
    def configs(self) -> list[Any]:
        """The configurations of the points."""
        return [
            self.build(f"{self.name}_{i}", dict(zip(self.axes, point, strict=True)))
            for i, point in enumerate(self.points)
        ]

    def missing_pairs(self) -> list[tuple[str, Any, str, Any]]:
        """Return the legal pairs of values that no configuration has."""
        return missing_pairs(self.axes, self.points, self.legal)


@dataclass(frozen=True)
class Regressions:
    """Configurations whose regression is simulated.

    The regression has shapes, extreme and special values, stalls, resets in mid-stream, jobs back
    to back and exact cycles.

    Parameters
    ----------
    configs : sequence
    every : int
        Number of commits that together simulate all of them.
    chosen : sequence, optional
        Those that this commit simulates, instead of one of `every`.
    cases : sequence of str, optional
        Cases of the regression; default all.
    seed : int
        Seed of shapes, values and stalls.
    long : bool
        Whether ``make long`` alone simulates them.
    """

    configs: Sequence[FamilyConfig]
    every: int = 1
    chosen: Sequence[FamilyConfig] | None = None
    cases: Sequence[str] | None = None
    seed: int = 1
    long: bool = False


@dataclass(frozen=True)
class Mutations:
    """Mutations of the RTL of a family, which its regression must notice.

    Parameters
    ----------
    model : type
        Configuration model of the family.
    cases : sequence of str
        Cases of the regression to run.
    mutations : sequence of Mutation
    every : int
        Number of commits that together try all of them.
    long : bool
        Whether ``make long`` alone tries them.
    check : callable, optional
        Test to run instead of the cases of the regression.
    """

    model: type[FamilyConfig]
    cases: Sequence[str]
    mutations: Sequence[Mutation]
    every: int = 1
    long: bool = False
    check: Check | None = None

    def messages(self, design: Design, mutation: Mutation, work: Path) -> list[str]:
        """Return the messages of the checks that a design does not pass."""
        if self.check is not None:
            try:
                self.check(design)
            except (AssertionError, CheckFailed) as error:
                return [str(error)]
            return []
        names = [*self.cases, *mutation.cases]
        outcomes = regress(design, work, names=names)
        return [outcome.message for outcome in outcomes if not outcome.passed]


@dataclass(frozen=True)
class Steady:
    """Product that keeps the processing elements busy, fill and drain included.

    Parameters
    ----------
    config : FamilyConfig
    sizes : tuple of int
        M, K and N.
    columns : int, optional
        Columns that the core computes, padding included; default N.
    """

    config: Any
    sizes: tuple[int, int, int]
    columns: int | None = None


@dataclass(frozen=True)
class Contract:
    """Contract of a family or of a part of it.

    Parameters
    ----------
    name : str
        Subject; the identifiers of the tests begin with it.
    family : str
        Family of configurations in `refused` that name none.
    small : sequence
        Configurations that take seconds, one of each family, for the tests over all families.
    covering : Covering, optional
    regressions : tuple of Regressions
    shipped : tuple of str
        Patterns of the names of files in ``configs`` whose regression is simulated.
    shipped_every : int
        Number of commits that together simulate all of those files; 0 if ``make long`` alone does.
    clean : sequence
        Configurations whose Verilog is clean and reproducible.
    clean_every : int
        Number of commits that together look at all of them; 0 if ``make long`` alone does.
    mutations : tuple of Mutations
    steady : tuple of Steady
    refused : sequence
        Configurations after the line of the name, as text, or whole ones in JSON, and regular
        expressions of their errors.
    """

    name: str
    family: str
    small: Sequence[Any] = ()
    covering: Covering | None = None
    regressions: tuple[Regressions, ...] = ()
    shipped: tuple[str, ...] = ()
    shipped_every: int = 1
    clean: Sequence[Any] = ()
    clean_every: int = 1
    mutations: tuple[Mutations, ...] = ()
    steady: tuple[Steady, ...] = ()
    refused: Sequence[tuple[str, str]] = ()

    def all_regressions(self) -> Iterable[Regressions]:
        """Yield the regressions, those of the covering set first."""
        if self.covering is not None:
            covering = self.covering
            usual = [config for config in covering.configs if not covering.costly(config)]
            costly = [config for config in covering.configs if covering.costly(config)]
            yield Regressions(usual, covering.every)
            yield Regressions(costly, covering.every * COSTLY)
        yield from self.regressions


@cache
def contracts() -> dict[str, Contract]:
    """Return the contracts of all families, by their names."""
    result: dict[str, Contract] = {}
    for package in (sim_tests.families, sim_tests.engines):
        for _, name, _ in pkgutil.iter_modules(package.__path__):
            if name.startswith("test_"):
                module = importlib.import_module(f"{package.__name__}.{name}")
                contract = vars(module).get("CONTRACT")
                if contract is not None:
                    assert contract.name not in result, contract.name
                    result[contract.name] = contract
    return result


def describe(config: Any) -> str:
    """Return an identifier of a configuration that tells it from others of its contract."""
    if config.name not in ("core", "attention_test"):
        return str(config.name)
    formats = [getattr(config, name, None) for name in ("activation", "weight", "accumulator")]
    return "-".join([config.family, *(str(each) for each in formats if each is not None)])


def parameters(
    contract: Contract,
    cases: Sequence[tuple[str, Any]],
    every: int = 1,
    *,
    group: str = "",
    long: bool = False,
    chosen: Collection[int] | None = None,
) -> list[Any]:
    """Return the parameters of a test: the cases that this commit draws, the others marked.

    Parameters
    ----------
    contract : Contract
    cases : sequence
        Identifier and value of each case.
    every : int
        Number of commits that together run all cases.
    group : str
        Distinguishes groups of a contract that are drawn independently.
    long : bool
        Whether ``make long`` alone runs them.
    """
    if chosen is None:
        chosen = drawn(len(cases), every, f"{contract.name} {group}")
    result = []
    for i, (name, value) in enumerate(cases):
        marks = [pytest.mark.long] if long else [] if i in chosen else ROTATED
        result.append(pytest.param(value, id=f"{contract.name}-{name}", marks=marks))
    return result


ROTATED = [pytest.mark.long, pytest.mark.rotated]
"""Marks of cases that another commit runs."""
