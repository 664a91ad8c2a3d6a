# SPDX-License-Identifier: Apache-2.0
"""Bits of the partial products of a multiplier."""

from __future__ import annotations


def made_bits(rows: int, bits: int, width: int) -> int:
    """Return how many bits of the rows of a product are made if only `width` bits of it are used.

    Parameters
    ----------
    rows, bits : int
        Partial products and the bits of each; each begins a bit above the one before.
    width : int
        What is above so many bits of the product is not made.
    """
    return sum(max(0, min(bits, width - row)) for row in range(rows))
