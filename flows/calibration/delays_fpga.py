# SPDX-License-Identifier: Apache-2.0
"""Fitting how long the steps of paths take on an FPGA to what place and route measures.

Designs are placed and routed as `hwgen pnr` does by default, surrounded by a frame of registers;
a design's delay is the median over seeds.  Wires are part of the steps.  Two tables of steps are
fitted: those through what a design is mapped to, which estimates are made of, and those through
its operators, by which `auto` chooses hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cost_model.netlist.fabric.fabric import fabric
from cost_model.timing.graph import Path
from cost_model.timing.limit import MAPPED
from cost_model.timing.network import Network
from flows.build.design import Design
from flows.calibration.delays import Timed, error, fit_steps
from flows.calibration.results import covered
from flows.calibration.structural import designs
from flows.pnr.devices import placer
from flows.pnr.pnr import place_and_route

TIMED = (0, 10, 12, 16, 20, 22, 24, 26, 28, 32, 34)
"""Numbers of the calibration designs that are placed and routed: small ones of each kind."""

SEEDS = 3


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
    chosen = [candidates[number] for number in TIMED][:count]
    results: list[Timed] = []
    spreads: list[float] = []
    for config in chosen:
        if progress:
            progress(len(results), len(chosen))
        design = Design.of(config)
        result = place_and_route(design, target, device=placer(target).timed_on, seeds=SEEDS)
        middle, low, high = result.fmax_median_mhz, result.fmax_min_mhz, result.fmax_max_mhz
        if middle and low and high:
            results.append(Timed(str(config.resolved()), design.netlist, 0.0, 1000 / middle))
            spreads.append((high - low) / middle)
    return results, spreads


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
    wrong = np.abs(left_out)
    chosen = placer(target)
    return {
        "ns": _rounded(fit_steps(measured)[0]),
        MAPPED: _rounded(fit_steps(mapped, usual)[0]),
        "outside": 0.0,  # registers surround a core
        "uncertainty": round(covered(left_out), 4),
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
