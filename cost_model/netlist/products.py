# SPDX-License-Identifier: Apache-2.0
"""Numbers of bits and levels of multipliers and of sums of many numbers."""

from __future__ import annotations


def made_bits(rows: int, bits: int, width: int) -> int:
    """Return the number of partial-product bits of a product of which only `width` bits are used.

    Parameters
    ----------
    rows, bits : int
        Partial products and the bits of each; each begins a bit above the one before.
    width : int
        What is above so many bits of the product is not made.
    """
    return sum(max(0, min(bits, width - row)) for row in range(rows))


def sum_levels(numbers: int) -> int:
    """Return the levels of full adders by which some numbers become two."""
    levels = 0
    while numbers > 2:
        numbers -= numbers // 3
        levels += 1
    return levels
