# SPDX-License-Identifier: Apache-2.0
"""Proven bounds of units: by every input where there are few, else from those of their parts."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from hwgen.arithmetic.functions.curves import enclosed
from hwgen.arithmetic.functions.exponential import Exponential
from hwgen.arithmetic.functions.normalised import Normalised
from hwgen.arithmetic.functions.symmetric import GATED, Symmetric
from hwgen.formats.fixed import RealFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Plan = Exponential | Normalised | Symmetric

EXHAUSTIVE = 16
"""Units of inputs of up to so many bits are proven by all of them."""

_FAR = {"gelu": 9.0, "gelu_tanh": 9.0, "silu": 44.0, "sigmoid": 44.0, "tanh": 22.0}
"""Arguments beyond: the curves of symmetric functions are nearer than 1e-17 to their limits."""


@dataclass(frozen=True)
class Bound:
    """Proven bounds of the errors of a unit.

    Parameters
    ----------
    max_abs : float or None
        Largest error of all results whose exact value is in the target's range; None if unbounded.
    max_relative : float or None
        Largest error relative to the exact value, of those that are at least the smallest normal
        number, or the unit of a fixed-point format. None if it is unbounded.
    max_ulp : float or None
        Largest error in units of the last place of the target at the exact value.
    monotonic : bool or None
        Whether no result is on the wrong side of that of a neighbour; None for functions that both
        rise and fall, and where it is not proven.
    proof : {"exhaustive", "segments"}
        Every input against enclosed values of the function, or each segment of the table in exact
        arithmetic and what precedes and follows it.
    """

    max_abs: float | None
    max_relative: float | None
    max_ulp: float | None
    monotonic: bool | None
    proof: Literal["exhaustive", "segments"]

    def document(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def exact(function: str, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return values of a function and bounds of what they are off by.

    Zero gives infinity to reciprocals, and what has no result a NaN.
    """
    if function in ("exp2", "exp"):
        # Beyond, results overflow and underflow in every format.
        reach = 190.0 if function == "exp2" else 130.0
        return enclosed(function, np.clip(x, -reach, reach))
    if function in ("reciprocal", "rsqrt"):
        with np.errstate(divide="ignore", invalid="ignore"):
            return enclosed(function, x)
    magnitude = np.abs(x)
    far = magnitude > _FAR[function]
    curve, radius = enclosed(function, np.minimum(magnitude, _FAR[function]))
    curve = np.where(far, 1.0 if function == "tanh" else 0.0, curve)
    radius = np.where(far, 1e-17, radius)
    if function == "sigmoid":
        return np.where(x < 0, curve, 1 - curve), radius + 2.0**-53
    if function == "tanh":
        return np.sign(x) * curve, radius
    # Sums are rounded in double precision where the curve is not zero.
    return np.maximum(x, 0) - curve, radius + np.where(far, 0, magnitude * 2.0**-52)


def exhaustive(function: str, source: RealFormat, target: RealFormat, plan: Plan) -> Bound:
    """Prove the bound of a unit by all of its inputs."""
    raw = source.patterns()
    x = source.values_of(raw)
    results = plan.evaluate(raw)
    if function in ("reciprocal", "rsqrt"):
        kept = x > 0 if function == "rsqrt" or not target.signed else x != 0
        raw, x, results = raw[kept], x[kept], results[kept]
    values, radius = exact(function, x)
    actual = target.values_of(results)
    limit = target.max
    if target.is_float:
        # What rounds to infinity is as good as the power of two behind the largest number.
        over = math.ldexp(1.0, target.bias + 1)
        half = (over + limit) / 2
        both = (np.abs(values) >= half) & np.isinf(actual)
        actual = np.where(np.isinf(actual), np.copysign(over, actual), actual)
        actual = np.where(both, values, actual)
        inside = np.abs(values) < over
    else:
        # Reciprocals of negative numbers saturate as those of positive ones.
        low = -limit if function == "reciprocal" else target.integer.min * target.ulp
        inside = (values <= limit) & (values >= low)
        # Out of range, what saturates on the right side is right.
        actual = np.where((values > limit) & (actual == limit), values, actual)
        actual = np.where((values < low) & (actual == low), values, actual)
    error = np.abs(actual - values) + np.where(inside, radius, 0.0)
    error = np.where(inside | (actual != values), error, 0.0)
    normal = np.abs(values) >= (target.smallest_normal)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(normal & (error > radius), error / np.abs(values), 0.0)
    return Bound(
        max_abs=_finite(error.max()),
        max_relative=_finite(relative.max()),
        max_ulp=_finite((error / target.ulps(np.where(inside, values, limit))).max()),
        monotonic=_ordered(function, x, target.values_of(results)),
        proof="exhaustive",
    )


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _ordered(function: str, x: NDArray[np.float64], results: NDArray[np.float64]) -> bool | None:
    if function in GATED:
        return None
    if function in ("reciprocal", "rsqrt"):
        sides = [results[x < 0], results[x > 0]]
        return all(bool((side[1:] <= side[:-1]).all()) for side in sides)
    return bool((np.diff(results[np.isfinite(results)]) >= 0).all())


def composed(function: str, target: RealFormat, plan: Plan) -> Bound:
    """Prove the bound of a unit from those of its table and of what precedes and follows it."""
    monotonic = None if function in GATED else (plan.monotonic or None)
    if isinstance(plan, Symmetric):
        error = plan.sum_error
        if target.is_fixed:
            error += target.ulp / 2 if plan.fraction > target.fraction else 0.0
            if function not in GATED:
                error = max(error, 1 - target.max)
            return Bound(error, None, error / target.ulp, monotonic, "segments")
        # Sums are at most the end of the table, or 1.
        end = max(1.0, math.ldexp(plan.largest, -plan.fraction))
        rounding = float(target.ulps(_array(end * 0.999999))[0]) / 2
        return Bound(error + rounding, None, None, monotonic, "segments")
    error = plan.significand_error
    if target.is_float:
        # A significand is from 1 to 2; an error moves no result to another power of two by more.
        last = 2.0**-target.mantissa_bits
        share = error + last / 2
        return Bound(math.ldexp(share, target.bias), share, share / last, monotonic, "segments")
    # Bits that are cut off before rounding halves up do not change what is rounded to.
    total = error * math.ldexp(1.0, plan.result.top) + target.ulp / 2
    return Bound(total, None, total / target.ulp, monotonic, "segments")


def _array(value: float) -> NDArray[np.float64]:
    return np.array([value])


def prove(function: str, source: RealFormat, target: RealFormat, plan: Plan) -> Bound:
    """Return the proven bound of a unit."""
    if source.width <= EXHAUSTIVE:
        return exhaustive(function, source, target, plan)
    return composed(function, target, plan)
