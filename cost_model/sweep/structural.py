# SPDX-License-Identifier: Apache-2.0
"""A cost model for sweeps that answers by the structure of the hardware, point by point."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cost_model.closed_forms.closed_forms import DEVICE, evaluate, metric_names
from cost_model.closed_forms.space import Space
from cost_model.families import CLOSED_FORMS
from cost_model.roofline.roofline import is_limited
from cost_model.sweep.plan import Evaluate, Plan
from cost_model.sweep.space import TECHNOLOGY
from cost_model.sweep.table import Points, parameters_of
from hwgen.core.params.base import FamilyConfig
from hwgen.workloads import Network

MOST_POINTS = 2000
"""Points that are evaluated by structure where there are no closed forms."""

_OF_HARDWARE = ("area_mm2", "power_w", "fmax_mhz", "tops_per_w", "tops_per_mm2", "energy_mj")
"""Metrics that closed forms are needed for, or the structure."""

_SIZES = ("area_mm2", "luts")
"""Metrics of which closed forms know one."""

Metrics = Mapping[str, float | None] | str
"""Metrics of a configuration, or why there are none."""


class Costs(Protocol):
    """Costs of configurations from their hardware, which a higher layer emits.

    Other processes must be able to import it by its name.
    """

    def metrics(
        self, config: FamilyConfig, technology: str, workloads: Mapping[str, Network]
    ) -> Metrics:
        """Return the metrics of a configuration, or why there are none."""


@dataclass(frozen=True)
class Question:
    """A configuration to evaluate.

    Parameters
    ----------
    family, technology : str
    values : str
        Its dotted parameters, as JSON.
    """

    family: str
    technology: str
    values: str


@dataclass
class Structural:
    """`Evaluate` by structure; what has been asked is remembered.

    Parameters
    ----------
    costs : Costs
    every : bool
        Whether to answer by structure for families with closed forms, too.
    closed : callable
        The closed forms.
    answers : dict
        Answers.
    """

    costs: Costs
    every: bool = False
    closed: Evaluate = evaluate
    answers: dict[Question, Metrics] = field(default_factory=dict)

    def __call__(
        self,
        family: str,
        fixed: Mapping[str, Any],
        varying: Mapping[str, NDArray[Any]],
        technology: str,
        workloads: Mapping[str, Network],
    ) -> Mapping[str, NDArray[Any]]:
        """Return metrics as `cost_model.closed_forms.closed_forms.evaluate` does."""
        closed: Mapping[str, NDArray[Any]] = {}
        if not self.every and has_closed_forms(family):
            closed = self.closed(family, fixed, varying, technology, workloads)
            if not lacking(closed).any():
                return closed
        arrays = [column.ravel() for column in np.broadcast_arrays(*varying.values())]
        count = arrays[0].size if arrays else 1
        shape = np.broadcast_shapes(*(column.shape for column in varying.values())) or (1,)
        limited = is_limited(fixed, varying)
        names = metric_names(workloads, fixed.get(DEVICE), behind_memory=limited)
        result = {name: np.full(count, np.nan) for name in names}
        valid = np.ones(count, bool)
        rows: Sequence[int] = range(count)
        if closed:
            whole = {name: np.array(np.broadcast_to(each, shape)) for name, each in closed.items()}
            result = {name: whole[name].astype(float).ravel() for name in names}
            valid = whole["valid"].astype(bool).ravel()
            rows = np.flatnonzero(np.broadcast_to(lacking(closed), shape).ravel()).tolist()
        for row in rows:
            point = {name: column[row] for name, column in zip(varying, arrays, strict=True)}
            values = {**fixed, **point}
            metrics = self.answer(question(family, values, technology), workloads)
            if metrics == "":
                valid[row] = False
            elif not isinstance(metrics, str):
                for name in names:
                    value = metrics.get(name)
                    result[name][row] = np.nan if value is None else value
        return {name: each.reshape(shape) for name, each in {**result, "valid": valid}.items()}

    def answer(self, asked: Question, workloads: Mapping[str, Network]) -> Metrics:
        """Return the metrics of a configuration, why there are none, or "" if it is not legal."""
        if asked not in self.answers:
            self.answers[asked] = answered(asked, self.costs, workloads)
        return self.answers[asked]


def answered(asked: Question, costs: Costs, workloads: Mapping[str, Network]) -> Metrics:
    """Answer a question as `Structural.answer` does, without caching."""
    config = Space(asked.family, json.loads(asked.values)).configuration({})
    return "" if config is None else costs.metrics(config, asked.technology, workloads)


def question(family: str, values: Mapping[str, Any], technology: str) -> Question:
    """Return a question about dotted parameters."""
    plain = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in values.items()
    }
    whole = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in plain.items()
    }
    return Question(family, technology, json.dumps(whole, sort_keys=True))


def questions(plan: Plan, points: Points) -> Iterator[tuple[int, Question]]:
    """Yield the number of each point and what is to be asked about it."""
    for group in points.groups:
        values = parameters_of(plan, group)
        family = plan.space.subspaces[group.segment].family
        for index, where in enumerate(group.where):
            local = {
                name: value[index] if isinstance(value, np.ndarray) and value.ndim else value
                for name, value in values.items()
            }
            technology = str(local.get(TECHNOLOGY, ""))
            yield int(points.numbers[where]), question(family, local, technology)


def lacking(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
    """Return of which legal points closed forms know neither the area nor the resources."""
    unknown = [np.isnan(np.asarray(columns[name], float)) for name in _SIZES if name in columns]
    if not unknown:
        return np.zeros(np.shape(columns["valid"]), bool)
    return np.asarray(np.logical_and.reduce([columns["valid"], *unknown]), bool)


def few(plan: Plan) -> bool:
    """Return whether all points of a sweep may be evaluated by structure."""
    return plan.sample is None and plan.space.size <= MOST_POINTS


def has_closed_forms(family: str) -> bool:
    """Return whether a family's cost module says area and delay by closed forms."""
    return family in CLOSED_FORMS


def asks_about_hardware(plan: Plan) -> bool:
    """Return whether a sweep asks for what closed forms are needed for, or the structure."""
    expressions = [
        *plan.specs,
        *(objective.expression for objective in plan.objectives),
        *(top.objective.expression for top in plan.tops),
    ]
    names = {name.partition("(")[0] for each in expressions for name in each.names}
    return not names.isdisjoint(_OF_HARDWARE)


def without_closed_forms(plan: Plan) -> list[str]:
    """Return the families of a sweep whose hardware it asks about without closed forms of it."""
    if not asks_about_hardware(plan):
        return []
    families = dict.fromkeys(subspace.family for subspace in plan.space.subspaces)
    return [family for family in families if not has_closed_forms(family)]
