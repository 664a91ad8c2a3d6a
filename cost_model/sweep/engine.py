# SPDX-License-Identifier: Apache-2.0
"""Running a sweep: chunks to any number of processes, and one outcome from what they keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from cost_model.sweep.document import SweepFile
from cost_model.sweep.journal import Journal
from cost_model.sweep.outcome import Executor, Outcome, Progress
from cost_model.sweep.pareto import Indices
from cost_model.sweep.plan import Evaluate, Plan
from cost_model.sweep.probe import Probe
from cost_model.sweep.reader import Reader
from cost_model.sweep.reduce import BLOCK, Arrays, Reducer, reduce_range
from cost_model.sweep.refusals import refusals as refusals_of
from cost_model.sweep.sampling import search
from cost_model.sweep.table import Points, enumerated_points, sampled_points

_LARGEST_CHUNK = 1 << 20
_LARGEST_CHUNK_OF_ROWS = 1 << 17
_SMALLEST_CHUNK = 1 << 17
_CHUNKS = 16
"""Chunks that a sweep of medium size is cut into."""


def chunk_size(plan: Plan) -> int:
    """Return the points of a chunk; they follow from the plan alone, so any run can continue."""
    largest = _LARGEST_CHUNK_OF_ROWS if plan.keep == "all" else _LARGEST_CHUNK
    even = -(-plan.space.size // _CHUNKS)
    return min(largest, max(_SMALLEST_CHUNK, -(-even // BLOCK) * BLOCK))


def run_sweep(
    file: SweepFile,
    probed: Probe,
    evaluate: Evaluate,
    executor: Executor,
    journal: Journal,
    progress: Progress = lambda done, total: None,
) -> Outcome:
    """Run a sweep, or what is left to do of it.

    Parameters
    ----------
    file : SweepFile
    probed : Probe
        Of the same file.
    evaluate : Evaluate
        The cost model; it must be known by name to other processes.
    executor : Executor
    journal : Journal
        Takes the finished chunks; those that it has are not computed again.
    progress : callable, optional

    Raises
    ------
    ConfigError
        If no point is left; it says what removed how many.
    """
    plan = file.plan
    if plan.sample is not None:
        searched = search(plan, evaluate, progress)
        outcome = _outcome(
            plan, searched.reducer, lambda numbers: sampled_points(plan, searched.points, numbers)
        )
    else:
        outcome = _enumerate(plan, evaluate, executor, journal, progress)
    if not outcome.feasible:
        raise _nothing_left(file, outcome)
    return outcome


def _enumerate(
    plan: Plan, evaluate: Evaluate, executor: Executor, journal: Journal, progress: Progress
) -> Outcome:
    size, total = chunk_size(plan), plan.space.size
    chunks = range(-(-total // size))
    work = partial(_chunk, plan, evaluate, size)

    def points(chunk: int) -> int:
        return min(total, (chunk + 1) * size) - chunk * size

    def compute(missing: Sequence[int], done: int) -> None:
        progress(done, total)
        for chunk, arrays in executor.run(work, missing):
            journal.store(chunk, arrays)
            done += points(chunk)
            progress(done, total)

    finished = journal.done() & set(chunks)
    compute([c for c in chunks if c not in finished], sum(map(points, finished)))
    reducer = Reducer(plan, evaluate)
    for chunk in chunks:
        arrays = journal.load(chunk)
        if arrays is None:  # a damaged file
            compute([chunk], total - points(chunk))
            arrays = journal.load(chunk)
            assert arrays is not None
        reducer.merge(arrays)

    def rows() -> Iterator[Indices]:
        for chunk in chunks:
            arrays = journal.load(chunk)
            assert arrays is not None
            yield arrays["rows"]

    return _outcome(plan, reducer, lambda numbers: enumerated_points(plan, numbers), rows)


def _chunk(plan: Plan, evaluate: Evaluate, size: int, chunk: int) -> Arrays:
    start = chunk * size
    return reduce_range(plan, evaluate, start, min(plan.space.size, start + size))


def _outcome(
    plan: Plan,
    reducer: Reducer,
    points_of: Callable[[Indices], Points],
    rows: Callable[[], Iterable[Indices]] | None = None,
) -> Outcome:
    values, front = reducer.front.result()
    tops = tuple(best.indices for best in reducer.best)
    chosen = np.unique(np.concatenate([front, *tops]))

    def parts() -> Iterator[Points]:
        if plan.keep == "pareto":
            every: Iterable[Indices] = [chosen]
        else:
            every = rows() if rows is not None else [np.sort(np.concatenate(reducer.rows))]
        for numbers in every:
            for start in range(0, len(numbers), _LARGEST_CHUNK_OF_ROWS):
                yield points_of(numbers[start : start + _LARGEST_CHUNK_OF_ROWS])

    return Outcome(
        plan,
        reducer.counts,
        reducer.failed,
        reducer.lowest,
        reducer.highest,
        front,
        values,
        tops,
        points_of(chosen),
        parts,
        points_of,
        groups=reducer.groups,
    )


# -- when nothing is left ------------------------------------------------------------------------


def _nothing_left(file: SweepFile, outcome: Outcome) -> Exception:
    """Return the error that says which conditions removed how many points."""
    plan, reader, counts = file.plan, Reader(file.document), outcome.counts
    tally = Reducer(plan, _unused).tally
    total = outcome.evaluated
    legal = total - int(counts[1 : tally.illegal + 1].sum())
    if legal:
        for index, spec in enumerate(plan.specs):
            failed = int(outcome.failed[index])
            if not failed:
                continue
            low, high = outcome.lowest[index], outcome.highest[index]
            reached = "" if np.isnan(low) else f"; {spec.subject} is {low:.6g}..{high:.6g}"
            alone = isinstance(file.document.data["specs"], str)
            many = "none" if failed == legal else f"{legal - failed:,}"
            reader.complain(
                ("specs",) if alone else ("specs", index),
                f"{many} of {legal:,} legal points meet {spec.text!r}{reached}; relax it, or widen"
                " the parameters",
            )
        if all(int(n) < legal for n in outcome.failed) and len(plan.specs) > 1:
            reader.complain(("specs",), "each can be met, but no point meets all of them")
        if counts[-2]:
            names = " or ".join(map(str, plan.objectives))
            reader.complain(
                ("objectives",),
                f"{int(counts[-2]):,} points have no known figure of {names}; `hwgen estimate` of"
                " such a configuration says which is unknown, and why",
            )
        return reader.error()
    refusals = [
        (subspace.family, reason, path)
        for subspace in plan.space.subspaces
        for reason, path in subspace.refusals()
    ]
    for (family, reason, path), count in zip(refusals, counts[1:], strict=False):
        if count:
            reader.complain(
                path,
                f"{int(count):,} of {total:,} points ({family}) break {reason!r}; no point is left",
            )
    if counts[tally.illegal]:
        reader.complain(
            ("parameters",) if "parameters" in file.document.data else ("families",),
            f"{int(counts[tally.illegal]):,} of {total:,} points break a rule of their family;"
            " no point is left" + "".join(f"; {each}" for each in refusals_of(plan, 1)),
        )
    return reader.error()


def _unused(*_: object, **__: object) -> dict[str, NDArray[np.float64]]:
    return {}
