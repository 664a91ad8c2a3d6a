# SPDX-License-Identifier: Apache-2.0
"""Function units: exponentials, reciprocals, activation functions, with proven bounds."""

from hwgen.arithmetic.functions.bound import Bound
from hwgen.arithmetic.functions.unit import FUNCTIONS, FunctionUnit, Wanted, design
from hwgen.formats.fixed import FixedFormat, real_format

__all__ = ["FUNCTIONS", "Bound", "FixedFormat", "FunctionUnit", "Wanted", "design", "real_format"]
