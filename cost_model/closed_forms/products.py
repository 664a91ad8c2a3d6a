# SPDX-License-Identifier: Apache-2.0
"""Multipliers and sums of products: components and delays."""

from __future__ import annotations

import numpy as np

from cost_model.closed_forms.component_counts import adder, times, total
from cost_model.closed_forms.numbers import Number

PRODUCT_KINDS = ("product", "product_extension", "booth_bit", "booth_extension")
"""Kinds that multipliers have."""


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


def product_counts(
    a: int, w: int, *, signed: tuple[bool, bool], width: int | None = None
) -> dict[str, float]:
    """Return the bill of a multiplier of `a` by `w` bits.

    Of four bits and more it is a Booth multiplier.  Its operands are signed, so an unsigned one
    brings a zero on top, and equally wide, which leaves something of every bit that the narrow one
    lacks.  Where both are unsigned, they stay so, and have one more row.

    Parameters
    ----------
    a, w : int
    signed : tuple of bool
    width : int, optional
        Bits of the sum that the product is part of: what is above them is not made, and the rows
        of a narrow signed product are as wide.
    """
    width = a + w if width is None else width
    if min(a, w) < 4:
        rows, bits = min(a, w), max(a, w)
        extension = rows * max(0, width - a - w) * any(signed)
        return {
            "product": float(made_bits(rows, bits, width)),
            "product_extension": float(extension),
        }
    if any(signed):
        a, w = a + (not signed[0]), w + (not signed[1])
    else:
        a = a + 1
    rows, bits = min(a, w), max(a, w)
    share = made_bits(rows, bits, width) / (rows * bits)
    return {"booth_bit": share * rows * bits, "booth_extension": share * (bits - rows)}


def sum_of_products(
    products: int,
    a: int,
    w: int,
    *,
    signed: tuple[bool, bool],
    summed: int,
    width: int,
    numbers: int = 0,
) -> dict[str, float]:
    """Return the bill of a sum of `width` bits: of products of `a` by `w` bits, and other numbers.

    It is a tree of full adders with one adder behind it; products of narrow factors are rows of
    the tree.  The products alone have a sum of `summed` bits.
    """
    found = times(products, product_counts(a, w, signed=signed, width=width))
    rows = found["product"] if min(a, w) < 4 else products * summed
    if min(a, w) < 4 or products + numbers > 1:
        tree = max(0.0, float(rows + (numbers - 2) * width))
        found = total(found, {"sum_bit": tree}, adder(float(width)))
    return found


def product_path(a: int, w: int, width: Number) -> dict[str, Number]:
    """Return the path through a multiplier of `a` by `w` bits; see `product_counts`."""
    bits = np.minimum(a + w, width)
    if min(a, w) < 4:
        levels = float(sum_levels(min(a, w)))
        return {"gate": 1.0, "sum_level": levels, "adder_bit": bits, "adder_level": np.log2(bits)}
    levels = float(sum_levels(max(a, w) // 2 + 1))
    return {"multiplier": 1.0, "multiplier_level": levels, "multiplier_bit": bits}


def sum_levels(numbers: int) -> int:
    """Return the levels of full adders by which some numbers become two."""
    levels = 0
    while numbers > 2:
        numbers -= numbers // 3
        levels += 1
    return levels


# -- sums by digits --------------------------------------------------------------------------------


def tree_path(products: int, width: int, product: int) -> dict[str, float]:
    """Return the path through the tree of a sum of products of so many bits, behind them."""
    if products == 1:
        return {}
    return {"sum_level": float(sum_levels(products)), **adder_behind(width, product)}


def adder_behind(bits: Number, before: Number) -> dict[str, Number]:
    """Return the path through an adder of `bits` bits, one operand of which has `before` bits.

    The low bits of the operand are there before the high ones, so that carries start early; what is
    waited for is their way through the bits that the operand has not.
    """
    return {"adder_behind": 1.0, "adder_behind_bit": np.maximum(bits - before, 0.0)}
