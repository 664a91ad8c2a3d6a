# SPDX-License-Identifier: Apache-2.0
"""Choosing segments, degree and bits of coefficients of a table for a wanted error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

from hwgen.arithmetic.functions.curves import sampled
from hwgen.arithmetic.functions.polynomial import Domain, Polynomial
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_SEGMENT_BITS = 10
_ALL = 14  # bits of arguments up to which a choice looks at all of them
_SAMPLES = 64  # arguments of a segment that a choice looks at where there are more
_SHARES = (0.99, 0.95, 0.9, 0.8, 0.65)  # of the wanted error that samples may have, tried in turn
_PROOFS = 4  # of the best choices that are proven before the next share is tried
_FINE = 8  # bits of coefficients beyond the result's that are as good as any number of them


@dataclass(frozen=True)
class Tolerance:
    """The error that a table may have.

    Parameters
    ----------
    absolute, relative : float
        The error must be at most `absolute` plus `relative` times the curve, both in units of the
        curve times ``2**gain``.
    """

    absolute: float = 0.0
    relative: float = 0.0


class _Samples:
    """Arguments of all segments at which a choice is looked at, and the curve there."""

    def __init__(self, domain: Domain, segment_bits: int, segments: int) -> None:
        self.domain, self.segment_bits, self.segments = domain, segment_bits, segments
        bits = domain.width - segment_bits
        self.offset_bits = bits
        count = 1 << bits
        every = count <= _SAMPLES or domain.width <= _ALL
        angles = np.linspace(0, np.pi, _SAMPLES)
        chosen = np.round((1 - np.cos(angles)) / 2 * (count - 1)).astype(np.int64)
        full = (np.arange(1, 9) << max(0, bits - 3)) - 1  # low bits that are all ones
        self.offsets = np.arange(count) if every else np.unique(np.r_[chosen, full, chosen | 31])
        self.starts = np.arange(segments, dtype=np.int64) << bits
        arguments = self.starts[:, None] + self.offsets
        self.values = sampled(domain.curve, domain.points(arguments)) * 2.0**domain.gain

    @cached_property
    def nodes(self) -> NDArray[np.float64]:
        """The curve at the Chebyshev nodes of three degrees, shape (segments, 3, 3)."""
        rows = []
        for degree in range(3):
            k = np.arange(3)[: degree + 1]
            at = (1 - np.cos((2 * k + 1) * np.pi / (2 * degree + 2))) / 2
            rows.append(self.at(np.r_[at, [0.0] * (2 - degree)]))
        return np.stack(rows, axis=1)

    def at(self, position: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the curve at places of all segments, 0 to 1."""
        domain = self.domain
        piece = self.starts >> domain.width
        lengths = np.array([length for _, length in domain.pieces])[piece]
        first = domain.points(self.starts)
        x = first[:, None] + position * (lengths * 2.0**-self.segment_bits)[:, None]
        return sampled(domain.curve, x) * 2.0**domain.gain


def _fitted(
    samples: _Samples, precision: int, fractions: tuple[int, ...], drops: tuple[int, ...]
) -> tuple[Polynomial, NDArray[np.int64]] | None:
    """Return the polynomial whose coefficients have so many bits, and these; None if there is none.

    The highest coefficient is that of interpolation at Chebyshev nodes, which is the minimax one
    but for the next term of the series, rounded; each lower one that of what is left. The
    constant one puts the largest errors of the integer results to both sides of zero.
    """
    trial = Polynomial(samples.domain, samples.segment_bits, precision, fractions, drops, ())
    if any(shift < 0 for shift in trial.shifts):
        return None
    degree = len(fractions) - 1
    unit = 2.0**precision
    columns: list[NDArray[np.int64]] = []
    for k in range(degree, 0, -1):
        n = np.arange(3)[: k + 1]
        at = (1 - np.cos((2 * n + 1) * np.pi / (2 * k + 2))) / 2
        rest = samples.nodes[:, k, : k + 1] * unit
        for j, column in enumerate(columns):
            power = degree - j
            rest = rest - column[:, None] * 2.0 ** -fractions[power] * at**power
        for order in range(1, k + 1):  # divided differences
            rest = np.diff(rest, axis=1) / (at[order:] - at[:-order])
        exact = rest[:, 0]
        columns.append(np.round(exact * 2.0 ** fractions[k]).astype(np.int64))
    zero = np.zeros(samples.segments, np.int64)
    rows = np.stack([zero, *reversed(columns)], axis=1)
    off = samples.values * unit - _results(trial, rows, samples)
    rows[:, 0] = np.round((off.max(axis=1) + off.min(axis=1)) / 2).astype(np.int64)
    return replace(trial, coefficients=tuple(map(tuple, rows.tolist()))), rows


def _results(
    polynomial: Polynomial, rows: NDArray[np.int64], samples: _Samples
) -> NDArray[np.int64]:
    """Return the results for all samples with coefficients in rows, shape (segments, samples)."""
    columns = [column[:, None] for column in rows.T]
    shape = samples.values.shape
    return np.broadcast_to(polynomial.horner(columns, samples.offsets), shape)


def _meets(
    polynomial: Polynomial, rows: NDArray[np.int64], samples: _Samples, tolerance: Tolerance
) -> bool:
    """Return whether all samples are as near as is wanted, with coefficients in rows."""
    results = _results(polynomial, rows, samples)
    error = np.abs(results * 2.0**-polynomial.precision - samples.values)
    allowed = tolerance.absolute + tolerance.relative * np.abs(samples.values)
    return bool((error <= allowed).all())


def proven(polynomial: Polynomial, tolerance: Tolerance) -> bool:
    """Return whether every result is proven to be as near as is wanted."""
    if not tolerance.relative:
        return polynomial.within(np.full(polynomial.segments, tolerance.absolute))
    firsts = np.arange(polynomial.segments, dtype=np.int64) << polynomial.offset_bits
    ends = np.stack([firsts, firsts + (1 << polynomial.offset_bits) - 1])
    values = sampled(polynomial.domain.curve, polynomial.domain.points(ends))
    smallest = np.abs(values).min(axis=0) * 2.0**polynomial.domain.gain * (1 - 1e-9)
    return polynomial.within(tolerance.absolute + tolerance.relative * smallest)


def multiplier_bits(polynomial: Polynomial) -> int:
    """Count the bits of all products of factors, before they are added up."""
    total, (low, high) = 0, polynomial.ranges[-1]
    for k in range(polynomial.degree - 1, -1, -1):
        bits = polynomial.offset_bits - polynomial.drops[k]
        width = max(
            (~low if low < 0 else low).bit_length(), (~high if high < 0 else high).bit_length()
        )
        total += bits * (width + (low < 0))
        largest = (1 << bits) - 1
        below, above = polynomial.ranges[k]
        low = below + (min(0, low * largest) >> polynomial.shifts[k])
        high = above + (max(0, high * largest) >> polynomial.shifts[k])
    return total


TABLE_GATES, PRODUCT_GATES = 0.25, 8.0
"""Two-input gates of a bit of a table and of a bit of a product.

Measured by synthesis of tables of 16 to 64 segments for nangate45.
"""


def gates(polynomial: Polynomial) -> float:
    """Return the size of table and multipliers, roughly, in two-input gates."""
    return TABLE_GATES * polynomial.table_bits + PRODUCT_GATES * multiplier_bits(polynomial)


Objective = Callable[[Polynomial], float]


def fit(
    domain: Domain,
    tolerance: Tolerance,
    precisions: range,
    objective: Objective,
    *,
    segments: Callable[[int], int] | None = None,
    degrees: tuple[int, ...] = (0, 1, 2),
    check: Callable[[Polynomial], bool] | None = None,
) -> Polynomial | None:
    """Return the polynomial of the least `objective` that is proven to be near enough, or none.

    Parameters
    ----------
    domain : Domain
    tolerance : Tolerance
    precisions : range
        Bits behind the point of the result that may be chosen.
    objective : callable
    segments : callable, optional
        Segments by `segment_bits`, all of the domain by default.
    degrees : tuple of int
    check : callable, optional
        What else must hold.
    """
    samples: dict[int, _Samples] = {}
    # Where not all arguments are enumerated, samples show less than what the proof allows for.
    for share in (1.0,) if domain.width <= _ALL else _SHARES:
        wanted = Tolerance(tolerance.absolute * share, tolerance.relative * share)
        result = []
        for degree, precision in product(degrees, precisions):
            enough = 0
            for bits in range(min(MAX_SEGMENT_BITS, domain.width) + 1):
                if bits not in samples:
                    count = segments(bits) if segments else len(domain.pieces) << bits
                    samples[bits] = _Samples(domain, bits, count)
                best = _narrowest(samples[bits], wanted, degree, precision, check)
                if best is not None:
                    result.append(best)
                    enough += 1
                if enough == 2:
                    break
        for polynomial in sorted(result, key=objective)[:_PROOFS]:
            if proven(polynomial, tolerance):
                return polynomial
    return None


def _narrowest(
    samples: _Samples,
    tolerance: Tolerance,
    degree: int,
    precision: int,
    check: Callable[[Polynomial], bool] | None,
) -> Polynomial | None:
    """Return the polynomial with the fewest bits for given segments, or none that is good enough.

    Bits are taken from the coefficients, the highest first, then from the argument.
    """
    offset_bits = samples.offset_bits
    if degree and offset_bits == 0:
        return None

    def good(fractions: list[int], drops: list[int]) -> Polynomial | None:
        fitted = _fitted(samples, precision, tuple(fractions), tuple(drops))
        if fitted is None or not _meets(*fitted, samples, tolerance):
            return None
        polynomial, _ = fitted
        return polynomial if check is None or check(polynomial) else None

    fractions = [0, *[min(_FINE, 2 + offset_bits)] * degree]
    drops = [0] * degree
    best = good(fractions, drops)
    if best is None:
        return None
    for k in range(degree, 0, -1):
        while fractions[k] > -precision:
            trial = fractions.copy()
            trial[k] -= 1
            if (polynomial := good(trial, drops)) is None:
                break
            fractions, best = trial, polynomial
    for k in range(degree - 1, -1, -1):
        # What is proven of the direction needs that an inner product leaves out no fewer bits.
        while drops[k] < min([offset_bits - 1, *drops[k + 1 :]]):
            fewer = drops.copy()
            fewer[k] += 1
            if (polynomial := good(fractions, fewer)) is None:
                break
            drops, best = fewer, polynomial
    return best
