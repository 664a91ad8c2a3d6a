# SPDX-License-Identifier: Apache-2.0
"""Golden model of post-processing; `hwgen.core.post` says what is computed.

Sums and products of up to 98 bits are exact.  A sum that int64 holds is multiplied in two halves:
``t = high * 2**32 + low``, so that ``t * multiplier`` is a high part in int64 and a low one of
32 bits.  Sums beyond int64, which only accumulators of 64 bits reach, are Python integers.

Accumulators in single precision are added and multiplied on their bit patterns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwgen.arithmetic.float_arithmetic import add, convert, from_integers, multiply
from hwgen.core.post import RAW, SINGLE, PostSettings, output_format
from hwgen.errors import InputError
from hwgen.formats import FloatFormat
from hwgen.lazy import NDArray, np

if TYPE_CHECKING:
    from hwgen.core.post import Columns
    from hwgen.core.schedule.stream import StreamProduct
    from hwgen.formats import IntegerFormat

_HALF = 32
_LOW = (1 << _HALF) - 1
_FAR = 40  # exponent of such numbers of single precision
_WIDE = 62  # bits of quotients that are clipped, far beyond every limit


def apply(
    settings: PostSettings,
    accumulator: IntegerFormat | FloatFormat,
    acc: NDArray[Any],
    columns: Columns | None = None,
) -> NDArray[Any]:
    """Return the post-processed accumulators, bit for bit as the hardware computes them.

    Parameters
    ----------
    settings : PostSettings
    accumulator : IntegerFormat or FloatFormat
        Format of the accumulators.
    acc : ndarray of int, or of float32, shape (..., n)
    columns : Columns, optional
        Records of the n columns, if ``settings.columns``.

    Returns
    -------
    ndarray, shape (..., n)
        In the dtype of the output's format.

    Raises
    ------
    InputError
        If `acc` is not of its format, or there are no columns, too many, or unexpected ones.
    """
    try:
        if acc.size:
            accumulator.check(acc)
    except ValueError as error:
        raise InputError(f"accumulators: {error}") from None
    _check_columns(settings, acc, columns)
    if accumulator.is_float:
        return _of_singles(settings, acc, columns)
    fmt = output_format(settings.output, accumulator)
    total = _total(acc, columns)
    negative = total < 0
    if settings.activation == "relu":
        total = np.where(negative, 0, total)
    if settings.output == RAW:
        return np.asarray(_clipped(total, fmt.min, fmt.max).astype(fmt.dtype))

    factor, shift = _scales(settings, columns)
    if settings.activation == "leaky":
        slope, slope_shift = _slopes(settings, columns)
        factor = np.where(negative, slope, factor)
        shift = np.where(negative, slope_shift, shift)
    if fmt.is_float:
        scale = np.broadcast_to(factor, total.shape) & _LOW
        single = multiply(SINGLE, from_integers(SINGLE, total), scale.astype(np.uint32))
        return fmt.decode(single if fmt == SINGLE else convert(SINGLE, fmt, single))
    rounded = _requantised(total, factor, shift, settings.rounding)
    return (rounded + settings.zero).clip(*settings.limits).astype(fmt.dtype)


def _of_singles(settings: PostSettings, acc: NDArray[Any], columns: Columns | None) -> NDArray[Any]:
    """Post-process accumulators in single precision."""
    total = np.ascontiguousarray(acc, np.float32).view(np.uint32).reshape(acc.shape)
    if columns is not None:
        total = add(SINGLE, total, columns.bias.view(np.uint32))
    negative = total & SINGLE.sign_mask != 0  # -0 as well; a NaN has no sign
    if settings.activation == "relu":
        total = np.where(negative, 0, total)
    if settings.output == RAW:
        return SINGLE.decode(total)
    factor, _ = _scales(settings, columns)
    if settings.activation == "leaky":
        factor = np.where(negative, _slopes(settings, columns)[0], factor)
    scale = np.broadcast_to(factor, total.shape) & _LOW
    scaled = multiply(SINGLE, total, scale.astype(np.uint32))
    fmt = output_format(settings.output, SINGLE)
    if fmt.is_float:
        return fmt.decode(convert(SINGLE, fmt, scaled))
    rounded = _integers(SINGLE.decode(scaled).astype(np.float64), settings.rounding)
    return (rounded + settings.zero).clip(*settings.limits).astype(fmt.dtype)


def _integers(numbers: NDArray[np.float64], rounding: str) -> NDArray[np.int64]:
    """Return numbers of single precision as integers, clipped far beyond every limit; NaN as 0.

    Half a unit is added in float64: a sum that this rounds is one of less than 2**-24, which is on
    the same side of every integer as before.
    """
    far = np.clip(np.where(np.isnan(numbers), 0, numbers), -(2.0**_FAR), 2.0**_FAR)
    if rounding == "half_even":
        whole = np.rint(far)
    elif rounding == "half_away":
        whole = np.copysign(np.floor(np.abs(far) + 0.5), far)
    else:
        whole = np.floor(far + (0.5 if rounding == "half_up" else 0.0))
    return np.asarray(whole.astype(np.int64))


def processed(plan: StreamProduct, acc: NDArray[Any]) -> NDArray[Any]:
    """Return the results of a stream core from its accumulators, shape (m, n).

    Raises
    ------
    InputError
        If the core has no such post-processing; see `StreamProduct.processing`.
    """
    settings = plan.processing
    if settings is None:
        return acc
    return apply(settings, plan.config.result, acc, plan.columns)


def _check_columns(settings: PostSettings, acc: NDArray[Any], columns: Columns | None) -> None:
    if settings.columns != (columns is not None):
        raise InputError(
            "columns: the settings ask for column records, but there are none"
            if settings.columns
            else "columns: there are column records, but the settings do not use them"
        )
    if columns is not None and (acc.ndim == 0 or acc.shape[-1] != len(columns)):
        raise InputError(
            f"columns: must be as many as the accumulators have, shape {acc.shape}, not"
            f" {len(columns)}"
        )


def _total(acc: NDArray[np.integer], columns: Columns | None) -> NDArray[Any]:
    """Return the accumulators with their bias: int64 if that holds them, else Python integers."""
    bias = np.zeros(1, np.int64) if columns is None else columns.bias.astype(np.int64)
    limits = np.iinfo(np.int64)
    if acc.size and (
        int(acc.max()) + int(bias.max()) > limits.max
        or int(acc.min()) + int(bias.min()) < limits.min
    ):
        return np.asarray(acc.astype(object) + bias.astype(object))
    return acc.astype(np.int64) + bias


def _clipped(values: NDArray[Any], low: float, high: float) -> NDArray[Any]:
    if values.dtype != object and high > np.iinfo(np.int64).max:
        return np.asarray(np.maximum(values, int(low)))
    return np.asarray(np.minimum(np.maximum(values, int(low)), int(high)))


def _scales(settings: PostSettings, columns: Columns | None) -> tuple[Any, Any]:
    if columns is None:
        return np.int64(settings.factors[0]), np.int64(settings.shift)
    return columns.multiplier.astype(np.int64), columns.shift.astype(np.int64)


def _slopes(settings: PostSettings, columns: Columns | None) -> tuple[Any, Any]:
    if columns is None:
        return np.int64(settings.factors[1]), np.int64(settings.slope_shift)
    return columns.slope_multiplier.astype(np.int64), columns.slope_shift.astype(np.int64)


def _requantised(total: NDArray[Any], factor: Any, shift: Any, rounding: str) -> NDArray[np.int64]:
    """Return ``round(total * factor / 2**shift)``, clipped far beyond every limit."""
    if total.dtype == object:
        product = total * np.broadcast_to(factor, total.shape).astype(object)
        places = np.broadcast_to(shift, total.shape).astype(object)
        quotient = product >> places
        rest = product - (quotient << places)
        half = (1 << places) >> 1  # 0 without a shift, when there is no rest either
        guard = (rest >= half) & (rest > 0)
        sticky = rest != half
        odd = (quotient & 1).astype(bool)
        up = _up(rounding, guard.astype(bool), sticky.astype(bool), product < 0, odd)
        quotient = np.minimum(np.maximum(quotient, -(1 << _WIDE)), (1 << _WIDE) - 1)
        return np.asarray(quotient.astype(np.int64) + up)
    low = (total & _LOW) * factor
    high = (total >> _HALF) * factor + (low >> _HALF)
    low &= _LOW
    # First by up to 32 places, where bits of the high part move into the low one ...
    first = np.minimum(shift, _HALF)
    free_bits = _WIDE - _HALF + first
    highest = np.where(first < _HALF, (np.int64(1) << free_bits) - 1, np.iinfo(np.int64).max)
    clipped = np.clip(high, -highest - 1, highest)
    quotient = (clipped << (_HALF - first)) | (low >> first)
    lost = low & ((np.int64(1) << first) - 1)
    # ... then by the rest of them.
    second = shift - first
    rest = quotient & ((np.int64(1) << second) - 1)
    quotient = quotient >> second
    # The topmost bit that was lost, and whether there are others below it.
    upper = second > 0
    place = np.maximum(np.where(upper, second, first) - 1, 0)
    dropped = np.where(upper, rest, lost)
    guard = (dropped >> place) & 1 == 1
    sticky = (dropped & ((np.int64(1) << place) - 1) != 0) | (upper & (lost != 0))
    up = _up(rounding, guard, sticky, high < 0, quotient & 1 == 1)
    return np.asarray(quotient + up)


def _up(rounding: str, guard: Any, sticky: Any, negative: Any, odd: Any) -> NDArray[np.int64]:
    """Return 1 where a quotient that was rounded down has to be rounded up.

    Parameters
    ----------
    rounding : str
    guard, sticky : ndarray of bool
        At least half a unit was lost; what was lost is not exactly half of one.
    negative, odd : ndarray of bool
        The exact quotient is negative; the quotient is odd.
    """
    if rounding == "floor":
        return np.zeros(np.shape(guard), np.int64)
    if rounding == "half_even":
        guard = guard & (sticky | odd)
    elif rounding == "half_away":
        guard = guard & (sticky | ~negative.astype(bool))
    return np.asarray(guard.astype(np.int64))
