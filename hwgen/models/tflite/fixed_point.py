# SPDX-License-Identifier: Apache-2.0
"""Exponentials of negative numbers in fixed point, as TensorFlow Lite computes them by gemmlowp."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.models.run.tensor_integers import fixed_point, high_product

_INTEGER_BITS = 5  # of what is exponentiated; 26 bits are behind the point
_FRACTION_BITS = 31 - _INTEGER_BITS
_EIGHTH = 1895147668  # exp(-1/8)
_THIRD = 715827883  # 1/3
_POWERS = ((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535),
           (3, 720401), (4, 242))  # fmt: skip
"""exp(-2^k) by k; all numbers are of 31 bits behind the point."""


def _halved(x: NDArray[np.int64], digits: int) -> NDArray[np.int64]:
    """Return integers over a power of two, rounded to nearest, halves away from 0."""
    mask = (1 << digits) - 1
    return np.asarray((x >> digits) + ((x & mask) > (mask >> 1) + (x < 0)))


def _near_zero(x: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return exponentials of numbers from -1/4 to 0, by a polynomial around -1/8."""
    x = x + (1 << 28)
    square = high_product(x, x)
    third, fourth = high_product(square, x), high_product(square, square)
    rest = high_product(_halved(fourth, 2) + third, np.int64(_THIRD)) + square
    return _EIGHTH + high_product(x + _halved(rest, 1), np.int64(_EIGHTH))


def exponentials(factor: float) -> NDArray[np.int32]:
    """Return exp(-factor * (255 - i)) for i from 0 to 255, of 31 bits behind the point.

    Parameters
    ----------
    factor : float
        What a step of the integers means; above 0.
    """
    real = min(factor * (1 << _FRACTION_BITS), (1 << 31) - 1.0)
    multiplier, shift = fixed_point(real)
    steps = np.arange(-255, 1, dtype=np.int64)
    least = -math.floor(((1 << _INTEGER_BITS) - 1) * 2.0 ** (_FRACTION_BITS - shift))
    inside = steps >= least
    scaled = high_product(np.where(inside, steps, 0) * 2**shift, np.int64(multiplier))
    quarter = 1 << (_FRACTION_BITS - 2)
    rest = (scaled & (quarter - 1)) - quarter
    result: Any = _near_zero(rest << _INTEGER_BITS)
    missing = rest - scaled
    for power, number in _POWERS:
        taken = (missing & (1 << (_FRACTION_BITS + power))) != 0
        result = np.where(taken, high_product(result, np.int64(number)), result)
    result = np.where(scaled == 0, (1 << 31) - 1, result)
    return np.where(inside, result, 0).astype(np.int32)
