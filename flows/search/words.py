# SPDX-License-Identifier: Apache-2.0
"""Limits of an engine, in words: what more of something changes, and which limit forbids it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.search.goals import Goal
from flows.search.space import multiplies
from flows.search.tables import Scores

MORE = 1.3
"""Factor that is tried."""

_NOTHING = 1.02  # gains up to here are none


def limits_of(scores: Scores, number: int, goals: Sequence[Goal]) -> list[str]:
    """Return the limits of the speed of an engine.

    Parameters
    ----------
    scores : Scores
    number : int
        Of the engine.
    goals : sequence of Goal
    """
    table, index = scores.point(number)
    before = scores.metrics["tokens_per_s"][number]
    tried = {f"{MORE:g}x clock": (MORE, 1.0)}
    if any(each.memory.peak_gb_s for each in scores.scenarios):
        tried[f"{MORE:g}x bandwidth of the memory"] = (1.0, MORE)
    gains = {
        name: float(scores.of_table(table, *factors)["tokens_per_s"][index] / before)
        for name, factors in tried.items()
    }
    for unit, options in table.options.items():
        axis = list(table.options).index(unit)
        best = 1.0
        for other in range(len(options)):
            changed = scores.number(table, [*index[:axis], other, *index[axis + 1 :]])
            best = max(best, float(scores.metrics["tokens_per_s"][changed] / before))
        gains[f"the fastest {unit}"] = best
    ordered = sorted(gains.items(), key=lambda item: -item[1])
    helps = [f"{name} gives {gain:.2f}x tokens/s" for name, gain in ordered if gain > _NOTHING]
    nothing = [name for name, gain in ordered if gain <= _NOTHING]
    lines = [f"limited by {_limit(scores, number)}"]
    if helps:
        lines.append("; ".join(helps))
    if nothing:
        lines.append(f"{', '.join(nothing)}: changes nothing")
    return lines + _forbidden(scores, number, goals)


def _limit(scores: Scores, number: int) -> str:
    """Return the limit of most of the time of a token."""
    table, index = scores.point(number)
    shares: dict[str, float] = {}
    clock = float(scores.metrics["clock_mhz"][number])
    scenario, units = scores.slowest(number)
    memory = scenario.memory
    gb_s = memory.peak_gb_s * memory.share if memory.peak_gb_s else None
    bus = table.frame.data_width // 8
    for i, (unit, timed) in zip(index, units.items(), strict=True):
        for cycles, moved in timed[i].operations:
            ms = cycles / clock * 1e-3
            off_chip = moved / (gb_s * 1e6) if gb_s else 0.0
            name = f"the unit {unit!r}"
            if off_chip > ms:
                name = "the bandwidth of the memory" + (", weights" if multiplies(unit) else "")
            elif moved / bus >= 0.9 * cycles:
                name = f"the memory port of {table.frame.data_width} bits" + (
                    ", weights" if multiplies(unit) else ""
                )
            shares[name] = shares.get(name, 0.0) + max(ms, off_chip)
    name, most = max(shares.items(), key=lambda item: item[1])
    share = 100 * most / float(scores.metrics["ms_per_token"][number])
    of = f" of {scenario.name}, the slowest" if len(scores.scenarios) > 1 else ""
    return f"{name} ({share:.0f} % of a token{of})"


def _forbidden(scores: Scores, number: int, goals: Sequence[Goal]) -> list[str]:
    """Return the condition that keeps faster engines out."""
    faster = scores.metrics["tokens_per_s"] > _NOTHING * scores.metrics["tokens_per_s"][number]
    if not faster.any():
        return ["no engine of the space is faster"]
    blocked = {
        str(goal): int((faster & ~goal.met(scores.metrics[goal.metric])).sum()) for goal in goals
    }
    blocked |= {name: int((faster & too_few).sum()) for name, too_few in scores.lacking().items()}
    name, count = max(blocked.items(), key=lambda item: item[1], default=("", 0))
    if not count:
        return ["faster engines meet all limits, and are larger"]
    return [f"of {int(faster.sum()):,} faster engines {name} rules out {count:,}"]


def rejected(
    scores: Scores, goals: Sequence[Goal]
) -> tuple[NDArray[np.bool_], list[dict[str, Any]]]:
    """Return the engines that meet everything, and how many the first reason rules out.

    Parameters
    ----------
    scores : Scores
    goals : sequence of Goal
    """
    left = np.ones(scores.points, bool)
    reasons = []

    def reject(reason: str, broken: NDArray[np.bool_]) -> None:
        nonlocal left
        if count := int((left & broken).sum()):
            reasons.append({"reason": reason, "points": count})
        left &= ~broken

    for name, too_few in scores.lacking().items():
        reject(f"needs more than the {name}", too_few)
    if scores.clock_mhz and scores.clocked:
        reject(f"does not reach {scores.clock_mhz:g} MHz",
               ~(scores.metrics["fmax_mhz"] >= scores.clock_mhz))  # fmt: skip
    for goal in goals:
        reject(f"misses {goal}", ~goal.met(scores.metrics[goal.metric]))
    return left, reasons


def nearest(scores: Scores, goals: Sequence[Goal]) -> tuple[int, list[dict[str, Any]]]:
    """Return the engine that misses goals by the smallest factor, and what each would have to be.

    Returns
    -------
    (int, list of dict)
        Of each goal ``goal``, ``reached`` by the engine, ``factor`` by which it misses, and
        ``alone``, the value that would do if all other goals stay; None if none would.
    """
    usable = scores.fit(scores.metrics)
    if not usable.any():
        usable[:] = True
    misses = np.ones(scores.points)
    for goal in goals:
        values = scores.metrics[goal.metric]
        with np.errstate(all="ignore"):
            ratio = goal.bound / values if goal.sign == ">=" else values / goal.bound
        misses = np.maximum(misses, np.nan_to_num(ratio, nan=np.inf))
    misses[~usable] = np.inf
    best = int(np.argmin(misses))
    said = []
    for goal in goals:
        others = usable.copy()
        for other in goals:
            if other is not goal:
                others &= other.met(scores.metrics[other.metric])
        values = scores.metrics[goal.metric][others]
        values = values[np.isfinite(values)]
        alone = None
        if values.size:
            alone = float(values.max() if goal.sign == ">=" else values.min())
        reached = float(scores.metrics[goal.metric][best])
        said.append({"goal": str(goal), "reached": reached, "factor": goal.missing(reached),
                     "alone": alone})  # fmt: skip
    return best, said
