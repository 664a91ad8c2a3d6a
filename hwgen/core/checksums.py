# SPDX-License-Identifier: Apache-2.0
"""Checksums of products of matrices: errors of any hardware are noticed, a single one is corrected.

The sums of the columns of an operand are appended as further columns, as digits in its number
format, and the sums of its rows as further rows.  Sums of results must then agree with the results
of those rows and columns.  No hardware is added; a product becomes a few rows and columns larger.
The sum of all results must be what the host computes with K multiplications: hardware that gives
nothing but zeros, or all results with another sign, would pass the other checks.

Notes
-----
Huang and Abraham, "Algorithm-Based Fault Tolerance for Matrix Operations", IEEE Transactions on
Computers C-33 (6), 1984.  Digits of sums keep every operand within its format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hwgen.errors import InputError
from hwgen.formats import IntegerFormat

Verdict = Literal["right", "corrected", "wrong"]
"""All sums agree; one result was wrong and is corrected; more are wrong."""


@dataclass(frozen=True)
class Checksums:
    """Rows and columns that are appended to a product.

    Parameters
    ----------
    rows, columns : int
        Of the product without them.
    row_base, column_base : int
        Weight of the second digit of a sum of rows and of a sum of columns.
    row_digits, column_digits : int
        Rows and columns that are appended.
    total : int
        Sum of all results of the product.
    """

    rows: int
    columns: int
    row_base: int
    column_base: int
    row_digits: int
    column_digits: int
    total: int

    @property
    def overhead(self) -> float:
        """Multiply-accumulates that are added, as a part of those without checksums."""
        height, width = self.rows + self.row_digits, self.columns + self.column_digits
        return height * width / (self.rows * self.columns) - 1

    def check(self, results: np.ndarray) -> tuple[np.ndarray, Verdict]:
        """Return the results of the product, corrected if one was wrong, and a verdict.

        Parameters
        ----------
        results : ndarray of integers, shape (rows + row_digits, columns + column_digits)
        """
        exact = results.astype(object)
        across = self._differences(exact, self.columns, self.column_base)
        down = self._differences(exact.T, self.rows, self.row_base)
        (row, *rows), (column, *columns) = ([*np.flatnonzero(each), -1] for each in (across, down))
        verdict: Verdict = "right"
        if row >= 0 or column >= 0:
            verdict = "wrong"
            if len(rows) == 1 and len(columns) == 1:
                weights = (self._weight(row, self.rows, self.row_base),
                           self._weight(column, self.columns, self.column_base))  # fmt: skip
                error = down[column] // weights[0]
                if down[column] == error * weights[0] and across[row] == error * weights[1]:
                    exact[row, column] -= error
                    verdict = "corrected"
        product = exact[: self.rows, : self.columns]
        if product.sum() != self.total:
            verdict = "wrong"
        return product.astype(results.dtype), verdict

    @staticmethod
    def _differences(exact: np.ndarray, count: int, base: int) -> np.ndarray:
        """Return the sum of each line without its digits, minus the sum that these say."""
        digits = exact[:, count:]
        said = sum(digits[:, i] * base**i for i in range(digits.shape[1]))
        return np.asarray(exact[:, :count].sum(axis=1) - said)

    @staticmethod
    def _weight(index: int, count: int, base: int) -> int:
        """Return by how much an error of 1 in a line changes a difference."""
        return 1 if index < count else -int(base ** (index - count))


def with_checksums(
    a: np.ndarray, w: np.ndarray, activation: Any, weight: Any
) -> tuple[np.ndarray, np.ndarray, Checksums]:
    """Return operands with checksums, and what checks the results.

    Parameters
    ----------
    a : ndarray, shape (m, k)
    w : ndarray, shape (k, n)
    activation, weight : IntegerFormat
        Their formats.

    Raises
    ------
    InputError
        If a format is not an integer: sums of floating-point numbers are rounded.
    """
    for name, fmt in (("activation", activation), ("weight", weight)):
        if not fmt.is_integer:
            raise InputError(f"{name}: checksums are of integers, whose sums are exact, not {fmt}")
    sums = a.astype(np.int64).sum(axis=0), w.astype(np.int64).sum(axis=1)
    more_rows = _digits(sums[0], len(a), activation)
    more_columns = _digits(sums[1], w.shape[1], weight)
    checksums = Checksums(
        rows=len(a),
        columns=w.shape[1],
        row_base=_base(activation),
        column_base=_base(weight),
        row_digits=len(more_rows),
        column_digits=len(more_columns),
        total=int(sums[0].astype(object) @ sums[1].astype(object)),
    )
    return np.vstack([a, more_rows]), np.hstack([w, more_columns.T]), checksums


def _base(fmt: IntegerFormat) -> int:
    return fmt.max - fmt.min + 1


def _digits(sums: np.ndarray, count: int, fmt: IntegerFormat) -> np.ndarray:
    """Return digits of sums of so many numbers of a format, the lowest first."""
    base = _base(fmt)
    digits: list[np.ndarray] = []
    low, high = count * fmt.min, count * fmt.max
    while not digits or low < 0 or high > 0:
        digit = (sums - fmt.min) % base + fmt.min
        digits.append(digit.astype(fmt.dtype))
        sums = (sums - digit) // base
        low, high = ((bound - (bound - fmt.min) % base - fmt.min) // base for bound in (low, high))
    return np.array(digits)
