# SPDX-License-Identifier: Apache-2.0
"""Goals and limits of a search: what a metric must reach, or may not exceed."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.errors import InputError, did_you_mean

METRICS: Mapping[str, tuple[str, bool]] = {
    "tokens_per_s": ("tokens of decode a second", True),
    "ms_per_token": ("milliseconds of a token of decode", False),
    "j_per_token": ("joules of a token of decode, core and memory", False),
    "mean_ms_per_token": ("milliseconds of a token, the mean of all scenarios", False),
    "mean_j_per_token": ("joules of a token, the mean of all scenarios", False),
    "area_mm2": ("area, of standard cells", False),
    "power_w": ("power, of standard cells", False),
    "clock_mhz": ("clock that the estimate reaches", True),
    "luts": ("look-up tables that a device counts, of FPGAs", False),
    "dsps": ("DSP blocks, of FPGAs", False),
    "brams": ("block memories, of FPGAs", False),
    "memory_mib": ("MiB of memory for weights, cache and rows, of any engine", False),
}
"""Metrics of engines: what each is, and whether more of it is better."""

ACCURACY: Mapping[str, tuple[str, bool]] = {
    "kl": ("mean Kullback-Leibler divergence from the model before it was quantised, nats", False),
    "top1": ("share of positions where both find the same token the most likely", True),
}
"""Metrics of quantised models, as `hwgen model quantise --evaluate` measures them."""

_FORM = re.compile(r"\s*(\w+)\s*(>=|<=|=)\s*(\S+)\s*")

_MEETS: Mapping[str, Callable[[Any, float], Any]] = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True)
class Goal:
    """A condition on a metric.

    Parameters
    ----------
    metric : str
    sign : {">=", "<="}
    bound : float
    option : str
        As the user wrote it.
    """

    metric: str
    sign: str
    bound: float
    option: str

    def __str__(self) -> str:
        return f"{self.metric} {self.sign} {self.bound:g}"

    def met(self, values: Any) -> Any:
        """Return whether values meet it; what is not known (NaN) does not."""
        return _MEETS[self.sign](values, self.bound)

    def missing(self, value: float) -> float:
        """Return the factor by which a value misses it, 1 where it meets it."""
        if math.isnan(value):
            return math.inf
        if self.met(value):
            return 1.0
        ratio = self.bound / value if self.sign == ">=" else value / self.bound
        return ratio if ratio >= 1 else math.inf


def parse_goals(
    goals: Sequence[str], limits: Sequence[str], metrics: Mapping[str, tuple[str, bool]] = METRICS
) -> list[Goal]:
    """Return the conditions that options state.

    Parameters
    ----------
    goals : sequence of str
        Of ``--goal``: METRIC>=X, METRIC<=X, or METRIC=X, which is the better direction.
    limits : sequence of str
        Of ``--max``: METRIC=X.
    metrics : mapping, optional
        All that there are, as `METRICS`.

    Raises
    ------
    InputError
        With a line for each that is unknown or no condition, and for all that contradict others.
    """
    result, problems = list[Goal](), list[str]()
    for option, text in [("--goal", each) for each in goals] + [("--max", each) for each in limits]:
        try:
            result.append(_parse(option, text, metrics))
        except InputError as error:
            problems.append(str(error))
    problems += _contradictions(result)
    if problems:
        raise InputError("\n".join(problems))
    return result


def parse_accuracy(texts: Sequence[str]) -> list[Goal]:
    """Return the conditions that ``--accuracy`` states.

    Raises
    ------
    InputError
        With a line for each that is unknown or no condition, and for all that contradict others.
    """
    result, problems = list[Goal](), list[str]()
    for text in texts:
        try:
            result.append(_parse("--accuracy", text, ACCURACY))
        except InputError as error:
            problems.append(str(error))
    problems += _contradictions(result)
    if problems:
        raise InputError("\n".join(problems))
    return result


def _parse(option: str, text: str, metrics: Mapping[str, tuple[str, bool]] = METRICS) -> Goal:
    match = _FORM.fullmatch(text)
    if match is None:
        form = "METRIC=NUMBER" if option == "--max" else "METRIC>=NUMBER or METRIC<=NUMBER"
        example = _EXAMPLES[option]
        raise InputError(f"{option}: must be {form}, such as {example}, not {text[:80]!r}")
    metric, sign, number = match.groups()
    if metric not in metrics:
        of = "quantised models" if metrics is ACCURACY else "engines"
        raise InputError(
            f"{option}: {metric[:40]!r} is no metric of {of}; there are {', '.join(metrics)}"
            f"{did_you_mean(metric, metrics)}"
        )
    if option == "--max" and sign == ">=":
        raise InputError(f"--max: is an upper limit, {metric}=NUMBER; use --goal for {text[:80]!r}")
    try:
        bound = float(number)
    except ValueError:
        bound = math.nan
    if not (math.isfinite(bound) and bound > 0):
        raise InputError(f"{option}: {metric} must be a number above 0, not {number[:40]!r}")
    if sign == "=":
        sign = "<=" if option == "--max" or not metrics[metric][1] else ">="
    return Goal(metric, sign, bound, f"{option} {text.strip()}")


_EXAMPLES = {"--goal": "tokens_per_s>=20", "--max": "area_mm2=2",
             "--accuracy": "kl<=0.01"}  # fmt: skip


def _contradictions(goals: Sequence[Goal]) -> list[str]:
    """Return a line for each pair of conditions that nothing can meet together."""
    expanded = [*goals]
    for each in goals:  # a rate and a time are the same metric
        inverse = {"tokens_per_s": "ms_per_token", "ms_per_token": "tokens_per_s"}.get(each.metric)
        if inverse is not None:
            sign = "<=" if each.sign == ">=" else ">="
            expanded.append(Goal(inverse, sign, 1000 / each.bound, each.option))
    lines = {
        f"{low.option} contradicts {high.option}: {low.metric} cannot be {low.bound:g} or more"
        f" and {high.bound:g} or less"
        for low in expanded for high in expanded
        if low.metric == high.metric and low.sign == ">=" and high.sign == "<="
        and low.bound > high.bound
    }  # fmt: skip
    return sorted(lines)


def order(goals: Sequence[Goal], metrics: Mapping[str, NDArray[np.float64]]) -> NDArray[np.int64]:
    """Return points, the best first.

    The best is that of the first metric: the smallest area, look-up tables or power where a goal
    of speed is stated, else the largest rate.

    Parameters
    ----------
    goals : sequence of Goal
    metrics : mapping of ndarray
        Of points, NaN where they are not known.
    """
    keys = []
    for metric in objectives(goals, metrics):
        values = metrics[metric]
        keys.append(-values if METRICS[metric][1] else values)
    return np.lexsort([np.nan_to_num(key, nan=np.inf) for key in reversed(keys)])


def objectives(goals: Sequence[Goal], metrics: Mapping[str, Any]) -> list[str]:
    """Return the metrics by which points that meet all goals are ranked, the first one first."""
    sizes = [name for name in ("area_mm2", "luts") if np.isfinite(metrics[name]).any()]
    return [*sizes, "tokens_per_s"] if smallest_first(goals) else ["tokens_per_s", *sizes]


def smallest_first(goals: Sequence[Goal]) -> bool:
    """Return whether a speed is stated, so that the smallest is the best."""
    return any(goal.metric in _BETTER and goal.sign == _BETTER[goal.metric] for goal in goals)


_BETTER = {"tokens_per_s": ">=", "ms_per_token": "<=", "mean_ms_per_token": "<="}
