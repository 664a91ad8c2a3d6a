# SPDX-License-Identifier: Apache-2.0
"""Processing elements: how products are made and accumulated, in every family that says `pe`."""

from __future__ import annotations

from typing import Any, Literal, Protocol, get_args

from pydantic import Field, model_validator

from hwgen.arithmetic.digit_sums import DigitAccumulation, FinalAddition
from hwgen.arithmetic.digits import Encoding
from hwgen.core.params.base import Model
from hwgen.formats import IntegerFormat

CARRY_SPACING, SERIAL_CARRY_SPACING = 8, 2
"""Bits between two carries that are kept, by default; of serial PEs, whose path is short."""

SERIAL = ("serial_digit", "serial_column", "serial_group")
"""PEs that take one digit at a time."""

Queue = Literal[1, 2, 4]
QUEUES: tuple[int, ...] = get_args(Queue)
"""Groups of terms that serial PEs may have before them."""

KEEPING = ("carry_save", "same_weight")
"""PEs that take all digits at a time and keep carries, which are added at the output."""


MULTIPLYING = ("mac", "hybrid", "bit_serial", "scalable", "fused")
"""PEs that multiply, and take no digits."""


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


def final_adder_field() -> Any:
    """Return the field `final_adder` of the registers of a pipeline."""
    return Field(
        0,
        ge=0,
        le=3,
        description="Registers inside the adders that put results together, at the output (only"
        " `pe: carry_save` and `same_weight`): each halves, thirds, ... their chain of carries.",
        json_schema_extra={"unit": "registers"},
    )


class DigitArray(Model):
    """What the arrays of PEs have that multiply by digits."""

    pe: Literal[
        "mac",
        "carry_save",
        "same_weight",
        "serial_digit",
        "serial_column",
        "serial_group",
        "hybrid",
        "bit_serial",
        "scalable",
        "fused",
    ] = Field(
        "mac",
        description="Processing element: `mac`, multipliers and an accumulating adder;"
        " `carry_save`, multiples by digits of A, all of them and the accumulator in one tree of"
        " full adders whose last carries wait; `same_weight`, digits of the same weight are summed"
        " and accumulated apart, shifted and added when results leave; `serial_column`, one digit"
        " at a time, those that are zero left out, by encoders that a row shares; `serial_digit`,"
        " the same with an encoder in each PE; `serial_group`, several of them with one"
        " accumulator; `hybrid`, significands of a floating-point operand by the integers of the"
        " other, and shifters behind; `bit_serial`, elements of W as sums of powers of two, one of"
        " which is multiplied in a cycle, by shifters alone; `scalable`, mxint8, mxfp8_e4m3,"
        " mxfp6_e2m3 and mxfp4 by one datapath at 1, 1, 2 and 4 products a lane and cycle, the"
        " format with each beat (`depth` 4 or 8, by default 8, and `accumulator` fp32); `fused`,"
        " floating-point products of a beat aligned with the total, each by itself, as tensor cores"
        " do (`accumulator` aligned(n)).",
    )
    encoding: Encoding = encoding_field()
    carry_spacing: int = carry_spacing_field()
    queue: Queue = Field(
        2,
        description="Groups of terms that are there at a time (only serial PEs): rows go from"
        " group to group on their own, this many less one ahead of the slowest.",
        json_schema_extra={"unit": "groups"},
    )

    @model_validator(mode="before")
    @classmethod
    def _keep_more_carries_of_short_sums(cls, data: Any) -> Any:
        if isinstance(data, dict) and str(data.get("pe")) in SERIAL:
            return {"carry_spacing": SERIAL_CARRY_SPACING, **data}
        return data

    @property
    def serial(self) -> bool:
        """Whether PEs take one digit at a time."""
        return self.pe in SERIAL


PARAMETERS = ("encoding", "carry_spacing", "queue")
"""Parameters that not every PE has."""


def _lacks(pe: str) -> tuple[str, ...]:
    """Return the parameters that a PE does not have."""
    return PARAMETERS if pe in MULTIPLYING else () if pe in SERIAL else ("queue",)


class ElementConfig(Protocol):
    """A core whose PEs are described here."""

    @property
    def array(self) -> Any:
        """Its parameters `pe`, `encoding`, `carry_spacing` and, of some, `queue`."""

    @property
    def pipeline(self) -> Any:
        """Its parameter `final_adder`."""

    @property
    def result(self) -> Any:
        """Format of the accumulators."""

    @property
    def saturates(self) -> bool:
        """Whether accumulators clamp."""

    @property
    def digits(self) -> DigitAccumulation | None:
        """How the PEs accumulate by digits, or None if they do not."""


def broken_by_element(config: ElementConfig) -> list[str]:
    """Return the rules between the parameters of a core's PEs that are broken."""
    array, registers = config.array, config.pipeline.final_adder
    broken = [
        f"array.{name}: "
        + (
            "only serial PEs have a queue"
            if name == "queue"
            else "a mac does not multiply by digits"
        )
        + "; remove it, or change array.pe"
        for name in _lacks(array.pe)
        if name in array.model_fields_set
    ]
    if registers and array.pe not in KEEPING:
        broken.append(
            f"pipeline.final_adder: must be 0 with array.pe {array.pe}, not {registers}: "
            + (
                "a mac adds every carry at once"
                if array.pe == "mac"
                else "serial PEs have their own registers there, always three"
            )
            + "; remove it, or use carry_save"
        )
    elif registers >= config.result.width:
        broken.append(
            f"pipeline.final_adder: must be less than the bits of accumulators {config.result}, not"
            f" {registers}: each step adds one bit at least"
        )
    if array.pe != "mac" and config.saturates:
        broken.append(
            f"overflow: must be wrap with array.pe {array.pe}, not saturate: it clamps after each"
            " addition, but the sum is known only when a result leaves; use array.pe mac, or a"
            " wider accumulator"
        )
    return broken


def resolved_element(values: dict[str, Any]) -> None:
    """Remove what a PE does not have from the resolved parameters of a core."""
    for name in _lacks(values["array"]["pe"]):
        values["array"].pop(name, None)
    if not values["pipeline"]["final_adder"]:
        del values["pipeline"]["final_adder"]


def accumulation(
    array: Any,
    recoded: IntegerFormat,
    factor: IntegerFormat,
    terms: int,
    longest: int,
    width: int,
) -> DigitAccumulation | None:
    """Return how products are accumulated by digits; None of a PE that takes none, or one."""
    if array.pe not in KEEPING:
        return None
    if not factor.signed:
        factor = IntegerFormat(factor.width + 1, True)
    apart = array.pe == "same_weight"
    return DigitAccumulation(recoded, factor, terms, longest, width, array.carry_spacing, apart)


def final_addition(config: ElementConfig) -> FinalAddition | None:
    """Return how results are put together; None of a PE that takes no digits, or one."""
    return FinalAddition(config.digits, config.pipeline.final_adder) if config.digits else None
