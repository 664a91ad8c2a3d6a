# SPDX-License-Identifier: Apache-2.0
"""Cycles of multiplying by one digit at a time and leaving out those that are zero.

The digits of one bit weight of `GROUP` consecutive terms are a group.  It takes one cycle for each
digit that is not zero, and one cycle if all are.  A dot product goes through all groups of one
weight, a pass, and then through those of the next.  Digits are those of `digits`.

How long it takes depends on the values, but exactly, and for random values there is a closed form
of the expectation: the digits of one weight are as independent as the terms that they are of.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

from .digits import Encoding, Statistics, encode
from .integer import IntegerFormat, enclosing_format

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GROUP = 4
"""Consecutive terms whose digits of one weight are a group."""


@dataclass(frozen=True)
class PassSum:
    """The sum of a pass, of digits times factors.

    Parameters
    ----------
    factor : IntegerFormat
        Format of the factors.
    terms : int
        Terms of the longest pass.
    spacing : int
        Every so many bits of the sum a carry is kept instead of added: 1 keeps two vectors.
    """

    factor: IntegerFormat
    terms: int
    spacing: int = 1

    @property
    def total(self) -> IntegerFormat:
        """Format of the sum, as narrow as it can be."""
        bound = 2 * self.terms * max(self.factor.max, -self.factor.min)
        return enclosing_format(-bound, bound)

    @property
    def carries(self) -> range:
        """Columns of the carries that are kept."""
        return range(self.spacing, self.total.width, self.spacing)

    @property
    def held(self) -> int:
        """Bits of sum and carries."""
        return self.total.width + len(self.carries)


def group_cycles(
    encoding: Encoding, values: NDArray[np.integer], fmt: IntegerFormat
) -> NDArray[np.int64]:
    """Return the cycles of every group.

    Parameters
    ----------
    encoding : {"booth4", "ent"}
    values : ndarray of int, shape (..., terms)
        Within `fmt`; rows of at least one term.  A last group that is short is filled with zeros.
    fmt : IntegerFormat

    Returns
    -------
    ndarray of int64, shape (..., digit_count(fmt), ceil(terms / GROUP))
        1 to `GROUP`; the pass of the least significant digits first.  Sums over the last axis are
        the cycles of a pass, over the last two those of a row.
    """
    import numpy as np

    used = np.moveaxis(encode(encoding, values, fmt) != 0, -1, -2)
    short = -used.shape[-1] % GROUP
    filled = np.pad(used, [(0, 0)] * (used.ndim - 1) + [(0, short)])
    groups = filled.reshape(*filled.shape[:-1], -1, GROUP)
    return np.asarray(np.maximum(1, groups.sum(axis=-1)), np.int64)


def synchronised(cycles: NDArray[np.int64], columns: int) -> NDArray[np.int64]:
    """Return the cycles of groups when every `columns` rows go from group to group together.

    Parameters
    ----------
    cycles : ndarray of int64, shape (rows, ...)
        Of `group_cycles`.
    columns : int
        Rows that wait for the slowest of them in every group.  The last ones may be fewer.

    Returns
    -------
    ndarray of int64, shape (ceil(rows / columns), ...)
    """
    import numpy as np

    return np.maximum.reduceat(cycles, np.arange(0, len(cycles), columns), axis=0)


def expected_group(nonzero: float, terms: int = GROUP, columns: int = 1) -> float:
    """Return the expected cycles of a group.

    Parameters
    ----------
    nonzero : float
        Probability that a digit is not zero.
    terms : int
        Terms in the group; the rest of it is zero.
    columns : int
        Rows that wait for the slowest of them; see `synchronised`.
    """
    share = [
        comb(terms, used) * nonzero**used * (1 - nonzero) ** (terms - used)
        for used in range(terms + 1)
    ]
    # A group takes more than c cycles unless all rows have c digits at most.  None takes less than
    # one, be there digits or not.
    return 1 + sum(1 - sum(share[: cycles + 1]) ** columns for cycles in range(1, terms))


def expected_passes(statistics: Statistics, terms: int, columns: int = 1) -> tuple[float, ...]:
    """Return the expected cycles of the passes of a row of independent terms.

    Parameters
    ----------
    statistics : Statistics
        Of the terms; see `digits.statistics`.
    terms : int
        Terms of the row.
    columns : int
        Rows that wait for the slowest of them in every group.

    Returns
    -------
    tuple of float
        That of the least significant digits first.
    """
    whole, rest = divmod(terms, GROUP)
    return tuple(
        whole * expected_group(nonzero, GROUP, columns)
        + (expected_group(nonzero, rest, columns) if rest else 0)
        for nonzero in statistics.nonzero
    )
