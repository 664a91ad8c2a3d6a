# SPDX-License-Identifier: Apache-2.0
"""Scenarios of a search: contexts and memories that one engine is to serve."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hwgen.core.params.off_chip import OffChip
from hwgen.errors import InputError, did_you_mean

KEYS = ("context", "memory", "gb-s", "efficiency", "weight")
"""Settings of a scenario."""

_EXAMPLE = '"chat: context=256, memory=lpddr4x, weight=0.7"'
_NAME = re.compile(r"[\w][\w .+-]{0,39}")


@dataclass(frozen=True)
class Scenario:
    """A way an engine is used.

    Parameters
    ----------
    name : str
    context : int
        Positions of a decode step, the token included.
    memory : OffChip
    weight : float
        Share of all tokens, of the sum of all weights.
    """

    name: str
    context: int
    memory: OffChip
    weight: float = 1.0

    def __str__(self) -> str:
        limit = self.memory.peak_gb_s
        memory = f", {limit * self.memory.share:.4g} GB/s" if limit else ""
        return f"{self.name}: {self.context} positions{memory}"


Memory = Callable[[str | None, str | None, str | None], OffChip]
"""Makes a memory of ``--memory``, ``--gb-s`` and ``--efficiency``."""


def parse_scenarios(
    texts: Sequence[str], context: int, memory: Memory, options: Sequence[str | None]
) -> tuple[Scenario, ...]:
    """Return the scenarios that options state; without one, that of the other options.

    Parameters
    ----------
    texts : sequence of str
        Of ``--scenario``: ``NAME: KEY=VALUE, ...``.
    context : int
        Of scenarios that state none.
    memory : callable
        See `Memory`.
    options : sequence of str or None
        Memory, bandwidth and efficiency of scenarios that state no memory.

    Raises
    ------
    InputError
        With a line for each that is none.
    """
    if not texts:
        return (Scenario("all", context, memory(*options)),)
    result, problems = list[Scenario](), list[str]()
    for text in texts:
        try:
            result.append(_parse(text, context, memory, options))
        except InputError as error:
            problems.append(f"--scenario {text[:80]!r}: {error}")
    names = [each.name for each in result]
    problems += [f"--scenario: there are two called {n!r}" for n in names if names.count(n) > 1][:1]
    if problems:
        raise InputError("\n".join(problems))
    return tuple(result)


def _parse(text: str, context: int, memory: Memory, options: Sequence[str | None]) -> Scenario:
    name, colon, rest = text.partition(":")
    if not colon or not _NAME.fullmatch(name := name.strip()):
        raise InputError(f"must be NAME: KEY=VALUE, ..., such as {_EXAMPLE}")
    values: dict[str, str] = {}
    for part in rest.split(","):
        key, equals, value = (each.strip() for each in part.partition("="))
        if key not in KEYS:
            raise InputError(
                f"{key[:40]!r} is no setting; there are {', '.join(KEYS)}{did_you_mean(key, KEYS)}"
            )
        if not equals or not value or key in values:
            raise InputError(f"{key} must be stated once, as {key}=VALUE")
        values[key] = value
    own = any(key in values for key in ("memory", "gb-s", "efficiency"))
    stated = [values.get(key) for key in ("memory", "gb-s", "efficiency")] if own else options
    positions = _number(values, "context", context)
    if positions != int(positions) or not 1 <= positions <= 1 << 24:
        raise InputError(f"context must be a whole number of positions, not {values['context']}")
    return Scenario(name, int(positions), memory(*stated), _number(values, "weight", 1.0))


def _number(values: dict[str, str], key: str, default: float) -> float:
    try:
        number = float(values.get(key, default))
    except ValueError:
        number = -1.0
    if not 0 < number < 1e9:
        raise InputError(f"{key} must be a number above 0, not {values[key][:40]!r}")
    return number
