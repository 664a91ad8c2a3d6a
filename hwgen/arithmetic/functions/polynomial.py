# SPDX-License-Identifier: Apache-2.0
"""Curves as polynomials with integer coefficients, segment by segment: values, bounds, sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from hwgen.arithmetic.functions.curves import CELL, cell, enclosed, sampled
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ENUMERATED = 16
"""Arguments of up to so many bits are looked at one by one."""

_STEPS = 32  # points of a cell at which its error is looked at
_LOOKS = 9  # arguments of a segment at which its error is looked at before it is proven


@dataclass(frozen=True)
class Domain:
    """Domain of a table: the numbers that unsigned arguments stand for.

    The argument's bits above `width` number the pieces; ``u`` in those below stands for
    ``start + (u * 2**-width) * length`` of its piece.

    Parameters
    ----------
    curve : str
        Of `hwgen.arithmetic.functions.curves.CURVES`.
    width : int
        Bits of the argument within a piece.
    pieces : tuple of (int, float)
        Start and length of each, the length a power of two.
    gain : int
        The result stands for ``2**gain`` times the curve.
    """

    curve: str
    width: int
    pieces: tuple[tuple[int, float], ...]
    gain: int = 0

    def points(self, arguments: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the numbers that arguments stand for."""
        starts = np.array([start for start, _ in self.pieces])
        steps = np.array([math.ldexp(length, -self.width) for _, length in self.pieces])
        piece = arguments >> self.width
        x = starts[piece] + (arguments & ((1 << self.width) - 1)) * steps[piece]
        return np.asarray(x, np.float64)


@dataclass(frozen=True)
class Polynomial:
    """A curve by polynomials of one degree on segments of equal size.

    With ``d`` the argument's bits below the segment's number, the result is that of Horner's rule
    in integers, each product cut off below the last bit of what it is added to::

        sum = c[n]
        for k in n - 1, ..., 0:
            sum = c[k] + (sum * (d >> drops[k]) >> shifts[k])

    Parameters
    ----------
    domain : Domain
    segment_bits : int
        Bits of the argument within a piece that choose the segment.
    precision : int
        Bits behind the point of the result.
    fractions : tuple of int
        Bits behind the point of the coefficients beyond `precision`, which may be negative,
        constant one first; that of the constant one is 0.
    drops : tuple of int
        Low bits of ``d`` that the product which is added to each coefficient leaves out; one less
        than there are coefficients.
    coefficients : tuple of tuple of int
        A row a segment, constant one first.
    """

    domain: Domain
    segment_bits: int
    precision: int
    fractions: tuple[int, ...]
    drops: tuple[int, ...]
    coefficients: tuple[tuple[int, ...], ...]

    @property
    def degree(self) -> int:
        """Degree of the polynomials."""
        return len(self.fractions) - 1

    @property
    def segments(self) -> int:
        """Segments of all pieces."""
        return len(self.coefficients)

    @property
    def offset_bits(self) -> int:
        """Bits of ``d``."""
        return self.domain.width - self.segment_bits

    @property
    def shifts(self) -> tuple[int, ...]:
        """By how many bits each product is shifted to the right, at least none."""
        return tuple(
            self.fractions[k + 1] - self.fractions[k] + self.offset_bits - self.drops[k]
            for k in range(self.degree)
        )

    @cached_property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Smallest and largest of each coefficient."""
        columns = zip(*self.coefficients, strict=True)
        return tuple((min(column), max(column)) for column in columns)

    @property
    def table_bits(self) -> int:
        """Bits of the table: a coefficient has those in which its values differ in the table.

        Negative numbers in two's complement; bits that all entries have in common take no room.
        """
        return self.segments * sum(varying_bits(low, high) for low, high in self.ranges)

    @cached_property
    def result_range(self) -> tuple[int, int]:
        """Bounds of the results."""
        low, high = self.ranges[-1]
        for k in range(self.degree - 1, -1, -1):
            largest = (1 << (self.offset_bits - self.drops[k])) - 1
            below, above = self.ranges[k]
            low, high = (
                below + (min(0, low * largest) >> self.shifts[k]),
                above + (max(0, high * largest) >> self.shifts[k]),
            )
        return low, high

    def evaluate(self, arguments: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the results for arguments, as the hardware gives them."""
        columns = np.array(self.coefficients, np.int64).T
        segment = arguments >> self.offset_bits
        return self.horner(
            [column[segment] for column in columns], arguments & ((1 << self.offset_bits) - 1)
        )

    def horner(
        self, columns: Sequence[NDArray[np.int64]], offset: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the results for coefficients, constant one first, and arguments in segments."""
        total = columns[-1]
        for k in range(self.degree - 1, -1, -1):
            total = columns[k] + ((total * (offset >> self.drops[k])) >> self.shifts[k])
        return total

    @cached_property
    def errors(self) -> NDArray[np.float64]:
        """Proven bounds of every segment's error.

        Returns
        -------
        ndarray of float64, shape (segments, 2)
            No result is below the first, or above the second, too large, in units of the curve
            times ``2**gain``.
        """
        if self.domain.width <= ENUMERATED:
            return self._enumerated()
        rows = [self._proof(index) for index in range(self.segments)]
        return np.array(rows) * 2.0**-self.precision

    def within(self, allowed: NDArray[np.float64]) -> bool:
        """Return whether every segment's error is proven to be as small as is allowed for it.

        Parameters
        ----------
        allowed : ndarray of float64, shape (segments,)
            In units of `errors`.
        """
        if self.domain.width <= ENUMERATED:
            return bool((np.abs(self.errors).max(axis=1) <= allowed).all())
        # What fails mostly does where the error can be seen: proofs begin there.
        firsts = np.arange(self.segments, dtype=np.int64) << self.offset_bits
        places = np.linspace(0, (1 << self.offset_bits) - 1, _LOOKS).astype(np.int64)
        arguments = firsts[:, None] + places
        values = sampled(self.domain.curve, self.domain.points(arguments)) * 2.0**self.domain.gain
        seen = np.abs(self.evaluate(arguments) * 2.0**-self.precision - values).max(axis=1)
        unit = 2.0**-self.precision
        return all(
            max(map(abs, self._proof(index))) * unit <= allowed[index]
            for index in np.argsort(allowed - seen).tolist()
        )

    @cached_property
    def _proofs(self) -> dict[int, tuple[float, float]]:
        """The bounds of segments that were asked for."""
        return {}

    def _proof(self, index: int) -> tuple[float, float]:
        """Return the result of `_segment_errors`, computed once."""
        if index not in self._proofs:
            self._proofs[index] = self._segment_errors(index)
        return self._proofs[index]

    def _enumerated(self) -> NDArray[np.float64]:
        arguments = np.arange(self.segments << self.offset_bits, dtype=np.int64)
        values, radius = enclosed(self.domain.curve, self.domain.points(arguments))
        off = self.evaluate(arguments) * 2.0**-self.precision - values * 2.0**self.domain.gain
        radius = radius * 2.0**self.domain.gain * 1.001
        shape = (self.segments, -1)
        low, high = (off - radius).reshape(shape), (off + radius).reshape(shape)
        return np.stack([low.min(axis=1), high.max(axis=1)], axis=1)

    def _segment_errors(self, index: int) -> tuple[float, float]:
        """Bound the error of a segment in units of the last place."""
        low, high = _cut_off(self, index)
        start, length = self._place(index)
        per_unit = max(CELL, length.denominator)
        cells = max(1, int(length * per_unit))
        ends = [
            self._cell_error(index, start, length, int(start * per_unit) + i, per_unit)
            for i in range(cells)
        ]
        return low + min(end[0] for end in ends), high + max(end[1] for end in ends)

    def _place(self, index: int) -> tuple[Fraction, Fraction]:
        """Return the start and the length of a segment."""
        piece = index >> self.segment_bits
        start, length = self.domain.pieces[piece]
        size = Fraction(length) / (1 << self.segment_bits)
        return start + (index & ((1 << self.segment_bits) - 1)) * size, size

    def _cell_error(
        self, index: int, start: Fraction, length: Fraction, number: int, per_unit: int
    ) -> tuple[float, float]:
        """Bound polynomial minus curve in one cell, in units of the last place, before cutting off.

        The difference is a polynomial too. Between points where it is computed it is bounded by
        its slope there and its largest curvature.
        """
        around, error = cell(self.domain.curve, number, per_unit)
        unit = 2.0 ** (self.precision + self.domain.gain)
        centre = (Fraction(2 * number + 1, 2 * per_unit) - start) / length
        shifted = self._shifted(index, centre, length)
        terms = [-unit * c for c in around]
        for k, exact in enumerate(shifted):
            # The exact coefficient less an enclosed one: rounded once, and that is accounted for.
            terms[k] = float(exact - Fraction(unit) * Fraction(around[k]))
        half = 0.5 / per_unit
        spacing = half / _STEPS
        t = np.linspace(-half + spacing, half - spacing, _STEPS)
        value, slope = np.zeros(_STEPS), np.zeros(_STEPS)
        for k in range(len(terms) - 1, -1, -1):
            value = value * t + terms[k]
            if k:
                slope = slope * t + k * terms[k]
        bend = sum(k * (k - 1) * abs(terms[k]) * half ** (k - 2) for k in range(2, len(terms)))
        slack = spacing * np.abs(slope) + bend * spacing**2 / 2
        # Roundings of these sums: relative to the terms, which add up to little here.
        rounding = 2.0**-46 * sum(abs(term) * half**k for k, term in enumerate(terms))
        slack += 1.001 * (unit * error + rounding)
        return float((value - slack).min()), float((value + slack).max())

    def _shifted(self, index: int, centre: Fraction, length: Fraction) -> list[Fraction]:
        """Return the segment's polynomial around a point, in powers of the real argument.

        `centre` is that point in lengths of the segment from its start.
        """
        row = [
            Fraction(c) / Fraction(2) ** f
            for c, f in zip(self.coefficients[index], self.fractions, strict=True)
        ]
        return [
            sum(
                (math.comb(n, k) * row[n] * centre ** (n - k) for n in range(k, len(row))),
                Fraction(0),
            )
            / length**k
            for k in range(len(row))
        ]

    @cached_property
    def extremes(self) -> tuple[int, int]:
        """Smallest and largest result, or bounds of them where that is not known."""
        if self.domain.width <= ENUMERATED:
            arguments = np.arange(self.segments << self.offset_bits, dtype=np.int64)
        elif self.monotonic:
            first = np.arange(self.segments, dtype=np.int64) << self.offset_bits
            arguments = np.stack([first, first + (1 << self.offset_bits) - 1])
        else:
            return self.result_range
        results = self.evaluate(arguments)
        return int(results.min()), int(results.max())

    @cached_property
    def monotonic(self) -> bool:
        """Whether results are proven never to fall, or never to rise, within the pieces.

        True only if all segments of all pieces go one way; what cannot be told is false.
        """
        return any(self._goes(sign) for sign in (1, -1))

    def _goes(self, sign: int) -> bool:
        first = np.arange(self.segments, dtype=np.int64) << self.offset_bits
        last = first + (1 << self.offset_bits) - 1
        ends = sign * self.evaluate(np.stack([first, last]))
        joined = ends[1, :-1] <= ends[0, 1:]
        joined |= (np.arange(1, self.segments) & ((1 << self.segment_bits) - 1)) == 0
        return bool(joined.all()) and all(
            self._segment_goes(row, sign) for row in self.coefficients
        )

    def _segment_goes(self, row: tuple[int, ...], sign: int) -> bool:
        if self.degree < 2:
            return self.degree == 0 or sign * row[1] >= 0
        # With d one more the factor q moves by at most `step`: (q + step)(d + 1) - q d is
        # q + step (d + 1).
        if self.drops[1] < self.drops[0]:
            return False
        inner = (1 << (self.offset_bits - self.drops[1])) - 1
        ends = [row[1], row[1] + ((row[2] * inner) >> self.shifts[1])]
        step = (abs(row[2]) >> self.shifts[1]) + 1
        reach = step << (self.offset_bits - self.drops[0])
        rises = row[2] > 0
        if sign > 0:
            return min(ends) >= (0 if rises or not row[2] else reach)
        return max(ends) <= (-reach if rises else 0)


def _cut_off(polynomial: Polynomial, index: int) -> tuple[float, float]:
    """Bound what cutting off does to a segment's results, in units of the last place."""
    row = polynomial.coefficients[index]
    low = high = 0.0
    inner = (row[-1], row[-1])
    for k in range(polynomial.degree - 1, -1, -1):
        bits = polynomial.offset_bits - polynomial.drops[k]
        scale = 2.0 ** -polynomial.shifts[k]
        # What came before is multiplied by up to 2**bits - 1.
        low, high = low * 2.0**bits * scale, high * 2.0**bits * scale
        # Left out bits of the argument take up to one of its units times the factor.
        left_out = (1 - 2.0 ** -polynomial.drops[k]) * scale
        low -= max(0, inner[1]) * left_out
        high -= min(0, inner[0]) * left_out
        if polynomial.shifts[k]:
            low -= 1 - scale
        largest = (1 << bits) - 1
        inner = (
            row[k] + (min(0, inner[0] * largest) >> polynomial.shifts[k]),
            row[k] + (max(0, inner[1] * largest) >> polynomial.shifts[k]),
        )
    return low, high


def varying_bits(low: int, high: int) -> int:
    """Return the low bits in which integers of a range may differ, signs included."""
    return (
        (low ^ high).bit_length() if (low < 0) == (high < 0) else (max(~low, high).bit_length() + 1)
    )
