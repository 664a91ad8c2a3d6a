# SPDX-License-Identifier: Apache-2.0
"""Golden model of the ternary-LUT family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.golden.integer import accumulated_product
from hwgen.schedules.ternary_lut import Schedule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hwgen.families.ternary_lut import TernaryLutConfig


def golden(
    config: TernaryLutConfig, a: NDArray[np.integer], w: NDArray[np.integer]
) -> NDArray[np.integer]:
    """Return what the RTL computes for ``A . W``, bit for bit.

    Tables and trees are exact, so the result is the integer product; a saturating accumulator
    clamps after each beat of activations (``config.terms`` terms).

    Parameters
    ----------
    config : TernaryLutConfig
    a : ndarray of int, shape (m, k)
    w : ndarray of int, shape (k, n)
        Values -1, 0 and 1.

    Returns
    -------
    ndarray, shape (m, n)
        In the storage dtype of ``config.result``.

    Raises
    ------
    InputError
        If shapes do not match, `k` exceeds ``config.max_k``, or a value is outside its format.
    """
    plan = Schedule(config, a.shape[0], a.shape[1], w.shape[1])
    return accumulated_product(plan, a, w)
