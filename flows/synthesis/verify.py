# SPDX-License-Identifier: Apache-2.0
"""Measuring configurations by synthesis, to set beside what the cost model says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cost_model.memories.memories import Form
from flows.build.design import Design
from flows.build.load import choose
from flows.synthesis.fpga import RESOURCES
from flows.synthesis.result import SynthesisResult
from flows.synthesis.synth import Effort, default_method, rank, synthesize
from flows.synthesis.synth_cache import cached_results
from flows.tools.parallel import run_all
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import CheckFailed

_ESTIMATED: Mapping[str, tuple[str, float]] = {
    "area_um2": ("area_mm2", 1e-6),
    **{name: (name, 1) for name in ("fmax_mhz", *RESOURCES) if name != "wide_muxes"},
}
"""Fields of a synthesis result that the cost model estimates: its name, and its unit."""


@dataclass(frozen=True)
class Measured:
    """Metrics of a configuration by synthesis.

    Parameters
    ----------
    metrics : mapping
        Known figures by the names of the cost model's metrics.
    problem : str
        Why there are none, empty if there are.
    """

    metrics: Mapping[str, float]
    problem: str = ""


def measure(
    configs: Sequence[FamilyConfig],
    jobs: int,
    on_progress: Callable[[int, int], None],
    effort: Effort = "normal",
) -> list[Measured]:
    """Synthesize configurations, each for its own technology and clock.

    Results are kept (`flows.synthesis.synth_cache`), so that an interrupted run continues.

    Parameters
    ----------
    configs : sequence of FamilyConfig
        Registers that are ``auto`` are chosen.
    jobs : int
        How many tools run at once.
    on_progress : callable
        Called with how many configurations are done and how many there are.
    effort : {"normal", "clock", "best"}
        See `flows.synthesis.synth.synthesize`.

    Raises
    ------
    ToolMissing
        If Yosys or the Liberty files are missing.
    """
    done = 0
    on_progress(done, len(configs))

    def follow(index: int, result: Measured) -> None:
        nonlocal done
        done += 1
        on_progress(done, len(configs))

    return run_all([partial(_measure, config, effort) for config in configs], jobs, follow)


def _measure(config: FamilyConfig, effort: Effort) -> Measured:
    try:
        technology, design = config.target.technology, Design.of(choose(config))
        return Measured(metrics_of(synthesize(design, technology, effort=effort)))
    except (CheckFailed, ValueError) as error:  # a tool gave up, or `auto` misses the clock
        return Measured({}, str(error))


def metrics_of(result: SynthesisResult) -> dict[str, float]:
    """Return the figures of a synthesis result that the cost model estimates, by its names."""
    metrics = {
        metric: (getattr(result, field), scale) for field, (metric, scale) in _ESTIMATED.items()
    }
    return {
        name: float(value) * scale for name, (value, scale) in metrics.items() if value is not None
    }


def cached_result(
    design: Design, target: str, clock_mhz: float, memories: Form | None = None
) -> SynthesisResult | None:
    """Return the kept result that an estimate is best set beside, None if there is none.

    Of those with the nearest clock target, it is the one that was mapped as costs are calibrated,
    with the defaults; else the smallest that meets its clock, or the fastest.  Nothing is run.
    With `memories`, only those are looked at whose memories are made so.
    """
    method = default_method(target)

    def order(result: SynthesisResult) -> tuple[Any, ...]:
        settings = (result.recipe, result.full_adders, result.hierarchy)
        usual = settings == (method.recipe, method.full_adders, method.hierarchy)
        return abs(result.clock_target_mhz - clock_mhz), not usual, rank(result)

    results = [
        result
        for result in reversed(cached_results(design, target))
        if memories in (None, result.memories)
    ]
    return min(results, key=order, default=None)


def pair_metrics(
    metrics: Mapping[str, float | None], result: SynthesisResult
) -> dict[str, dict[str, float | None]]:
    """Return estimate and measurement side by side.

    Parameters
    ----------
    metrics : mapping
        Of the cost model, None if unknown.
    result : SynthesisResult

    Returns
    -------
    dict
        By field of the result that is known: ``estimated``, ``measured``, in the unit of the field,
        and ``difference_percent`` of the estimate from the measurement; None if unknown.
    """
    differences: dict[str, dict[str, float | None]] = {}
    for field, (metric, scale) in _ESTIMATED.items():
        measured, estimated = getattr(result, field), metrics.get(metric)
        if measured is None:
            continue
        difference = None
        if estimated is not None:
            estimated /= scale
            if measured:
                difference = 100 * (estimated / measured - 1)
        differences[field] = {
            "estimated": estimated,
            "measured": measured,
            "difference_percent": difference,
        }
    return differences
