# SPDX-License-Identifier: Apache-2.0
"""Features of each installed family, determined by trying them.

Nothing is listed by hand: a value of a parameter is a feature of a family if a configuration with
it is legal, beside defaults or, where these rule it out, beside another choice or on an FPGA.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import Any

from hwgen.config.dotted import nested
from hwgen.config.parameters import Parameter, parameters, ranges, yaml_value
from hwgen.core.core import Core
from hwgen.core.registry import families
from hwgen.technologies import technology_names

COUNTED = 4
"""A parameter with at most so many numbers to choose from is a choice, with more it is a size."""

SHARED = ("target", "memories", "protect")
"""Groups of parameters that say nothing about the hardware."""


@dataclass(frozen=True)
class Feature:
    """A parameter, and which of its values are legal in each family.

    Parameters
    ----------
    name : str
        Dotted parameter.
    legal : mapping
        Family: its legal values; no entry if the family has no such parameter.
    """

    name: str
    legal: Mapping[str, tuple[Any, ...]]


def features() -> list[Feature]:
    """Return the choices that any installed family has, in the order of their parameters."""
    table: dict[str, dict[str, tuple[Any, ...]]] = {}
    for name, family in families().items():
        helped: list[dict[str, Any]] = []
        for parameter in parameters(family.params_class).values():
            values = tuple(_values(parameter))
            if not values or parameter.path[0] in (*SHARED, "name", "family"):
                continue
            legal = tuple(value for value in values if _legal(family, parameter, value, helped))
            table.setdefault(parameter.field, {})[name] = legal
    return [Feature(name, legal) for name, legal in table.items()]


def cores_of_engines() -> dict[str, tuple[str, ...]]:
    """Return the families that each family of engines takes as its core."""
    registered = families()
    return {
        name: tuple(core for core in registered if _accepted(engine, {"compute": {"family": core}}))
        for name, engine in registered.items()
        if "compute" in engine.params_class.model_fields
    }


def _values(parameter: Parameter) -> Iterator[Any]:
    """Yield what there is to choose from; lists are tried with one entry at a time."""
    if parameter.is_group:
        return
    if parameter.types == ("array",):
        yield from ([choice] for choice in parameter.entries)
    elif parameter.choices:
        yield from parameter.choices
        if parameter.minimum is not None and parameter.maximum is not None:
            yield from range(int(parameter.minimum), int(parameter.maximum) + 1)
    elif "boolean" in parameter.types:
        yield from (False, True)
    elif parameter.minimum is not None and parameter.maximum is not None:
        numbers = range(int(parameter.minimum), int(parameter.maximum) + 1)
        if len(numbers) <= COUNTED:
            yield from numbers


def _legal(
    family: type[Core[Any]], parameter: Parameter, value: Any, helped: list[dict[str, Any]]
) -> bool:
    """Return whether a value is legal, alone or beside another; what helped is tried first."""
    targets = ({"target.technology": name} for name in technology_names("fpga"))
    helpful = [other for other in helped if parameter.field not in other]
    for other in chain([{}], helpful, _companion_values(family, parameter), targets):
        if _accepted(family, nested({parameter.field: value, **other})):
            if other and other not in helped:
                helped.append(other)
            return True
    return False


def _companion_values(family: type[Core[Any]], parameter: Parameter) -> Iterator[dict[str, Any]]:
    """Yield other values to try a value beside, the few that help most first.

    One; one for all parameters of the same choices; of two parameters, one of which has all
    choices of the other; one for all of the same choices beside one of another parameter, each
    the first or the last of those that are numbered.
    """
    others = [
        other
        for other in parameters(family.params_class).values()
        if other.path and other.field != parameter.field and other.path[0] not in SHARED
    ]
    for other in others:
        alike = [same for same in others if same.choices == other.choices and other.choices]
        for choice in _values(other):
            yield {other.field: choice}
            yield {same.field: choice for same in alike}
        if other.minimum is not None and not other.choices:
            yield {other.field: int(other.minimum)}
    yield from _joint_values(others)
    if parameter.types != ("array",):  # of the others none needs it, and there are many
        return
    for first, second in combinations([other for other in others if other.choices], 2):
        few, many = sorted((set(first.choices), set(second.choices)), key=len)
        if few <= many:
            for choices in product(first.choices, second.choices):
                yield dict(zip((first.field, second.field), choices, strict=True))


def _joint_values(others: Sequence[Parameter]) -> Iterator[dict[str, Any]]:
    """Yield a value for all parameters that have a set of choices, beside one of another one."""
    ends = {other.field: _ends_of_runs(other.choices) for other in others}
    for choices in dict.fromkeys(other.choices for other in others if other.choices):
        alike = [other.field for other in others if set(choices) <= set(other.choices)]
        if len(alike) < 2:
            continue
        beside = [other.field for other in others if other.field not in alike]
        for choice, field in product(_ends_of_runs(choices), beside):
            for value in ends[field]:
                yield {**dict.fromkeys(alike, choice), field: value}


def _ends_of_runs(choices: Sequence[Any]) -> list[Any]:
    """Return choices, of numbered ones the first and the last: int2, int16 of int2..int16."""
    names = {yaml_value(choice): choice for choice in choices}
    return [names[end] for run in ranges(choices) for end in run.split("..")]


def _accepted(family: type[Core[Any]], tree: Mapping[str, Any]) -> bool:
    try:
        family.params_class.model_validate({"name": "core", "family": family.family_name(), **tree})
    except ValueError:
        return False
    return True


def described(values: Sequence[Any]) -> str:
    """Return values in short: ``int2..int16``; ``-`` if there are none."""
    if not values:
        return "-"
    plain = [value[0] if isinstance(value, list) else value for value in values]
    if plain == [False, True]:
        return "yes"
    names = [str(value).lower() if isinstance(value, bool) else value for value in plain]
    return ", ".join(map(str, ranges(names)))
