# SPDX-License-Identifier: Apache-2.0
"""Golden model of an engine: an integer product, then post-processing.

The blocks of a reduction are added up modulo the accumulator's width, which commutes with
wrapping, so the result does not depend on the plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.golden.integer import accumulated_product
from hwgen.schedules.gemm_stream import Plan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hwgen.families.gemm_stream import GemmStreamConfig
    from hwgen.numerics.post import PostSettings
    from hwgen.numerics.post.records import Columns


def golden(
    config: GemmStreamConfig,
    a: NDArray[np.integer],
    w: NDArray[np.integer],
    settings: PostSettings | None = None,
    columns: Columns | None = None,
) -> NDArray[Any]:
    """Return ``C = post(A . W)`` as the engine computes it.

    Parameters
    ----------
    config : GemmStreamConfig
    a : ndarray of int, shape (m, k)
        Activations, within ``config.activation``.
    w : ndarray of int, shape (k, n)
        Weights, within ``config.weight``.
    settings : PostSettings, optional
        Post-processing; without it the accumulators.
    columns : Columns, optional
        Records of the columns, if ``settings.columns``.

    Returns
    -------
    ndarray, shape (m, n)
        In the dtype of the output's format.

    Raises
    ------
    InputError
        If shapes do not match, `k` exceeds ``config.max_k``, a value is outside its format, or
        the engine has no such post-processing.
    """
    plan = Plan(config, a.shape[0], a.shape[1], w.shape[1])
    total = accumulated_product(plan, a, w)
    if settings is None:
        return total
    from hwgen.golden.post import apply

    settings.check(config.post_features)
    return apply(settings, config.result, total, columns)
