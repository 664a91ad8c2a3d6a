# SPDX-License-Identifier: Apache-2.0
"""Rounding of weights in which each error is made good by the weights behind it.

A row of weights is rounded element by element.  What an element's rounding does to the row's
products, over the calibration, is taken back as far as the elements that are not rounded yet can do
so: GPTQ (Frantar et al. 2022, arXiv 2210.17323), with the largest inputs first and scales that are
fixed beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dtrtri

from hwgen.formats.block.elements import SCALES

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Reals = NDArray[np.float32]
    Nearest = Callable[[Reals, int], Reals]

_BLOCK = 32
_ROWS = 4096  # of weights at a time, which bounds what is in memory
_DAMPING = 0.03  # of the mean of the diagonal
_E4M3_LEAST = 2.0**-9
_E4M3_SHARES = np.linspace(1.5, 0.75, 16)  # at 1.5 the largest magnitude becomes 4, not 6


def factor(moments: NDArray[np.float64], noise: float) -> tuple[NDArray[np.intp], Reals]:
    """Return the order in which elements are rounded, and how errors spread.

    Parameters
    ----------
    moments : ndarray, shape (k, k)
        Mean of x xᵀ over the inputs x of the product.
    noise : float
        Mean square of what rounding adds to each input.

    Returns
    -------
    order : ndarray, shape (k,)
    spread : ndarray, shape (k, k)
        The upper triangular U with UᵀU the inverse of the moments in that order.
    """
    damped = moments.astype(np.float64)
    diagonal = np.einsum("kk->k", damped)
    diagonal += noise + _DAMPING * max(float(diagonal.mean()), 1e-30)
    order = np.argsort(-diagonal, kind="stable")
    # With M upper triangular and M Mᵀ the matrix, U is M^-1: Cholesky from the far corner.
    reverse = order[::-1]
    lower = np.linalg.cholesky(damped[np.ix_(reverse, reverse)])
    inverse, _ = dtrtri(lower, lower=1)
    return order, inverse[::-1, ::-1].astype(np.float32)


def round_to_integers(numbers: Reals, most: int) -> Reals:
    """Return the nearest of the integers from -most to most."""
    result: Reals = np.clip(np.rint(numbers), -most, most)
    return result


def round_to_e2m1(numbers: Reals, most: int) -> Reals:
    """Return the nearest of 0, 1, 2, 3, 4, 6, 8 and 12, and their negatives: E2M1 times two."""
    size = np.abs(numbers)
    step = np.where(size < 4, np.float32(1), np.where(size < 8, np.float32(2), np.float32(4)))
    result: Reals = np.clip(np.rint(numbers / step) * step, -most, most)
    return result


def compensated(
    weights: Reals,
    scales: Reals,
    most: int,
    order: NDArray[np.intp],
    spread: Reals,
    nearest: Nearest = round_to_integers,
) -> NDArray[np.int8]:
    """Return weights as integers.

    Parameters
    ----------
    weights : ndarray, shape (n, k)
    scales : ndarray, shape (n or 1, groups)
        Each of k / groups elements of a row.
    most : int
        Largest integer; the smallest is minus that.
    order, spread : ndarray
        See `factor`.
    nearest : callable
        Rounds quotients of weights and scales to integers, at most `most`.

    Returns
    -------
    ndarray of int8, shape (n, k)
    """
    n, k = weights.shape
    result = np.empty((n, k), np.int8)
    length = k // scales.shape[1]
    for start in range(0, n, _ROWS):
        part = slice(start, min(n, start + _ROWS))
        own = scales if len(scales) == 1 else scales[part]
        by_element = np.ascontiguousarray(own.T)[order // length]
        left = np.ascontiguousarray(weights[part].T[order])
        result[part][:, order] = _rounded(left, by_element, most, spread, nearest).T
    return result


def _rounded(
    left: Reals, scales: Reals, most: int, spread: Reals, nearest: Nearest
) -> NDArray[np.int8]:
    """Return columns of weights, shape (k, n), as integers; `left` is used up."""
    k, n = left.shape
    result = np.empty((k, n), np.int8)
    for start in range(0, k, _BLOCK):
        end = min(k, start + _BLOCK)
        errors = np.empty((end - start, n), np.float32)
        for j in range(start, end):
            values = nearest(left[j] / scales[j], most)
            result[j] = values
            errors[j - start] = error = (left[j] - values * scales[j]) / spread[j, j]
            left[j + 1 : end] -= spread[j, j + 1 : end, None] * error
        left[end:] -= spread[start:end, end:].T @ errors
    return result


def clipped(grouped: Reals, largest: Reals, most: int, sizes: Reals) -> Reals:
    """Return scales of groups that leave the smallest error, at most the largest magnitude's.

    Parameters
    ----------
    grouped : ndarray, shape (n, groups, elements)
    largest : ndarray, shape (n, groups, 1)
        Largest magnitudes.
    most : int
        Largest integer.
    sizes : ndarray, shape (groups, elements)
        Mean squares of the inputs.
    """
    best = np.full(largest.shape, np.inf, np.float32)
    result = largest / np.float32(most)
    for share in np.linspace(1, 0.6, 17):
        scale = np.maximum(largest * np.float32(share / most), np.float32(1e-30))
        error = np.clip(np.rint(grouped / scale), -most, most) * scale - grouped
        cost = (np.square(error) * sizes).sum(2, keepdims=True)
        better = cost < best
        best, result = np.where(better, cost, best), np.where(better, scale, result)
    return np.asarray(result, np.float32)


def e4m3_scales(
    grouped: Reals, largest: Reals, most: int, sizes: Reals | None
) -> tuple[Reals, float]:
    """Return E4M3 numbers times one scale of the tensor, of the smallest error, for E2M1.

    Parameters
    ----------
    grouped, largest, most, sizes
        See `power_scales`.

    Returns
    -------
    scales : ndarray, shape (n, groups, 1)
    tensor_scale : float
        Factor that they contain, a number in single precision.
    """
    e4m3 = SCALES["e4m3"]
    tensor_scale = np.float32(2 * float(largest.max()) / most / e4m3.max) or np.float32(1)
    wanted = largest.astype(np.float64) * (2 / most / float(tensor_scale))
    best = np.full(largest.shape, np.inf, np.float32)
    result = np.ones(largest.shape, np.float32)
    for share in _E4M3_SHARES:
        numbers = np.clip(wanted * share, _E4M3_LEAST, e4m3.max)
        blocks = e4m3.decode(e4m3.round(numbers))
        scale = (blocks / 2 * tensor_scale).astype(np.float32)
        error = np.square(round_to_e2m1(grouped / scale, most) * scale - grouped)
        cost = (error if sizes is None else error * sizes).sum(2, keepdims=True)
        better = cost < best
        best, result = np.where(better, cost, best), np.where(better, scale, result)
    return result, float(tensor_scale)


def power_scales(grouped: Reals, largest: Reals, most: int, sizes: Reals | None) -> Reals:
    """Return powers of two as scales of groups of E2M1, of the smallest error.

    Parameters
    ----------
    grouped, largest : ndarray
        See `clipped`.
    most : int
        Largest magnitude, twice that of E2M1.
    sizes : ndarray, shape (groups, elements), optional
        Mean squares of the inputs; by default all count the same.
    """
    _, exponents = np.frexp(largest / np.float32(most))
    best = np.full(largest.shape, np.inf, np.float32)
    result = np.ones(largest.shape, np.float32)
    for lower in (0, 1, 2):
        scale = np.ldexp(np.float32(1), np.clip(exponents - lower, -126, 126)).astype(np.float32)
        error = np.square(round_to_e2m1(grouped / scale, most) * scale - grouped)
        cost = (error if sizes is None else error * sizes).sum(2, keepdims=True)
        better = cost < best
        best, result = np.where(better, cost, best), np.where(better, scale, result)
    return result
