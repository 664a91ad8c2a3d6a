# SPDX-License-Identifier: Apache-2.0
"""Costs of the points of a sweep from the netlists of their hardware, point by point."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cost_model.configurations.configurations import Configurations
from cost_model.configurations.metrics import DEVICE, VALID, metric_names
from cost_model.roofline.roofline import PREFIX, is_limited
from cost_model.sweep.outcome import Executor, Progress
from cost_model.sweep.plan import Plan
from cost_model.sweep.space import TECHNOLOGY
from cost_model.sweep.table import Points, parameters_of
from hwgen.core.memories import Ram
from hwgen.workloads import Network


@dataclass(frozen=True)
class Memory:
    """Memories of one shape in a design.

    Parameters
    ----------
    ram : Ram
    holds : str
        What is in them.
    stable : bool
        See `cost_model.netlist.memories.MemoryUse`.
    count : int
    """

    ram: Ram
    holds: str
    stable: bool
    count: int


@dataclass(frozen=True)
class Part:
    """Modules of one kind in a design.

    Parameters
    ----------
    count : int
    costs : tuple of float
        Of all of them, in the order of `Evaluation.sums`.
    """

    count: int
    costs: tuple[float, ...]


def role_of(module: str) -> str:
    """Return the kind of a module: its name without numbers."""
    return re.sub(r"\d+", "#", module)


@dataclass(frozen=True)
class Evaluation:
    """Costs of one configuration by its netlist.

    Parameters
    ----------
    metrics : mapping
        Those of `hwgen estimate`, None where unknown.
    sums : mapping
        Quantity: what all components cost.
    parts : mapping
        Kind of module (`role_of`): how many there are, and what they cost together.
    memories : tuple of Memory
    """

    metrics: Mapping[str, float | None]
    sums: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, Part] = field(default_factory=dict)
    memories: tuple[Memory, ...] = ()


Answer = Evaluation | str
"""Costs of a configuration, or why it has none."""


@dataclass(frozen=True)
class Excluded:
    """A configuration that is not evaluated: a smaller one misses a spec already.

    Parameters
    ----------
    spec : int
        Index of the spec.
    """

    spec: int


EXCLUDED = "excluded"
"""Index of the spec that a point without an evaluation misses, -1 of other points."""


class Costs(Protocol):
    """Costs of configurations from their hardware, which a higher layer emits.

    Other processes must be able to import it by its name.
    """

    def evaluate(
        self, family: str, values: Mapping[str, Any], workloads: Mapping[str, Network]
    ) -> Answer:
        """Return the costs of a configuration, given by dotted parameters, or why it has none."""


@dataclass(frozen=True)
class Question:
    """A configuration to evaluate.

    Parameters
    ----------
    family : str
    values : str
        Its dotted parameters, as JSON.
    """

    family: str
    values: str

    @classmethod
    def of(cls, family: str, values: Mapping[str, Any], technology: str) -> Question:
        """Return the question about dotted parameters."""
        plain = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in values.items()
        }
        whole = {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in plain.items()
        }
        if technology:
            whole[TECHNOLOGY] = technology
        return cls(family, json.dumps(whole, sort_keys=True))

    @cached_property
    def hardware(self) -> tuple[str, str]:
        """Family and parameters without those that no netlist depends on."""
        values = json.loads(self.values)
        shaping = {name: value for name, value in values.items() if not _is_outside(name)}
        return self.family, json.dumps(shaping, sort_keys=True)


NOT_IN_NETLISTS = ("target.activation_sigma", "target.device", TECHNOLOGY)
"""Parameters that no netlist depends on, besides those of `PREFIX`."""


def _is_outside(name: str) -> bool:
    return name in NOT_IN_NETLISTS or name.startswith(PREFIX)


def answers_of(
    asked: Sequence[Question], costs: Costs, workloads: Mapping[str, Network]
) -> list[Answer]:
    """Return the answers to questions about one netlist."""
    return [costs.evaluate(each.family, json.loads(each.values), workloads) for each in asked]


@dataclass
class Netlists:
    """`cost_model.sweep.plan.Evaluate` by netlists; answers are kept.

    Parameters
    ----------
    costs : Costs
    answers : dict
    """

    costs: Costs
    answers: dict[Question, Answer | Excluded] = field(default_factory=dict)

    def __call__(
        self,
        family: str,
        fixed: Mapping[str, Any],
        varying: Mapping[str, NDArray[Any]],
        technology: str,
        workloads: Mapping[str, Network],
    ) -> Mapping[str, NDArray[Any]]:
        """Return the metrics of configurations; what has none is not legal."""
        columns = [column.ravel() for column in np.broadcast_arrays(*varying.values())]
        shape = np.broadcast_shapes(*(np.shape(column) for column in varying.values()))
        count = columns[0].size if columns else 1
        limited = is_limited(fixed, varying)
        names = metric_names(workloads, fixed.get(DEVICE), with_memory=limited)
        result: dict[str, NDArray[Any]] = {name: np.full(count, np.nan) for name in names}
        if technology:
            fixed = {**fixed, TECHNOLOGY: technology}
        valid = Configurations(family, fixed, varying).legal().ravel()
        excluded = np.full(count, -1)
        for row in np.flatnonzero(valid).tolist():
            numbers = {name: column[row] for name, column in zip(varying, columns, strict=True)}
            answer = self.answer(Question.of(family, {**fixed, **numbers}, technology), workloads)
            if isinstance(answer, Excluded):
                excluded[row] = answer.spec
                continue
            if isinstance(answer, str):
                valid[row] = False
                continue
            for name in names:
                value = answer.metrics.get(name)
                result[name][row] = np.nan if value is None else value
        if (excluded >= 0).any():
            result[EXCLUDED] = excluded
        return {name: each.reshape(shape) for name, each in {**result, VALID: valid}.items()}

    def answer(self, asked: Question, workloads: Mapping[str, Network]) -> Answer | Excluded:
        """Return the answer to a question."""
        if asked not in self.answers:
            (self.answers[asked],) = answers_of([asked], self.costs, workloads)
        return self.answers[asked]

    def ask(
        self,
        asked: Sequence[Question],
        workloads: Mapping[str, Network],
        executor: Executor,
        progress: Progress = lambda done, total: None,
    ) -> None:
        """Have questions answered by other processes, and keep the answers.

        Questions about one netlist go to one process.  `progress` takes netlists.
        """
        missing = (each for each in dict.fromkeys(asked) if each not in self.answers)
        batches = list(by_hardware(missing).values())
        work = partial(answers_of, costs=self.costs, workloads=workloads)
        progress(0, len(batches))
        for done, (batch, answers) in enumerate(executor.run(work, batches), 1):
            self.answers.update(zip(batch, answers, strict=True))
            progress(done, len(batches))

    @property
    def excluded(self) -> int:
        """Configurations that are not evaluated."""
        return sum(isinstance(answer, Excluded) for answer in self.answers.values())


def by_hardware(asked: Iterable[Question]) -> dict[tuple[str, str], tuple[Question, ...]]:
    """Return the questions about each netlist, in the order of the first of each."""
    result: dict[tuple[str, str], tuple[Question, ...]] = {}
    for each in asked:
        result[each.hardware] = (*result.get(each.hardware, ()), each)
    return result


def hardware_count(asked: Iterable[Question]) -> int:
    """Return the number of netlists that questions are about."""
    return len({each.hardware for each in asked})


def questions(plan: Plan, points: Points) -> Iterator[tuple[int, Question]]:
    """Yield the number of each point and the question about it."""
    for group in points.groups:
        values = parameters_of(plan, group)
        family = plan.space.subspaces[group.segment].family
        for index, where in enumerate(group.where):
            local = {
                name: value[index] if isinstance(value, np.ndarray) and value.ndim else value
                for name, value in values.items()
            }
            technology = str(local.get(TECHNOLOGY, ""))
            yield int(points.numbers[where]), Question.of(family, local, technology)
