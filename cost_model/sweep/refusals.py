# SPDX-License-Identifier: Apache-2.0
"""Rules of families that refuse points of a sweep, by examples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np

from cost_model.configurations.configurations import chosen_values, configuration
from cost_model.sweep.plan import Plan
from cost_model.sweep.space import Subspace, Values
from hwgen.config.dotted import nested
from hwgen.core.load import parse_draft
from hwgen.errors import ConfigError, HwgenError

_MOST_TRIED = 400
"""Points of each family that are tried."""


@dataclass(frozen=True)
class Refusal:
    """A rule that refuses a point.

    Parameters
    ----------
    family : str
    problem : str
        The field, and what must hold.
    parameters : dict
        Of the point: those that vary in the sweep.
    """

    family: str
    problem: str
    parameters: dict[str, Any]

    def __str__(self) -> str:
        point = ", ".join(
            f"{name.removeprefix('array.')} {value}"
            for name, value in self.parameters.items()
            if not name.startswith("target.")
        )
        return f"{self.family}{f' with {point}' if point else ''}: {self.problem}"


def refusals(plan: Plan, most: int = 2) -> list[Refusal]:
    """Return examples of refused points, each by another rule, family after family.

    Points at the ends of numeric axes are tried.

    Parameters
    ----------
    plan : Plan
    most : int
        Most examples of a family.
    """
    result: list[Refusal] = []
    for subspace in plan.space.subspaces:
        rules: dict[str, Refusal] = {}
        for values in islice(_corners(subspace), _MOST_TRIED):
            problem = _problem(subspace.family, values)
            if problem:
                varying = {axis.name: values[axis.name] for axis in subspace.axes}
                rule = re.sub(r"\d+", "#", problem)
                rules.setdefault(rule, Refusal(subspace.family, problem, varying))
            if len(rules) == most:
                break
        result += rules.values()
    return result


def _corners(subspace: Subspace) -> Iterator[Values]:
    """Yield points that meet the constraints, numbers at an end of their axis."""
    numeric = subspace.axes[subspace.categories :]
    choices = [range(axis.count) for axis in subspace.axes[: subspace.categories]]
    ends = [sorted({0, axis.count - 1}) for axis in numeric]
    for digits in product(*choices):
        for positions in product(*ends):
            values = subspace.settled(digits)
            values |= {
                axis.name: axis.value(at) for axis, at in zip(numeric, positions, strict=True)
            }
            if subspace.check(values, ())[0].all():
                yield {
                    name: value.item() if isinstance(value, np.generic) else value
                    for name, value in values.items()
                }


def _problem(family: str, values: Values) -> str:
    """Return the first problem of a configuration, empty if it is legal."""
    if configuration(family, values) is not None:
        return ""
    text = json.dumps(
        {"name": "core", "family": family, **nested(chosen_values(family, values)[0])}
    )
    try:
        parse_draft(text, "", quickly=True)
    except ConfigError as error:
        first = error.problems[0]
        return ": ".join(part for part in (first.field, first.message) if part)
    except HwgenError as error:
        return str(error)
    return ""
