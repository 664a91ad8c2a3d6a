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

Accumulators in single precision have a bias in single precision, and every sum and product is
rounded to nearest, ties to even: ``t = single(acc + bias)``, negative from -0 down, and
``f = single(t * scale)``.  A floating-point output is `f`, rounded once more to its format; an
integer one ``clamp(round(f) + zero, minimum, maximum)``, where a NaN rounds to 0; `raw` is `t`.
"""

from hwgen.core.post.described import registers_of
from hwgen.core.post.features import PostFeatures, element_bytes, output_format
from hwgen.core.post.records import RECORD, RECORD_BYTES, Columns
from hwgen.core.post.settings import PostSettings
from hwgen.core.post.words import (
    ACTIVATIONS,
    BIAS,
    FLOATS,
    INTEGERS,
    OUTPUT_TYPES,
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
    "OUTPUTS",
    "OUTPUT_TYPES",
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
    "registers_of",
]
