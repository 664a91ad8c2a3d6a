# SPDX-License-Identifier: Apache-2.0
"""Number formats: the one table that generators, golden models, packers and cost read."""

from .integer import IntegerFormat, dot_format, enclosing_format, integer, storage_dtype

__all__ = ["IntegerFormat", "dot_format", "enclosing_format", "integer", "storage_dtype"]
