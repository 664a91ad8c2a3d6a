# SPDX-License-Identifier: Apache-2.0
"""Proven error of the weights and of the results of attention, against exact arithmetic.

Scores and scales are exact integers, so the exact softmax is that of ``x = q k s`` in powers of
two. With ``e = 2**-softmax.fraction_bits``, ``W = softmax.weight_bits``, a table whose powers are
off by at most the share ``t``, and ``n`` keys, none of them saturated:

- ``x`` is rounded to a multiple of ``e``, so a power is off by the factor ``E = 2**(e/2)`` at most,
  and by ``1 + t`` for the table;
- weights are cut off to ``W + 8`` bits before they are added, the sum of weights is cut off when it
  is shifted. As the shifts of the past add up, all of that is less than ``(n + 2) 2**-(W+8)``;
- the largest weight is at least 1/2, but for the rounding of ``x``: the exact sum is at least
  ``1/(2 E)``;
- what a value is multiplied by is rounded to ``W`` bits, again with its scale: together, it is off
  by at most ``1/2 + 2**-8``, or ``1 + 2**-8``, units of ``2**-W``.

A weight is the quotient of the last and of the sum, so it is off by at most

    relative * weight + absolute

The sums of weighted values are cut off as well, by less than two units of ``2**-W``, and the
division cuts off and rounds.

In floating point, that is the error against the softmax of vectors as they are aligned. Aligned to
``A`` bits behind the leading one of the largest, no element is off by more than ``u = 2**-(A+1)``
times the largest, so no score by more than ``2 u + u**2`` times the elements and both largest
magnitudes. Nothing is off where all elements have bits within that reach. What a value is
multiplied by is rounded relative to the largest product of a weight and its value's power of two,
so that results, not weights, have an absolute error: a share of the largest magnitude of V.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.families.attention.formats import SUM_GUARD

if TYPE_CHECKING:
    from hwgen.families.attention.formats import AttentionFormats

_UP = 1 + 2.0**-40  # for what is rounded in double precision here


@dataclass(frozen=True)
class AttentionBound:
    """What is proven for rows of up to `keys` keys, of which no scaled score saturates.

    Parameters
    ----------
    keys : int
    relative, absolute : float
        No weight of the softmax is off by more than `relative` times itself plus `absolute`.
    output : float
        No result is off by more, in units of V; the largest magnitude of V counts in it. In
        floating point the unit is the largest magnitude of the values that the row looks at.
    alignment : float
        No score, before its scale, is off by more times the elements of a head and the largest
        magnitudes of query and key; zero of integers.
    """

    keys: int
    relative: float
    absolute: float
    output: float
    alignment: float = 0.0

    def document(self) -> dict[str, Any]:
        """Return it as plain values, for a manifest."""
        return {
            "keys": self.keys,
            "weight_relative": self.relative,
            "weight_absolute": self.absolute,
            "output_absolute": self.output,
            **({"score_alignment": self.alignment} if self.alignment else {}),
        }


def bound_of(config: AttentionFormats, keys: int | None = None) -> AttentionBound:
    """Return the bound for rows of up to so many keys, by default ``config.max_keys``.

    Raises
    ------
    ValueError
        If so many weights are cut off that nothing can be said.
    """
    keys = config.max_keys if keys is None else keys
    softmax = config.softmax
    table = config.powers.bound.max_relative
    assert table is not None, "powers from 1 to 2 have a relative error"
    power = 2.0 ** (2.0**-softmax.fraction_bits / 2)
    unit = 2.0**-softmax.weight_bits
    high = (1 + table) * power
    cut = 2 * power * (keys + 2) * unit * 2.0**-SUM_GUARD
    low = (1 - table) / power - cut
    if low <= 0:
        raise ValueError(
            f"{keys} weights may be cut off by as much as they are; take more softmax.weight_bits"
        )
    rounded = (1.0 if config.scaled_keys else 0.5) + 2.0**-SUM_GUARD
    relative = high / low - 1
    absolute = 2 * power * rounded * unit / low
    if config.floating:
        return _floating(config, AttentionBound(keys, relative, absolute, 4 * power * unit / low))
    largest = max(-config.value.min, config.value.max)
    # The sum of values in its own units: cut off by less than 2, relative to a sum of 1/(2 E).
    values = largest * (relative + keys * absolute) + 4 * power * unit / low
    return AttentionBound(
        keys, relative * _UP, absolute * _UP, (values + _division(config, values)) * _UP
    )


def _floating(config: AttentionFormats, bound: AttentionBound) -> AttentionBound:
    """Return the bound of floats from that of weights; `output` is what sums of values lose."""
    u = 2.0 ** -(config.alignment_bits + 1)
    # Integers of values are less than twice the power of two of their vector, which is at most the
    # largest magnitude, and are rounded once.
    values = bound.relative + 2 * bound.keys * bound.absolute + 2 * u * bound.output + u
    reciprocal = config.reciprocals.bound.max_abs
    assert reciprocal is not None, "reciprocals from 1/2 to 1 have an absolute error"
    share = 2 * reciprocal + 2.0**-config.reciprocal_bits
    share += (1 + share) * 2.0**-config.output.precision
    output = values + (1 + values) * share
    return AttentionBound(
        bound.keys, bound.relative * _UP, bound.absolute * _UP, output * _UP, 2 * u + u * u
    )


def _division(config: AttentionFormats, values: float) -> float:
    """Return what the division adds, in units of V.

    The argument of the reciprocal is cut off, and so is the shifted sum; their product is rounded.
    """
    largest = max(-config.value.min, config.value.max) + values
    reciprocal = config.reciprocals.bound.max_abs
    assert reciprocal is not None, "reciprocals from 1/2 to 1 have an absolute error"
    share = 2 * reciprocal + 2.0**-config.reciprocal_bits
    cut = 2.0**-config.quotient_fraction
    return float(largest * share + cut + 2.0 ** -(config.fraction + 1))
