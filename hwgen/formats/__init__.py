# SPDX-License-Identifier: Apache-2.0
"""Number formats, for generators, golden models, packers and costs."""

from hwgen.formats.bit_planes import BINARY, BinaryFormat
from hwgen.formats.floating import FLOATS, SMALL_FLOATS, FloatFormat, floating
from hwgen.formats.format import Format, ScalarFormat, differences
from hwgen.formats.integer import IntegerFormat, dot_format, enclosing_format, integer
from hwgen.formats.registry import NumberFormat, number_format
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
    "Format",
    "IntegerFormat",
    "NumberFormat",
    "ScalarFormat",
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
