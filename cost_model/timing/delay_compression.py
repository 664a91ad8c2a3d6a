# SPDX-License-Identifier: Apache-2.0
"""Compression of delays: a mapper makes long paths faster than the sum of their steps.

A path twice as long as another takes less than twice its time: what is long is restructured, made
of larger cells and balanced, what is short is left small.  So the time inside a design is a power
of the sum of its steps.  It grows with the sum: which path is the slowest stays the same, and so
does what a register divides best.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

COMPRESSION = "bend"
"""Key of the timing of a technology: ``ns``, a sum of steps that takes as long as it says, and the
``exponent``.  Without it every sum does."""


def compress_delay(sum_ns: Any, timing: Mapping[str, Any]) -> Any:
    """Return the delay inside a design in ns, by the sum of its steps."""
    if not (law := timing.get(COMPRESSION)):
        return sum_ns
    return law["ns"] * np.power(np.maximum(sum_ns, 0.0) / law["ns"], law["exponent"])


def expand_delay(elapsed_ns: Any, timing: Mapping[str, Any]) -> Any:
    """Return the sum of the steps of a path in ns; the inverse of `compress_delay`."""
    if not (law := timing.get(COMPRESSION)):
        return elapsed_ns
    return law["ns"] * np.power(np.maximum(elapsed_ns, 0.0) / law["ns"], 1 / law["exponent"])
