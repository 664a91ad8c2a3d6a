# SPDX-License-Identifier: Apache-2.0
"""Measuring configurations by synthesis, to set beside what the cost model says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from flows.parallel import run_all
from flows.synth import synthesize
from hwgen.errors import CheckFailed

if TYPE_CHECKING:
    from flows.result import SynthesisResult
    from hwgen.config.model import FamilyConfig


@dataclass(frozen=True)
class Measured:
    """What synthesis found out about a configuration.

    Parameters
    ----------
    figures : mapping
        Known figures by the names of the cost model's metrics.
    problem : str
        Why there are none, empty if there are.
    """

    figures: Mapping[str, float]
    problem: str = ""


def measure(
    configs: Sequence[FamilyConfig], jobs: int, on_progress: Callable[[int, int], None]
) -> list[Measured]:
    """Synthesize configurations, each for its own technology and clock.

    Results are kept in the cache of `flows.synth`, so that an interrupted run continues.

    Parameters
    ----------
    configs : sequence of FamilyConfig
    jobs : int
        How many tools run at once.
    on_progress : callable
        Called with how many configurations are done and how many there are.

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

    return run_all([partial(_measure, config) for config in configs], jobs, follow)


def _measure(config: FamilyConfig) -> Measured:
    try:
        return Measured(figures_of(synthesize(config, config.target.technology)))
    except CheckFailed as error:  # a tool gave up on this one
        return Measured({}, str(error))


def figures_of(result: SynthesisResult) -> dict[str, float]:
    """Return the figures of a synthesis result that the cost model estimates."""
    figures = {
        "area_mm2": None if result.area_um2 is None else result.area_um2 * 1e-6,
        "fmax_mhz": result.fmax_mhz,
        "luts": result.luts,
        "flip_flops": result.flip_flops,
        "dsps": result.dsps,
        "brams": result.brams,
    }
    return {name: float(value) for name, value in figures.items() if value is not None}
