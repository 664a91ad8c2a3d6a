# SPDX-License-Identifier: Apache-2.0
"""Number formats: the one table that generators, golden models, packers and cost read."""

from hwgen.formats.bit_planes import BINARY, BinaryFormat
from hwgen.formats.floating import FLOATS, SMALL_FLOATS, FloatFormat, floating
from hwgen.formats.integer import IntegerFormat, dot_format, enclosing_format, integer
from hwgen.formats.table import NumberFormat, differences, number_format
from hwgen.formats.ternary import (
    TERNARY,
    TernaryFormat,
    entries,
    index_width,
    parent_pattern,
    stored_patterns,
)

__all__ = [
    "BINARY",
    "FLOATS",
    "SMALL_FLOATS",
    "TERNARY",
    "BinaryFormat",
    "FloatFormat",
    "IntegerFormat",
    "NumberFormat",
    "TernaryFormat",
    "differences",
    "dot_format",
    "enclosing_format",
    "entries",
    "floating",
    "index_width",
    "integer",
    "number_format",
    "parent_pattern",
    "stored_patterns",
]
