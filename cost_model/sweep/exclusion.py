# SPDX-License-Identifier: Apache-2.0
"""Points of a sweep that need no netlist, because a smaller design already misses a limit.

A spec such as ``area_mm2 <= 1`` is a limit on what hardware takes.  A configuration is *larger*
than another one of its family and technology if they differ in sizes of the array only, each at
least as large, and if its products per cycle grow by the product of these sizes.  Then it takes at
least as much hardware.  If the smaller one exceeds a limit by `MARGIN`, the larger one is not
evaluated.

Which points are evaluated follows from the points alone, not from the number of processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.configurations.configurations import configuration
from cost_model.configurations.metrics import LUTS_USED, RESOURCES
from cost_model.sweep.netlists import Evaluation, Excluded, Netlists, Question, by_hardware
from cost_model.sweep.outcome import Executor, Progress
from cost_model.sweep.plan import Plan
from hwgen.core.registry import core_of
from hwgen.technologies.utilization import FITS, SHARES

MARGIN = 1.5
"""Factor by which a smaller design must exceed a limit: arrays are not exactly proportional."""

LIMITED = frozenset({"area_mm2", LUTS_USED, *RESOURCES, *SHARES})
"""Metrics that do not fall when an array grows."""

_SIZES = "array."

_COMPARED = 2000
"""Most points of a structure that are compared with each other: a matrix of them is made."""


@dataclass(frozen=True)
class Limit:
    """A limit that a spec of a sweep sets.

    Parameters
    ----------
    spec : int
        Index of the spec.
    metrics : tuple of str
        None of them may exceed the limit.
    value : float
    """

    spec: int
    metrics: tuple[str, ...]
    value: float

    def share(self, evaluation: Evaluation) -> float:
        """Return the largest of the metrics over the limit; 0 if none is known."""
        amounts = (evaluation.metrics.get(name) for name in self.metrics)
        known = [float(amount) for amount in amounts if amount is not None]
        return max(known, default=0.0) / self.value


def limits_of(plan: Plan) -> tuple[Limit, ...]:
    """Return the limits among the specs of a sweep."""
    result = []
    for index, spec in enumerate(plan.specs):
        bound = spec.upper_bound
        if bound is not None and bound[0] in LIMITED and bound[1] > 0:
            result.append(Limit(index, (bound[0],), bound[1]))
        elif spec.text.strip() == FITS:
            result.append(Limit(index, tuple(SHARES), 1.0))
    return tuple(result)


@dataclass
class _Structure:
    """Points that differ in sizes of the array only.

    Parameters
    ----------
    asked : list of Question
    sizes : list of tuple of float
        Their sizes, and last their products per cycle.
    """

    asked: list[Question] = field(default_factory=list)
    sizes: list[tuple[float, ...]] = field(default_factory=list)

    def smaller(self) -> NDArray[np.bool_]:
        """Return a matrix: whether the point of a column is smaller than that of a row."""
        table = np.array(self.sizes, float)
        result = np.zeros((len(table), len(table)), np.bool_)
        for row, point in enumerate(table):
            factors = point[None, :] / table
            grows = (factors[:, :-1] >= 1).all(axis=1) & (factors[:, -1] > 1)
            result[row] = grows & np.isclose(factors[:, :-1].prod(axis=1), factors[:, -1])
        return result


def _structures(asked: Iterable[Question]) -> list[_Structure]:
    """Return the points by what they have in common."""
    structures: dict[Any, _Structure] = {}
    for each in asked:
        values = json.loads(each.values)
        sizes = {name: value for name, value in values.items() if _is_size(name, value)}
        products = _products(each)
        rest = {name: value for name, value in values.items() if name not in sizes}
        unrelated = each if products <= 0 else None
        key = (each.family, json.dumps(rest, sort_keys=True), tuple(sizes), unrelated)
        structure = structures.setdefault(key, _Structure())
        structure.asked.append(each)
        structure.sizes.append((*map(float, sizes.values()), products or 1.0))
    return [
        _Structure(each.asked[start : start + _COMPARED], each.sizes[start : start + _COMPARED])
        for each in structures.values()
        for start in range(0, len(each.asked), _COMPARED)
    ]


@lru_cache(maxsize=1 << 14)
def _products(asked: Question) -> float:
    """Return the products per cycle of a configuration, 0 if it is not legal."""
    config = configuration(asked.family, json.loads(asked.values))
    return 0.0 if config is None else float(core_of(config).macs_per_cycle or 0)


def _is_size(name: str, value: Any) -> bool:
    return name.startswith(_SIZES) and type(value) in (int, float) and value > 0


class _Search:
    """Order in which the points of one structure are evaluated or excluded."""

    def __init__(self, structure: _Structure, limits: Sequence[Limit]) -> None:
        self.asked, self.limits = structure.asked, limits
        self.smaller = structure.smaller()
        self.products = np.array([row[-1] for row in structure.sizes])
        self.open = np.ones(len(self.asked), np.bool_)
        self.worst = np.zeros((len(limits), len(self.asked)))
        """Largest share of each limit among smaller points."""
        self.expected = np.full(len(self.asked), np.inf)
        """Smallest share of a limit that a smaller point lets expect."""

    def next(self) -> tuple[list[Question], list[Question]]:
        """Return the points that may be evaluated: those that may not meet all limits, the others.

        Of the former only the smallest, as they decide on larger ones.
        """
        certain = self.open & (self.expected <= 1)
        waits = (self.smaller & self.open[None, :]).any(axis=1)
        return self._asked(self.open & ~certain & ~waits), self._asked(certain)

    @property
    def steps(self) -> int:
        """Most points that are still to be evaluated one after the other."""
        uncertain = self.open & (self.expected > 1)
        return len(np.unique(self.products[uncertain]))

    def _asked(self, rows: NDArray[np.bool_]) -> list[Question]:
        order = sorted(np.flatnonzero(rows).tolist(), key=lambda row: -self.products[row])
        return [self.asked[row] for row in order]

    def update(self, answers: Mapping[Question, Any]) -> dict[Question, Excluded]:
        """Take the answers so far; return the points that they exclude."""
        for row in np.flatnonzero(self.open).tolist():
            answer = answers.get(self.asked[row])
            if answer is None:
                continue
            self.open[row] = False
            if not isinstance(answer, Evaluation):
                continue
            shares = np.array([limit.share(answer) for limit in self.limits])
            larger = self.smaller[:, row]
            self.worst[:, larger] = np.maximum(self.worst[:, larger], shares[:, None])
            scale = self.products[larger] / self.products[row]
            self.expected[larger] = np.minimum(self.expected[larger], shares.max() * scale)
        excluded = {}
        for row in np.flatnonzero(self.open & (self.worst > MARGIN).any(axis=0)).tolist():
            self.open[row] = False
            limit = self.limits[int(np.argmax(self.worst[:, row] > MARGIN))]
            excluded[self.asked[row]] = Excluded(limit.spec)
        return excluded


def ask_within(
    plan: Plan,
    netlists: Netlists,
    asked: Sequence[Question],
    executor: Executor,
    progress: Progress = lambda done, total: None,
) -> None:
    """Have points evaluated, except those that are excluded by a smaller one.

    Parameters
    ----------
    plan : Plan
    netlists : Netlists
        Takes the answers.
    asked : sequence of Question
    executor : Executor
    progress : callable, optional
        Takes the netlists done, and those that are not excluded so far.
    """
    limits = limits_of(plan)
    missing = [each for each in dict.fromkeys(asked) if each not in netlists.answers]
    if not limits:
        netlists.ask(missing, plan.workloads, executor, progress)
        return
    evaluated = [
        each for each, answer in netlists.answers.items() if isinstance(answer, Evaluation)
    ]
    searches = [_Search(each, limits) for each in _structures([*evaluated, *missing])]
    left, done = dict.fromkeys(missing), 0
    while True:
        for search in searches:
            for each, excluded in search.update(netlists.answers).items():
                netlists.answers[each] = excluded
                left.pop(each, None)
        parts = [search.next() for search in searches]
        first = [each for part, _ in parts for each in part]
        certain = [each for _, part in parts for each in part]
        # Certain points keep processes busy while others decide, step by step.
        steps = max((search.steps for search in searches), default=0)
        certain = certain[: -(-len(certain) // max(1, steps))]
        chosen = {each.hardware: None for each in [*first, *certain]}
        if not chosen:
            return
        # In all technologies at once, which share the netlist.
        waiting = by_hardware(left)
        batch = [each for hardware in chosen for each in waiting[hardware]]
        total = done + len(waiting)
        netlists.ask(
            batch,
            plan.workloads,
            executor,
            lambda count, _, done=done, total=total: progress(done + count, total),  # type: ignore[misc]
        )
        done += len(chosen)
        for each in batch:
            del left[each]
