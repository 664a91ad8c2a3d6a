# SPDX-License-Identifier: Apache-2.0
"""Ternary weights from floating-point ones: the absmean quantisation of BitNet b1.58.

``scale = mean(|W|)`` and ``T = clip(round(W / (scale + EPSILON)), -1, 1)``, so that ``scale * T``
stands for W and ``A . W`` is approximated by ``scale * (A . T)``.  Halves are rounded to even, as
`numpy.round` and PyTorch do; the quotient is taken in double precision from the scale as it is
returned, in single precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hwgen.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EPSILON = 1e-5
"""Added to the scale, as BitNet b1.58 does: all zeros divide by it and stay zeros.

Weights whose mean magnitude is not well above it are drawn to zero; scale them up first.
"""


class Ternarised(NamedTuple):
    """Ternary weights and what to multiply products with them by.

    Parameters
    ----------
    trits : ndarray of int8, shape (K, N)
        Values -1, 0 and 1.
    scales : ndarray of float32, shape (1,) or (N,)
        One for the tensor, or one for each column; they broadcast against ``A . trits``.
    """

    trits: NDArray[np.int8]
    scales: NDArray[np.float32]


def ternarise(weights: NDArray[np.floating], *, per_column: bool = False) -> Ternarised:
    """Quantise weights to -1, 0 and 1 by their mean magnitude.

    A tensor, or column, of zeros gives trits of zero and a scale of zero.

    Parameters
    ----------
    weights : ndarray of float, shape (K, N)
    per_column : bool
        Whether every column has its own scale; otherwise there is one for the tensor.

    Raises
    ------
    InputError
        If `weights` is not a matrix of floats of at least 1 x 1, holds NaN or an infinity, or has a
        scale beyond single precision.
    """
    import numpy as np

    if weights.ndim != 2 or 0 in weights.shape:
        raise InputError(f"weights: must be a matrix of at least 1 x 1, not {weights.shape}")
    if weights.dtype.kind != "f":
        raise InputError(f"weights: must be floats to be ternarised, not {weights.dtype}")
    _check_finite(weights)
    with np.errstate(over="ignore"):
        wide = weights.astype(np.float64)
        mean = np.abs(wide).mean(axis=0 if per_column else None)
        scales = np.atleast_1d(mean).astype(np.float32)
    if not np.isfinite(scales).all():
        raise InputError(
            "weights: too large, their mean magnitude exceeds single precision; scale them down"
        )
    quotient = wide / (scales.astype(np.float64) + EPSILON)
    return Ternarised(np.clip(np.round(quotient), -1, 1).astype(np.int8), scales)


def _check_finite(weights: NDArray[np.floating]) -> None:
    import numpy as np

    finite = np.isfinite(weights)
    if not finite.all():
        k, n = (int(i) for i in np.argwhere(~finite)[0])
        count = int(finite.size - finite.sum())
        raise InputError(
            f"weights: must be finite, but {count} of {finite.size} are not, first"
            f" W[{k},{n}] = {weights[k, n]}"
        )
