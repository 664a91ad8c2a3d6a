# SPDX-License-Identifier: Apache-2.0
"""Real scales as integer multipliers and shifts: ``scale`` is about ``multiplier / 2**shift``.

A scale is ``f * 2**e`` with ``0.5 <= |f| < 1``.  The shift is ``31 - e``, at most `MAX_SHIFT`, and
the multiplier is ``scale * 2**shift``, rounded to nearest, ties to even: 31 bits and a sign, a
relative error of at most ``2**-31``.  Below ``2**-32`` the shift is at its end and the multiplier
becomes shorter.  Where rounding reaches ``2**31``, the multiplier is half of that and the shift one
less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.errors import InputError
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MULTIPLIER_BITS = 32
"""Bits of a multiplier, the sign included."""

SHIFT_BITS = 6
MAX_SHIFT = (1 << SHIFT_BITS) - 1
"""Largest shift to the right."""

_LIMIT = 2.0**31
_ROUNDS_TO_LIMIT = _LIMIT - 0.5  # and above: the multiplier of a shift of 0 would be the limit


def multiplier_and_shift(
    scales: ArrayLike, name: str = "scale"
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the multipliers and shifts of scales; see the module's description.

    Parameters
    ----------
    scales : array_like of float
        Finite, of either sign, of magnitudes that round to less than ``2**31``.
    name : str
        What the scales are called in an error.

    Raises
    ------
    InputError
        If a scale is not finite or too large.
    """
    values = np.asarray(scales, np.float64)
    wrong = ~(np.abs(values) < _ROUNDS_TO_LIMIT)
    if wrong.any():
        raise InputError(
            f"{name}: must be finite and below 2**31 in magnitude, not {values[wrong].flat[0]!r}"
        )
    _, exponent = np.frexp(values)
    shift = np.minimum(31 - exponent, MAX_SHIFT)
    multiplier = np.rint(np.ldexp(values, shift))
    above = np.abs(multiplier) == _LIMIT
    multiplier = np.where(above, multiplier / 2, multiplier).astype(np.int32)
    shift = np.where(multiplier == 0, 0, shift - above)
    return multiplier, shift.astype(np.uint8)
