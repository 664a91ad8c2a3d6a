# SPDX-License-Identifier: Apache-2.0
"""Golden model of the families `cube`, `adder_tree` and `broadcast_2d`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.golden.integer import accumulated_product
from hwgen.schedules.spatial import Schedule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hwgen.config.spatial import SpatialConfig


def golden(
    config: SpatialConfig, a: NDArray[np.integer], w: NDArray[np.integer]
) -> NDArray[np.integer]:
    """Return what the RTL computes for ``A . W``, bit for bit.

    Parameters
    ----------
    config : SpatialConfig
    a : ndarray of int, shape (m, k)
    w : ndarray of int, shape (k, n)

    Returns
    -------
    ndarray, shape (m, n)
        In the storage dtype of ``config.result``.

    Raises
    ------
    InputError
        If shapes do not match, `k` exceeds ``config.max_k``, or a value is outside its format.

    Notes
    -----
    What is added to the accumulator at a time is the sum of ``config.depth`` products.
    """
    return accumulated_product(Schedule(config, a.shape[0], a.shape[1], w.shape[1]), a, w)
