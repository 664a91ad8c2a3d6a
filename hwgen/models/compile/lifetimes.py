# SPDX-License-Identifier: Apache-2.0
"""Places in memory for arrays that live one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from hwgen.models.compile.placement import WORK, Placement


@dataclass(frozen=True)
class Life:
    """An array and when it is there.

    Parameters
    ----------
    name : str
    bytes : int
    first, last : int
        Steps that make it and that read it last.
    """

    name: str
    bytes: int
    first: int
    last: int


def placed(lives: list[Life], alignment: int) -> Placement:
    """Return places from 0 on, the lowest that is free as long as an array lives; largest first.

    Parameters
    ----------
    lives : list of Life
    alignment : int
        Bytes that each array begins at a multiple of.
    """
    found = Placement(0, alignment)
    taken: list[tuple[int, int, Life]] = []
    for life in sorted(lives, key=lambda each: (-each.bytes, each.first)):
        size = -(-max(life.bytes, 1) // alignment) * alignment
        at = 0
        for begin, end, other in sorted(taken, key=lambda each: each[0]):
            if other.last < life.first or life.last < other.first:
                continue
            if begin - at >= size:
                break
            at = max(at, end)
        taken.append((at, at + size, life))
        found.place_at(life.name, at, life.bytes, WORK, written=True)
    return found
