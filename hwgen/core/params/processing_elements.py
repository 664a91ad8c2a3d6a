# SPDX-License-Identifier: Apache-2.0
"""Processing elements: how products are made and accumulated, in every family that says `pe`.

A family has one table of its processing elements, `pe_table`.  An entry has all requirements: the
operands, the parameters of the array, and rules of its own.  The family's model reads the table to
validate a configuration, its generator to choose the hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from pydantic import Field

from hwgen.arithmetic.digits import Encoding
from hwgen.core.params.base import registers
from hwgen.core.params.block_operands import (
    BlockOperands,
    Multiplication,
    fused_errors,
    hybrid_errors,
    scalable_errors,
    term_errors,
)
from hwgen.formats.block import products

CARRY_SPACING, SERIAL_CARRY_SPACING = 8, 2
"""Bits between two carries that are stored, by default; of serial PEs, whose path is short."""

Queue = Literal[1, 2, 4]
QUEUES: tuple[int, ...] = get_args(Queue)
"""Groups of terms that serial PEs may have before them."""

PARAMETERS = ("encoding", "carry_spacing", "queue")
"""Parameters of an array that not every PE has."""

Rule = Callable[[Any], list[str]]
"""Requirement of a PE: returns what a configuration breaks, each ``dotted.field: text``."""


@dataclass(frozen=True)
class ProcessingElement:
    """A processing element of a family.

    Parameters
    ----------
    name : str
        Value of ``array.pe``.
    summary : str
        One phrase for the reference page.
    integers, blocks : bool
        Whether it multiplies integers; operands of which one is in blocks or floating point.
    needs : str
        Of a PE without integers: the property that integers lack.
    formats : tuple of str
        The only formats of operands, empty if it takes others.
    parameters : tuple of str
        Of `PARAMETERS`, those that it has.
    clamps : bool
        Whether its accumulator can saturate.
    no_final_adder : str
        Why ``pipeline.final_adder`` must be 0, empty if the output has such an adder.
    digits : {"", "together", "apart", "serial"}
        Whether it multiplies by digits of A: all in one sum, sums of a weight apart, one a cycle.
    multiplies : {"whole", "hybrid", "terms", "fused"}
        How it multiplies elements of blocks; see `BlockProduct`.
    block_rules : tuple of callable
        Requirements of operands in blocks, which return what is broken.
    rules : tuple of callable
        Requirements of the whole configuration; of integers.
    dataflows : tuple of str
        Dataflows that it works in, of families that have several; empty for all.
    """

    name: str
    summary: str
    integers: bool = True
    blocks: bool = False
    needs: str = ""
    formats: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    clamps: bool = False
    no_final_adder: str = ""
    digits: Literal["", "together", "apart", "serial"] = ""
    multiplies: Multiplication = "whole"
    block_rules: tuple[Callable[[BlockOperands], list[str]], ...] = ()
    rules: tuple[Rule, ...] = ()
    dataflows: tuple[str, ...] = ()

    @property
    def serial(self) -> bool:
        """Whether it takes one digit at a time."""
        return self.digits == "serial"


class PEArray(Protocol):
    """Parameters of an array, as far as they are its PEs'."""

    @property
    def pe(self) -> str:
        """Name of the processing element."""

    @property
    def encoding(self) -> Encoding:
        """Digits of A."""

    @property
    def carry_spacing(self) -> int:
        """Bits of an accumulator for each carry."""

    @property
    def model_fields_set(self) -> set[str]:
        """Parameters that are given."""


class PEPipeline(Protocol):
    """Registers of a pipeline, as far as they are its PEs'."""

    @property
    def pe(self) -> int:
        """Registers inside a PE."""

    @property
    def final_adder(self) -> int:
        """Registers inside the adders of results."""


PETable = Mapping[str, ProcessingElement]


def pe_table(*elements: ProcessingElement) -> PETable:
    """Return the table of a family's processing elements, by name."""
    return {element.name: element for element in elements}


_DIGITS = ("encoding", "carry_spacing")
_NO_DIGITS = "serial PEs have their own registers there, always three"

MAC = ProcessingElement(
    "mac",
    "multipliers and an accumulating adder",
    blocks=True,
    clamps=True,
    no_final_adder="a mac adds every carry at once",
)
CARRY_SAVE = ProcessingElement(
    "carry_save",
    "multiples by digits of A, all of them and the accumulator in one tree of full adders whose"
    " last carries wait",
    parameters=_DIGITS,
    digits="together",
)
SAME_WEIGHT = ProcessingElement(
    "same_weight",
    "digits of the same weight are summed and accumulated apart, shifted and added when results"
    " leave",
    parameters=_DIGITS,
    digits="apart",
)
SERIAL_DIGIT, SERIAL_COLUMN, SERIAL_GROUP = (
    ProcessingElement(
        name, summary, parameters=PARAMETERS, no_final_adder=_NO_DIGITS, digits="serial"
    )
    for name, summary in (
        (
            "serial_digit",
            "one digit at a time, those that are zero left out, by an encoder in each PE",
        ),
        ("serial_column", "the same by encoders that a row shares"),
        ("serial_group", "several of them with one accumulator"),
    )
)
HYBRID = ProcessingElement(
    "hybrid",
    "significands of a floating-point operand by the integers of the other, and shifters behind",
    integers=False,
    blocks=True,
    needs="floating point",
    multiplies="hybrid",
    block_rules=(hybrid_errors,),
)
BIT_SERIAL = ProcessingElement(
    "bit_serial",
    "elements of W as sums of powers of two, one of which is multiplied in a cycle, by shifters"
    " alone",
    integers=False,
    blocks=True,
    needs="floating point or in blocks",
    multiplies="terms",
    block_rules=(term_errors,),
)
SCALABLE = ProcessingElement(
    "scalable",
    "mxint8, mxfp8_e4m3, mxfp6_e2m3 and mxfp4 by one datapath at 1, 1, 2 and 4 products a lane and"
    " cycle, the format with each beat (`depth` 4 or 8, by default 8, and `accumulator` fp32)",
    integers=False,
    blocks=True,
    needs="in blocks",
    formats=tuple(products.SCALABLE),
    block_rules=(scalable_errors,),
)
FUSED = ProcessingElement(
    "fused",
    "floating-point products of a beat aligned with the total, each by itself, as tensor cores do"
    " (`accumulator` aligned(n))",
    integers=False,
    blocks=True,
    needs="floating point",
    multiplies="fused",
    block_rules=(fused_errors,),
)


# -- fields of an array --------------------------------------------------------------------------


def pe_field(table: PETable) -> Any:
    """Return the field `pe` of an array."""
    summaries = "; ".join(f"`{pe.name}`, {pe.summary}" for pe in table.values())
    return Field("mac", description=f"Processing element: {summaries}.")


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


def queue_field() -> Any:
    """Return the field `queue` of an array with serial PEs."""
    return Field(
        2,
        description="Groups of terms that are there at a time (only serial PEs): rows go from"
        " group to group on their own, this many less one ahead of the slowest.",
        json_schema_extra={"unit": "groups"},
    )


def final_adder_field() -> Any:
    """Return the field `final_adder` of the registers of a pipeline."""
    return registers(
        0,
        0,
        3,
        "Registers inside the adders that put results together, at the output (only"
        " `pe: carry_save` and `same_weight`): each halves, thirds, ... their chain of carries.",
    )


# -- rules ---------------------------------------------------------------------------------------


def missing_parameters(pe: ProcessingElement) -> list[str]:
    """Return the parameters of arrays that a PE does not have."""
    return [name for name in PARAMETERS if name not in pe.parameters]


def remove_missing_parameters(pe: ProcessingElement, values: dict[str, Any]) -> None:
    """Remove what a PE does not have from the resolved parameters of a core."""
    for name in missing_parameters(pe):
        values["array"].pop(name, None)
    if not values["pipeline"]["final_adder"]:
        del values["pipeline"]["final_adder"]
