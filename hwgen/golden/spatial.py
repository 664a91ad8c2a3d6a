# SPDX-License-Identifier: Apache-2.0
"""Golden model of the families `cube`, `adder_tree` and `broadcast_2d`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.golden.integer import accumulated_product
from hwgen.golden.post import processed
from hwgen.schedules.spatial import Schedule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hwgen.config.spatial import SpatialConfig
    from hwgen.numerics.post import Columns, PostSettings


def golden(
    config: SpatialConfig,
    a: NDArray[np.integer],
    w: NDArray[np.integer],
    settings: PostSettings | None = None,
    columns: Columns | None = None,
) -> NDArray[Any]:
    """Return what the RTL computes for ``post(A . W)``, bit for bit.

    Parameters
    ----------
    config : SpatialConfig
    a : ndarray of int, shape (m, k)
    w : ndarray of int, shape (k, n)
    settings : PostSettings, optional
        Post-processing; by default raw results, of a core that has post-processing.
    columns : Columns, optional
        Records of the columns, if ``settings.columns``.

    Returns
    -------
    ndarray, shape (m, n)
        In the dtype of the output, without post-processing that of ``config.result``.

    Raises
    ------
    InputError
        If shapes do not match, `k` exceeds ``config.max_k``, a value is outside its format, or the
        core has no such post-processing.

    Notes
    -----
    What is added to the accumulator at a time is the sum of ``config.depth`` products.
    """
    plan = Schedule(config, a.shape[0], a.shape[1], w.shape[1], settings, columns)
    return processed(plan, accumulated_product(plan, a, w))
