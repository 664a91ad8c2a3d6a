# SPDX-License-Identifier: Apache-2.0
"""Functions of numbers that the host of an engine computes, defined to the last bit.

They are additions, subtractions, multiplications and divisions in double precision, in this order.
`flows.build.drivers.c_functions` translates their source to C, which computes the same operations
in the same order, so that results are equal in every bit wherever ``double`` is that of IEEE 754.

They are therefore written in a subset of Python: assignments, loops over ranges, comparisons,
`where`, `polynomial`, the conversions below, constants of this module, and each other.

Arguments of functions of networks are numbers of single precision, widened; results that are
rounded to single precision again are off by one unit in its last place at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import where
from numpy.typing import NDArray

Wide = NDArray[np.float64]
Bits = NDArray[np.int64]

ROUND = 6755399441055744.0
"""1.5 * 2^52: added and subtracted again, it rounds a number to an integer, halves to even."""

LOG2_E = math.log2(math.e)
LOG_2_HIGH = 0.6931471803691238
"""The logarithm of 2 in so many bits that its products with small integers are exact."""
LOG_2_LOW = 1.9082149292705877e-10
"""The logarithm of 2 less `LOG_2_HIGH`."""

EXPONENTIAL = tuple(1.0 / math.factorial(power) for power in range(13, -1, -1))
"""Taylor series of the exponential; for arguments up to log(2) / 2 the rest is less than 2^-56."""

MOST_EXPONENT = 700.0
"""Largest magnitude of the argument of an exponential; others are limited to it."""

INVERSE_ROOT = 0x5FE6EB50C7B537A9
"""Number that half of a number's bits are subtracted from for the first inverse root."""

ROOT_STEPS = 4

CUBE = 0.044715
TWICE_ROOT = 2 * math.sqrt(2 / math.pi)
"""Factor of the GELU by a hyperbolic tangent."""

SMALL = 0.5
"""Magnitudes below it are computed by the series of e^x - 1."""
LESS_ONE = tuple(1.0 / math.factorial(power) for power in range(16, 0, -1))
"""Taylor series of (e^x - 1) / x."""

RATIO = tuple(1.0 / (2 * power + 1) for power in range(18, -1, -1))
"""Series of the logarithm of (1 + f) / (1 - f), over 2 f; for f up to 1/3."""
ROOT_2 = math.sqrt(2.0)
FRACTION, ONE = (1 << 52) - 1, 1023 << 52
"""Bits of a number's fraction, and bits of 1."""

ERF_BOUND = 2.5
"""From there on the error function is 1 less a continued fraction."""
ERF_TERMS = 60
ERF_DEPTH = 50
ERF_FACTOR = 2.0 / math.sqrt(math.pi)
ROOT_PI = math.sqrt(math.pi)
INVERSE_ROOT_2 = 1.0 / math.sqrt(2.0)

TANH_MOST = 20.0
"""From there on the hyperbolic tangent is 1."""

ANGLE_MOST = 2.0**30
"""Sines and cosines of larger magnitudes are not a number."""
TWO_OVER_PI = 2.0 / math.pi
HALF_PI_HIGH, HALF_PI_MIDDLE, HALF_PI_LOW = (
    1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21,
)  # fmt: skip
"""Half of pi in three parts; products of the first two by small integers are exact."""
SINE = tuple((-1.0) ** power / math.factorial(2 * power + 1) for power in range(8, -1, -1))
COSINE = tuple((-1.0) ** power / math.factorial(2 * power) for power in range(9, -1, -1))

INFINITY, NOT_A_NUMBER = math.inf, math.nan

# -- conversions, which C has by hand --------------------------------------------------------------


def polynomial(factors: tuple[float, ...], x: Wide) -> Wide:
    """Return a polynomial, the factor of the highest power first."""
    result = np.full_like(x, factors[0])
    for factor in factors[1:]:
        result = result * x + factor
    return result


def bits_of(x: Wide) -> Bits:
    """Return the 64 bits of numbers."""
    return np.asarray(x).view(np.int64)


def double_of(bits: Bits) -> Wide:
    """Return the numbers of 64 bits."""
    return np.asarray(bits).view(np.float64)


def whole_of(x: Wide) -> Bits:
    """Return numbers without a fraction as integers."""
    return np.asarray(x).astype(np.int64)


def wide_of(x: Bits) -> Wide:
    """Return small integers as numbers."""
    return np.asarray(x).astype(np.float64)


# -- functions, which are translated ---------------------------------------------------------------


def magnitude(x: Wide) -> Wide:
    """Return magnitudes."""
    return where(x < 0.0, -x, x)


def rounded(x: Wide) -> Wide:
    """Return the nearest integers, halves to even, of magnitudes below 2^51."""
    return (x + ROUND) - ROUND


def exponential(x: Wide) -> Wide:
    """Return e^x, off by two units in the last place at most."""
    x = where(x < -MOST_EXPONENT, -MOST_EXPONENT, x)
    x = where(x > MOST_EXPONENT, MOST_EXPONENT, x)
    power = rounded(x * LOG2_E)
    rest = (x - power * LOG_2_HIGH) - power * LOG_2_LOW
    exponent = whole_of(where(power == power, power, 0.0)) + 1023
    return polynomial(EXPONENTIAL, rest) * double_of(exponent << 52)


def inverse_root(x: Wide) -> Wide:
    """Return 1 / sqrt(x) of positive numbers, by Newton's iteration."""
    y = double_of(INVERSE_ROOT - (bits_of(x) >> 1))
    for _ in range(ROOT_STEPS):
        y = y * (1.5 - 0.5 * x * y * y)
    return y


def less_one(x: Wide) -> Wide:
    """Return e^x - 1."""
    small = magnitude(x) < SMALL
    inside = where(small, x, 0.0)
    return where(small, x * polynomial(LESS_ONE, inside), exponential(x) - 1.0)


def log_ratio(f: Wide) -> Wide:
    """Return the logarithm of (1 + f) / (1 - f), of magnitudes up to 1/3."""
    return 2.0 * f * polynomial(RATIO, f * f)


def logarithm(x: Wide) -> Wide:
    """Return logarithms; of 0 minus infinity, of negative numbers none."""
    inside = (x > 0.0) & (x < INFINITY)
    bits = bits_of(where(inside, x, 1.0))
    part = double_of((bits & FRACTION) | ONE)
    above = part > ROOT_2
    part = where(above, 0.5 * part, part)
    wide = wide_of((bits >> 52) - 1023) + where(above, 1.0, 0.0)
    inner = wide * LOG_2_HIGH + (wide * LOG_2_LOW + log_ratio((part - 1.0) / (part + 1.0)))
    outside = where(x == 0.0, -INFINITY, where(x > 0.0, INFINITY, NOT_A_NUMBER))
    return where(inside, inner, outside)


def softplus(x: Wide) -> Wide:
    """Return the logarithm of 1 + e^x."""
    power = exponential(-magnitude(x))
    return where(x > 0.0, x, 0.0) + log_ratio(power / (2.0 + power))


def sigmoid(x: Wide) -> Wide:
    """Return 1 / (1 + e^-x)."""
    return 1.0 / (1.0 + exponential(-x))


def silu(x: Wide) -> Wide:
    """Return x times its sigmoid."""
    return x / (1.0 + exponential(-x))


def relu2(x: Wide) -> Wide:
    """Return the squares of positive numbers, 0 of others."""
    positive = where(x < 0.0, 0.0, x)
    return positive * positive


def tanh(x: Wide) -> Wide:
    """Return hyperbolic tangents."""
    positive = magnitude(x)
    power = less_one(2.0 * where(positive < TANH_MOST, positive, TANH_MOST))
    tangent = power / (power + 2.0)
    return where(x < 0.0, -tangent, tangent)


def erf_series(x: Wide) -> Wide:
    """Return the error function of magnitudes up to `ERF_BOUND`."""
    term = x
    total = x
    square = 2.0 * x * x
    for number in range(1, ERF_TERMS + 1):
        term = term * square / (2.0 * number + 1.0)
        total = total + term
    return ERF_FACTOR * exponential(-(x * x)) * total


def erf_rest(x: Wide) -> Wide:
    """Return 1 less the error function, of numbers from `ERF_BOUND` on."""
    fraction = x
    for number in range(ERF_DEPTH, 0, -1):
        fraction = x + 0.5 * number / fraction
    return exponential(-(x * x)) / (fraction * ROOT_PI)


def erf(x: Wide) -> Wide:
    """Return the error function."""
    positive = magnitude(x)
    small = positive < ERF_BOUND
    sign = where(x < 0.0, -1.0, 1.0)
    return where(
        small,
        erf_series(where(small, x, 0.0)),
        sign * (1.0 - erf_rest(where(small, ERF_BOUND, positive))),
    )


def gelu(x: Wide) -> Wide:
    """Return x times the share of normally distributed numbers below it."""
    z = x * INVERSE_ROOT_2
    low = z < -ERF_BOUND
    return 0.5 * x * where(low, erf_rest(where(low, -z, ERF_BOUND)), 1.0 + erf(z))


def gelu_tanh(x: Wide) -> Wide:
    """Return the GELU by a hyperbolic tangent."""
    inner = x + CUBE * x * x * x
    return x / (1.0 + exponential(-(TWICE_ROOT * inner)))


def angle_sine(x: Wide, ahead: int) -> Wide:
    """Return the sine of an angle and a number of quarters of a circle."""
    inside = magnitude(x) < ANGLE_MOST
    angle = where(inside, x, 0.0)
    quarter = rounded(angle * TWO_OVER_PI)
    rest = ((angle - quarter * HALF_PI_HIGH) - quarter * HALF_PI_MIDDLE) - quarter * HALF_PI_LOW
    square = rest * rest
    number = whole_of(quarter) + ahead
    odd = (number & 1) == 1
    part = where(odd, polynomial(COSINE, square), rest * polynomial(SINE, square))
    part = where((number & 2) == 2, -part, part)
    return where(inside, part, NOT_A_NUMBER)


def sine(x: Wide) -> Wide:
    """Return sines; beyond some million they lose digits."""
    return angle_sine(x, 0)


def cosine(x: Wide) -> Wide:
    """Return cosines; beyond some million they lose digits."""
    return angle_sine(x, 1)


def power(x: Wide, y: Wide) -> Wide:
    """Return x to the power of y; of negative numbers to whole powers only."""
    whole = rounded(y) == y
    half = 0.5 * y
    odd = whole & (rounded(half) != half)
    result = exponential(y * logarithm(magnitude(x)))
    negative = where(whole, where(odd, -result, result), NOT_A_NUMBER)
    result = where(x < 0.0, negative, result)
    result = where(y == 2.0, x * x, result)
    return where((y == 0.0) | (x == 1.0), 1.0, where(y == 1.0, x, result))


FUNCTIONS: dict[str, Callable[[Wide], Wide]] = {
    "sigmoid": sigmoid, "tanh": tanh, "erf": erf, "gelu": gelu, "gelu_tanh": gelu_tanh,
    "exp": exponential, "log": logarithm, "softplus": softplus, "sin": sine, "cos": cosine,
}  # fmt: skip
"""Functions by their names in `hwgen.models.graph.operations`."""

GATES: dict[str, Callable[[Wide], Wide]] = {
    "silu": silu, "relu2": relu2, "sigmoid": sigmoid, "gelu_tanh": gelu_tanh,
}  # fmt: skip
"""Gates of decoders by name."""

TRANSLATED: tuple[Callable[..., Any], ...] = (
    magnitude, rounded, exponential, inverse_root, less_one, log_ratio, logarithm, softplus,
    sigmoid, silu, relu2, tanh, erf_series, erf_rest, erf, gelu, gelu_tanh, angle_sine, sine,
    cosine, power,
)  # fmt: skip
"""Functions that C has, each after those that it calls."""
