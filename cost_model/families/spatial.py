# SPDX-License-Identifier: Apache-2.0
"""Cost of the families `cube`, `adder_tree` and `broadcast_2d`: exact cycles.

The counts follow from the sequencer of the core (`rtl_templates.spatial.core`); the regression
compares them with every simulation that runs at full rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hwgen.schedules.spatial import Schedule

if TYPE_CHECKING:
    from hwgen.config.spatial import SpatialConfig

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
