# SPDX-License-Identifier: Apache-2.0
"""How a table of sums of integers is built: which sum is made of which two.

With ternary digits every stored sum is the rest of it plus or minus its last activation, and the
rest is stored as well: ``entries - group_size`` adders in all, at most ``group_size - 1`` in a row.
With signs the parts are halves, as few sums then serve all entries: 12 adders for the 8 entries of
a group of four, two in a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwgen.formats import TERNARY, IntegerFormat, enclosing_format, parent_pattern

if TYPE_CHECKING:
    from hwgen.families.ternary_lut.params import TernaryLutConfig

Pattern = tuple[int, ...]
"""The digits by which the activations of a group are multiplied."""


def table_levels(config: TernaryLutConfig) -> list[list[Pattern]]:
    """Return the sums of several activations, each level made of those before it."""
    depths: dict[Pattern, int] = {}

    def depth(pattern: Pattern) -> int:
        if sum(map(bool, pattern)) == 1:
            return 0
        if pattern not in depths:
            first, second, _ = table_parts(config, pattern)
            depths[pattern] = 1 + max(depth(first), depth(second))
        return depths[pattern]

    deepest = max(map(depth, config.stored_patterns))
    return [[p for p, d in depths.items() if d == level + 1] for level in range(deepest)]


def table_parts(config: TernaryLutConfig, pattern: Pattern) -> tuple[Pattern, Pattern, int]:
    """Return the two parts of a sum, and 1 if they are added, -1 if subtracted."""
    if config.digit is TERNARY:
        _, split = parent_pattern(pattern)
    else:
        places = [i for i, digit in enumerate(pattern) if digit]
        split = places[(len(places) + 1) // 2]
    sign = pattern[split]
    first = tuple(digit if i < split else 0 for i, digit in enumerate(pattern))
    second = tuple(sign * digit if i >= split else 0 for i, digit in enumerate(pattern))
    return first, second, sign


def table_sum_format(config: TernaryLutConfig, pattern: Pattern) -> IntegerFormat:
    """Return the narrowest format of a sum."""
    a = config.activation
    ends = [sorted((digit * a.min, digit * a.max)) for digit in pattern]
    return enclosing_format(sum(low for low, _ in ends), sum(high for _, high in ends))
