# SPDX-License-Identifier: Apache-2.0
"""Alignment of the activations of a beat, after which tables and columns add integers.

An activation becomes the multiple of ``2**(e - fraction_bits)`` that is nearest to it, where `e` is
the largest exponent of the beat; all sums of the beat are then exact.  Let `u` be the unit roundoff
of the format, ``2**-precision``, `n` the terms of a beat, `d` the additions in a row by which a
chain of rounded additions makes a beat's sum, and `S` the sum of the magnitudes of the beat's
activations.

- The chain's sum is off by at most ``d * u * S``, to first order in `u` (N. J. Higham, Accuracy and
  Stability of Numerical Algorithms, 2nd edition, section 4.2), or ``d * u / (1 - d * u) * S``.
- The largest activation is aligned exactly, each other is off by at most
  ``2**(e - fraction_bits - 1)``, and ``2**e <= S``: together ``(n - 1) * 2**-(fraction_bits + 1) *
  S`` at most.

- The sum is rounded to the accumulator's format, which adds ``2**-precision * S`` of that format
  if the sum has more places than it.  (The chain's has the precision of the activations, and is
  widened exactly.)

The second and third together are no larger than the first, even to first order, from a number of
fraction bits on: `least_fraction_bits`.  Only where the chain is a single addition, of two terms,
that a bf16 accumulator takes, 40 bits, the most there are, leave ``2**-41 * S`` more.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Protocol

from hwgen.arithmetic.alignment import largest_exponent
from hwgen.formats import (
    FloatFormat,
)


class AlignmentFields(Protocol):
    """Fields of the array that alignment depends on."""

    @property
    def alignment(self) -> str:
        """``auto``, ``none``, ``beat`` or ``exact``."""

    @property
    def fraction_bits(self) -> int | str:
        """Fraction bits of aligned activations, or ``auto``."""

    @property
    def method(self) -> str:
        """``lut``, ``select`` or ``multiply``."""

    @property
    def group_size(self) -> int:
        """Weights of a key."""

    @property
    def tables(self) -> int:
        """Tables that are read in a cycle."""


MOST_FRACTION_BITS = 40
"""Largest number of fraction bits; sums of a beat then have at most 52 bits."""

COLUMN_CUTS: tuple[tuple[str, ...], ...] = (
    (),
    ("converted",),
    ("summed", "converted"),
    ("read", "summed", "converted"),
    ("read", "summed", "normalised", "converted"),
)
"""Behind what the registers of ``pipeline.reduce`` are: the reads of tables, their sum, the shift
that normalises it, its conversion."""


def exact_fraction_bits(fmt: FloatFormat) -> int:
    """Return the fraction bits with which every number is aligned to the largest without loss."""
    return largest_exponent(fmt) - 1 + fmt.mantissa_bits


def rounded_additions(group_size: int, tables: int) -> int:
    """Return the additions in a row of a chain of rounded ones: of a table, of a column's tree."""
    return group_size - 1 + (tables - 1).bit_length()


def least_fraction_bits(fmt: FloatFormat, result: FloatFormat, group_size: int, tables: int) -> int:
    """Return the fewest fraction bits whose error bound is no larger than that of the chain.

    Parameters
    ----------
    fmt, result : FloatFormat
        Of activations and accumulators.
    group_size, tables : int
        Terms of a table, and tables.
    """
    terms, additions = group_size * tables, rounded_additions(group_size, tables)
    most = min(exact_fraction_bits(fmt), MOST_FRACTION_BITS)
    for bits in range(fmt.mantissa_bits, most):
        # In units of the chain's roundoff; the sum is rounded if it is longer than the result.
        longer = (terms * ((2 << bits) - 1)).bit_length() > result.precision
        rounding = Fraction(longer << fmt.precision, 1 << result.precision)
        if Fraction((terms - 1) << fmt.precision, 2 << bits) + rounding <= additions:
            return bits
    return most


def broken_rules(array: AlignmentFields, activation: Any, *, aligned: bool) -> list[str]:
    """Return the rules about alignment that are broken.

    `aligned` says whether activations are aligned where the alignment is ``auto``.
    """
    alignment, bits, a = array.alignment, array.fraction_bits, activation
    problem = ""
    if alignment == "none" or (alignment == "auto" and not aligned):
        if bits != "auto":
            problem = (
                f"array.fraction_bits: must be auto without alignment, not {bits}; only activations"
                " that are aligned beat by beat have fraction bits to choose"
            )
    elif not a.is_float:
        problem = (
            f"array.alignment: must be none with activation {a}, not {alignment}; integers need no"
            " alignment"
        )
    elif array.method == "multiply":
        problem = (
            f"array.alignment: must be none with method multiply, not {alignment}; the baseline"
            " multiplies floating-point numbers"
        )
    elif alignment == "exact":
        problem = _broken_if_exact(a, bits)
    else:
        most = min(exact_fraction_bits(a), MOST_FRACTION_BITS)
        if isinstance(bits, int) and not a.mantissa_bits <= bits <= most:
            problem = (
                f"array.fraction_bits: must be {a.mantissa_bits} to {most} with activation {a}, not"
                f" {bits}: fewer would round the largest activation, more would be of no use"
            )
    return [problem] if problem else []


def _broken_if_exact(fmt: FloatFormat, bits: int | str) -> str:
    exact = exact_fraction_bits(fmt)
    if exact > MOST_FRACTION_BITS:
        return (
            f"array.alignment: must be none or beat with activation {fmt}, not exact; its numbers"
            f" as multiples of the smallest are integers of {exact + 2} bits"
        )
    if bits not in ("auto", exact):
        return (
            f"array.fraction_bits: must be auto with alignment exact, not {bits}; the format"
            " decides"
        )
    return ""


def chosen_alignment(
    array: AlignmentFields, activation: Any, result: Any, *, aligned: bool
) -> dict[str, str | int]:
    """Return the fields of `array` that are chosen where they are `auto`; see `broken_rules`."""
    alignment: str = array.alignment
    if alignment == "auto":
        alignment = "beat" if aligned else "none"
    bits: int | str = array.fraction_bits
    if alignment == "exact":
        bits = exact_fraction_bits(activation)
    elif alignment == "beat" and bits == "auto":
        bits = least_fraction_bits(activation, result, array.group_size, array.tables)
    return {"alignment": alignment, "fraction_bits": bits}
