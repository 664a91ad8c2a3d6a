# SPDX-License-Identifier: Apache-2.0
"""Golden model of the cores with stream ports, whatever their family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.core.golden.blocks import block_matrix, block_products
from hwgen.core.golden.floating import accumulated_sums
from hwgen.core.golden.integer import accumulated_product
from hwgen.core.golden.post import processed
from hwgen.core.registry import family

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hwgen.core.params.product import ProductConfig
    from hwgen.core.post import Columns, PostSettings


def golden(
    config: ProductConfig,
    a: NDArray[Any],
    w: NDArray[np.integer],
    settings: PostSettings | None = None,
    columns: Columns | None = None,
) -> NDArray[Any]:
    """Return what the RTL computes for ``post(A . W)``, bit for bit.

    Of integers the result is the integer product; a saturating accumulator clamps after each
    addition, of as many terms as the schedule's ``exact_terms``.  Of floating-point numbers every
    sum is rounded, in the order of `hwgen.core.golden.floating`.  Of blocks the sums of each are
    exact, and added as the configuration's accumulator says, see `hwgen.formats.block.products`.

    Parameters
    ----------
    config : ProductConfig
    a : ndarray, shape (m, k)
        Of the activations' format.
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
    """
    schedule = family(config.family).part("schedule").schedule
    plan = schedule(config, a.shape[0], a.shape[1], w.shape[1], settings, columns)
    if config.block_product is not None:
        plan.check_operands(a, w)
        operands = (config.activation, a), (config.weight, w.T)
        product = config.block_product
        sums = block_products(product, *(block_matrix(product, *each) for each in operands))
        return processed(plan, sums)
    total = accumulated_sums(plan, a, w) if config.is_float else accumulated_product(plan, a, w)
    return processed(plan, total)
