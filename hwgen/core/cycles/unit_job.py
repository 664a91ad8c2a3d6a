# SPDX-License-Identifier: Apache-2.0
"""Cycles and beats of a job of a unit, predicted from the contents of its window."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hwgen.core.params.memory_port import Memory


def port_latency(memory: Memory) -> int:
    """Return the cycles from an address to its first beat, where units share a port.

    The memory answers in the next cycle.  Addresses of the shared port are registers; with
    registers between units and port, which have cycles of their own, so is the unit that is chosen.

    Parameters
    ----------
    memory : Memory
    """
    return 3 if memory.registered else 2


class UnitJob(NamedTuple):
    """A job on an idle unit whose memory serves nobody else.

    Parameters
    ----------
    cycles, least, most : int
        Cycles in which it is unfinished: as modelled, and bounds.
    work : int
        Cycles that jobs of the unit which follow each other do not share.
    reads, writes : int
        Beats of the memory.
    bursts : int
        Of both directions.
    """

    cycles: int
    least: int
    most: int
    work: int
    reads: int
    writes: int
    bursts: int


@lru_cache(maxsize=1 << 14)
def bursts_of(start: int, size: int, bus: int, longest: int) -> tuple[int, ...]:
    """Return the beats of each burst of a row.

    Parameters
    ----------
    start, size : int
        Bytes: where it begins behind a boundary of bursts, and of the row.
    bus, longest : int
        Bytes of a beat, of the longest burst.
    """
    end = start + size
    bursts = []
    while start < end:
        stop = min(end, (start // longest + 1) * longest)
        bursts.append(-(-stop // bus) - start // bus)
        start = stop
    return tuple(bursts)
