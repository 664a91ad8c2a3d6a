# SPDX-License-Identifier: Apache-2.0
"""Functions of one number that the host of an engine has, defined to the last bit.

As in `hwgen.models.run.host_arithmetic` everything is additions, multiplications and divisions in
double precision in the order that stands here.  Arguments are numbers of single precision, widened;
results that are rounded to single precision again are off by one unit in its last place at most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from hwgen.models.run.host_arithmetic import (
    CUBE,
    LOG_2_HIGH,
    LOG_2_LOW,
    ROUND,
    TWICE_ROOT,
    exponential,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Wide = NDArray[np.float64]

SMALL = 0.5
"""Magnitudes below it take the series of e^x - 1."""
LESS_ONE = tuple(1.0 / math.factorial(power) for power in range(16, 0, -1))
"""Taylor's, of (e^x - 1) / x."""

RATIO = tuple(1.0 / (2 * power + 1) for power in range(18, -1, -1))
"""Of the logarithm of (1 + f) / (1 - f), over 2 f; for f up to 1/3."""
ROOT_2 = math.sqrt(2.0)

ERF_BOUND = 2.5
"""From there on the error function is 1 less a continued fraction."""
ERF_TERMS = 60
ERF_DEPTH = 50
ERF_FACTOR = 2.0 / math.sqrt(math.pi)
ROOT_PI = math.sqrt(math.pi)
INVERSE_ROOT_2 = 1.0 / math.sqrt(2.0)

TANH_MOST = 20.0
"""From there on the hyperbolic tangent is 1."""

TURN_MOST = 2.0**30
"""Sines and cosines of larger magnitudes are no numbers."""
TWO_OVER_PI = 2.0 / math.pi
HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
"""Half of pi in three parts, of which the first two have so few bits that products by small
integers are exact."""
SINE = tuple((-1.0) ** power / math.factorial(2 * power + 1) for power in range(8, -1, -1))
COSINE = tuple((-1.0) ** power / math.factorial(2 * power) for power in range(9, -1, -1))


def _polynomial(factors: tuple[float, ...], x: Wide) -> Wide:
    """Return a polynomial, the factor of the highest power first."""
    found = np.full_like(x, factors[0])
    for factor in factors[1:]:
        found = found * x + factor
    return found


def magnitude(x: Wide) -> Wide:
    """Return magnitudes."""
    return np.where(x < 0.0, -x, x)


def less_one(x: Wide) -> Wide:
    """Return e^x - 1."""
    small = magnitude(x) < SMALL
    series = _polynomial(LESS_ONE, np.where(small, x, 0.0))
    return np.where(small, x * series, exponential(x) - 1.0)


def log_of_ratio(f: Wide) -> Wide:
    """Return the logarithm of (1 + f) / (1 - f), of magnitudes up to 1/3."""
    return 2.0 * f * _polynomial(RATIO, f * f)


def logarithm(x: Wide) -> Wide:
    """Return logarithms; of 0 minus infinity, of negative numbers none."""
    inside = (x > 0.0) & (x < np.inf)
    bits = np.where(inside, x, 1.0).view(np.int64)
    power = (bits >> 52) - 1023
    part = ((bits & 0xFFFFFFFFFFFFF) | (1023 << 52)).view(np.float64)
    above = part > ROOT_2
    part = np.where(above, 0.5 * part, part)
    wide = (power + above).astype(np.float64)
    log = wide * LOG_2_HIGH + (wide * LOG_2_LOW + log_of_ratio((part - 1.0) / (part + 1.0)))
    outside = np.where(x == 0.0, -np.inf, np.where(x > 0.0, np.inf, np.nan))
    return np.where(inside, log, outside)


def softplus(x: Wide) -> Wide:
    """Return the logarithm of 1 + e^x."""
    power = exponential(-magnitude(x))
    return np.where(x > 0.0, x, 0.0) + log_of_ratio(power / (2.0 + power))


def sigmoid(x: Wide) -> Wide:
    """Return 1 / (1 + e^-x)."""
    return np.asarray(1.0 / (1.0 + exponential(-x)))


def tanh(x: Wide) -> Wide:
    """Return hyperbolic tangents."""
    positive = magnitude(x)
    power = less_one(2.0 * np.where(positive < TANH_MOST, positive, TANH_MOST))
    found = power / (power + 2.0)
    return np.where(x < 0.0, -found, found)


def _erf_series(x: Wide) -> Wide:
    """Return the error function of magnitudes up to `ERF_BOUND`."""
    term, total, square = x, x, 2.0 * x * x
    for number in range(1, ERF_TERMS + 1):
        term = term * square / (2.0 * number + 1.0)
        total = total + term
    return ERF_FACTOR * exponential(-(x * x)) * total


def _erf_rest(x: Wide) -> Wide:
    """Return 1 less the error function, of numbers from `ERF_BOUND` on."""
    found = x
    for number in range(ERF_DEPTH, 0, -1):
        found = x + 0.5 * number / found
    return exponential(-(x * x)) / (found * ROOT_PI)


def erf(x: Wide) -> Wide:
    """Return the error function."""
    positive = magnitude(x)
    series = _erf_series(np.where(positive < ERF_BOUND, x, 0.0))
    rest = 1.0 - _erf_rest(np.where(positive < ERF_BOUND, ERF_BOUND, positive))
    return np.where(positive < ERF_BOUND, series, np.where(x < 0.0, -rest, rest))


def gelu(x: Wide) -> Wide:
    """Return x times the share of normally distributed numbers below it."""
    z = x * INVERSE_ROOT_2
    below = _erf_rest(np.where(z < -ERF_BOUND, -z, ERF_BOUND))
    return 0.5 * x * np.where(z < -ERF_BOUND, below, 1.0 + erf(z))


def gelu_tanh(x: Wide) -> Wide:
    """Return the GELU by a hyperbolic tangent."""
    inner = x + CUBE * x * x * x
    return np.asarray(x / (1.0 + exponential(-(TWICE_ROOT * inner))))


def _turned(x: Wide, ahead: int) -> Wide:
    """Return the sine, or the cosine, which is one quarter ahead."""
    inside = magnitude(x) < TURN_MOST
    x = np.where(inside, x, 0.0)
    quarter = (x * TWO_OVER_PI + ROUND) - ROUND
    rest = ((x - quarter * HALF_PI[0]) - quarter * HALF_PI[1]) - quarter * HALF_PI[2]
    square = rest * rest
    number = quarter.astype(np.int64) + ahead
    odd = (number & 1).astype(bool)
    found = np.where(odd, _polynomial(COSINE, square), rest * _polynomial(SINE, square))
    found = np.where((number & 2).astype(bool), -found, found)
    return np.where(inside, found, np.nan)


def sine(x: Wide) -> Wide:
    """Return sines; beyond some million they lose digits."""
    return _turned(x, 0)


def cosine(x: Wide) -> Wide:
    """Return cosines; beyond some million they lose digits."""
    return _turned(x, 1)


def power(x: Wide, y: Wide) -> Wide:
    """Return x to the power of y; of negative numbers to whole powers only."""
    whole = ((y + ROUND) - ROUND) == y
    half = 0.5 * y
    odd = whole & (((half + ROUND) - ROUND) != half)
    found = exponential(y * logarithm(magnitude(x)))
    found = np.where(x < 0.0, np.where(whole, np.where(odd, -found, found), np.nan), found)
    found = np.where(y == 2.0, x * x, found)
    return np.where((y == 0.0) | (x == 1.0), 1.0, np.where(y == 1.0, x, found))


FUNCTIONS = {
    "sigmoid": sigmoid, "tanh": tanh, "erf": erf, "gelu": gelu, "gelu_tanh": gelu_tanh,
    "exp": exponential, "log": logarithm, "softplus": softplus, "sin": sine, "cos": cosine,
}  # fmt: skip
"""By the name that `hwgen.models.graph.operations` has them under."""
