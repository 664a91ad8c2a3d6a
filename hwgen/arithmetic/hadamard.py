# SPDX-License-Identifier: Apache-2.0
"""Hadamard matrices by stages of sums and differences, in the order in which hardware adds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.lazy import np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Reals = NDArray[np.float32]

LARGEST = 64
"""Elements of the largest block."""


def hadamard_transform(x: Reals, size: int) -> Reals:
    """Return blocks of elements times Sylvester's Hadamard matrix, whose elements are 1 and -1.

    The matrix is its own transpose, and `size` times its own inverse.  The first stage adds and
    subtracts neighbours, the next elements at distance 2, and so on, each in single precision.

    Parameters
    ----------
    x : ndarray of float32, shape (..., length)
        With a length of whole blocks.
    size : int
        Elements of a block, a power of two; 0 leaves everything as it is.
    """
    return np.asarray(in_stages(x, size, lambda u, w: (u + w, u - w)), np.float32)


def in_stages(
    x: NDArray[Any],
    size: int,
    sums: Callable[[NDArray[Any], NDArray[Any]], tuple[NDArray[Any], NDArray[Any]]],
) -> NDArray[Any]:
    """Transform numbers of any arithmetic; see `hadamard_transform`.

    Parameters
    ----------
    x : ndarray, shape (..., length)
    size : int
        See `hadamard_transform`.
    sums : callable
        Takes two arrays, and returns their sum and their difference.
    """
    blocks, distance = x, 1
    while distance < size:
        pairs = blocks.reshape(-1, size // (2 * distance), 2, distance)
        blocks = np.stack(sums(pairs[:, :, 0], pairs[:, :, 1]), axis=2)
        distance *= 2
    return blocks.reshape(x.shape)
