# SPDX-License-Identifier: Apache-2.0
"""Cycles of products on an engine of several units: one list, a job of the first unit for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hwgen.core.lists.commands import BYTES, LINE

if TYPE_CHECKING:
    from hwgen.core.core import Core
    from hwgen.core.operation import Job
    from hwgen.families.transformer.params import TransformerConfig

_A_WORD, _A_DESCRIPTOR, _A_UNIT, _ENDS = 5, 3, 14, 12
"""Cycles of a word of a window, of a descriptor, of a unit at the start and at the end, and of the
rest of a list, counted in simulations."""


def list_cycles(config: TransformerConfig, jobs: int = 1) -> int:
    """Return the cycles of a list that fills the job window and submits, for so many jobs.

    Modelled: what a list of one job takes longer than its job is within 15 % of it.
    """
    words = len(config.job_unit.job_interface.window)
    descriptors = jobs * (2 + -(-words // 4)) + 1
    lines = -(-descriptors // LINE)
    beats = LINE * BYTES * 8 // config.memory.data_width
    return (
        jobs * words * _A_WORD
        + descriptors * _A_DESCRIPTOR
        + lines * (8 + beats)
        + len(config.units) * _A_UNIT
        + _ENDS
    )


def gemm_cycles(config: TransformerConfig, unit: Core[Any], jobs: Sequence[Job]) -> int:
    """Return the cycles of products in one list; modelled.

    While a job runs the next one's window is filled, so a product takes as long as the longer of
    the two.
    """
    one, two = list_cycles(config, 1), list_cycles(config, 2)
    filled = two - one
    products = Counter((job.gemm_size, job.post) for job in jobs)
    total = 0
    for (size, post), times in products.items():
        total += times * max(filled, unit.cycles([unit.gemm(*size, post)]).number)
    return total + (one if products else 0)
