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

from hwgen.arithmetic.digit_sums import DigitAccumulation, FinalAddition
from hwgen.arithmetic.digits import Encoding
from hwgen.core.params.block_operands import (
    BlockOperands,
    Multiplication,
    fused_errors,
    hybrid_errors,
    scalable_errors,
    term_errors,
)
from hwgen.formats import Format, IntegerFormat, ScalarFormat
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


class PEConfig(Protocol):
    """A core with processing elements."""

    @property
    def processing_element(self) -> ProcessingElement:
        """The processing element, with its requirements."""

    @property
    def array(self) -> PEArray:
        """Parameters of the array."""

    @property
    def pipeline(self) -> PEPipeline:
        """Registers."""

    @property
    def dataflow(self) -> str:
        """Dataflow, empty of a family with one."""

    @property
    def activation(self) -> Format:
        """Format of A."""

    @property
    def weight(self) -> Format:
        """Format of W."""

    @property
    def result(self) -> ScalarFormat:
        """Format of the accumulators."""

    @property
    def saturates(self) -> bool:
        """Whether accumulators clamp."""

    @property
    def max_k(self) -> int:
        """Longest reduction."""


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
    return Field(
        0,
        ge=0,
        le=3,
        description="Registers inside the adders that put results together, at the output (only"
        " `pe: carry_save` and `same_weight`): each halves, thirds, ... their chain of carries.",
        json_schema_extra={"unit": "registers"},
    )


# -- rules ---------------------------------------------------------------------------------------


def integer_errors(config: PEConfig) -> list[str]:
    """Return the requirements of a core's PEs that a configuration of integers breaks."""
    pe, array = config.processing_element, config.array
    if not pe.integers:
        operands = f"{config.activation} x {config.weight}"
        return [f"array.pe: must not be {pe.name} with {operands}: neither is {pe.needs}; use mac"]
    registers = config.pipeline.final_adder
    errors = [
        f"array.{name}: "
        + (
            "only serial PEs have a queue"
            if name == "queue"
            else f"a {pe.name} does not multiply by digits"
        )
        + "; remove it, or change array.pe"
        for name in _missing_parameters(pe)
        if name in array.model_fields_set
    ]
    if registers and pe.no_final_adder:
        errors.append(
            f"pipeline.final_adder: must be 0 with array.pe {pe.name}, not {registers}:"
            f" {pe.no_final_adder}; remove it, or use carry_save"
        )
    elif registers >= config.result.width:
        errors.append(
            f"pipeline.final_adder: must be less than the bits of accumulators {config.result}, not"
            f" {registers}: each step adds one bit at least"
        )
    if not pe.clamps and config.saturates:
        errors.append(
            f"overflow: must be wrap with array.pe {pe.name}, not saturate: it clamps after each"
            " addition, but the sum is known only when a result leaves; use array.pe mac, or a"
            " wider accumulator"
        )
    if pe.dataflows and config.dataflow not in pe.dataflows:
        errors.append(
            f"array.pe: {pe.name} needs dataflow {' or '.join(pe.dataflows)}, not"
            f" {config.dataflow}, where sums move from PE to PE and would be two vectors"
        )
    return errors + [error for rule in pe.rules for error in rule(config)]


def block_errors(config: PEConfig, operands: BlockOperands) -> list[str]:
    """Return the requirements of a core's PEs that operands in blocks break."""
    pe, array = config.processing_element, config.array
    errors = [error for rule in pe.block_rules for error in rule(operands)]
    if not pe.blocks:
        errors.append(
            f"array.pe: must be mac with {operands}, not {pe.name}: the elements of"
            " blocks are multiplied whole"
        )
    errors += [
        f"array.{name}: a mac does not multiply by digits; remove it"
        for name in PARAMETERS
        if not pe.digits and name in array.model_fields_set
    ]
    return errors


def _missing_parameters(pe: ProcessingElement) -> list[str]:
    """Return the parameters of arrays that a PE does not have."""
    return [name for name in PARAMETERS if name not in pe.parameters]


def remove_missing_parameters(pe: ProcessingElement, values: dict[str, Any]) -> None:
    """Remove what a PE does not have from the resolved parameters of a core."""
    for name in _missing_parameters(pe):
        values["array"].pop(name, None)
    if not values["pipeline"]["final_adder"]:
        del values["pipeline"]["final_adder"]


# -- sums by digits ------------------------------------------------------------------------------


def digit_accumulation(
    config: PEConfig, recoded: IntegerFormat, factor: IntegerFormat, terms: int
) -> DigitAccumulation | None:
    """Return the accumulation of products by digits; None of a PE that takes none, or one."""
    pe = config.processing_element
    if pe.digits not in ("together", "apart"):
        return None
    if not factor.signed:
        factor = IntegerFormat(factor.width + 1, True)
    spacing, apart = config.array.carry_spacing, pe.digits == "apart"
    width = config.result.width
    return DigitAccumulation(recoded, factor, terms, config.max_k, width, spacing, apart)


def final_addition(digits: DigitAccumulation | None, config: PEConfig) -> FinalAddition | None:
    """Return the final addition of results; None of a PE that takes no digits, or one."""
    return FinalAddition(digits, config.pipeline.final_adder) if digits else None
