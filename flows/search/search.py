# SPDX-License-Identifier: Apache-2.0
"""Search for engines that execute a decoder, by goals and limits.

The space has an option for each unit; jobs and costs of each option are tabulated once, and all
combinations are ranked by sums over the tables (`flows.search.tables`). The best ones are then
evaluated as `hwgen model estimate` does, and only these figures are stated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from cost_model.estimate.technology import calibrated
from cost_model.estimate.technology import technology as calibration
from cost_model.netlist.fabric.fabric import fabric
from flows.search.branches import best_of, missed_by, ranked_by
from flows.search.complete import CompleteItem, complete_from, estimate_engine
from flows.search.costs import UnitCosts, key_of
from flows.search.cycles import BaseList, TimedOption, TimingItem, time_option
from flows.search.goals import METRICS, Goal, objectives, order, smallest_first
from flows.search.narrowing import lacking, least_around, least_resources
from flows.search.result import Listed, Request, Result, Unmet
from flows.search.space import Frame, Needs, Option, Space, needs_of, space_of
from flows.search.tables import FrameTable, Scores, UnitTables
from flows.search.words import limits_of, nearest, rejected
from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.progress import report

if TYPE_CHECKING:
    from flows.search.journal import SearchJournal

T = TypeVar("T")
R = TypeVar("R")

_ROUNDS, _LOOKED_AT = 4, 8
"""Rankings, and engines of each whose units' own netlists are then looked at."""

EXHAUSTIVE = 2_000_000
"""Points that are all ranked; of larger spaces the best are found by branch and bound."""

_TRIES = 3  # engines that are evaluated for each one that is wanted


class Executor(Protocol):
    """See `flows.tools.executors`."""

    def run(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
        """Yield each item with its result."""
        ...


Jobs = list[TimedOption]
"""Jobs of an option, of each context."""


class Work:
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

    Where none does that has a unit for each purpose, engines with one unit for all operations on
    rows are searched, which are smaller and slower.

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
    needs = needs_of(Model(request.model), request.context)
    try:
        return _searched(request, needs, executor, journal)
    except Unmet as unmet:
        if not needs.sharable:
            raise
        try:
            result = _searched(request, replace(needs, shared=True), executor, journal)
        except Unmet as other:
            raise min((unmet, other), key=lambda error: error.document["factor"]) from None
        points = sum(entry["points"] for entry in unmet.document["rejected"])
        reason = "has a unit for each purpose, and none of these meets all"
        result.rejections.insert(0, {"reason": reason, "points": points})
        return result


def _searched(request: Request, needs: Needs, executor: Executor, journal: SearchJournal) -> Result:
    """Return the engines of some units that meet all goals; see `search`."""
    space = space_of(needs, _target(request), request.widths)
    work = Work(executor, journal)
    first = min(space.options)
    memory = _base_list(request, space, first).memory_bytes
    _check_memory(request, memory)
    ranking, skipped = _ranked(request, space, work, memory)
    scores, numbers = ranking.scores, ranking.numbers
    reasons = [*skipped, *ranking.reasons]
    if not ranking.left.any():
        raise _unmet(request, scores, reasons)
    engines, evaluated, error = _evaluated(request, space, scores, work, numbers)
    result = Result(
        request, space, scores, engines, reasons, ranking.unusable, int(ranking.left.sum()),
        evaluated, error, "",
    )  # fmt: skip
    if not engines:
        raise _unmet(request, scores, reasons, evaluated)
    result.guarantee = _guarantee(result, numbers, ranking.proof)
    return result


def _target(request: Request) -> dict[str, Any]:
    target = request.target.model_dump(mode="json", exclude_none=True)
    target.pop("activation_sigma", None)
    return target


@dataclass
class _Ranking:
    """Engines of some frames, the best first.

    Parameters
    ----------
    scores : Scores
    left : ndarray of bool
        Which engines meet everything.
    reasons : list of dict
    numbers : ndarray
        Those that are left, the best first; the nearest one if there are none.
    unusable : list of dict
    proof : str
        Over how many points it is, and how.
    widest : UnitTables
        Of the largest frame.
    """

    scores: Scores
    left: Any
    reasons: list[dict[str, Any]]
    numbers: Any
    unusable: list[dict[str, Any]]
    proof: str
    widest: UnitTables


def _ranked(
    request: Request, space: Space, work: Work, memory: int
) -> tuple[_Ranking, list[dict[str, Any]]]:
    """Return the ranking of all engines that can be of the short list, and why others cannot.

    On a device the widths of the port are looked at one after another: units of a wider port are
    never smaller.
    """
    if request.target.device is None:
        return _rank(request, space, work, sorted(space.options), memory), []
    ranking, frames, skipped = None, list[Frame](), list[dict[str, Any]]()
    smallest, around = smallest_first(request.goals), dict[str, float]()
    for width in space.widths:
        least = least_resources(space, space.of_width(width)[0], work.run, around)
        reason = lacking(request.target.device, width, least)
        if not reason and ranking is not None and ranking.left.sum() >= request.count:
            found = ranking.scores.metrics["luts"][ranking.numbers[: request.count]].max()
            if least.total["luts"] > found:
                reason = (
                    f"cannot be smaller: {width} bits or more at the port take at least"
                    f" {least.total['luts']:,.0f} LUTs"
                )
        if reason:
            points = space.points_of([each for each in space.options if each.data_width >= width])
            skipped.append({"reason": reason, "points": points})
            break
        frames += space.of_width(width)
        if smallest:
            ranking = _rank(request, space, work, frames, memory)
            around = least_around(ranking.widest)
    if not frames:
        raise _no_width(request, skipped)
    return ranking or _rank(request, space, work, frames, memory), skipped


def _rank(
    request: Request, space: Space, work: Work, frames: Sequence[Frame], memory: int
) -> _Ranking:
    """Rank the engines of some frames; units of the best ones get their own netlists."""
    unusable: list[dict[str, Any]] = []
    units, costs = _units(request, space.of_frames(frames), work, unusable)
    every = sum(each.points for each in units)
    tables = [each.table() for each in units] if every <= EXHAUSTIVE else []
    proof = f"{every:,} points, all of which were ranked"
    for last in range(_ROUNDS, 0, -1):
        report("ranking", 0, 0)
        if every > EXHAUSTIVE:
            tables, looked = _bounded(request, units, memory)
            proof = f"{every:,} points, by branch and bound: {looked}"
        scores = Scores(tables, request.target, request.clock_mhz, memory, request.scenarios)
        _check_metrics(request.goals, scores)
        left, reasons = rejected(scores, request.goals)
        numbers = order(request.goals, scores.metrics)
        numbers = numbers[left[numbers]]
        if not left.any():
            numbers = np.array([nearest(scores, request.goals)[0]])
        work.journal.ranking = request, space, scores, numbers, bool(left.any())
        best = [scores.options(int(number)) for number in numbers[:_LOOKED_AT]]
        if last == 1 or not costs.look_at(best):
            break
        for unit_tables in units:
            unit_tables.costs = costs.of_frame(unit_tables.frame)
        for table in tables:
            table.costs = costs.of_frame(table.frame)
    return _Ranking(scores, left, reasons, numbers, unusable, proof, units[-1])


def _bounded(
    request: Request, units: Sequence[UnitTables], memory: int
) -> tuple[list[FrameTable], str]:
    """Return tables of the options that the best engines have, and how many were looked at."""
    alone = units[0].only({unit: [0] for unit in units[0].options}).table()
    scores = Scores([alone], request.target, request.clock_mhz, memory, request.scenarios)
    scores.clocked = any(each.clocked for each in units)
    found = best_of(scores, units, ranked_by(request.goals), _TRIES * request.count)
    if not found.points:
        found = best_of(scores, units, missed_by(request.goals), 1)
    tables = []
    for number, each in enumerate(units):
        points = [index for at, index in found.points if at == number]
        if points:
            chosen = {unit: sorted({index[axis] for index in points})
                      for axis, unit in enumerate(each.options)}  # fmt: skip
            tables.append(each.only(chosen).table())
    return tables, f"{found.exact:,} computed, and {found.bounded:,} sets of them bounded"


def _check_memory(request: Request, memory: int) -> None:
    """Refuse a model that takes more memory than a goal allows, before anything is tried."""
    mib = memory / 2**20
    broken = [goal for goal in request.goals
              if goal.metric == "memory_mib" and not goal.met(mib)]  # fmt: skip
    if broken:
        enough = math.ceil(1e3 * mib) / 1e3
        said = [{"goal": str(goal), "reached": mib, "factor": goal.missing(mib), "alone": mib}
                for goal in broken]  # fmt: skip
        lines = [
            (f"weights, cache and rows of {request.model.name} take {mib:.4g} MiB of memory at"
            f" {request.context} positions, whatever the engine"),
            *(f"  {goal}: misses by {goal.missing(mib):.2f}x; relax it to {enough:g}, take another"
              " format, or fewer positions" for goal in broken),
        ]  # fmt: skip
        raise Unmet("\n".join(lines), {
            "model": str(request.model), "factor": max(goal.missing(mib) for goal in broken),
            "nearest": None, "goals": said, "rejected": [],
        })  # fmt: skip


def _no_width(request: Request, skipped: list[dict[str, Any]]) -> Unmet:
    """Return the error that no engine fits a device."""
    device = str(request.target.device)
    lines = [
        f"no engine for {request.model.name} fits {device}",
        *(f"  {entry['points']:,} {entry['reason']}" for entry in skipped),
        "choose a larger device as --target",
    ]
    return Unmet("\n".join(lines), {
        "model": str(request.model), "factor": math.inf, "nearest": None, "goals": [],
        "rejected": skipped,
    })  # fmt: skip


def _base_list(request: Request, space: Space, frame: Frame) -> BaseList:
    """Return the list of a decode step on the first engine of a frame."""
    first = [every[0] for every in space.options[frame].values()]
    config = space.config("engine", frame, first)
    return BaseList(Model(request.model), config, request.context - 1)


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


def _units(
    request: Request, space: Space, work: Work, unusable: list[dict[str, Any]]
) -> tuple[list[UnitTables], UnitCosts]:
    """Return the tables of units in each frame, and the costs in them."""
    contexts = [context - 1 for context in request.contexts]
    engines = {
        frame: json.dumps(space.engine("engine", frame, [each[0] for each in options.values()]))
        for frame, options in space.options.items()
    }
    items: dict[str, TimingItem] = {}
    keys: dict[tuple[Frame, str], list[list[str]]] = {}
    digest = request.digest
    for frame, units in space.options.items():
        for unit, options in units.items():
            keys[frame, unit] = []
            for option in options:
                keys[frame, unit].append([])
                for context in contexts:
                    base = json.dumps({"engine": json.loads(engines[frame]), "context": context})
                    key = key_of("cycles", digest, base, unit, option.values)
                    items[key] = TimingItem(request.model, base, len(items), option)
                    keys[frame, unit][-1].append(key)
    timed = work.run("jobs", time_option, items, _timed)
    usable: dict[Frame, dict[str, tuple[list[Option], list[Jobs]]]] = {}
    for frame, units in space.options.items():
        usable[frame] = {}
        for unit, options in units.items():
            pairs = []
            for option, each in zip(options, keys[frame, unit], strict=True):
                jobs = [timed[key] for key in each]
                problem = next((one.problem for one in jobs if one.problem), "")
                if problem:
                    unusable.append({"option": f"{frame}, {option}", "reason": problem})
                else:
                    pairs.append((option, jobs))
            pairs = _worthwhile(pairs)
            usable[frame][unit] = [p[0] for p in pairs], [p[1] for p in pairs]
    frames = [frame for frame, units in usable.items() if all(o for o, _ in units.values())]
    if not frames:
        reasons = dict.fromkeys(entry["reason"] for entry in unusable)
        raise InputError(f"no engine executes {request.model}: {'; '.join(reasons)}")
    chosen = {frame: usable[frame] for frame in frames}
    costs = UnitCosts(space, {
        frame: {unit: each for unit, (each, _) in units.items()} for frame, units in chosen.items()
    }, work.run)  # fmt: skip
    costs.sample()
    return [
        _unit_tables(request, space, frame, units, costs) for frame, units in chosen.items()
    ], costs


def _worthwhile(pairs: Sequence[tuple[Option, Jobs]]) -> list[tuple[Option, Jobs]]:
    """Return options but for those that are larger than another, and no faster in any job."""
    result = []
    cycles = [[n for each in jobs for n in each.cycles] for _, jobs in pairs]
    for (option, jobs), ours in zip(pairs, cycles, strict=True):
        if not any(
            other is not option and _smaller(other, option)
            and all(a <= b for a, b in zip(theirs, ours, strict=True))
            for (other, _), theirs in zip(pairs, cycles, strict=True)
        ):  # fmt: skip
            result.append((option, jobs))
    return result


def _smaller(one: Option, other: Option) -> bool:
    """Return whether an option is of the same form as another, and smaller."""
    if one.shown.keys() != other.shown.keys() or one.shown == other.shown:
        return False
    pairs = [(one.shown[name], other.shown[name]) for name in one.shown]
    return all(a == b if isinstance(a, str) else a <= b for a, b in pairs)


def _unit_tables(
    request: Request,
    space: Space,
    frame: Frame,
    units: Mapping[str, tuple[list[Option], list[Jobs]]],
    costs: UnitCosts,
) -> UnitTables:
    """Return the tables of the units of a frame."""
    options = {unit: list(each) for unit, (each, _) in units.items()}
    first = [every[0] for every in options.values()]
    config = space.config("engine", frame, first)
    every = [
        (BaseList(Model(request.model), config, context - 1),
         {unit: [jobs[number] for jobs in each] for unit, (_, each) in units.items()})
        for number, context in enumerate(request.contexts)
    ]  # fmt: skip
    (base, timed), *others = every
    rest, slower = costs.rest(frame)
    return UnitTables(frame, options, timed, costs.of_frame(frame), rest, slower, base, others)


# -- complete estimates ----------------------------------------------------------------------------


def _evaluated(
    request: Request, space: Space, scores: Scores, work: Work, numbers: Any
) -> tuple[list[Listed], int, float]:
    """Return the short list by complete estimates, how many there were, and the largest error."""
    engines: list[Listed] = []
    errors = [0.0]
    waiting = [int(number) for number in numbers[: _TRIES * request.count]]
    tried = 0
    while waiting and len(engines) < request.count:
        wanted = request.count - len(engines)
        now, waiting = waiting[:wanted], waiting[wanted:]
        tried += len(now)
        for each in complete(request, space, scores, work, now):
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


def complete(
    request: Request, space: Space, scores: Scores, work: Work, numbers: Sequence[int]
) -> list[Listed]:
    """Return engines of the space with their complete estimates."""
    items = {}
    for number in numbers:
        engine = json.dumps(space.engine("engine", *scores.options(number)))
        clock = request.clock_mhz or (None if scores.clocked else scores.fixed_mhz)
        item = CompleteItem(request.model, engine, clock, request.scenarios)
        uses = [asdict(each) | {"memory": each.memory.model_dump(mode="json")}
                for each in request.scenarios]  # fmt: skip
        items[key_of("complete", request.digest, engine, clock, uses)] = item
    estimates = work.run("complete estimates", estimate_engine, items, complete_from)
    result = []
    for number, estimate in zip(numbers, estimates.values(), strict=True):
        frame, options = scores.options(number)
        ranked = {name: _or_none(value) for name, value in scores.at(number).items()}
        shown = dict(frame.shown)
        for option in options:
            shown |= option.shown
        metrics = {**estimate.metrics, "memory_mib": ranked["memory_mib"]}
        result.append(
            Listed(number, estimate.engine, shown, metrics, ranked,
                   by_scenario=estimate.by_scenario)
        )  # fmt: skip
    return result


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _guarantee(result: Result, numbers: Any, points: str) -> str:
    """Say by how much another engine can be better than the first."""
    request, scores = result.request, result.scores
    first, *_ = objectives(request.goals, scores.metrics)
    values = scores.metrics[first]
    ours = result.engines[0].metrics[first]
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
    frame, options = scores.options(number)
    shown = ", ".join([str(frame), *map(str, options)])
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
        "nearest": {**frame.shown, **_shown(options), "metrics": {
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


def nodes(result: Result, engine: Listed) -> dict[str, CompleteItem]:
    """Return an engine at every node of standard cells with delays, at the clock it reaches there.

    Returns
    -------
    dict
        Items for `flows.search.complete.estimate_engine`, by technology.
    """
    items = {}
    for name in calibrated():
        if fabric(name) is not None or not calibration(name).timing:
            continue
        target = {**engine.engine["target"], "technology": name}
        target.pop("device", None)
        text = json.dumps({**engine.engine, "target": target})
        items[name] = CompleteItem(result.request.model, text, None, result.request.scenarios)
    return items


def at_nodes(results: Sequence[Result], executor: Executor, journal: SearchJournal) -> Any:
    """Return estimates of the best engine at other nodes; see `nodes`."""
    (result, engine), *_ = merged(results)
    items = {
        key_of("node", item.engine, result.request.digest): (name, item)
        for name, item in nodes(result, engine).items()
    }
    work = Work(executor, journal)
    made = work.run("nodes", estimate_engine, {k: item for k, (_, item) in items.items()},
                    complete_from)  # fmt: skip
    return {items[key][0]: estimate for key, estimate in made.items()}
