# SPDX-License-Identifier: Apache-2.0
"""Cycles of multiplying by one digit at a time and leaving out those that are zero.

The digits of one bit weight of `GROUP_TERMS` consecutive terms are a group.  It takes one cycle for
each digit that is not zero, and one cycle if all are.  A dot product goes through all groups of one
weight, a pass, and then through those of the next.  Digits are those of `digits`.

How long it takes depends on the values, but exactly, and for random values there is a closed form
of the expectation: the digits of one weight are as independent as the terms that they are of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwgen.arithmetic.digits import Encoding, Statistics, encode
from hwgen.formats.integer import IntegerFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROUP_TERMS = 4
"""Consecutive terms whose digits of one weight are a group."""

FINAL_STEPS = 3
"""Steps in which a result is put together from sum and carries, a register behind each."""

CHOSEN_ARRIVAL = 80
"""When multiples are there without a register, in tenths of a gate's delay: a line that chooses has
many loads."""


@dataclass(frozen=True)
class SerialSum:
    """The accumulator of a PE that adds one digit of each lane at a time, modulo a power of two.

    Parameters
    ----------
    factor : IntegerFormat
        Format of the factors that digits are multiplied with.
    lanes : int
        Digits at a time, all of the same weight.
    width : int
        Bits of the sum.
    spacing : int
        Every so many bits a carry is kept instead of added: 1 keeps two vectors.
    """

    factor: IntegerFormat
    lanes: int
    width: int
    spacing: int

    @property
    def row_width(self) -> int:
        """Bits of a multiple of a factor, with its sign."""
        return self.factor.width + 1 + (not self.factor.signed)

    @property
    def rows_width(self) -> int:
        """Bits of the sum of the multiples of all lanes, their top bits inverted."""
        return (self.lanes * ((1 << self.row_width) - 1)).bit_length()

    @property
    def plus_ones_width(self) -> int:
        """Bits of the number of negative digits."""
        return self.lanes.bit_length()

    @property
    def carries(self) -> range:
        """Columns of the carries that are kept."""
        return range(self.spacing, self.width, self.spacing)

    @property
    def register_bits(self) -> int:
        """Bits of sum and carries."""
        return self.width + len(self.carries)

    def finished_bits(self, steps: int) -> int:
        """Return the bits of the result that are final after so many of `FINAL_STEPS`.

        The first step has three numbers to add, and less time for carries.
        """
        first = -(-self.width // 4)
        rest = -(-(self.width - first) // (FINAL_STEPS - 1))
        return min(self.width, first + (steps - 1) * rest) if steps else 0

    def width_after(self, steps: int) -> int:
        """Return the bits of a result between steps, after so many of `FINAL_STEPS`."""
        left = self.width - self.finished_bits(steps)
        return self.width + (left + 1 if steps < FINAL_STEPS else 0)


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
    ndarray of int64, shape (..., digit_count(fmt), ceil(terms / GROUP_TERMS))
        1 to `GROUP_TERMS`; the pass of the least significant digits first.  Sums over the last axis
        are the cycles of a pass, over the last two those of a row.
    """
    used = np.moveaxis(encode(encoding, values, fmt) != 0, -1, -2)
    missing = -used.shape[-1] % GROUP_TERMS
    filled = np.pad(used, [(0, 0)] * (used.ndim - 1) + [(0, missing)])
    groups = filled.reshape(*filled.shape[:-1], -1, GROUP_TERMS)
    return np.asarray(np.maximum(1, groups.sum(axis=-1)), np.int64)


def window_cycles(cycles: NDArray[np.int64], queue: int) -> NDArray[np.int64]:
    """Return the cycles of reductions whose rows share a queue of groups.

    Rows go from group to group on their own.  The slot of a group is filled again in the cycle
    after the last row has finished it, and open to all rows in the next.  A pass begins when all
    rows have finished the one before, a cycle later, with a queue of one slot two.

    Parameters
    ----------
    cycles : ndarray of int, shape (passes, groups, ..., rows)
        Cycles that each row takes for each group, the first pass first.
    queue : int
        Groups that are there at a time.

    Returns
    -------
    ndarray of int64, shape (...)
        From the first digit to the last, both included.
    """
    # All rows begin a pass together, so that passes only add up.
    ends = pass_ends(np.moveaxis(cycles, 0, 1), queue)[-1].sum(axis=0)
    return np.asarray(ends + between_passes(queue) * (len(cycles) - 1))


def between_passes(queue: int) -> int:
    """Return the cycles between two passes, in which no row has a digit."""
    return 1 if queue > 1 else 2


def pass_ends(cycles: NDArray[np.integer], queue: int) -> NDArray[np.int64]:
    """Return when all rows that share a queue have finished each group of a pass.

    Parameters
    ----------
    cycles : ndarray of int, shape (groups, ..., rows)
        Cycles that each row takes for each group.
    queue : int
        Groups that are there at a time.

    Returns
    -------
    ndarray of int64, shape (groups, ...)
        Cycles from the first digit on.
    """
    ends = np.zeros(cycles.shape[:-1], np.int64)
    ended = np.zeros(cycles.shape[1:], np.int64)  # when each row has finished its last group
    for i, group in enumerate(cycles):
        if i >= queue:
            ended = np.maximum(ended, ends[i - queue][..., None] + 1)
        ended = ended + group
        ends[i] = ended.max(axis=-1)
    return ends


def expected_group(nonzero: float, terms: int = GROUP_TERMS) -> float:
    """Return the expected cycles of a group.

    Parameters
    ----------
    nonzero : float
        Probability that a digit is not zero.
    terms : int
        Terms in the group; the rest of it is zero.
    """
    # A group takes as many cycles as it has digits, and one if it has none.
    return terms * nonzero + (1 - nonzero) ** terms


def expected_passes(statistics: Statistics, terms: int) -> tuple[float, ...]:
    """Return the expected cycles of the passes of a row of independent terms that waits for none.

    Parameters
    ----------
    statistics : Statistics
        Of the terms; see `digits.statistics`.
    terms : int
        Terms of the row.

    Returns
    -------
    tuple of float
        That of the least significant digits first.
    """
    whole, rest = divmod(terms, GROUP_TERMS)
    return tuple(
        whole * expected_group(nonzero) + (expected_group(nonzero, rest) if rest else 0)
        for nonzero in statistics.nonzero
    )
