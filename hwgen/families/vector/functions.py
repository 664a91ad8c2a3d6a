# SPDX-License-Identifier: Apache-2.0
"""Function units of vector units, and what softmax in one pass computes with, with its bound.

In one pass, ``exp(x)`` is ``2**f 2**k`` with integer ``k``: a table gives ``2**f``, and the running
maximum is that of ``k`` alone.  When it rises by ``d``, what was summed is shifted to the right by
``d`` bits, which is a subtraction from the exponent of a floating-point number, and exact.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from hwgen.arithmetic.functions.exponential import Scaling
from hwgen.formats.fixed import FixedFormat
from hwgen.formats.floating import FloatFormat, floating
from hwgen.formats.integer import IntegerFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.arithmetic.functions.unit import FunctionUnit

_SHARES = (1.0, 0.85, 0.7, 0.55, 0.4)

_TOP = 16
"""Floating-point elements of magnitudes from ``2**16`` on saturate in one pass; all of fp16 are
below, as all of int16."""

_FRACTION_GUARD = 3
_TABLE_SHARE = 0.8
"""Of an exponential's error, what the table may take; the argument takes less than the rest."""

_LEAST_NORMAL = 2.0**-126


@cache
def unit_within(name: str, source: Any, target: FloatFormat, **error: float) -> FunctionUnit:
    """Return a unit whose error is proven to be no larger.

    The search for tables has gaps: where it finds none for an error, it may for a smaller one.
    """
    from hwgen.arithmetic.functions.unit import Wanted, design

    for share in _SHARES:
        with suppress(ValueError):
            wanted = Wanted(**{kind: value * share for kind, value in error.items()})
            return design(name, source, target, wanted)
    raise AssertionError(f"there is a unit of {name} for every error that a configuration allows")


@dataclass(frozen=True)
class Powers:
    """Conversion of an element to ``2**f`` and ``k``.

    Parameters
    ----------
    scaling : Scaling
        From elements to ``x log2(e)`` in fixed point, with `fraction` bits behind the point.
    unit : FunctionUnit
        ``2**f`` in single precision, of what is behind the point.
    converted : bool
        Whether elements are converted to single precision first.
    """

    scaling: Scaling
    unit: FunctionUnit
    converted: bool = False

    @property
    def level_bits(self) -> int:
        """Bits of ``k``, with its sign."""
        return self.scaling.width - self.scaling.fraction

    @property
    def least(self) -> int:
        """The smallest ``k``, which also lanes that hold no element have."""
        return -(1 << (self.level_bits - 1))

    @property
    def relative(self) -> float:
        """Bound of the relative error of an exponential that does not saturate."""
        table = self.unit.bound.max_relative
        assert table is not None, "powers have a relative error"
        return float((1 + table) * 2.0 ** max(self.scaling.error) - 1) * (1 + 2.0**-40)

    def evaluate(self, raw: NDArray[Any]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Return ``2**f`` in single precision, and ``k``.

        Parameters
        ----------
        raw : ndarray
            Integers, or bit patterns of the scaling's source.

        Notes
        -----
        NaN and plus infinity give NaN, minus infinity 0, all three with the smallest ``k``.
        """
        scaling, one = self.scaling, 1 << self.scaling.fraction
        bits = np.asarray(raw).astype(np.int64)
        scaled, above, below = scaling.evaluate(bits)
        end = 1 << (scaling.width - 1)
        scaled = np.where(above, end - 1, np.where(below, -end, scaled))
        power = self.unit.evaluate(scaled & (one - 1)).astype(np.uint32)
        level = scaled >> scaling.fraction
        source = scaling.source
        if source.is_float:
            special = (bits & source.magnitude_mask) >= source.overflow
            least = bits == source.overflow | source.sign_mask
            power = np.where(special, floating("fp32").nan, power)
            power = np.where(least, 0, power).astype(np.uint32)
            level = np.where(special, self.least, level)
        return power, level


@cache
def powers_of(fmt: IntegerFormat | FloatFormat, function_bits: int) -> Powers:
    """Return the powers of elements of a format; int32 goes through single precision.

    A scaled argument is off by less than ``2 * 2**-fraction``, so an exponential by a share of less
    than 0.18 of ``2**-function_bits``, and by that of the table.
    """
    fraction, real = function_bits + _FRACTION_GUARD, floating("fp32")
    unit = unit_within(
        "exp2", FixedFormat(0, fraction, False), real, relative=_TABLE_SHARE * 2.0**-function_bits
    )
    if fmt.is_float or fmt.width > _TOP:
        number = fmt if fmt.is_float else real
        scaling = Scaling("exp", number, fraction, fraction + _TOP - 1, _TOP)
        return Powers(scaling, unit, converted=not fmt.is_float)
    bits = fmt.width - 1
    source = FixedFormat(bits, 0, True)
    return Powers(Scaling("exp", source, fraction, fraction + bits - 1, bits), unit)


def rescaled(bits: NDArray[np.uint32], down: NDArray[Any]) -> NDArray[np.uint32]:
    """Return numbers of single precision over powers of two; what becomes subnormal is 0.

    Zeros may be over anything.
    """
    field = bits.astype(np.int64) >> 23 & 0xFF
    moved = bits.astype(np.int64) - (np.minimum(down, 255) << 23)
    kept = (np.asarray(down) == 0) | (field == 255)
    return np.where(kept, bits, np.where((field > 0) & (field > down), moved, 0)).astype(np.uint32)


@dataclass(frozen=True)
class SoftmaxBound:
    """Proven error bounds for rows of up to `length` elements, none of which saturates.

    Parameters
    ----------
    length : int
    relative, absolute : float
        No result is off by more than `relative` times itself plus `absolute`, times the
        operation's scale if that is above 1, before it is rounded to the format of the output.
    """

    length: int
    relative: float
    absolute: float

    def document(self) -> dict[str, Any]:
        """Return it as plain values, for a manifest."""
        return {
            "length": self.length,
            "result_relative": self.relative,
            "result_absolute": self.absolute,
        }


def online_bound(
    length: int, lanes: int, partial: int, powers: Powers, reciprocal: FunctionUnit
) -> SoftmaxBound:
    """Return the bound of softmax in one pass, against exact arithmetic on the elements.

    An exponential is off by a share ``e``; additions round once for each level that a term passes.
    What becomes subnormal is left out: less than ``2**-126`` for each element and each beat, beside
    a sum of at least ``1 - e`` as the largest ``k`` has a power of at least 1.  The sum is
    multiplied by one over the scale, which is rounded, goes through the reciprocal's table, and is
    multiplied.  A product that becomes subnormal, or a weight that is left out, counts as absolute.

    Parameters
    ----------
    length : int
        Elements of the longest row.
    lanes : int
        Elements of a beat.
    partial : int
        Sums that the beats of a row are added to in turn.
    powers : Powers
        The powers of two.
    reciprocal : FunctionUnit
        The reciprocal of the scale.
    """
    beats = -(-length // lanes)
    additions = (lanes - 1).bit_length() + -(-beats // partial) + (partial - 1).bit_length()
    unit, e = 2.0**-24, powers.relative
    table = reciprocal.bound.max_relative
    assert table is not None, "reciprocals have a relative error"
    lost = (length + partial + beats) * _LEAST_NORMAL * (1 + e) / (1 - e)
    sums_low = (1 - e) * (1 - unit) ** (additions + 2) * (1 - lost)
    sums_high = (1 + e) * (1 + unit) ** (additions + 2)
    relative = max(
        (1 + e) * (1 + unit) * (1 + table) / sums_low - 1,
        1 - (1 - e) * (1 - unit) * (1 - table) / sums_high,
    )
    return SoftmaxBound(length, relative * (1 + 2.0**-40), 4 * _LEAST_NORMAL)
