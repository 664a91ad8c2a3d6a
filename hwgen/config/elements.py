# SPDX-License-Identifier: Apache-2.0
"""Processing elements: how products are made and accumulated, in every family that says `pe`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from hwgen.config.model import Model
from hwgen.numerics import IntegerFormat
from hwgen.numerics.digit_sums import DigitAccumulation
from hwgen.numerics.digits import Encoding

CARRY_SPACING = 8
"""Bits between two carries that are kept, by default."""


def encoding_field() -> Any:
    """Return the field `encoding` of an array."""
    return Field(
        "booth4",
        description="Radix-4 digits of A (not with `pe: mac`): `booth4`, modified Booth, or `ent`,"
        " digits of the magnitude, more of which are zero.",
    )


def carry_spacing_field() -> Any:
    """Return the field `carry_spacing` of an array."""
    return Field(
        CARRY_SPACING,
        ge=1,
        le=64,
        description="Bits of an accumulator for each carry that is kept and added a cycle later"
        " (not with `pe: mac`); 1 keeps two whole vectors.",
        json_schema_extra={"unit": "bits"},
    )


class DigitArray(Model):
    """What the arrays of PEs have that multiply by digits."""

    pe: Literal["mac", "carry_save", "same_weight"] = Field(
        "mac",
        description="Processing element: `mac`, multipliers and an accumulating adder;"
        " `carry_save`, multiples by digits of A, all of them and the accumulator in one tree of"
        " full adders whose last carries wait; `same_weight`, digits of the same weight are summed"
        " and accumulated apart, shifted and added when results leave.",
    )
    encoding: Encoding = encoding_field()
    carry_spacing: int = carry_spacing_field()


DIGIT_PARAMETERS = ("encoding", "carry_spacing")
"""Parameters of PEs that multiply by digits."""


def broken_by_element(array: Any, *, saturates: bool) -> list[str]:
    """Return the rules between the parameters of an array's PEs that are broken."""
    if array.pe == "mac":
        return [
            f"array.{name}: only carry_save and same_weight multiply by digits; remove it, or"
            " change array.pe"
            for name in DIGIT_PARAMETERS
            if name in array.model_fields_set
        ]
    if not saturates:
        return []
    text = (
        f"overflow: must be wrap with array.pe {array.pe}, not saturate: it clamps after each"
        " addition, but the sum is known only when a result leaves; use array.pe mac, or a"
        " wider accumulator"
    )
    return [text]


def resolved_element(values: dict[str, Any]) -> None:
    """Remove what a `mac` does not have from the resolved parameters of an array."""
    if values["pe"] == "mac":
        for name in DIGIT_PARAMETERS:
            del values[name]


def accumulation(
    array: Any,
    recoded: IntegerFormat,
    factor: IntegerFormat,
    terms: int,
    longest: int,
    width: int,
) -> DigitAccumulation | None:
    """Return how products are accumulated by digits; None of a `mac`, which does not."""
    if array.pe == "mac":
        return None
    if not factor.signed:
        factor = IntegerFormat(factor.width + 1, True)
    apart = array.pe == "same_weight"
    return DigitAccumulation(recoded, factor, terms, longest, width, array.carry_spacing, apart)
