# SPDX-License-Identifier: Apache-2.0
"""Fitting how long the steps of paths take on an FPGA to what place and route measures.

Designs are placed and routed as `hwgen pnr` does by default, surrounded by a frame of registers;
a design's delay is the median over seeds.  Wires are part of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flows import structures
from flows.calibration.delays import Timed, error, fit_steps
from flows.calibration.results import covered
from flows.calibration.structural import designs
from flows.devices import placer
from flows.pnr import place_and_route

TIMED = (0, 10, 12, 16, 20, 22, 24, 26, 28, 32, 34)
"""Numbers of the calibration designs that are placed and routed: small ones of each kind."""

SEEDS = 3


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
        As `flows.pnr.place_and_route`.
    """
    known = designs()
    chosen = [known[number] for number in TIMED][:count]
    found: list[Timed] = []
    spreads: list[float] = []
    for config in chosen:
        if progress:
            progress(len(found), len(chosen))
        result = place_and_route(config, target, device=placer(target).timed_on, seeds=SEEDS)
        middle, low, high = result.fmax_median_mhz, result.fmax_min_mhz, result.fmax_max_mhz
        if middle and low and high:
            _, design = structures.emitted(config)
            found.append(Timed(str(config.resolved()), design, 0.0, 1000 / middle))
            spreads.append((high - low) / middle)
    return found, spreads


def table(target: str, measured: Sequence[Timed], spreads: Sequence[float]) -> dict[str, Any]:
    """Return ``Technology.timing`` of placed designs, each left out of a fit to the others once."""
    left_out = []
    for place, each in enumerate(measured):
        ns, _ = fit_steps([*measured[:place], *measured[place + 1 :]])
        left_out.append(error(each, ns))
    ns, _ = fit_steps(measured)
    wrong = np.abs(left_out)
    chosen = placer(target)
    return {
        "ns": {kind: float(f"{time:.4g}") for kind, time in ns.items()},
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
