# SPDX-License-Identifier: Apache-2.0
"""Number formats: the one table that generators, golden models, packers and cost read."""

from .floating import FloatFormat, floating
from .integer import IntegerFormat, dot_format, enclosing_format, integer, storage_dtype
from .table import NumberFormat, number_format
from .ternary import TERNARY, TernaryFormat, entries, index_width, stored_patterns

__all__ = [
    "TERNARY",
    "FloatFormat",
    "IntegerFormat",
    "NumberFormat",
    "TernaryFormat",
    "dot_format",
    "enclosing_format",
    "entries",
    "floating",
    "index_width",
    "integer",
    "number_format",
    "storage_dtype",
    "stored_patterns",
]
