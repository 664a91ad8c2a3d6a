# SPDX-License-Identifier: Apache-2.0
"""Golden model of the systolic family."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hwgen.numerics import IntegerFormat, dot_format, storage_dtype
from hwgen.schedules.systolic import Schedule

if TYPE_CHECKING:
    from hwgen.families.systolic import SystolicConfig

_FLOAT64_INTEGER_BITS = 54  # every integer of this many signed bits is a float64


def golden(
    config: SystolicConfig, a: NDArray[np.integer], w: NDArray[np.integer]
) -> NDArray[np.integer]:
    """Return what the RTL computes for ``A . W``, bit for bit.

    Parameters
    ----------
    config : SystolicConfig
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
    Wrapping commutes with addition, so a wrapping accumulator needs no order.  A saturating one
    does: it clamps after each addition to the accumulator, which is one product in an
    output-stationary array and one tile of `rows` products in the others.
    """
    plan = Schedule(config, a.shape[0], a.shape[1], w.shape[1])
    plan.check_operands(a, w)
    if not config.saturates:
        total = _dot(a, w, config.activation, config.weight)
        return config.result.wrap(total).astype(storage_dtype(config.result))
    total = np.zeros((plan.m, plan.n), np.int64)
    for k in range(0, plan.k, plan.exact_terms):
        part = slice(k, k + plan.exact_terms)
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
