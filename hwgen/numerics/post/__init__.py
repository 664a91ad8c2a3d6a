# SPDX-License-Identifier: Apache-2.0
"""Post-processing of accumulators: what hardware offers, and what a job asks of it.

For every accumulator, in this order:

1. ``t = acc + bias``, exact; the bias is that of the column, or 0;
2. with `relu`, a negative `t` becomes 0; with `leaky`, a negative `t` takes the slope's scale;
3. an integer output is ``clamp(round(t * multiplier / 2**shift) + zero, minimum, maximum)``,
   rounded once and clamped last; a floating-point one is ``float32(t) * scale``, each rounded to
   nearest even, then rounded once more to the output's format; `raw` is `t` itself, saturated to 32
   or 64 bits.

A leaky slope is a scale of its own for negative numbers, ``slope * scale``: one rounding, no second
multiplier in hardware, and with records a slope for every column.
"""

from .features import PostFeatures, element_bytes, output_format
from .records import RECORD, RECORD_BYTES, Columns
from .settings import PostSettings
from .words import (
    ACTIVATIONS,
    BIAS,
    FLOATS,
    INTEGERS,
    KINDS,
    OUTPUTS,
    RAW,
    REGISTERS,
    ROUNDINGS,
    SETTINGS_BITS,
    SINGLE,
    Field,
    Register,
)

__all__ = [
    "ACTIVATIONS",
    "BIAS",
    "FLOATS",
    "INTEGERS",
    "KINDS",
    "OUTPUTS",
    "RAW",
    "RECORD",
    "RECORD_BYTES",
    "REGISTERS",
    "ROUNDINGS",
    "SETTINGS_BITS",
    "SINGLE",
    "Columns",
    "Field",
    "PostFeatures",
    "PostSettings",
    "Register",
    "element_bytes",
    "output_format",
]
