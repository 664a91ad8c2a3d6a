# SPDX-License-Identifier: Apache-2.0
"""Weights of a few bits as planes of signs, and the keys that stand for groups of them.

A weight w of b bits in two's complement is ``2 * w + 1 = sum(2**i * s[i])`` with signs s[i] of -1
and +1: sign i is bit i of ``w + 2**(b - 1)`` with 0 read as -1.  So a product with weights is one
with planes of signs,

    ``A . W = (sum(2**i * (A . S[i])) - sum(A)) / 2``,

without a remainder.  Weights of one bit, -1 and +1, are their own plane: ``A . W = A . S[0]``.

A group of `mu` signs is one of ``2**mu`` patterns.  A table stores the sums of the patterns whose
first sign is +1, ``2**(mu - 1)`` entries; the others are negatives.  A *key* has `mu` bits: the
first sign (1: negative) above an index, which has a bit for each further sign, the second most
significant (1: unlike the first).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from hwgen.formats.integer import IntegerFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.formats.arrays import Array


@dataclass(frozen=True)
class BinaryFormat(IntegerFormat):
    """The numbers -1 and 1, as weights of one bit: there is no zero."""

    width: int = 1
    signed: bool = True

    @property
    def max(self) -> int:
        """Largest value."""
        return 1

    @property
    def zero(self) -> int:
        """Number that stands for zero."""
        return 1

    scales_by_mean: ClassVar[bool] = True

    def weight_scales(
        self, magnitudes: NDArray[np.float64], axis: int | None
    ) -> NDArray[np.float64]:
        """Return the scales of weights: their mean magnitudes."""
        return np.asarray(magnitudes.mean(axis=axis))

    def round_weights(
        self, weights: NDArray[np.float64], scales: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the signs of weights."""
        return np.where(weights < 0, -1.0, 1.0)

    def check(self, values: Array) -> None:
        """Check that all values are -1 or 1.

        Raises
        ------
        ValueError
            Saying what is allowed and what was found.
        """
        super().check(values)
        if (values == 0).any():
            raise ValueError(
                f"must be -1 or 1 ({self}), found 0; weights that may be zero are ternary or int2"
            )

    def encode(self, values: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return 1 for 1 and 0 for -1."""
        return (values > 0).astype(self.dtype)

    def decode(self, bits: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the values of bits, higher ones ignored, as `dtype`."""
        return (2 * (bits & 1) - 1).astype(self.dtype)

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Return -1 and 1, equally often."""
        return 2 * rng.integers(0, 2, size=shape) - 1


BINARY = BinaryFormat()


@cache
def stored_patterns(mu: int) -> tuple[tuple[int, ...], ...]:
    """Return the signs of the stored patterns, in the order of their entries."""
    return tuple(
        (1, *(1 - 2 * (number >> (mu - 2 - i) & 1) for i in range(mu - 1)))
        for number in range(1 << (mu - 1))
    )


def encode(weights: NDArray[np.integer], fmt: IntegerFormat) -> NDArray[np.integer]:
    """Return the keys of groups of weights.

    Parameters
    ----------
    weights : ndarray of int, shape (..., mu)
    fmt : IntegerFormat
        Their format: `BINARY`, or two's complement.

    Returns
    -------
    ndarray of uint16, shape (..., planes)
        One key a plane, the most significant plane first; see the module's description.
    """
    mu = weights.shape[-1]
    numbers = fmt.encode(weights) if fmt.width == 1 else weights.astype(np.int64) - fmt.min
    places = np.arange(fmt.width - 1, -1, -1)
    negative = 1 - (numbers[..., None, :].astype(np.int64) >> places[:, None] & 1)
    first = negative[..., :1]
    bits = np.concatenate([first, negative[..., 1:] ^ first], axis=-1)
    return np.asarray((bits << np.arange(mu - 1, -1, -1)).sum(axis=-1), np.uint16)


def decode(keys: NDArray[np.integer], mu: int, fmt: IntegerFormat) -> NDArray[np.int8]:
    """Return the weights of keys of shape (..., planes), shape (..., mu), the inverse of `encode`.

    Raises
    ------
    ValueError
        If a key has more than `mu` bits.
    """
    keys = keys.astype(np.int64)
    if (keys >> mu).any():
        raise ValueError(f"a key of {mu} weights has {mu} bits")
    bits = keys[..., None] >> np.arange(mu - 1, -1, -1) & 1
    first = bits[..., :1]
    signs = 1 - 2 * np.concatenate([first, bits[..., 1:] ^ first], axis=-1)
    total = (signs << np.arange(fmt.width - 1, -1, -1)[:, None]).sum(axis=-2)
    return np.asarray(total if fmt.width == 1 else total >> 1, np.int8)
