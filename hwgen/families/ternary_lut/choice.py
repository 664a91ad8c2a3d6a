# SPDX-License-Identifier: Apache-2.0
"""Automatic choices for a ternary-LUT core: its structure, and registers for a clock.

The structure is the one whose column was measured to be the smallest.  Registers are added one by
one where the slowest path leads through logic that they divide, until it is fast enough by the
limit that estimates show, too (`hwgen.core.resolve`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from hwgen.core.params.base import AUTO

DATA = Path(__file__).with_name("measured.json")


@cache
def _columns(technology: str) -> Mapping[str, float] | None:
    """Return the area of a column by its structure, None if it has not been measured."""
    result = json.loads(DATA.read_text(encoding="utf-8"))["technologies"].get(technology)
    return None if result is None else dict(result["columns_um2"])


def smallest(technology: str) -> dict[str, str]:
    """Return the fields of the structure whose column was measured to be the smallest.

    Where none has been measured it is the one for FPGAs, whose logic cells have multiplexers and
    carry chains.
    """
    result = _columns(technology)
    if result is None:
        return {"fetch": "binary", "reduction": "adders"}
    fetch, reduction = min(result, key=result.__getitem__).split()
    return {"fetch": fetch, "reduction": reduction}


def sum_groups(tables: int, registers: int) -> tuple[int, ...]:
    """Return the largest number of addends of each stage of a sum of compressors.

    The first register stands behind the reads, the others divide the sum, so that every stage has
    about as many addends for each sum; the last stage adds the old total, too.
    """
    groups, left = [], tables
    for stage in range(registers - 1):
        groups.append(ceil(left ** (1 / (registers - stage))))
        left = ceil(left / groups[-1])
    return (*groups, left)


def choose_structure(
    array: Any, technology: str, *, is_float: bool, aligned: bool
) -> dict[str, str]:
    """Return the fields of the array that are chosen where they are ``auto``, but for alignment."""
    structure = smallest(technology)
    if is_float and not aligned:
        structure = {**structure, "reduction": "adders"}
    return {name: choice for name, choice in structure.items() if getattr(array, name) == AUTO}
