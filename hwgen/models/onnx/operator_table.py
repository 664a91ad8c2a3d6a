# SPDX-License-Identifier: Apache-2.0
"""Table of all ONNX operators that can be imported, complete once this module is imported."""

from __future__ import annotations

from hwgen.models.onnx import elementwise, matrix_products, quantised, shape_operators
from hwgen.models.onnx.operators import OPERATORS

MODULES = (elementwise, matrix_products, quantised, shape_operators)
"""Modules that register converters on import."""

__all__ = ["MODULES", "OPERATORS"]
