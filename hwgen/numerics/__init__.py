# SPDX-License-Identifier: Apache-2.0
"""Number formats: the one table that generators, golden models, packers and cost read."""

from .integer import IntegerFormat, dot_format, enclosing_format, integer, storage_dtype
from .ternary import TERNARY, TernaryFormat, entries, index_width, stored_patterns

__all__ = [
    "TERNARY",
    "IntegerFormat",
    "TernaryFormat",
    "dot_format",
    "enclosing_format",
    "entries",
    "index_width",
    "integer",
    "storage_dtype",
    "stored_patterns",
]
