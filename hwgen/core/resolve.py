# SPDX-License-Identifier: Apache-2.0
"""Choice of what a configuration leaves `auto`, by the clock that its hardware reaches.

Reading a configuration elaborates no hardware: a `Draft` has the smallest numbers where the file
says ``auto``.  `resolve` asks a `Timing` for the clock limit of the core of such parameters, and
the family which number to raise next, until the target clock is met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

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
    margin : float
        Share of the clock by which one design of twenty is slower than estimated.
    """

    period_ns: float
    start: str
    end: str
    instances: frozenset[str]
    roles: frozenset[str] = frozenset()
    margin: float = 0.0

    @property
    def clock_mhz(self) -> float:
        """The highest clock, in MHz."""
        return 1000 / self.period_ns

    @property
    def reliable_clock_mhz(self) -> float:
        """The clock that synthesis reaches in 19 of 20 designs with this limit, in MHz."""
        return self.clock_mhz * (1 - self.margin)

    def allows(self, clock_mhz: float) -> bool:
        """Return whether a clock is slow enough that it is reached reliably."""
        return self.reliable_clock_mhz >= clock_mhz

    @property
    def text(self) -> str:
        """The reliable clock in words, rounded down so that it is reached."""
        clock = int(self.reliable_clock_mhz * 10) / 10
        below = (
            f" ({self.margin:.0%} below the estimate: 19 of 20 designs reach it)"
            if self.margin
            else ""
        )
        return f"{clock:g}{below}, by the path from {self.start} to {self.end}"


Timing = Callable[[Core[Any]], Limit | None]
"""Returns the clock limit of a core in its target technology, None if delays are unknown."""


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
    if not params.children:
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
    clock, technology = params.target.clock_mhz, params.target.technology
    bounds = params.register_bounds()
    fields = [name.rpartition(".")[2] for name in params.automatic]
    numbers = {name: bounds[name][0] for name in fields}
    core = core_of(params.with_registers(numbers))
    limit = timing(core)
    best: Limit | None = None
    name = fields[0]
    while True:
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
        choices = [f for f in core.params.registers_on(limit.roles) if f in numbers]
        name = choices[0] if choices else name
        raised = [
            {**numbers, field: numbers[field] + 1}
            for field in choices
            if numbers[field] < bounds[field][1]
        ]
        trials = [(each, core_of(trial)) for each in raised if (trial := _legal(params, each))]
        if not trials:
            break
        # Where the roles of the path leave several fields, the fastest core tells.
        limits = [timing(trial) for _, trial in trials]
        fastest = min(range(len(trials)), key=lambda i: _period_ns(limits[i]))
        if len(choices) > 1 and _period_ns(limits[fastest]) >= limit.period_ns:
            break
        (numbers, core), limit = trials[fastest], limits[fastest]
    text = (
        f"pipeline.{name}: auto cannot reach target.clock_mhz {clock:g} in {technology}; any number"
        f" of registers allows at most {best.text}: lower the clock, or choose a smaller core"
    )
    return core, [text]


def _legal(params: FamilyConfig, numbers: Mapping[str, int]) -> FamilyConfig | None:
    """Return the parameters with numbers of registers, None if these break a rule."""
    with suppress(ValidationError):
        return params.with_registers(numbers)
    return None


def _period_ns(limit: Limit | None) -> float:
    return limit.period_ns if limit else math.inf
