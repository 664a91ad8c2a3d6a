# SPDX-License-Identifier: Apache-2.0
"""Search for engines that execute a decoder, by goals and limits.

The space has an option for each unit; jobs and costs of each option are tabulated once, and all
combinations are ranked by sums over the tables (`flows.search.tables`). The best ones are then
evaluated as `hwgen model estimate` does, and only these figures are stated.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from flows.build.build import Build
from flows.build.design import Design
from flows.search.costs import UnitCosts, key_of
from flows.search.cycles import BaseList, TimedOption, TimingItem, combined, time_option
from flows.search.goals import METRICS, Goal, objectives, order
from flows.search.space import Option, Space, needs_of, space_of
from flows.search.tables import Scores, WidthTable
from flows.search.words import limits_of, nearest, rejected
from hwgen.core.params.target import Target
from hwgen.errors import CheckFailed, InputError
from hwgen.families.transformer.params import TransformerConfig
from hwgen.models.compile.engine_passes import engine_passes
from hwgen.models.files.store import Model
from hwgen.models.graph.passes import passes_of, speeds
from hwgen.progress import report

if TYPE_CHECKING:
    from flows.search.journal import SearchJournal

T = TypeVar("T")
R = TypeVar("R")

PROMPT = 4
"""Tokens of the prompt whose prefill complete estimates state."""

_ROUNDS, _LOOKED_AT = 4, 8
"""Rankings, and engines of each whose units' own netlists are then looked at."""

_TRIES = 3  # engines that are evaluated for each one that is wanted


class Executor(Protocol):
    """See `flows.tools.executors`."""

    def run(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Yield each item with its result."""
        ...


@dataclass(frozen=True)
class Request:
    """Model, goals and target of a search.

    Parameters
    ----------
    model : Path
        A quantised decoder.
    goals : tuple of Goal
    target : Target
    clock_mhz : float or None
        None: the clock that each engine reaches.
    context : int
        Positions of a decode step, the token included.
    count : int
        Engines of the short list.
    """

    model: Path
    goals: tuple[Goal, ...]
    target: Target
    clock_mhz: float | None
    context: int
    count: int

    @property
    def digest(self) -> str:
        """Digest of the model, and of the context, which cycles depend on."""
        described = (self.model / "model.json").read_text(encoding="utf-8")
        text = json.dumps([described, self.context])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass
class Listed:
    """Engine of the short list.

    Parameters
    ----------
    number : int
        Of the engine in the space.
    engine : dict
        Parameters, as a configuration has them.
    shown : dict
        Options, by dotted name.
    metrics : dict
        Of the complete estimate, by the names of `METRICS`; None where unknown.
    ranked : dict
        The same, by the tables.
    limits : list of str
    """

    number: int
    engine: dict[str, Any]
    shown: dict[str, Any]
    metrics: dict[str, float | None]
    ranked: dict[str, float | None]
    limits: list[str] = field(default_factory=list)

    def config(self, name: str) -> TransformerConfig:
        """Return its configuration."""
        return TransformerConfig.model_validate({**self.engine, "name": name})


@dataclass
class Result:
    """Outcome of a search.

    Parameters
    ----------
    request : Request
    space : Space
    scores : Scores
    engines : list of Listed
        The short list, the best first.
    rejections : list of dict
        ``reason`` and ``points``, by the first reason of each engine.
    unusable : list of dict
        ``option`` and ``reason``, of options that no engine can have.
    feasible : int
        Engines that meet everything, by the tables.
    evaluated : int
        Engines that have a complete estimate.
    error : float
        Largest relative difference of tables and complete estimates, of any metric that counts.
    guarantee : str
    """

    request: Request
    space: Space
    scores: Scores
    engines: list[Listed]
    rejections: list[dict[str, Any]]
    unusable: list[dict[str, Any]]
    feasible: int
    evaluated: int
    error: float
    guarantee: str


class Unmet(CheckFailed):
    """No engine meets all goals.

    Parameters
    ----------
    message : str
    document : dict
        The nearest engine, and what each goal would have to be.
    """

    def __init__(self, message: str, document: dict[str, Any]) -> None:
        super().__init__(message)
        self.document = document


class _Work:
    """Items of processes, with a journal of their results."""

    def __init__(self, executor: Executor, journal: SearchJournal) -> None:
        self.executor, self.journal = executor, journal

    def run(
        self,
        label: str,
        function: Callable[[Any], Any],
        items: Mapping[str, Any],
        restore: Callable[[Any], Any],
    ) -> dict[str, Any]:
        """Return the results of items by key."""
        left = {key: item for key, item in items.items() if key not in self.journal.entries}
        keys = {id(item): key for key, item in left.items()}
        done = len(items) - len(left)
        report(label, done, len(items))
        for item, result in self.executor.run(function, list(left.values())):
            self.journal.store(keys[id(item)], asdict(result))
            done += 1
            report(label, done, len(items))
        return {key: restore(self.journal.entries[key]) for key in items}


def _timed(entry: Any) -> TimedOption:
    return TimedOption(
        tuple(entry["cycles"]), tuple(map(tuple, entry["operations"])), tuple(entry["beats"]),
        entry["problem"],
    )  # fmt: skip


def search(request: Request, executor: Executor, journal: SearchJournal) -> Result:
    """Return the engines that meet all goals, the best first.

    Parameters
    ----------
    request : Request
    executor : Executor
    journal : SearchJournal
        Of the tables, which another search of the same model and target takes over.

    Raises
    ------
    Unmet
        If none does; its message names the nearest one.
    InputError
        If the model is none that engines execute.
    """
    model = Model(request.model)
    needs = needs_of(model, request.context)
    target = request.target.model_dump(mode="json", exclude_none=True)
    target.pop("activation_sigma", None)
    space = space_of(needs, target)
    work = _Work(executor, journal)
    unusable: list[dict[str, Any]] = []
    tables, costs = _tables(request, space, work, unusable)
    for _ in range(_ROUNDS):
        report("ranking", 0, 0)
        scores = Scores(tables, request.target, request.clock_mhz)
        _check_metrics(request.goals, scores)
        left, reasons = rejected(scores, request.goals)
        numbers = order(request.goals, scores.metrics)
        numbers = numbers[left[numbers]]
        if not left.any():
            numbers = np.array([nearest(scores, request.goals)[0]])
        best = [scores.options(int(number)) for number in numbers[:_LOOKED_AT]]
        if not costs.look_at(best):
            break
        for table in tables:
            table.costs = costs.of_width(table.width)
    if not left.any():
        raise _unmet(request, scores, reasons)
    engines, evaluated, error = _evaluated(request, space, scores, model, numbers)
    result = Result(
        request, space, scores, engines, reasons, unusable, int(left.sum()), evaluated, error, ""
    )
    if not engines:
        raise _unmet(request, scores, reasons, evaluated)
    result.guarantee = _guarantee(result, numbers)
    return result


def _check_metrics(goals: Sequence[Goal], scores: Scores) -> None:
    """Refuse goals of metrics that the technology does not have."""
    unknown = [g for g in goals if not np.isfinite(scores.metrics[g.metric]).any()]
    if unknown:
        has = [name for name in METRICS if np.isfinite(scores.metrics[name]).any()]
        lines = [
            f"{goal.option}: {goal.metric} is not known of {scores.target.technology}; there are"
            f" {', '.join(has)}"
            for goal in unknown
        ]
        raise InputError("\n".join(lines))


def _tables(
    request: Request, space: Space, work: _Work, unusable: list[dict[str, Any]]
) -> tuple[list[WidthTable], UnitCosts]:
    """Return the tables of each width of the port, and the costs in them."""
    context = request.context - 1
    engines = {
        width: json.dumps(space.engine("engine", width, [each[0] for each in options.values()]))
        for width, options in space.options.items()
    }
    items: dict[str, TimingItem] = {}
    keys: dict[tuple[int, str], list[str]] = {}
    digest = request.digest
    for width, units in space.options.items():
        base = json.dumps({"engine": json.loads(engines[width]), "context": context})
        for unit, options in units.items():
            keys[width, unit] = []
            for option in options:
                key = key_of("cycles", digest, base, unit, option.values)
                items[key] = TimingItem(request.model, base, len(items), option)
                keys[width, unit].append(key)
    timed = work.run("jobs", time_option, items, _timed)
    usable: dict[int, dict[str, tuple[list[Option], list[TimedOption]]]] = {}
    for width, units in space.options.items():
        usable[width] = {}
        for unit, options in units.items():
            pairs = []
            for option, key in zip(options, keys[width, unit], strict=True):
                if timed[key].problem:
                    about = {"option": f"{width} bits, {option}", "reason": timed[key].problem}
                    unusable.append(about)
                else:
                    pairs.append((option, timed[key]))
            pairs = _worthwhile(pairs)
            usable[width][unit] = [p[0] for p in pairs], [p[1] for p in pairs]
    widths = [width for width, units in usable.items() if all(o for o, _ in units.values())]
    if not widths:
        reasons = dict.fromkeys(entry["reason"] for entry in unusable)
        raise InputError(f"no engine executes {request.model}: {'; '.join(reasons)}")
    chosen = {width: usable[width] for width in widths}
    costs = UnitCosts(space, {
        width: {unit: each for unit, (each, _) in units.items()} for width, units in chosen.items()
    }, work.run)  # fmt: skip
    costs.sample()
    return [_table(request, space, width, units, costs) for width, units in chosen.items()], costs


def _worthwhile(
    pairs: Sequence[tuple[Option, TimedOption]],
) -> list[tuple[Option, TimedOption]]:
    """Return options but for those that are larger than another, and no faster in any job."""
    result = []
    for option, timed in pairs:
        if not any(
            other is not option and _smaller(other, option)
            and all(a <= b for a, b in zip(faster.cycles, timed.cycles, strict=True))
            for other, faster in pairs
        ):  # fmt: skip
            result.append((option, timed))
    return result


def _smaller(one: Option, other: Option) -> bool:
    """Return whether an option is of the same form as another, and smaller."""
    if one.shown.keys() != other.shown.keys() or one.shown == other.shown:
        return False
    pairs = [(one.shown[name], other.shown[name]) for name in one.shown]
    return all(a == b if isinstance(a, str) else a <= b for a, b in pairs)


def _table(
    request: Request,
    space: Space,
    width: int,
    units: Mapping[str, tuple[list[Option], list[TimedOption]]],
    costs: UnitCosts,
) -> WidthTable:
    """Return the table of a width, but for costs of units."""
    options = {unit: list(each) for unit, (each, _) in units.items()}
    timed = {unit: list(each) for unit, (_, each) in units.items()}
    first = [every[0] for every in options.values()]
    config = space.config("engine", width, first)
    base = BaseList(Model(request.model), config, request.context - 1)
    cycles, moved = combined(base, timed)
    rest, slower = costs.rest(width)
    return WidthTable(width, options, timed, costs.of_width(width), rest, slower, cycles, moved)


# -- complete estimates ----------------------------------------------------------------------------


def _evaluated(
    request: Request, space: Space, scores: Scores, model: Model, numbers: Any
) -> tuple[list[Listed], int, float]:
    """Return the short list by complete estimates, how many there were, and the largest error."""
    engines: list[Listed] = []
    errors = [0.0]
    tried = 0
    for number in map(int, numbers[: _TRIES * request.count]):
        if len(engines) == request.count:
            break
        report("complete estimates", len(engines), request.count)
        each = complete(request, space, scores, model, number)
        tried += 1
        for name in objectives(request.goals, scores.metrics):
            ours, exact = each.ranked[name], each.metrics[name]
            if ours and exact:
                errors.append(abs(ours / exact - 1))
        values = {n: math.nan if v is None else v for n, v in each.metrics.items()}
        if all(goal.met(values[goal.metric]) for goal in request.goals):
            engines.append(each)
    first, *_ = objectives(request.goals, scores.metrics)
    sign = -1 if METRICS[first][1] else 1
    engines.sort(key=lambda each: sign * (each.metrics[first] or math.inf))
    for each in engines:
        each.limits = limits_of(scores, each.number, request.goals)
    return engines, tried, max(errors)


def complete(request: Request, space: Space, scores: Scores, model: Model, number: int) -> Listed:
    """Return an engine of the space with its complete estimate."""
    width, options = scores.options(number)
    ranked = {name: _or_none(value) for name, value in scores.at(number).items()}
    engine = space.engine("engine", width, options)
    clock = request.clock_mhz
    config = TransformerConfig.model_validate(engine)
    design = Design.of(config)
    context = request.context - 1
    workloads = passes_of(model.description, min(PROMPT, request.context), context)
    timings = engine_passes(model, [config], workloads, PROMPT)
    entry = Build(design, config.target).estimate()
    fmax = entry["metrics"]["fmax_mhz"]
    if clock is None and fmax is not None:
        clock = math.floor(fmax * 100) / 100
        engine["target"] = {**engine["target"], "clock_mhz": clock}
        config = TransformerConfig.model_validate(engine)
        design = Design.of(config)
    entry = Build(design, config.target).estimate(workloads, timings=timings)
    passes = speeds(entry, workloads)
    metrics, decode = entry["metrics"], passes["decode"]
    device = entry["device"]
    used = {name: row["used"] for name, row in device["resources"].items()} if device else {}
    values = {
        "tokens_per_s": decode["tokens_per_s"], "ms_per_token": decode["ms"],
        "j_per_token": decode["j_per_token"], "area_mm2": metrics["area_mm2"],
        "power_w": metrics["power_w"], "clock_mhz": entry["figures_at_mhz"],
        "luts": used.get("luts"), "dsps": used.get("dsps"), "brams": used.get("brams"),
        "fits": None if device is None or not device["named"] else device["fits"],
        "prefill_tokens_per_s": passes["prefill"]["tokens_per_s"],
    }  # fmt: skip
    shown = {"memory.data_width": width}
    for option in options:
        shown |= option.shown
    return Listed(number, engine, shown, values, ranked)


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _guarantee(result: Result, numbers: Any) -> str:
    """Say by how much another engine can be better than the first."""
    request, scores = result.request, result.scores
    first, *_ = objectives(request.goals, scores.metrics)
    values = scores.metrics[first]
    ours = result.engines[0].metrics[first]
    points = f"{scores.points:,} points, all of which were ranked"
    if ours is None:
        return f"{first} is not known; {points}"
    better = METRICS[first][1]
    done = {each.number for each in result.engines}
    others = [float(values[n]) for n in map(int, numbers[: 2 * len(done) + 1]) if n not in done]
    if not others:
        return f"optimal over {points}"
    best = max(others) if better else min(others)
    gap = best / ours - 1 if better else 1 - best / ours
    gap = max(0.0, gap) + result.error
    if result.error < 5e-5:
        return f"optimal over {points}"
    return (
        f"the best of {points}: tables and complete estimates differ by {100 * result.error:.2g} %"
        f" at most, so that no other can be better by more than {100 * gap:.2g} %"
    )


def _unmet(
    request: Request, scores: Scores, reasons: list[dict[str, Any]], evaluated: int = 0
) -> Unmet:
    """Return the error that names the nearest engine."""
    number, said = nearest(scores, request.goals)
    width, options = scores.options(number)
    shown = ", ".join([f"port of {width} bits", *map(str, options)])
    lines = [f"no engine of {scores.points:,} meets all goals and limits"]
    lines += [f"  {entry['points']:,} {entry['reason']}" for entry in reasons]
    if evaluated:
        lines.append(f"  {evaluated:,} of the rest miss them by their complete estimates")
    lines.append(f"nearest: {request.model.name}, {shown}")
    for entry in said:
        text = f"  {entry['goal']}: reaches {entry['reached']:.4g}"
        if entry["factor"] > 1:
            text += f", misses by {entry['factor']:.2f}x"
            if entry["alone"] is not None:
                text += f"; relax it to {entry['alone']:.4g} if all others stay"
        lines.append(text)
    document = {
        "model": str(request.model),
        "factor": max((entry["factor"] for entry in said), default=1.0),
        "nearest": {"memory.data_width": width, **_shown(options), "metrics": {
            name: _or_none(value) for name, value in scores.at(number).items()
        }},
        "goals": said, "rejected": reasons,
    }  # fmt: skip
    return Unmet("\n".join(lines), document)


def _shown(options: Sequence[Option]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for option in options:
        result |= option.shown
    return result


# -- several models --------------------------------------------------------------------------------


def search_all(
    requests: Sequence[Request], executor: Executor, journal: SearchJournal
) -> tuple[list[Result], list[Unmet]]:
    """Return the results of searches for several models, and of those that none meets why.

    Raises
    ------
    Unmet
        If no engine meets all goals with any model: that of the nearest one.
    """
    results, unmet = list[Result](), list[Unmet]()
    for request in requests:
        try:
            results.append(search(request, executor, journal))
        except Unmet as error:
            unmet.append(error)
    if not results:
        raise min(unmet, key=lambda error: float(error.document["factor"]))
    return results, unmet


def merged(results: Sequence[Result]) -> list[tuple[Result, Listed]]:
    """Return the engines of all results, the best first, as many as are asked for."""
    request = results[0].request
    first, *_ = objectives(request.goals, results[0].scores.metrics)
    sign = -1 if METRICS[first][1] else 1
    every = [(result, engine) for result in results for engine in result.engines]
    every.sort(key=lambda pair: sign * (pair[1].metrics[first] or math.inf))
    return every[: request.count]
