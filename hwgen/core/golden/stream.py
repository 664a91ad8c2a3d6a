# SPDX-License-Identifier: Apache-2.0
"""Golden model of stream cores that multiply matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.core.golden.blocks import block_matrix, block_products
from hwgen.core.golden.integer import accumulated_product
from hwgen.core.golden.post import processed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hwgen.core.schedule.stream import StreamProduct


def multiply(plan: StreamProduct, a: NDArray[Any], w: NDArray[np.integer]) -> NDArray[Any]:
    """Return ``post(A . W)`` as the RTL computes it, bit for bit.

    Of integers the result is the integer product; a saturating accumulator clamps after each
    addition, of as many terms as the plan's ``exact_terms``.  Of blocks the sums of each are
    exact, and added as the configuration's accumulator says, see `hwgen.formats.block.products`.

    Parameters
    ----------
    plan : StreamProduct
        With the records of columns, if its post-processing uses them.
    a : ndarray, shape (m, k)
        Of the activations' format.
    w : ndarray of int, shape (k, n)

    Returns
    -------
    ndarray, shape (m, n)
        In the dtype of the output, without post-processing that of ``config.result``.

    Raises
    ------
    InputError
        If shapes do not match, a value is outside its format, or the core has no such
        post-processing.
    """
    config = plan.config
    if config.block_product is not None:
        plan.check_operands(a, w)
        operands = (config.activation, a), (config.weight, w.T)
        product = config.block_product
        sums = block_products(product, *(block_matrix(product, *each) for each in operands))
        return processed(plan, sums)
    return processed(plan, accumulated_product(plan, a, w))
