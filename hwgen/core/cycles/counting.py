# SPDX-License-Identifier: Apache-2.0
"""Integer arithmetic on single numbers and on arrays of configurations."""

from __future__ import annotations

from typing import Any

from hwgen.lazy import np

Number = Any
"""An array, or a scalar where nothing varies."""


def ceil_div(a: Number, b: Number) -> Number:
    """Return ``a / b``, rounded up."""
    return -(-np.asarray(a) // b)
