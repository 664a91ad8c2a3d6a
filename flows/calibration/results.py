# SPDX-License-Identifier: Apache-2.0
"""Statistics of fits that every table of costs has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cost_model.estimate.technology import Quantity
from hwgen.config.dotted import flattened
from hwgen.core.params.base import FamilyConfig

QUANTITIES: tuple[Quantity, ...] = ("area_um2", "leakage_nw", "energy_fj")
"""What a component of standard cells costs."""

COVERED = 0.9
"""Share of the designs that a stated uncertainty covers."""


def covered(errors: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the bound of the absolute errors of a share `COVERED` of the designs."""
    return float(np.quantile(np.abs(errors), COVERED))


def summary(errors: Iterable[float]) -> dict[str, float]:
    """Return the mean and the worst of relative errors."""
    relative = np.array(list(errors))
    return {
        "mape": round(float(np.abs(relative).mean()), 4),
        "worst": round(float(relative[np.abs(relative).argmax()]), 4),
        "count": len(relative),
    }


def rounded(prices: Mapping[str, float]) -> dict[str, float]:
    """Return prices of six digits."""
    return {component: float(f"{price:.6g}") for component, price in prices.items()}


def ranges(configs: Iterable[FamilyConfig]) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest value of each size and pipeline depth, by family."""
    bounds: dict[str, tuple[float, float]] = {}
    for config in configs:
        for name, value in flattened(config.resolved()).items():
            if type(value) is int and name.startswith(("array.", "pipeline.")):
                key = f"{config.family}:{name}"
                low, high = bounds.get(key, (value, value))
                bounds[key] = (min(low, value), max(high, value))
    return bounds
