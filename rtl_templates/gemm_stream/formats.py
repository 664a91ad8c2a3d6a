# SPDX-License-Identifier: Apache-2.0
"""Logic that depends on the format of a job, in engines around cores that take several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Array, Const, Value, ValueLike

from hwgen.core.register_map import FORMAT

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.params import GemmStreamConfig


def format_bits(config: GemmStreamConfig) -> int:
    """Return the bits of the number of a format, 0 if there is one format."""
    return (len(config.formats) - 1).bit_length()


def format_of(config: GemmStreamConfig, job: Any) -> Value:
    """Return the number of the format of a job, of no bits if there is one format."""
    return Value.cast(job[FORMAT]) if len(config.formats) > 1 else Const(0, 0)


def chosen(number: Value, values: Sequence[ValueLike]) -> Value:
    """Return the value of a format; there is one for each."""
    return Value.cast(values[0] if len(values) == 1 else Array(values)[number])


def by_format(
    config: GemmStreamConfig, number: Value, fact: Callable[[GemmStreamConfig], int]
) -> Value:
    """Return a number that a configuration has, for the format at hand: a constant if all agree."""
    values = [fact(each) for each in config.formats]
    if len(set(values)) == 1:
        return Const(values[0])
    return chosen(number, [Const(value, max(values).bit_length()) for value in values])
