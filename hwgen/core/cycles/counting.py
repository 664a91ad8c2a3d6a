# SPDX-License-Identifier: Apache-2.0
"""Integer arithmetic on single numbers and on arrays of configurations."""

from __future__ import annotations

from typing import Any

from hwgen.lazy import np

Number = Any
"""An array, or a scalar where nothing varies."""


def ceil_div(a: Number, b: Number) -> Number:
    """Return ``a / b``, rounded up."""
    return -(-a // b)


def as_integer(number: Number) -> int:
    """Return a scalar as an integer of Python; arrays (of configurations) stay arrays."""
    result: int = number if np.ndim(number) else int(number)
    return result


def bits_of(count: Number) -> Number:
    """Return the bits of a counter from 0 to below `count`: ``ceil(log2(count))``."""
    # Exact below 2**53: the mantissa of a power of two is a half.
    return np.frexp(np.asarray(count, np.float64) - 1)[1] * (np.asarray(count) > 1)
