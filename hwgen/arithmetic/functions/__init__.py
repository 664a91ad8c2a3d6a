# SPDX-License-Identifier: Apache-2.0
"""Function units: exponentials, reciprocals, activation functions, with proven bounds."""

from hwgen.arithmetic.functions.bound import Bound
from hwgen.arithmetic.functions.formats import FixedFormat, format_named
from hwgen.arithmetic.functions.unit import FUNCTIONS, FunctionUnit, Wanted, design

__all__ = ["FUNCTIONS", "Bound", "FixedFormat", "FunctionUnit", "Wanted", "design", "format_named"]
