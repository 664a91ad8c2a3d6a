# SPDX-License-Identifier: Apache-2.0
"""Longest paths of the spatial families' cores with serial PEs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cost_model.closed_forms import post_processing as post
from cost_model.closed_forms.component_counts import total
from cost_model.closed_forms.numbers import Counts
from cost_model.closed_forms.space import View
from cost_model.estimate.technology import OUTSIDE
from cost_model.families.spatial_serial_bill import (
    FIGURES,
    SUM,
    SerialGeometry,
    joined,
    serial_sum,
    sums,
)
from hwgen.arithmetic.digits import digit_count
from hwgen.arithmetic.sparse_digits import CHOSEN_ARRIVAL, FINAL_STEPS, GROUP_TERMS

if TYPE_CHECKING:
    from hwgen.core.params.spatial import SpatialConfig

WAITS = 2.5
"""Gates in front of a register of a `StreamSlice`: one line tells all its bits to wait."""


def paths(v: View) -> list[Counts]:
    """Return the operators on the longest paths; see `Technology.delays`."""
    g = SerialGeometry(v)
    start: Counts = {"register": 1.0}
    digits = digit_count(v.config.activation)
    # Which digit is taken; that it is not zero, into a slot, and whether at most one is left.
    into = np.log2(max(2, digits)) + 4
    if v.config.array.encoding == "booth4":
        made = total(start, {"fanout": np.log2(GROUP_TERMS * g.edges * g.lanes), "gate": 3 + into})
    else:
        # From the port: a magnitude, and the carries from digit to digit.
        made = total(
            {OUTSIDE: 1.0}, {"gate": 1.5 * v.config.activation.signed + 0.75 * digits + into}
        )
    chosen, behind = v.figures(FIGURES, 2, _gates)
    first, later, carry = v.figures(SUM, 3, _step_sizes)
    return [
        *post.paths(v),
        made,
        # From digit to digit; whether all have finished a slot, and what follows from it.
        total(start, {"gate": 6 + np.log2(g.queue)}),
        total(start, {"gate": 4 + np.log2(g.rows * g.lanes)}),
        total(start, {"fanout": np.log2(np.maximum(g.rows, g.cols)), "gate": chosen}),
        total(start, {"gate": behind}),
        total(start, {"fanout": np.log2(g.rows * g.cols * g.held), "gate": 2}),
        total(start, {"fanout": np.log2(g.cols * g.held), "gate": 1 + np.log2(g.rows)}),
        total(start, {"adder_bit": first, "adder_level": np.log2(first), "gate": carry + WAITS}),
        total(start, {"adder_bit": later, "adder_level": np.log2(later), "gate": WAITS}),
    ]


def _gates(config: SpatialConfig) -> tuple[float, float]:
    """Return the gates from the lines that choose to a register, and those between registers."""
    what, registers = serial_sum(config), config.pipeline.pe
    multiple = 1.5 + np.log2(GROUP_TERMS * config.array.queue)
    heaps = sums(what, registers)
    accumulate = heaps[-1].gates + 1
    if not registers:
        return multiple + accumulate - CHOSEN_ARRIVAL / 10, 0.0
    if len(heaps) == 1:
        return multiple, accumulate
    if registers == 1:
        return multiple + heaps[0].gates - CHOSEN_ARRIVAL / 10, accumulate
    return multiple, max(heaps[0].gates, accumulate)


def _step_sizes(config: SpatialConfig) -> tuple[float, float, float]:
    """Return the bits of the first step's adder and of a later one, and the gates in front."""
    what = serial_sum(config)
    first, second = (what.finished_bits(steps) for steps in (1, FINAL_STEPS - 1))
    # One more for the carry that enters.
    return first + 1.0, second - first + 1.0, joined(what).gates
