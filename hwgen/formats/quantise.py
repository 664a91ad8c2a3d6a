# SPDX-License-Identifier: Apache-2.0
"""Integer weights from floating-point ones, with scales: ``A . W`` is about ``(A . Q) * scale``.

ternary
    The mean magnitude, as in BitNet b1.58: ``scale = mean(|W|)`` and
    ``Q = clip(round(W / (scale + EPSILON)), -1, 1)``.
int1
    Signs, as in BinaryNet: ``scale = mean(|W|)``, Q is -1 where W is negative, else 1.
other signed integers
    The largest magnitude, symmetric: ``scale = max(|W|) / max`` and ``Q = round(W / scale)``,
    where max is the largest number of the format; the smallest one is not used.

Halves are rounded to even, as `numpy.round` and PyTorch do; the quotient is taken in double
precision from the scale as it is returned, in single precision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hwgen.errors import InputError
from hwgen.formats.integer import IntegerFormat
from hwgen.formats.ternary import EPSILON as EPSILON
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Quantised(NamedTuple):
    """Integer weights and what to multiply products with them by.

    Parameters
    ----------
    weights : ndarray of int, shape (K, N)
    scales : ndarray of float32, shape (1,) or (N,)
        One for the tensor, or one for each column; they broadcast against ``A . weights``.
    """

    weights: NDArray[np.integer]
    scales: NDArray[np.float32]


def quantise(
    weights: NDArray[np.floating], fmt: IntegerFormat, *, per_column: bool = False
) -> Quantised:
    """Quantise weights to an integer format; see the module's description.

    A tensor, or column, of zeros has a scale of zero.

    Parameters
    ----------
    weights : ndarray of float, shape (K, N)
    fmt : IntegerFormat
    per_column : bool
        Whether every column has its own scale; otherwise there is one for the tensor.

    Raises
    ------
    InputError
        If the format is unsigned, `weights` is not a matrix of floats of at least 1 x 1, holds NaN
        or an infinity, or has a scale beyond single precision.
    """
    if weights.ndim != 2 or 0 in weights.shape:
        raise InputError(f"weights: must be a matrix of at least 1 x 1, not {weights.shape}")
    if weights.dtype.kind != "f":
        raise InputError(f"weights: must be floats to be quantised, not {weights.dtype}")
    if not fmt.signed:
        raise InputError(
            f"weights: floats are made signed integers, not {fmt}; quantise them, with an offset,"
            " and give the integers"
        )
    _check_finite(weights)
    axis = 0 if per_column else None
    wide = weights.astype(np.float64)
    with np.errstate(over="ignore"):
        scales = _single(fmt.weight_scales(np.abs(wide), axis))
    if not fmt.scales_by_mean:
        _check_small(wide, scales)
    if not np.isfinite(scales).all():
        raise InputError(
            "weights: too large, their scale exceeds single precision; scale them down"
        )
    divisor = scales.astype(np.float64)
    values = fmt.round_weights(wide, divisor)
    return Quantised(np.clip(values, -fmt.max, fmt.max).astype(fmt.dtype), scales)


def _single(values: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.atleast_1d(values).astype(np.float32)


def _check_small(weights: NDArray[np.float64], scales: NDArray[np.float32]) -> None:
    lost = (scales < np.finfo(np.float32).tiny) & (weights != 0).any(axis=0)
    if lost.any():
        raise InputError(
            "weights: too small, their scale is below the normal numbers of single precision;"
            " scale them up"
        )


def _check_finite(weights: NDArray[np.floating]) -> None:
    finite = np.isfinite(weights)
    if not finite.all():
        k, n = (int(i) for i in np.argwhere(~finite)[0])
        count = int(finite.size - finite.sum())
        raise InputError(
            f"weights: must be finite, but {count} of {finite.size} are not, first"
            f" W[{k},{n}] = {weights[k, n]}"
        )
