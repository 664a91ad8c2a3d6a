# SPDX-License-Identifier: Apache-2.0
"""Fitting how long the steps of paths take on an FPGA to what place and route measures.

Designs are placed and routed as `hwgen pnr` does by default, in a frame of registers; the delay of
a design is the median over seeds.  Small designs of each kind give the steps, realistic ones of
some thousand look-up tables the wires, which are part of the steps.  Two tables of steps are
fitted: those through what a design is mapped to, which estimates are made of, and those through
its operators, by which `auto` chooses hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from cost_model.netlist.fabric.fabric import fabric
from cost_model.timing.graph import Path
from cost_model.timing.limit import MAPPED
from cost_model.timing.network import Network
from flows.build.design import Design
from flows.calibration import realistic
from flows.calibration.delays import FOLDS, Timed, error, fit_steps, too_fast
from flows.calibration.results import covered
from flows.calibration.structural import designs
from flows.pnr.devices import placer
from flows.pnr.pnr import place_and_route
from hwgen.core.params.base import FamilyConfig
from hwgen.errors import CheckFailed

TIMED = (0, 10, 12, 16, 20, 22, 24, 26, 28, 32, 34)
"""Numbers of the calibration designs that are placed and routed: small ones of each kind."""

SEEDS = 3

REALISTIC = 16
"""Realistic designs that are placed and routed as well."""

REALISTIC_SEEDS = 1
"""Of a realistic design, which takes minutes for each: designs differ by more than seeds."""

REALISTIC_MHZ = 100.0
"""Clock that place and route of a realistic design aims at."""

DRAWN = "fit"
"""Seed that they are drawn by."""

LUTS = (500, 9_000)
"""Look-up tables of a realistic design, at least and at most, by the estimate."""

MOST_MACS = 128
"""Multiply-accumulates a cycle of the largest realistic design."""


@dataclass(frozen=True)
class Placed(Timed):
    """A design and its measured delay, through what it is mapped to.

    Parameters
    ----------
    network : Network
    """

    network: Network

    def path(
        self,
        ns: Mapping[str, float],
        outside_ns: float,
        compression: Mapping[str, float] | None = None,
    ) -> Path:
        """Return the path that limits the design; registers surround it, and nothing bends."""
        path = self.network.limiting(ns)
        assert path is not None, self.what
        return path


def measured(
    target: str, progress: Callable[[int, int], None] | None = None, count: int | None = None
) -> tuple[list[Timed], list[float]]:
    """Place and route the calibration designs.

    Parameters
    ----------
    target : str
        An FPGA family with place and route.
    progress : callable, optional
        Takes the designs done and the designs in all.
    count : int, optional
        Only the first designs.

    Returns
    -------
    (list of Timed, list of float)
        The designs; the spread of each over seeds, from the slowest to the fastest.

    Raises
    ------
    ToolMissing, CheckFailed
        As `flows.pnr.pnr.place_and_route`.
    """
    candidates = designs()
    small = [(candidates[number], SEEDS, None) for number in TIMED][:count]
    wanted = len(small) + (REALISTIC if count is None else 0)
    results: list[Timed] = []
    spreads: list[float] = []
    large = (
        (config, REALISTIC_SEEDS, REALISTIC_MHZ) for config in realistic_designs(target, DRAWN)
    )
    for config, seeds, clock_mhz in chain(small, large):
        if len(results) == wanted:
            break
        if progress:
            progress(len(results), wanted)
        design = Design.of(config)
        device = placer(target).timed_on
        try:
            result = place_and_route(
                design, target, device=device, seeds=seeds, clock_mhz=clock_mhz
            )
        except CheckFailed:  # larger than the device
            if seeds == SEEDS:
                raise
            continue
        middle, low, high = result.fmax_median_mhz, result.fmax_min_mhz, result.fmax_max_mhz
        if middle and low and high:
            results.append(Timed(str(config.resolved()), design.netlist, 0.0, 1000 / middle))
            if seeds > 1:
                spreads.append((high - low) / middle)
    return results, spreads


def realistic_designs(target: str, seed: int | str) -> Iterator[FamilyConfig]:
    """Yield realistic designs of a size that place and route takes minutes for, without end.

    Parameters
    ----------
    target : str
        An FPGA family with rules.
    seed : int or str
    """
    rules = fabric(target)
    assert rules is not None  # it was mapped
    fewest, most = LUTS
    for config in realistic.neighbours(seed, MOST_MACS):
        if fewest <= Network(Design.of(config).netlist, rules).luts <= most:
            yield config


def table(target: str, measured: Sequence[Timed], spreads: Sequence[float]) -> dict[str, Any]:
    """Return ``Technology.timing`` of placed designs, each left out of a fit to the others once."""
    rules, usual = fabric(target), placer(target).usual_ns
    assert rules is not None  # it was mapped
    mapped = [
        Placed(m.what, m.design, m.outside_ns, m.delay_ns, Network(m.design, rules))
        for m in measured
    ]
    left_out = []
    for index, each in enumerate(mapped):
        result, _ = fit_steps([*mapped[:index], *mapped[index + 1 :]], usual)
        left_out.append(error(each, result))
    by_operators = []
    for first in range(min(FOLDS, len(measured))):
        others = [each for index, each in enumerate(measured) if index % FOLDS != first]
        result, _ = fit_steps(others)
        by_operators += [error(each, result) for each in measured[first::FOLDS]]
    wrong = np.abs(left_out)
    chosen = placer(target)
    return {
        "ns": _rounded(fit_steps(measured)[0]),
        MAPPED: _rounded(fit_steps(mapped, usual)[0]),
        "outside": 0.0,  # registers surround a core
        "uncertainty": round(covered(left_out), 4),
        "margin": round(too_fast(by_operators), 4),
        "provenance": {
            "tool": chosen.tool,
            "device": chosen.timed_on or chosen.device,
            "speed": chosen.speeds[0] if chosen.speeds else None,
            "seeds": SEEDS,
            "spread_of_seeds": round(float(np.mean(spreads)), 4),
            "designs": len(measured),
            "held_out": {
                "designs": len(measured),
                "mape": round(float(wrong.mean()), 4),
                "worst": round(float(left_out[int(wrong.argmax())]), 4),
            },
        },
    }


def _rounded(ns: Mapping[str, float]) -> dict[str, float]:
    return {component: float(f"{time:.4g}") for component, time in ns.items()}
