# SPDX-License-Identifier: Apache-2.0
"""Function units: exponentials, reciprocals, activation functions, with proven bounds."""

from .bound import Bound
from .formats import FixedFormat, format_named
from .unit import FUNCTIONS, FunctionUnit, Wanted, design

__all__ = ["FUNCTIONS", "Bound", "FixedFormat", "FunctionUnit", "Wanted", "design", "format_named"]
