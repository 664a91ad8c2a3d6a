# SPDX-License-Identifier: Apache-2.0
"""Measured figures by which the generator chooses, by technology.

They are those of `measured.json`, which ``make bench-columns`` measures and writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

DATA = Path(__file__).with_name("measured.json")


@cache
def _columns(technology: str) -> Mapping[str, float] | None:
    """Return the area of a column by its structure, None if it has not been measured."""
    found = json.loads(DATA.read_text(encoding="utf-8"))["technologies"].get(technology)
    return None if found is None else dict(found["columns_um2"])


def smallest(technology: str) -> dict[str, str]:
    """Return the fields of the structure whose column was measured to be the smallest.

    Where none has been measured it is the one for FPGAs, whose logic cells have multiplexers and
    carry chains.
    """
    found = _columns(technology)
    if found is None:
        return {"fetch": "binary", "reduction": "adders"}
    fetch, reduction = min(found, key=found.__getitem__).split()
    return {"fetch": fetch, "reduction": reduction}
