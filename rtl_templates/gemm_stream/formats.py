# SPDX-License-Identifier: Apache-2.0
"""Logic that depends on the format of a job, in engines around cores that take several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, Const, Value, ValueLike

from hwgen.core.register_map import FORMAT


def format_of(job: Any, formats: int) -> Value:
    """Return the number of the format of a job, of no bits if there is one format."""
    return Value.cast(job[FORMAT]) if formats > 1 else Const(0, 0)


def chosen(number: Value, values: Sequence[ValueLike]) -> Value:
    """Return the value of a format; there is one for each."""
    return Value.cast(values[0] if len(values) == 1 else Array(values)[number])


def by_format(number: Value, values: Sequence[int]) -> Value:
    """Return the value of a format as a number, a constant if all agree."""
    if len(set(values)) == 1:
        return Const(values[0])
    return chosen(number, [Const(value, max(values).bit_length()) for value in values])
