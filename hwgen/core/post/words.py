# SPDX-License-Identifier: Apache-2.0
"""Words and registers of post-processing."""

from __future__ import annotations

from typing import NamedTuple

from hwgen.formats.floating import floating
from hwgen.formats.integer import integer
from hwgen.formats.scale import SHIFT_BITS

RAW = "raw"
INTEGERS = ("int4", "int8", "int16", "int32", "uint4", "uint8", "uint16")
FLOATS = ("fp32", "fp16", "bf16")
OUTPUTS = (RAW, *INTEGERS, *FLOATS)
"""Output formats."""

OUTPUT_TYPES = (RAW, "integer", *FLOATS)
"""Types of outputs by their code in the register: integers differ only in their limits."""

ACTIVATIONS = ("none", "relu", "leaky")
"""Activation functions by their code."""

ROUNDINGS = ("half_even", "half_away", "half_up", "floor")
"""Rounding of integer outputs by its code: to nearest with ties to even, away from zero or towards
plus infinity; or down."""

BIAS = integer("int32")
"""Format of a column's bias."""

SINGLE = floating("fp32")


class Field(NamedTuple):
    """A field of a register.

    Parameters
    ----------
    name : str
        Attribute of the hardware's settings.
    offset, bits : int
        Position of its least significant bit, and width.
    signed : bool
        Two's complement.
    text : str
        What it says.
    """

    name: str
    offset: int
    bits: int
    signed: bool
    text: str


class Register(NamedTuple):
    """A 32-bit register of settings.

    Parameters
    ----------
    name, text : str
    fields : tuple of Field
    """

    name: str
    text: str
    fields: tuple[Field, ...]


def _codes(names: tuple[str, ...]) -> str:
    return ", ".join(f"{code} {name}" for code, name in enumerate(names))


REGISTERS = (
    Register(
        "POST_FLAGS",
        "What is done with accumulators.",
        (
            Field("kind", 0, 3, False, f"Output: {_codes(OUTPUT_TYPES)}."),
            Field("activation", 3, 2, False, f"Activation: {_codes(ACTIVATIONS)}."),
            Field("rounding", 5, 2, False, f"Rounding of integers: {_codes(ROUNDINGS)}."),
            Field("columns", 7, 1, False, "Bias, scales and slopes are those of column records."),
            Field("size", 8, 2, False, "Bytes of an output element in memory, as log2."),
        ),
    ),
    Register(
        "POST_MULTIPLIER",
        "Scale of all columns: integer, or fp32 number of floating-point outputs and of fp32 sums.",
        (Field("multiplier", 0, 32, True, "Multiplier or fp32 scale."),),
    ),
    Register(
        "POST_SLOPE",
        "Scale of negative numbers with leaky, as POST_MULTIPLIER.",
        (Field("slope", 0, 32, True, "Multiplier or fp32 scale of negative numbers."),),
    ),
    Register(
        "POST_SHIFT",
        "Shifts to the right behind the multipliers.",
        (
            Field("shift", 0, SHIFT_BITS, False, "Shift."),
            Field("slope_shift", 8, SHIFT_BITS, False, "Shift of negative numbers with leaky."),
        ),
    ),
    Register(
        "POST_ZERO",
        "Zero point of integer outputs.",
        (Field("zero", 0, 32, True, "Added after rounding."),),
    ),
    Register(
        "POST_MIN",
        "Lower limit of integer outputs.",
        (Field("minimum", 0, 32, True, "Smallest result."),),
    ),
    Register(
        "POST_MAX",
        "Upper limit of integer outputs.",
        (Field("maximum", 0, 32, True, "Largest result."),),
    ),
)
"""The registers of a job's settings; the hardware's port holds them in this order, the first in the
least significant bits."""

SETTINGS_BITS = 32 * len(REGISTERS)
