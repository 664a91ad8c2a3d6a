# SPDX-License-Identifier: Apache-2.0
"""Table of all ONNX operators that can be imported, complete once this module is imported."""

from __future__ import annotations

from hwgen.models.onnx import (
    elementwise,
    enlarging,
    matrix_products,
    normalisation,
    quantised,
    quantised_functions,
    shape_operators,
)
from hwgen.models.onnx.operators import OPERATORS

MODULES = (
    elementwise, enlarging, matrix_products, normalisation, quantised, quantised_functions,
    shape_operators,
)  # fmt: skip
"""Modules that register converters on import."""

__all__ = ["MODULES", "OPERATORS"]
