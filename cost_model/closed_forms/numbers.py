# SPDX-License-Identifier: Apache-2.0
"""Counts of components as numbers or arrays, and the arithmetic that all closed forms share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hwgen.core.cycles.counting import Number as Number
from hwgen.core.cycles.counting import ceil_div as ceil_div

Array = NDArray[np.float64]
Counts = Mapping[str, Number]
"""Number of components of each type."""


def register(bits: Number, *, enable: bool = False, reset: bool = False) -> dict[str, Number]:
    """Return the bill of a register."""
    bill = {"flip_flop": bits}
    if enable:
        bill["enable"] = bits
    if reset:
        bill["reset"] = bits
    return bill


def bits_of(count: Number) -> Number:
    """Return the bits of a counter from 0 to below `count`: ``ceil(log2(count))``."""
    # Exact below 2**53: the mantissa of a power of two is a half.
    return np.frexp(np.asarray(count, np.float64) - 1)[1] * (np.asarray(count) > 1)


def bit_length(number: Number) -> Number:
    """Return the bits of a number from 0 up."""
    return np.frexp(np.asarray(number, np.float64))[1]
