# SPDX-License-Identifier: Apache-2.0
"""Choice of what a configuration leaves `auto`, by the clock that its hardware reaches.

Reading a configuration elaborates no hardware: a `Draft` has the smallest numbers where the file
says ``auto``.  `resolve` asks a `Timing` for the clock limit of the core of such parameters, and
the family which number to raise next, until the target clock is met.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

from hwgen.config.document import Document
from hwgen.config.parameters import inner_parameters
from hwgen.config.validate import place_rule
from hwgen.core.core import Core
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import core_of
from hwgen.errors import ConfigError, Problem


@dataclass(frozen=True)
class Limit:
    """The path that limits the clock of hardware.

    Parameters
    ----------
    period_ns : float
        The shortest clock period at which all paths are fast enough, in ns.
    start, end : str
        The signals that hold the ends of the slowest path, by their hierarchical names.
    instances : frozenset of str
        Hierarchical names of the instances that it leads through.
    roles : frozenset of str
        Roles of these instances, and of the ones around them
        (`rtl_templates.hdl.hierarchy.Block`).
    """

    period_ns: float
    start: str
    end: str
    instances: frozenset[str]
    roles: frozenset[str] = frozenset()

    @property
    def clock_mhz(self) -> float:
        """The highest clock, in MHz."""
        return 1000 / self.period_ns

    def allows(self, clock_mhz: float) -> bool:
        """Return whether a clock is slow enough."""
        return self.clock_mhz >= clock_mhz

    @property
    def text(self) -> str:
        """The limit in words, the clock rounded down so that it is reached."""
        clock = int(self.clock_mhz * 10) / 10
        return f"{clock:g}, by the path from {self.start} to {self.end}"


Timing = Callable[[Core[Any]], Limit | None]
"""Returns the clock limit of a core in its target technology, None if delays are unknown."""


@runtime_checkable
class Resolvable(Protocol):
    """Parameters of which numbers of registers may be ``auto``."""

    least_registers: Mapping[str, int]
    """Smallest number of each field of ``pipeline`` that may be ``auto``."""

    most_registers: int
    """Largest number of each."""

    def with_registers(self, numbers: Mapping[str, int]) -> Self:
        """Return the parameters with other numbers of registers, none of them ``auto``."""

    def next_choice(self, limit: Limit) -> str | None:
        """Return the field whose registers divide the slowest path, None if none does."""


@dataclass(frozen=True)
class Draft:
    """A configuration that has been read, in which fields may be ``auto``.

    Parameters
    ----------
    params : FamilyConfig
        With the smallest numbers where the file says ``auto``.
    document : Document
        Positions of its values.
    """

    params: FamilyConfig
    document: Document = field(repr=False)

    def problems(self, lines: list[str]) -> list[Problem]:
        """Return messages that begin with their fields, with the positions of these."""
        fields = inner_parameters(type(self.params), self.document.data)
        return [place_rule(line, (), self.document, fields) for line in lines]

    def complete(self) -> FamilyConfig:
        """Return the parameters of a draft without ``auto``.

        Raises
        ------
        ConfigError
            If a field is ``auto``.
        """
        if self.params.automatic:
            text = "must be a number here, not auto; build the core to see what is chosen"
            raise ConfigError(self.problems([f"{name}: {text}" for name in self.params.automatic]))
        return self.params


def resolve(draft: Draft, timing: Timing) -> Core[Any]:
    """Return the core of a draft with every ``auto`` chosen, the one that `timing` saw last if any.

    Raises
    ------
    ConfigError
        If the target clock is not reached, or delays of the technology are unknown.
    """
    core, errors = choose_registers(draft.params, timing)
    if errors:
        raise ConfigError(draft.problems(errors))
    return core


def choose_registers(params: FamilyConfig, timing: Timing) -> tuple[Core[Any], list[str]]:
    """Return a core with every ``auto`` chosen, and why that failed, each ``field: text``.

    The cores inside an engine are chosen on their own; the engine around them must then meet the
    clock as well.
    """
    if not params.automatic:
        return core_of(params), []
    children, errors = {}, []
    for name, child in params.children.items():
        chosen, problems = choose_registers(child, timing)
        children[name] = chosen.params
        errors += [f"{name}.{problem}" for problem in problems]
    if errors:
        return core_of(params), errors
    if isinstance(params, Resolvable):
        return _choose_core_registers(params, timing)
    core, clock = core_of(params.with_children(children)), params.target.clock_mhz
    limit = timing(core)
    if limit is not None and not limit.allows(clock):
        text = (
            f"{params.automatic[0]}: auto cannot reach target.clock_mhz {clock:g} in"
            f" {params.target.technology}; the engine allows at most {limit.text}: lower the clock"
        )
        return core, [text]
    return core, []


def _choose_core_registers(params: FamilyConfig, timing: Timing) -> tuple[Core[Any], list[str]]:
    """Raise the registers of a core one by one where its slowest path leads through."""
    assert isinstance(params, Resolvable)
    clock, technology = params.target.clock_mhz, params.target.technology
    fields = [name.rpartition(".")[2] for name in params.automatic]
    numbers = {name: params.least_registers[name] for name in fields}
    best: Limit | None = None
    while True:
        trial = params.with_registers(numbers)
        assert isinstance(trial, FamilyConfig)
        core = core_of(trial)
        limit = timing(core)
        if limit is None:
            text = (
                f"must be a number with target.technology {technology}, whose delays have not been"
                " measured"
            )
            return core, [f"{name}: {text}" for name in params.automatic]
        if limit.allows(clock):
            return core, []
        if best is None or limit.period_ns < best.period_ns:
            best = limit
        choice = trial.next_choice(limit)
        if choice not in numbers or numbers[choice] == params.most_registers:
            break
        numbers[choice] += 1
    name = choice if choice in numbers else fields[0]
    text = (
        f"pipeline.{name}: auto cannot reach target.clock_mhz {clock:g} in {technology}; any number"
        f" of registers allows at most {best.text}: lower the clock, or choose a smaller core"
    )
    return core, [text]
