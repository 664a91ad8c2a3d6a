# SPDX-License-Identifier: Apache-2.0
"""Products of matrices by NumPy whose results do not depend on the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EXACT = 1 << 24  # every integer up to it is a number in single precision


class ExactWeights:
    """A matrix that rows of int8 are multiplied by, again and again.

    Parameters
    ----------
    values : ndarray of int, shape (n, k)
        A row for each column of the product.
    """

    def __init__(self, values: NDArray[Any]) -> None:
        most = max(1, int(np.abs(values.astype(np.int16)).max()))
        self._weights = values.astype(np.float32)
        self._length = (_EXACT - 1) // (128 * most)

    def product(self, x: NDArray[np.int8]) -> NDArray[np.int32]:
        """Return exact sums, shape (rows, n): in single precision, by parts whose sums it holds."""
        weights, length = self._weights, self._length
        rows = x.astype(np.float32)
        total = np.zeros((len(x), len(weights)), np.int32)
        for start in range(0, x.shape[1], length):
            part = slice(start, start + length)
            if len(x) == 1:  # threads of a matrix product cost more than they save here
                sums = np.einsum("nk,k->n", weights[:, part], rows[0, part])[None]
            else:
                sums = rows[:, part] @ weights[:, part].T
            total += sums.astype(np.int32)
        return total


def one_thread() -> threadpool_limits:
    """Return a context in which products of matrices are computed by one thread.

    With several threads sums are added in another order, which changes what is rounded from them.
    """
    return threadpool_limits(limits=1, user_api="blas")
