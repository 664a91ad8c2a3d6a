# SPDX-License-Identifier: Apache-2.0
"""Cost of the ternary-LUT family: exact cycles.

The counts follow from the core's sequencer (`rtl_templates.ternary_lut.core`); the regression
compares them with every simulation that runs at full rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hwgen.schedules.ternary_lut import Schedule

if TYPE_CHECKING:
    from hwgen.families.ternary_lut import TernaryLutConfig


def cycles(config: TernaryLutConfig, m: int, k: int, n: int) -> int:
    """Return the cycles of ``C[m,n] = A[m,k] . W[k,n]`` at full-rate streams.

    Counted from the cycle of the first input beat to that of the last output beat, both included.
    """
    return cycles_of(config, [(m, k, n)])


def cycles_of(config: TernaryLutConfig, sizes: Iterable[tuple[int, int, int]]) -> int:
    """Return the cycles of products that follow each other without a pause.

    Notes
    -----
    Every beat of weights takes one cycle, and there is one for each beat of activations, group of
    columns and bit plane.  The first waits for the first tables: one cycle in the buffer of the
    port and ``pipeline.table`` cycles to build them.  A pass that is not the last of its reduction
    takes at least the cycles after which the next one finds its totals.  Behind the last beat come
    the path to the results (``config.latency``, which counts the input buffer once more).
    """
    again = 1 + config.pipeline.accumulate
    slots = sum(
        plan.m * ((plan.k_tiles - 1) * max(beats, again) + beats)
        for plan in (Schedule(config, *s) for s in sizes)
        for beats in (count * config.planes for _, count in plan.blocks())
    )
    first_slot = 1 + config.pipeline.table
    last_slot = first_slot + slots - 1
    return last_slot + config.latency
