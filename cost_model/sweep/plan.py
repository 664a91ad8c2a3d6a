# SPDX-License-Identifier: Apache-2.0
"""Plan of a sweep that was read: plain data that any process can work on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from cost_model.configurations.metrics import DEVICE, VALID
from cost_model.estimate.activity import ASSUMED
from cost_model.sweep.expressions import Expression
from cost_model.sweep.space import TECHNOLOGY, Space, Subspace, Values, split
from hwgen.technologies.utilization import FITS
from hwgen.workloads import Network

Metrics = dict[str, NDArray[Any]]

REFINE = 100
"""Most candidates of a sweep that are evaluated by netlist, unless its file says otherwise."""

_EXACT = ("cycles(", "ops_per_byte(", "family")
"""What metrics begin with that do not depend on hardware."""


class Evaluate(Protocol):
    """The cost model, as a sweep calls it."""

    def __call__(
        self,
        family: str,
        fixed: Mapping[str, Any],
        varying: Mapping[str, NDArray[Any]],
        technology: str,
        workloads: Mapping[str, Network],
    ) -> Mapping[str, NDArray[Any]]:
        """Return the metrics of some configurations of one family.

        Parameters
        ----------
        family : str
        fixed : mapping
            Dotted parameter to plain data, for every parameter that all of them share.
        varying : mapping
            Dotted numeric parameter to values: arrays that broadcast against each other.
        technology : str
        workloads : mapping
            Name to products.

        Returns
        -------
        mapping
            Metric, with its unit in its name, to values that broadcast to the configurations', NaN
            where it is not known; and ``valid``, whether the configuration is legal.
        """
        ...  # pragma: no cover


@dataclass(frozen=True)
class Objective:
    """A figure that the sweep wants small, or large."""

    expression: Expression
    maximise: bool

    @property
    def sign(self) -> int:
        """The factor that makes the objective one to minimise."""
        return -1 if self.maximise else 1

    def __str__(self) -> str:
        return self.expression.text


@dataclass(frozen=True)
class Top:
    """The `count` best points by one figure."""

    objective: Objective
    count: int


@dataclass(frozen=True)
class Sample:
    """A search in place of the enumeration.

    Parameters
    ----------
    points : int
        Configurations to evaluate.
    population : int
        Points of a generation.
    seed : int
    """

    points: int
    population: int = 200
    seed: int = 0


@dataclass(frozen=True)
class Plan:
    """A sweep.

    Parameters
    ----------
    name : str
    space : Space
    workloads : mapping
        Name to products.
    specs : tuple of Expression
        Conditions on metrics and parameters.
    objectives : tuple of Objective
        At least one.
    tops : tuple of Top
    keep : str
        ``pareto`` or ``all``: which points are written.
    configs : int
        Most configuration files to write.
    sample : Sample or None
    version : str
        Of the tool, for what is written.
    refine : int
        Most candidates to evaluate by netlist.
    group_by : tuple of str
        Parameters, or ``family``: each combination of their values has a Pareto set.
    activity : str
        By which power is: ``assumed``, ``typical``, ``worst``, or a file of operands.
    """

    name: str
    space: Space
    workloads: Mapping[str, Network]
    specs: tuple[Expression, ...]
    objectives: tuple[Objective, ...]
    tops: tuple[Top, ...]
    keep: Literal["pareto", "all"]
    configs: int
    sample: Sample | None
    version: str
    refine: int = REFINE
    group_by: tuple[str, ...] = ()
    activity: str = ASSUMED.name

    @property
    def dimensions(self) -> int:
        """Number of figures by which points are compared: two for each name of `group_by`."""
        return len(self.objectives) + 2 * len(self.group_by)

    def group_of(self, name: str, family: str, values: Values) -> NDArray[np.float64] | float:
        """Return the numbers, 1 and more, of the groups that points are in by a name.

        Parameters
        ----------
        name : str
            Of `group_by`.
        family : str
        values : dict
            Parameters of the points.
        """
        value = family if name == "family" else values.get(name)
        if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
            return value + 2.0  # 1 is of points without the parameter
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value) + 2.0
        return float(self._groups[name].index(str(value)) + 1)

    def group_value(self, name: str, number: float) -> Any:
        """Return the value that a number of `group_of` is of, None of points without one."""
        texts = self._groups[name]
        numeric = any(axis.name == name for s in self.space.subspaces
                      for axis in s.axes[s.categories :])  # fmt: skip
        numeric |= any(_is_number(s.fixed.get(name)) for s in self.space.subspaces)
        numeric |= any(item.name == name for s in self.space.subspaces for item in s.derived)
        if numeric and name != "family":
            value = number - 2
            return None if number == 1 else int(value) if value.is_integer() else value
        text = texts[int(number) - 1]
        return None if text == "None" else text

    @cached_property
    def _groups(self) -> dict[str, list[str]]:
        """By name of `group_by`, its values that are no numbers, in order."""
        return {name: self._texts_of(name) for name in self.group_by}

    def _texts_of(self, name: str) -> list[str]:
        if name == "family":
            return [subspace.family for subspace in self.space.subspaces]
        texts = {"None", *(technologies_of(self) if name == TECHNOLOGY else ())}
        for subspace in self.space.subspaces:
            texts.add(str(subspace.fixed.get(name)))
            for axis in subspace.axes[: subspace.categories]:
                if axis.name == name:
                    texts |= {str(axis.value(digit)) for digit in range(axis.count)}
        return sorted(texts, key=lambda text: (text != "None", text))

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Specs, objectives and what the best are the best by."""
        return (
            *self.specs,
            *(objective.expression for objective in self.objectives),
            *(top.objective.expression for top in self.tops),
        )

    @property
    def asks_about_hardware(self) -> bool:
        """Whether any of them depends on more than cycles and parameters."""
        parameters = {name for subspace in self.space.subspaces for name in subspace.parameters}
        names = {name for expression in self.expressions for name in expression.names}
        return any(not name.startswith(_EXACT) for name in names - parameters)


def technologies_of(plan: Plan) -> set[str]:
    """Return the technologies of a sweep."""
    result: set[str] = set()
    for subspace in plan.space.subspaces:
        result |= {str(values.get(TECHNOLOGY, "")) for values in targets_of(subspace)}
    return result


def targets_of(subspace: Subspace) -> Iterator[Values]:
    """Yield the settled parameters of one point of each technology and device of a family."""
    categorical = subspace.axes[: subspace.categories]
    deciding = [axis.count if axis.name in (TECHNOLOGY, DEVICE) else 1 for axis in categorical]
    for digits in product(*map(range, deciding)):
        yield subspace.settled(digits)


def metrics_of(
    evaluate: Evaluate, family: str, values: Values, plan: Plan, shape: int | tuple[int, ...]
) -> tuple[NDArray[np.bool_], Metrics]:
    """Return the legality and the metrics of configurations.

    `shape` is that to which their parameters broadcast, and that of the results.
    """
    fixed, varying = split(values)
    if not varying:
        # The cost model takes its length from an array.
        name = next((n for n, v in fixed.items() if _is_number(v)), None)
        if name is not None:
            varying = {name: np.full(shape, fixed.pop(name))}
    metrics = dict(
        evaluate(family, fixed, varying, str(values.get(TECHNOLOGY, "")), plan.workloads)
    )
    valid = np.broadcast_to(np.asarray(metrics.pop(VALID, True), np.bool_), shape)
    result: Metrics = {
        name: np.broadcast_to(np.asarray(value, np.float64), shape)
        for name, value in metrics.items()
    }
    if FITS in result:
        result[FITS] = result[FITS] == 1  # a condition; what is not known meets none
    return valid, result


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
