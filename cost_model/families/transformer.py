# SPDX-License-Identifier: Apache-2.0
"""Cycles of products on an engine of several units: one list, a job of the first unit for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING

from cost_model.memories.memories import Buffer, Use
from hwgen.core.figures import Cycles
from hwgen.core.lists.commands import BYTES, LINE
from hwgen.core.register_map import job_window
from hwgen.core.registry import family

if TYPE_CHECKING:
    from hwgen.families.transformer.params import TransformerConfig

Size = tuple[int, int, int]
"""M, K and N of one product."""

_A_WORD, _A_DESCRIPTOR, _A_UNIT, _ENDS = 5, 3, 14, 12
"""Cycles of a word of a window, of a descriptor, of a unit at the start and at the end, and of the
rest of a list, counted in simulations."""


def _unit(config: TransformerConfig) -> ModuleType:
    """Return the cost module of the unit that multiplies."""
    return family(config.job_unit.family).part("cost")


def list_cycles(config: TransformerConfig, jobs: int = 1) -> int:
    """Return the cycles of a list that fills the job window and submits, for so many jobs.

    Modelled: what a list of one job takes longer than its job is within 15 % of it.
    """
    words = len(job_window(config.job_unit))
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


def cycles(config: TransformerConfig, m: int, k: int, n: int) -> int:
    """Return the cycles of one product, from START to the end of the list; modelled."""
    return cycles_of(config, [(m, k, n)])


def cycles_of(config: TransformerConfig, sizes: Iterable[Size]) -> int:
    """Return the cycles of products in one list; modelled.

    While a job runs the next one's window is filled, so a product takes as long as the longer of
    the two.
    """
    one, two = list_cycles(config, 1), list_cycles(config, 2)
    filled = two - one
    total = 0
    jobs = Counter(sizes)
    for size, times in jobs.items():
        total += times * max(filled, _unit(config).cycles(config.job_unit, *size))
    return total + (one if jobs else 0)


def timed(config: TransformerConfig, sizes: Iterable[Size]) -> Cycles:
    """Return the cycles of products of any values, and what the figure is."""
    sizes = list(sizes)
    least = _unit(config).cycles_of(config.job_unit, sizes)
    return Cycles(cycles_of(config, sizes), "modelled", least=least)


def buffers(config: TransformerConfig) -> tuple[Buffer, ...]:
    """Return the buffers of the unit that multiplies."""
    found: tuple[Buffer, ...] = _unit(config).buffers(config.job_unit)
    return found


def use(config: TransformerConfig, sizes: Iterable[Size]) -> Use:
    """Return what products do with the memories of that unit."""
    found: Use = _unit(config).use(config.job_unit, sizes)
    return found


def weight_bytes(config: TransformerConfig, size: Size) -> int:
    """Return the bytes of the weights of a product in memory, each read once."""
    return int(_unit(config).weight_bytes(config.job_unit, size))
