# SPDX-License-Identifier: Apache-2.0
"""Radix-4 digits of integers: a multiplier recoded this way adds half as many multiples.

Every integer of a format becomes ``digit_count(fmt)`` digits of -2, -1, 0, 1 and 2, the least
significant first.  Two encodings:

- ``booth4``, modified Booth: digit i is made of bits 2i+1, 2i and 2i-1 of two's complement;
- ``ent``: the digits of the magnitude, 3 written as -1 with a carry into the next digit, all of
  them negated if the number is negative.  More of them are zero, above all of small numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, sqrt
from typing import TYPE_CHECKING, Literal

from hwgen.formats.integer import IntegerFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Encoding = Literal["booth4", "ent"]


def digit_count(fmt: IntegerFormat) -> int:
    """Count the digits of the integers of a format, as many in either encoding."""
    # An unsigned number of an even width needs a digit for the carry out of its top bits; the
    # largest magnitude of a signed one is a power of two, which carries nothing.
    return (fmt.width + 1) // 2 if fmt.signed else fmt.width // 2 + 1


def encode(encoding: Encoding, values: NDArray[np.integer], fmt: IntegerFormat) -> NDArray[np.int8]:
    """Return the digits of integers.

    Parameters
    ----------
    encoding : {"booth4", "ent"}
    values : ndarray of int, shape (...)
        Within `fmt`.
    fmt : IntegerFormat
        Of up to 62 bits.

    Returns
    -------
    ndarray of int8, shape (..., digit_count(fmt))
        The least significant digit first.
    """
    numbers = values.astype(np.int64)
    digits = []
    if encoding == "booth4":
        below = np.zeros_like(numbers)
        for place in range(0, 2 * digit_count(fmt), 2):
            low, high = numbers >> place & 1, numbers >> (place + 1) & 1
            digits.append(low + below - 2 * high)
            below = high
    else:
        carry = np.zeros_like(numbers)
        for place in range(0, 2 * digit_count(fmt), 2):
            pair = (np.abs(numbers) >> place & 3) + carry
            carry = (pair >= 3).astype(np.int64)
            digits.append((pair - 4 * carry) * np.sign(numbers))
    return np.stack(digits, axis=-1).astype(np.int8)


def decode(digits: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the integers of digits of shape (..., digits), the inverse of `encode`."""
    total = digits.astype(np.int64) << (2 * np.arange(digits.shape[-1]))
    return np.asarray(total.sum(axis=-1), np.int64)


# -- statistics ------------------------------------------------------------------------------------


def values_of(fmt: IntegerFormat) -> NDArray[np.int64]:
    """Return every integer of a format, in ascending order."""
    return np.arange(fmt.min, fmt.max + 1, dtype=np.int64)


def uniform(fmt: IntegerFormat) -> NDArray[np.float64]:
    """Return the probability of each of `values_of`, all alike."""
    return np.full(1 << fmt.width, 1 / (1 << fmt.width))


def normal(fmt: IntegerFormat, sigma: float, *, clipped: bool = True) -> NDArray[np.float64]:
    """Return the probability of each of `values_of` of a normal variable of mean zero.

    It is rounded to the nearest integer.

    Parameters
    ----------
    fmt : IntegerFormat
    sigma : float
        Standard deviation before rounding, more than zero.
    clipped : bool
        Whether values outside the format become its ends; if not, they do not occur.
    """
    edges = np.arange(fmt.min, fmt.max + 2) - 0.5
    below = np.array([0.5 * (1 + erf(edge / (sigma * sqrt(2)))) for edge in edges])
    if clipped:
        below[0], below[-1] = 0.0, 1.0
    return np.asarray(np.diff(below) / (below[-1] - below[0]))


@dataclass(frozen=True)
class Statistics:
    """Distribution of the number of nonzero digits of a random integer.

    Parameters
    ----------
    nonzero : tuple of float
        Probability that digit i is not zero, the least significant first.
    """

    nonzero: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean number of digits that are not zero."""
        return sum(self.nonzero)


def statistics(
    encoding: Encoding, fmt: IntegerFormat, probabilities: NDArray[np.float64]
) -> Statistics:
    """Return the exact statistics of a distribution over `values_of` a format."""
    used = encode(encoding, values_of(fmt), fmt) != 0
    return Statistics(tuple((probabilities @ used).tolist()))
