# SPDX-License-Identifier: Apache-2.0
"""Ternary weights, and the keys that stand for groups of them.

A group of `mu` weights of {-1, 0, 1} is one of ``3**mu`` patterns.  A table stores the sums of the
patterns whose first non-zero weight is +1, ``E = (3**mu - 1) / 2`` entries; the pattern of zeros
needs none and the others are negatives.  A *key* is the index of an entry, or E for zero, with
the sign above it.

Patterns are numbered by reading the digits ``1 - w`` to the base 3, first weight most significant,
so that the stored ones come first, the zero pattern is number E, and number ``3**mu - 1 - v`` is
the negative of number v.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from hwgen.formats.integer import IntegerFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


EPSILON = 1e-5
"""Added to the scale of ternary weights, as BitNet b1.58 does.

Weights whose mean magnitude is not well above it are drawn to zero; scale them up first.
"""


@dataclass(frozen=True)
class TernaryFormat(IntegerFormat):
    """The numbers -1, 0 and 1 in two bits of two's complement."""

    width: int = 2
    signed: bool = True

    @property
    def name(self) -> str:
        """Name of the format."""
        return "ternary"

    @property
    def min(self) -> int:
        """Smallest value."""
        return -1

    scales_by_mean: ClassVar[bool] = True

    def weight_scales(
        self, magnitudes: NDArray[np.float64], axis: int | None
    ) -> NDArray[np.float64]:
        """Return the scales of weights: their mean magnitudes."""
        return np.asarray(magnitudes.mean(axis=axis))

    def round_weights(
        self, weights: NDArray[np.float64], scales: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return weights in units of their scales, rounded, ties to even."""
        return np.round(weights / (scales + EPSILON))


TERNARY = TernaryFormat()


def entries(mu: int) -> int:
    """Return the number of stored entries of a table for groups of `mu` weights."""
    return int(3**mu - 1) // 2


def index_width(mu: int) -> int:
    """Return the bits of an index: an entry, or `entries` for zero."""
    return entries(mu).bit_length()


@cache
def stored_patterns(mu: int) -> tuple[tuple[int, ...], ...]:
    """Return the weights of the stored patterns, in the order of their entries."""
    return tuple(_digits(number, mu) for number in range(entries(mu)))


def parent_pattern(pattern: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Return a pattern without its last non-zero weight, and the place of that weight.

    A table computes each entry from that of the parent by one addition.
    """
    last = max(i for i, weight in enumerate(pattern) if weight)
    return tuple(weight if i < last else 0 for i, weight in enumerate(pattern)), last


def _digits(number: int, mu: int) -> tuple[int, ...]:
    return tuple(1 - number // 3 ** (mu - 1 - i) % 3 for i in range(mu))


def encode(weights: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the keys of groups of ternary weights.

    Parameters
    ----------
    weights : ndarray of int, shape (..., mu)
        Values -1, 0 and 1.

    Returns
    -------
    ndarray of uint16, shape (...)
        Sign above index; see the module's description.
    """
    mu = weights.shape[-1]
    powers = 3 ** np.arange(mu - 1, -1, -1)
    number = ((1 - weights.astype(np.int64)) * powers).sum(axis=-1)
    negative = number > entries(mu)
    index = np.where(negative, 3**mu - 1 - number, number)
    return np.asarray(index + (negative << index_width(mu)), np.uint16)


def decode(keys: NDArray[np.integer], mu: int) -> NDArray[np.int8]:
    """Return the weights of keys, shape (..., mu), the inverse of `encode`.

    Raises
    ------
    ValueError
        If a key stands for no pattern.
    """
    keys = keys.astype(np.int64)
    index, negative = keys & ((1 << index_width(mu)) - 1), keys >> index_width(mu)
    if (index > entries(mu)).any() or (negative > 1).any():
        raise ValueError(f"a key of {mu} weights has an index of at most {entries(mu)}")
    powers = 3 ** np.arange(mu - 1, -1, -1)
    weights = 1 - index[..., None] // powers % 3
    weights = np.where(negative[..., None] == 1, -weights, weights)
    return np.asarray(weights, np.int8)
