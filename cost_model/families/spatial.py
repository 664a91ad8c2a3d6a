# SPDX-License-Identifier: Apache-2.0
"""Cost of the families `cube`, `adder_tree` and `broadcast_2d`: exact cycles and rates.

Their bill of components is in `spatial_bill`, their delay in `spatial_delay`.

The counts follow from the sequencer of the core (`rtl_templates.spatial.core`); the regression
compares them with every simulation that runs at full rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cost_model import post
from cost_model.bill import Number, View, ceil_div
from cost_model.families.spatial_bill import Geometry, parts
from cost_model.families.spatial_delay import paths
from hwgen.schedules.spatial import Schedule

if TYPE_CHECKING:
    from hwgen.config.spatial import SpatialConfig

__all__ = [
    "RULES", "cycles", "cycles_at", "cycles_of", "macs_at", "parts", "paths", "port_bits_at",
]  # fmt: skip

RULES = ("array.depth", "array.carry_spacing", "pipeline.pe")
"""Numeric parameters that rules between fields look at."""

Size = tuple[int, int, int]
"""M, K and N of one product."""


def cycles(config: SpatialConfig, m: int, k: int, n: int) -> int:
    """Return the cycles of ``C[m,n] = A[m,k] . W[k,n]`` at full-rate streams.

    Counted from the cycle of the first input beat to that of the last output beat, both included.
    """
    return cycles_of(config, [(m, k, n)])


def cycles_of(config: SpatialConfig, sizes: Iterable[Size]) -> int:
    """Return the cycles of products that follow each other without a pause.

    Parameters
    ----------
    config : SpatialConfig
    sizes : iterable of (m, k, n)
        At least one.

    Notes
    -----
    A tile takes as many slots as it has beats.  Its drain starts at the slot behind them, and the
    next one not before this one's rows have left: a tile of fewer beats takes ``rows + lead``
    slots, but for the first one, which nothing holds up.
    """
    shortest = config.rows + config.lead
    slots = first = 0
    for plan in (Schedule(config, *size) for size in sizes):
        xs, ks, ys = plan.blocks
        first = first or ks
        slots += xs * ys * max(ks, shortest)
    last_drain = first + slots - max(first, shortest)
    return last_drain + config.rows + config.latency - 1


def cycles_at(v: View, sizes: Sequence[Size]) -> Number:
    """Return the cycles of `cycles_of` for every configuration of a view."""
    g = Geometry(v)
    shortest = g.rows + g.lead
    slots: Number = 0
    for (m, k, n), repeats in Counter(sizes).items():
        beats = np.maximum(ceil_div(k, g.depth), shortest)
        slots = slots + repeats * ceil_div(m, g.rows) * ceil_div(n, g.cols) * beats
    first = ceil_div(sizes[0][1], g.depth)
    last_drain = first + slots - np.maximum(first, shortest)
    latency = 3 + g.lead + g.digits + post.latency(v)
    return last_drain + g.rows + latency - 1


# -- rates -----------------------------------------------------------------------------------------


def macs_at(v: View) -> Number:
    """Return the multiply-accumulates of a full cycle."""
    g = Geometry(v)
    return g.rows * g.depth * g.cols


def port_bits_at(v: View) -> Number:
    """Return the bits of a beat of all ports together."""
    g = Geometry(v)
    inputs = g.depth * (g.rows * v.config.activation.width + g.cols * v.config.weight.width)
    return inputs + g.cols * post.lane_bits(v) + post.port_bits(v, g.cols)
