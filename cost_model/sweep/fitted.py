# SPDX-License-Identifier: Apache-2.0
"""Costs of any point of a sweep, fitted to netlists of some of its points.

For each family and technology points are drawn and evaluated by netlist.  Each batch is predicted
before the fits take it in: that is the error of points that were left out.  Batches are added until
it is small enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cost_model.configurations.configurations import Configurations
from cost_model.configurations.metrics import metrics_of
from cost_model.estimate import technology as technologies
from cost_model.estimate.activity import ASSUMED
from cost_model.memories.many import Shape, amounts
from cost_model.sweep.exclusion import ask_within
from cost_model.sweep.fit import Fit, Floats, Points, Variables, fit
from cost_model.sweep.netlists import Evaluation, Netlists, Part, Question, role_of
from cost_model.sweep.outcome import Executor, Progress
from cost_model.sweep.plan import Plan
from cost_model.sweep.plan import metrics_of as metrics_of_points
from cost_model.sweep.samples import Pool
from cost_model.sweep.space import TECHNOLOGY
from hwgen.core.memories import Ram
from hwgen.technologies import technologies as installed
from hwgen.workloads import Network

GOALS: Mapping[str, float] = {"area": 0.03, "fmax": 0.08, "power": 0.05, "luts": 0.05}
"""Relative errors that nine of ten left-out points shall stay within."""

FEW_NETLISTS = 200
"""Netlists up to which all points are evaluated by theirs; technologies share them."""

BATCH, MOST_SAMPLES = 24, 120
_LEAST_MARGIN = 0.005
_SPECS_OPTIMISM = 3.0

_BELOW = "memories.registers_below"

_MEMORY_QUANTITIES = {"area_um2": 1, "leakage_nw": 2, "energy_fj": 3}


@dataclass(frozen=True)
class Memories:
    """Memories whose shape is known for every point.

    Parameters
    ----------
    shape : Shape
    words, bits, count : Fit
    """

    shape: Shape
    words: Fit
    bits: Fit
    count: Fit


@dataclass(frozen=True)
class Role:
    """The modules of one kind: how many there are, and what each costs.

    Parameters
    ----------
    name : str
    count : Fit
    costs : tuple of Fit
        One with a figure for each of `Model.quantities`, or one for each.
    """

    name: str
    count: Fit
    costs: tuple[Fit, ...]


@dataclass(frozen=True)
class Model:
    """Costs of the configurations of one family in one technology.

    Parameters
    ----------
    names : tuple of str
        The parameters that it depends on.
    quantities : tuple of str
    roles : tuple of Role
    memories : tuple of Memories
    period : Fit or None
        In ns.
    factors : mapping
        Workload: its energy over that of power and time, if it is not one.
    errors : mapping
        By `GOALS`, the relative error that nine of ten left-out points stay within.
    samples : int
        Netlists that it is fitted to.
    """

    names: tuple[str, ...] = ()
    quantities: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()
    memories: tuple[Memories, ...] = ()
    period: Fit | None = None
    factors: Mapping[str, Fit] = field(default_factory=dict)
    errors: Mapping[str, float] = field(default_factory=dict)
    samples: int = 0

    def costs(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return the costs of points as `cost_model.configurations.metrics.metrics_of` takes them.

        Parameters
        ----------
        columns : mapping
            Parameter: a value, or an array.
        """
        points = Points(columns)
        sums: list[Any] = [0.0 for _ in self.quantities]
        for role in self.roles:
            (count,) = points.evaluate(role.count)
            costs_of_one = [cost for each in role.costs for cost in points.evaluate(each)]
            for index, cost in enumerate(costs_of_one):
                sums[index] = sums[index] + count * cost
        costs = dict(zip(self.quantities, sums, strict=True))
        for memories in self.memories:
            words, bits, count = (
                np.maximum(1.0, np.rint(points.evaluate(each)[0]))
                for each in (memories.words, memories.bits, memories.count)
            )
            amount = amounts(memories.shape, words, bits)
            for quantity, row in _MEMORY_QUANTITIES.items():
                if quantity in costs:
                    costs[quantity] = costs[quantity] + count * amount[row]
        if self.period is not None:
            costs["fmax_mhz"] = 1000 / points.evaluate(self.period)[0]
        for workload, factor in self.factors.items():
            (costs[f"energy_factor({workload})"],) = points.evaluate(factor)
        return costs


@dataclass(frozen=True)
class Fitted:
    """`cost_model.sweep.plan.Evaluate` by fits.

    Parameters
    ----------
    models : mapping
        Family and technology: the model.
    optimism : float
        Share of its error by which every cost is better than it is fitted.
    """

    models: Mapping[tuple[str, str], Model] = field(default_factory=dict)
    optimism: float = 0.0

    def __call__(
        self,
        family: str,
        fixed: Mapping[str, Any],
        varying: Mapping[str, NDArray[Any]],
        technology: str,
        workloads: Mapping[str, Network],
    ) -> Mapping[str, NDArray[Any]]:
        """Return the metrics of configurations."""
        if technology in installed():
            fixed = {**fixed, TECHNOLOGY: technology}
        model = self.models.get((family, technology), Model())
        some = Configurations(family, fixed, varying)
        columns = {name: some[name] for name in model.names}
        costs = model.costs(columns)
        if self.optimism:
            for name, amount in costs.items():
                better = self.optimism * _error_of(model, name)
                costs[name] = amount * (1 / (1 - better) if name == "fmax_mhz" else 1 - better)
        return metrics_of(some, workloads, costs)

    @property
    def margins(self) -> dict[str, float]:
        """The largest left-out error of each metric."""
        result: dict[str, float] = {}
        for model in self.models.values():
            for name, error in model.errors.items():
                result[name] = max(result.get(name, 0.0), error)
        return result

    @property
    def samples(self) -> int:
        """Netlists that it is fitted to."""
        return sum(model.samples for model in self.models.values())


def _error_of(model: Model, quantity: str) -> float:
    kinds = {"area_um2": "area", "fmax_mhz": "fmax", "leakage_nw": "power", "energy_fj": "power"}
    return max(_LEAST_MARGIN, model.errors.get(kinds.get(quantity, "luts"), 0.0))


# -- fitting -------------------------------------------------------------------------------------


def fitted(
    plan: Plan,
    drawn: Sequence[Pool],
    netlists: Netlists,
    executor: Executor,
    progress: Progress = lambda done, total: None,
) -> Fitted:
    """Return fits to netlists of points of a sweep; batches are added until they are good enough.

    Parameters
    ----------
    plan : Plan
    drawn : sequence of Pool
    netlists : Netlists
        Takes the answers about samples.
    executor : Executor
    progress : callable, optional
    """
    models = {}
    calibrated = [
        pool for pool in drawn if technologies.is_calibrated(pool.technology) and pool.points
    ]
    # Small designs of all technologies at once: they share netlists.
    stars = [pool.question(point) for pool in calibrated for point in pool.stars]
    ask_within(plan, netlists, stars, executor, progress)
    for pool in calibrated:
        models[pool.family, pool.technology] = _fitted(plan, pool, netlists, executor, progress)
    return Fitted(models)


def _fitted(
    plan: Plan, pool: Pool, netlists: Netlists, executor: Executor, progress: Progress
) -> Model:
    asked: dict[Question, Mapping[str, Any]] = {}
    for point in pool.points:
        asked.setdefault(pool.question(point), point)
    stars = {pool.question(point): point for point in pool.stars}
    queue = [question for question in asked if question not in stars]
    rows: list[Mapping[str, Any]] = []
    evaluations: list[Evaluation] = []
    model, misses = Model(), []

    def add_batch(batch: Mapping[Question, Mapping[str, Any]], *, test: bool) -> None:
        nonlocal model
        ask_within(plan, netlists, list(batch), executor, progress)
        answers = [(point, netlists.answers[each]) for each, point in batch.items()]
        new = [(point, answer) for point, answer in answers if isinstance(answer, Evaluation)]
        if not new:
            return
        if test:
            misses.append(_misses(model, new))
        rows.extend(point for point, _ in new)
        evaluations.extend(evaluation for _, evaluation in new)
        model = replace(
            _model(pool, rows, evaluations, shaped=plan.activity == ASSUMED.name),
            samples=len(rows),
            errors=_errors(misses[-1:]),
        )

    add_batch(stars, test=False)
    while queue and (not rows or len(rows) < len(stars) + MOST_SAMPLES):
        chosen, queue = _next_batch(plan, pool, model, queue, asked)
        if not chosen:
            break
        add_batch({each: asked[each] for each in chosen}, test=bool(rows))
        good = all(error <= GOALS[name] for name, error in model.errors.items())
        if model.errors and good:
            break
    return model


def _next_batch(
    plan: Plan,
    pool: Pool,
    model: Model,
    queue: Sequence[Question],
    asked: Mapping[Question, Mapping[str, Any]],
) -> tuple[list[Question], list[Question]]:
    """Return the next points to evaluate, near to those that meet the specs, and the others."""
    chosen: list[Question] = []
    evaluate = Fitted({(pool.family, pool.technology): model}, _SPECS_OPTIMISM)
    for index, question in enumerate(queue):
        if not plan.specs or meets_specs(plan, evaluate, pool.family, asked[question]):
            chosen.append(question)
            if len(chosen) == BATCH:
                return chosen, list(queue[index + 1 :])
    return chosen, []


def meets_specs(plan: Plan, evaluate: Fitted, family: str, point: Mapping[str, Any]) -> bool:
    """Return whether a point meets the specs of a sweep, as a model has it."""
    valid, metrics = metrics_of_points(evaluate, family, dict(point), plan, 1)
    values = {**point, **metrics}
    for spec in plan.specs:
        met = np.asarray(spec(values))
        if not met.all() and not any(
            np.isnan(np.asarray(values[name], float)).any()
            for name in spec.names if name in metrics
        ):  # fmt: skip
            return False
    return bool(valid.all())


def _model(
    pool: Pool,
    rows: Sequence[Mapping[str, Any]],
    evaluations: Sequence[Evaluation],
    *,
    shaped: bool = True,
) -> Model:
    """Return a model that is fitted to samples.

    What memories of a shape take is known for the activity that is assumed; of others (`shaped` is
    false) it is fitted, as that of all modules.
    """
    columns = {name: [row[name] for row in rows] for name in pool.names}
    quantities = tuple(evaluations[0].sums)
    memories = _memories(pool, rows, columns, evaluations) if shaped else ()
    own = {role_of(Ram(2, 2, m.shape.ram.reads, m.shape.ram.asynchronous,
                          m.shape.ram.halves).module) for m in memories}  # fmt: skip
    roles = [
        _role(name, columns, evaluations, quantities)
        for name in dict.fromkeys(name for each in evaluations for name in each.parts)
        if name not in own
    ] if quantities else []  # fmt: skip
    fmax = [each.metrics.get("fmax_mhz") for each in evaluations]
    period = None
    if all(fmax):
        periods = np.array([[1000 / f] for f in fmax if f])
        period = replace(_fit(columns, periods), high=(float(2 * periods.max()),))
    factors = {}
    for name in evaluations[0].metrics if "energy_fj" in quantities else ():
        if name.startswith("energy_mj("):
            workload = name[len("energy_mj(") : -1]
            values = [_factor(each, workload) for each in evaluations]
            if None not in values and np.ptp(np.array(values, float)) > 1e-6:
                factors[workload] = _fit(columns, np.array(values, float)[:, None])
    return Model(pool.names, quantities, tuple(roles), memories, period, factors)


def _role(
    name: str,
    columns: Mapping[str, Sequence[Any]],
    evaluations: Sequence[Evaluation],
    quantities: Sequence[str],
) -> Role:
    """Return the fits of the modules of one kind."""
    none = Part(0, (0.0,) * len(quantities))
    parts = [each.parts.get(name, none) for each in evaluations]
    counts = np.array([part.count for part in parts], float)
    costs = np.array([part.costs for part in parts]).reshape(len(parts), -1)
    there = counts > 0
    each = costs[there] / counts[there, None]
    count = _fit(columns, counts[:, None])
    some = {
        key: [value for value, used in zip(column, there, strict=True) if used]
        for key, column in columns.items()
    }
    # Area, leakage and energy have the same terms, resources of FPGAs have not.
    groups = [each] if "area_um2" in quantities else list(each.T[:, :, None])
    return Role(name, count, tuple(_fit(some, group) for group in groups))


def _fit(columns: Mapping[str, Sequence[Any]], values: Floats, scale: Floats | None = None) -> Fit:
    """Return a fit in the parameters that figures depend on."""
    kept = {name: column for name, column in columns.items() if _matters(name, columns, values)}
    result = fit(kept, values, scale)
    if not kept or Variables.of(kept).numbers:
        return result
    # Of levels alone figures are known where there is a sample of these very levels.
    found = Points({n: np.array(c) for n, c in kept.items()}).evaluate(result)
    rest = values - np.stack([np.broadcast_to(f, len(values)) for f in found], axis=1)
    known = {tuple(zip(kept, row, strict=True)): each
             for row, each in zip(zip(*kept.values(), strict=True), rest, strict=True)}  # fmt: skip
    return replace(
        result,
        terms=(*result.terms, *(((), levels) for levels in known)),
        weights=(*result.weights, *(tuple(map(float, each)) for each in known.values())),
    )


def _matters(name: str, columns: Mapping[str, Sequence[Any]], values: Floats) -> bool:
    """Return whether figures may depend on a parameter.

    They do not if they are the same in all samples that differ in this parameter alone.
    """
    others = [column for key, column in columns.items() if key != name]
    groups: dict[Any, list[int]] = {}
    for index, key in enumerate(zip(*others, strict=True) if others else [()] * len(values)):
        groups.setdefault(key, []).append(index)
    seen = False
    for indices in groups.values():
        if len({columns[name][index] for index in indices}) > 1:
            seen = True
            some = values[indices]
            if (np.ptp(some, axis=0) > 1e-9 * np.abs(some).max(axis=0)).any():
                return True
    return not seen


def _factor(each: Evaluation, workload: str) -> float | None:
    """Return the energy of a workload over that of power and time; None if not known."""
    energy, power = each.metrics.get(f"energy_mj({workload})"), each.metrics.get("power_w")
    latency = each.metrics.get(f"latency_ms({workload})")
    return energy / (power * latency) if energy and power and latency else None


def _memories(
    pool: Pool,
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Sequence[Any]],
    evaluations: Sequence[Evaluation],
) -> tuple[Memories, ...]:
    """Return the memories that every sample has, if their shape is a formula of parameters."""
    below = {row.get(_BELOW) for row in rows}
    if len(below) > 1 or not any(each.sums.get("area_um2") for each in evaluations):
        return ()
    result = []
    roles = {_memory_role(memory) for memory in evaluations[0].memories}
    for role in sorted(roles, key=repr):
        own = [[m for m in each.memories if _memory_role(m) == role] for each in evaluations]
        if any(len(some) != 1 for some in own):
            continue
        sizes = [(some[0].ram.words, some[0].ram.bits, some[0].count) for some in own]
        fits = [
            _fit(columns, np.array(values, float)[:, None]) for values in zip(*sizes, strict=True)
        ]
        if max(each.error for each in fits) > 1e-3:
            continue
        first = own[0][0]
        stable = any(some[0].stable for some in own)
        limit = int(next(iter(below)) or 0)
        shape = Shape(
            pool.technology, replace(first.ram, words=2, bits=1), first.holds, stable, limit
        )
        result.append(Memories(shape, *fits))
    return tuple(result)


def _memory_role(memory: Any) -> tuple[str, int, bool, bool]:
    return memory.holds, memory.ram.reads, memory.ram.asynchronous, memory.ram.halves


def _misses(
    model: Model, new: Sequence[tuple[Mapping[str, Any], Evaluation]]
) -> dict[str, list[float]]:
    """Return the relative errors of a model for points that it has not seen."""
    columns = {name: np.array([point[name] for point, _ in new]) for name in model.names}
    costs = model.costs(columns)
    clock = np.array([float(point.get("target.clock_mhz", 0)) for point, _ in new])
    pairs: dict[str, tuple[Any, list[Any]]] = {}
    if "area_um2" in costs:
        pairs["area"] = costs["area_um2"] * 1e-6, [e.metrics["area_mm2"] for _, e in new]
    if "luts" in costs:
        pairs["luts"] = costs["luts"], [e.metrics["luts"] for _, e in new]
    if "fmax_mhz" in costs:
        pairs["fmax"] = costs["fmax_mhz"], [e.metrics["fmax_mhz"] for _, e in new]
    if "energy_fj" in costs:
        at = np.minimum(clock, costs.get("fmax_mhz", clock))
        power = (costs["leakage_nw"] + costs["energy_fj"] * at) * 1e-9
        pairs["power"] = power, [e.metrics["power_w"] for _, e in new]
    result = {}
    for name, (predicted, actual) in pairs.items():
        array = np.broadcast_to(predicted, (len(new),))
        errors = [abs(a / b - 1) for a, b in zip(array.tolist(), actual, strict=True) if b]
        if errors:
            result[name] = errors
    return result


def _errors(misses: Sequence[Mapping[str, list[float]]]) -> dict[str, float]:
    """Return the error of each metric that nine of ten points stay within."""
    names = dict.fromkeys(name for each in misses for name in each)
    return {
        name: float(np.quantile([e for each in misses for e in each.get(name, ())], 0.9))
        for name in names
    }
