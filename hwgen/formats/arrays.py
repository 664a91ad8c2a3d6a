# SPDX-License-Identifier: Apache-2.0
"""Arrays of numbers, and numbers as arrays of bits, the least significant first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    """Numbers of a format, or codes: NumPy has no static types for those of ml_dtypes."""

    DType = np.dtype[Any]


def to_bits(numbers: Array, width: int) -> NDArray[np.uint8]:
    """Return the low bits of integers along a new last axis."""
    positions = np.arange(width, dtype=np.int64)
    return np.asarray((numbers[..., None].astype(np.int64) >> positions & 1).astype(np.uint8))


def from_bits(bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the unsigned integers of the bits along the last axis."""
    return np.asarray(bits.astype(np.int64) @ (1 << np.arange(bits.shape[-1], dtype=np.int64)))
