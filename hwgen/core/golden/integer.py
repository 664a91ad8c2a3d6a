# SPDX-License-Identifier: Apache-2.0
"""Integer products as accumulators compute them: the golden model of every integer core."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hwgen.formats import IntegerFormat, dot_format
from hwgen.lazy import NDArray, np

if TYPE_CHECKING:
    from hwgen.core.params.product import IntegerProductConfig
    from hwgen.core.schedule.product import Product

_FLOAT64_INTEGER_BITS = 54  # every integer of this many signed bits is a float64


def accumulated_product(
    plan: Product, a: NDArray[np.integer], w: NDArray[np.integer]
) -> NDArray[np.integer]:
    """Return ``A . W`` as accumulators of the configuration's format compute it.

    Parameters
    ----------
    plan : Product
        The schedule of the product; how much is added at once is its ``exact_terms``.
    a : ndarray of int, shape (m, k)
    w : ndarray of int, shape (k, n)

    Returns
    -------
    ndarray, shape (m, n)
        In the storage dtype of the configuration's results.

    Raises
    ------
    InputError
        If an operand is not of the plan's shape, or a value is outside its format.

    Notes
    -----
    Wrapping commutes with addition, so a wrapping accumulator needs no order.  A saturating one
    does: it clamps after each addition to the accumulator.
    """
    plan.check_operands(a, w)
    config = cast("IntegerProductConfig", plan.config)
    if not config.saturates:
        total = _products(config, a, w)
        return np.asarray(config.result.decode(total))
    total = np.zeros((plan.m, plan.n), np.int64)
    for k in range(0, plan.k, plan.exact_terms):
        part = slice(k, k + plan.exact_terms)
        total = config.result.saturate(total + _products(config, a[:, part], w[part]))
    return total.astype(config.result.dtype)


def _products(
    config: IntegerProductConfig, a: NDArray[np.integer], w: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Return ``A . W``, with the errors of products that share a multiplier in too little room."""
    if config.packing is not None and not config.packing.exact:
        return config.packing.dot(a, w)
    return _dot(a, w, config.activation, config.weight)


def _dot(
    a: NDArray[np.integer], w: NDArray[np.integer], fa: IntegerFormat, fw: IntegerFormat
) -> NDArray[np.int64]:
    # BLAS is two orders of magnitude faster than NumPy's integer product and exact while every
    # partial sum, in whatever order, is an integer that float64 holds.
    if dot_format(fa, fw, a.shape[1]).width <= _FLOAT64_INTEGER_BITS:
        return (a.astype(np.float64) @ w.astype(np.float64)).astype(np.int64)
    return a.astype(np.int64) @ w.astype(np.int64)
