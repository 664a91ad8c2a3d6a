# SPDX-License-Identifier: Apache-2.0
"""Integer products as accumulators compute them: the golden model of every integer core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hwgen.numerics import IntegerFormat, dot_format, storage_dtype

if TYPE_CHECKING:
    from hwgen.config.product import IntegerProductConfig

_FLOAT64_INTEGER_BITS = 54  # every integer of this many signed bits is a float64


def accumulated_product(
    config: IntegerProductConfig,
    a: NDArray[np.integer],
    w: NDArray[np.integer],
    exact_terms: int,
) -> NDArray[np.integer]:
    """Return ``A . W`` as accumulators of the configuration's format compute it.

    Parameters
    ----------
    config : IntegerProductConfig
    a : ndarray of int, shape (m, k)
    w : ndarray of int, shape (k, n)
        Both within their formats.
    exact_terms : int
        Terms that are added exactly before each addition to the accumulator.

    Returns
    -------
    ndarray, shape (m, n)
        In the storage dtype of ``config.result``.

    Notes
    -----
    Wrapping commutes with addition, so a wrapping accumulator needs no order.  A saturating one
    does: it clamps after each addition to the accumulator.
    """
    if not config.saturates:
        total = _dot(a, w, config.activation, config.weight)
        return config.result.wrap(total).astype(storage_dtype(config.result))
    total = np.zeros((a.shape[0], w.shape[1]), np.int64)
    for k in range(0, a.shape[1], exact_terms):
        part = slice(k, k + exact_terms)
        total = config.result.saturate(
            total + _dot(a[:, part], w[part], config.activation, config.weight)
        )
    return total.astype(storage_dtype(config.result))


def _dot(
    a: NDArray[np.integer], w: NDArray[np.integer], fa: IntegerFormat, fw: IntegerFormat
) -> NDArray[np.int64]:
    # BLAS is two orders of magnitude faster than NumPy's integer product and exact while every
    # partial sum, in whatever order, is an integer that float64 holds.
    if dot_format(fa, fw, a.shape[1]).width <= _FLOAT64_INTEGER_BITS:
        return (a.astype(np.float64) @ w.astype(np.float64)).astype(np.int64)
    return a.astype(np.int64) @ w.astype(np.int64)
