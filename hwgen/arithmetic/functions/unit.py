# SPDX-License-Identifier: Apache-2.0
"""Units of functions: chosen for a wanted error, evaluated bit by bit, described."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hwgen.arithmetic.functions import exponential, normalised, symmetric
from hwgen.arithmetic.functions.bound import Bound, Plan, prove
from hwgen.arithmetic.functions.encoding import Result
from hwgen.arithmetic.functions.fit import Objective, Tolerance, fit, gates
from hwgen.arithmetic.functions.polynomial import Polynomial
from hwgen.formats.fixed import RealFormat, real_format
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FUNCTIONS = (*exponential.FUNCTIONS, *normalised.FUNCTIONS, *symmetric.FUNCTIONS)
"""The functions, by name; ``gelu`` is the form with erf, ``gelu_tanh`` its approximation."""

_SHARES = (1.0, 0.85, 0.7, 0.5)  # of what is left for the table, tried in turn
_PRECISIONS = 3  # bits of a table's results that are tried


@dataclass(frozen=True)
class Wanted:
    """An error that a unit may have: exactly one of these.

    Parameters
    ----------
    absolute, relative, ulp : float, optional
        As in `hwgen.arithmetic.functions.bound.Bound`: `ulp` in units of the last place.
    """

    absolute: float | None = None
    relative: float | None = None
    ulp: float | None = None

    def __post_init__(self) -> None:
        bounds = [value for value in (self.absolute, self.relative, self.ulp) if value is not None]
        if len(bounds) != 1 or not 0 < bounds[0] < math.inf:
            raise ValueError(
                "the wanted error must be one positive number: absolute, relative or ulp"
            )

    def met_by(self, bound: Bound) -> bool:
        """Return whether a bound is as good as wanted."""
        for wanted, is_there in (
            (self.absolute, bound.max_abs),
            (self.relative, bound.max_relative),
            (self.ulp, bound.max_ulp),
        ):
            if wanted is not None:
                return is_there is not None and is_there <= wanted
        raise AssertionError("one is given")


@dataclass(frozen=True)
class FunctionUnit:
    """A function of one number, in hardware and as a golden model.

    Parameters
    ----------
    function : str
        Of `FUNCTIONS`.
    source, target : RealFormat
    plan : Exponential, Normalised or Symmetric
        Everything that hardware and golden model are made from.
    """

    function: str
    source: RealFormat
    target: RealFormat
    plan: Plan

    @property
    def name(self) -> str:
        """Name for modules: two units of one name are the same."""
        parts = (self.function, self.source, self.target)
        return "_".join(str(part).replace(".", "_") for part in parts) + f"_{self.digest}"

    @cached_property
    def digest(self) -> str:
        """Eight digits that change with any coefficient or width."""
        return hashlib.sha256(repr(self.plan).encode()).hexdigest()[:8]

    @cached_property
    def bound(self) -> Bound:
        """Proven bound of its errors."""
        return prove(self.function, self.source, self.target, self.plan)

    @property
    def table(self) -> Polynomial:
        """Its table."""
        return self.plan.table

    def evaluate(self, raw: NDArray[Any]) -> NDArray[np.int64]:
        """Return the results for integers or bit patterns of the source's format.

        Parameters
        ----------
        raw : ndarray of integers
            Fixed point: integers; floating point: bit patterns.

        Returns
        -------
        ndarray of int64
            The same of the target's format.
        """
        return self.plan.evaluate(np.asarray(raw).astype(np.int64))

    def document(self) -> dict[str, Any]:
        """Return its properties as plain values, for a manifest."""
        table = self.table
        return {
            "function": self.function,
            "input": str(self.source),
            "output": str(self.target),
            "segments": table.segments,
            "degree": table.degree,
            "table_bits": table.table_bits,
            "bound": self.bound.document(),
        }


def design(
    function: str,
    source: RealFormat | str,
    target: RealFormat | str,
    wanted: Wanted,
    *,
    objective: Objective = gates,
    degrees: tuple[int, ...] = (0, 1, 2),
    monotonic: bool = False,
) -> FunctionUnit:
    """Return the unit of the least `objective` whose bound is proven to be as good as wanted.

    Parameters
    ----------
    function : str
        Of `FUNCTIONS`.
    source, target : RealFormat or str
        Formats of argument and result, or their names.
    wanted : Wanted
    objective : callable
        What is to be small, of the `Polynomial` of a table: its size by default.
    degrees : tuple of int
        Degrees of polynomials that may be chosen.
    monotonic : bool
        Whether the unit must be proven monotonic.

    Raises
    ------
    ValueError
        If there is no such function, format or unit; it says what is possible.
    """
    if monotonic and function in symmetric.GATED:
        raise ValueError(f"{function} both rises and falls: no unit is monotonic")
    if function not in FUNCTIONS:
        raise ValueError(f"must be one of {', '.join(FUNCTIONS)}, not {function!r}")
    source = real_format(source) if isinstance(source, str) else source
    target = real_format(target) if isinstance(target, str) else target
    gated = function in symmetric.GATED
    floats = source.is_float and target.is_float
    if gated and floats and source != target:
        raise ValueError(f"{function} of {source} gives {source}, not {target}")
    error = _error_budget(function, source, target, wanted)
    best: Bound | None = None
    for share in _SHARES:
        unit = _planned(function, source, target, error * share, objective, degrees, monotonic)
        if unit is None:
            continue
        if wanted.met_by(unit.bound) and (unit.bound.monotonic or not monotonic):
            return unit
        best = unit.bound
    reached = f"; the best found has {best}" if best else ""
    raise ValueError(
        f"no {function} unit from {source} to {target} of up to 1024 segments with degrees"
        f" {', '.join(map(str, degrees))} is proven to be within {wanted}{reached}"
    )


def _error_budget(function: str, source: RealFormat, target: RealFormat, wanted: Wanted) -> float:
    """Return the error that is left beside rounding: of significands 1 to 2, or of sums.

    Raises
    ------
    ValueError
        If none is left.
    """
    floats = target.is_float
    if function in symmetric.FUNCTIONS:
        if wanted.absolute is None and (floats or wanted.ulp is None):
            raise ValueError(f"the error of {function} to {target} must be wanted as absolute")
        if target.is_fixed:
            total = wanted.absolute or (wanted.ulp or 0) * target.ulp
            budget = total - target.ulp / 2
        else:
            # Results up to where the table ends; beyond, they are exact.
            end = symmetric.end_of_table(function, wanted.absolute or 1)
            largest = end if function in symmetric.GATED else 1.0
            power = 2.0 ** math.ceil(math.log2(largest))
            budget = (wanted.absolute or 0) - power * 2.0 ** -(target.mantissa_bits + 2)
    elif target.is_float:
        if wanted.absolute is not None:
            raise ValueError(
                f"the error of {function} to {target} must be wanted as relative or ulp"
            )
        last = 2.0**-target.mantissa_bits
        budget = (wanted.relative or (wanted.ulp or 0) * last) - last / 2
    else:
        if wanted.relative is not None:
            raise ValueError(
                f"the error of {function} to {target} must be wanted as absolute or ulp"
            )
        total = wanted.absolute or (wanted.ulp or 0) * target.ulp
        budget = (total - target.ulp / 2) * 2.0 ** (1 - target.integer_bits)
    if budget <= 0:
        raise ValueError(f"rounding to {target} alone takes as much as is wanted, {wanted}")
    return budget


def _planned(
    function: str,
    source: RealFormat,
    target: RealFormat,
    error: float,
    objective: Objective,
    degrees: tuple[int, ...],
    monotonic: bool,
) -> FunctionUnit | None:
    """Return a unit whose table takes what `error` leaves it, or none if there is no such table."""
    if function in symmetric.FUNCTIONS:
        return _symmetric(function, source, target, error, objective, degrees, monotonic)
    first: exponential.Scaling | normalised.Normalisation
    if function in exponential.FUNCTIONS:
        first = exponential.scaled(function, source, target, error / 2)
        left = error - 2 * max(first.error)
        domain, low, high = exponential.domain(first), *first.exponents
    else:
        first = normalised.normalised(function, source, error)
        left = error - (2 * 2.0**-first.width if first.drop else 0.0)
        domain, low, high = normalised.domain(first), *first.result_exponents

    def fits(table: Polynomial) -> bool:
        """Return whether significands lie in one power of two once they are rounded."""
        if monotonic and not table.monotonic:
            return False
        if target.is_fixed:
            return True
        low, high = table.extremes
        one = 1 << table.precision
        guard = max(1, table.precision - target.mantissa_bits)
        pad = guard - (table.precision - target.mantissa_bits)
        half = 1 << (guard - 1)
        return (low << pad) + half >= one << pad and (high << pad) - half < 2 * one << pad

    table = fit(domain, Tolerance(left), _precisions(left), objective, degrees=degrees, check=fits)
    if table is None:
        return None
    result = Result(target, table.precision, low, high)
    if isinstance(first, exponential.Scaling):
        return FunctionUnit(function, source, target, exponential.Exponential(first, table, result))
    return FunctionUnit(function, source, target, normalised.Normalised(first, table, result))


def _precisions(error: float) -> range:
    least = max(1, math.ceil(-math.log2(error)))
    return range(least, least + _PRECISIONS)


def _symmetric(
    function: str,
    source: RealFormat,
    target: RealFormat,
    error: float,
    objective: Objective,
    degrees: tuple[int, ...],
    monotonic: bool,
) -> FunctionUnit | None:
    magnitude, end = symmetric.magnitudes(function, source, target, error)
    exact = source.is_fixed and magnitude.drop == 0
    left = error - (0.0 if exact else symmetric.SLOPE * 2.0**-magnitude.fraction)
    whole = 2.0**magnitude.top

    def segments(bits: int) -> int:
        return math.ceil(end / (whole * 2.0**-bits))

    table = fit(
        symmetric.domain(function, magnitude),
        Tolerance(left),
        _precisions(left),
        objective,
        segments=segments,
        degrees=degrees,
        check=lambda table: table.monotonic or not monotonic,
    )
    if table is None:
        return None
    return FunctionUnit(
        function, source, target, symmetric.Symmetric(function, magnitude, table, target)
    )
