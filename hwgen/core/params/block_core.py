# SPDX-License-Identifier: Apache-2.0
"""Configuration of cores that multiply integers, or blocks of other numbers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from math import lcm
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from hwgen.arithmetic.digit_sums import DigitAccumulation, FinalAddition
from hwgen.core.loop_nest import LoopNest
from hwgen.core.params.block_operands import (
    BlockOperands,
    BlockOrIntegerAccumulator,
    BlockOrPlainOperand,
    block_product,
    is_plain,
    operand_errors,
)
from hwgen.core.params.memory_rows import group_beats
from hwgen.core.params.processing_elements import (
    PARAMETERS,
    PEArray,
    PEPipeline,
    PETable,
    ProcessingElement,
    missing_parameters,
)
from hwgen.core.params.product import IntegerProductConfig
from hwgen.core.params.tensor_cores import tensor_core_errors
from hwgen.core.residues import residue_errors
from hwgen.formats import IntegerFormat, integer
from hwgen.formats.block.accumulator import BlockAccumulator, TensorCore
from hwgen.formats.block.lanes import BlockLanes
from hwgen.formats.block.products import BlockProduct, ScalableProduct


class BlockProductConfig(IntegerProductConfig):
    """A core that multiplies integers, floating-point numbers, or blocks; see `block_operands`.

    A family has ``array.pe`` and ``pipeline.final_adder``, and a table of its processing elements.
    """

    no_residues: ClassVar[str] = ""

    processing_elements: ClassVar[PETable]
    """Processing elements of the family."""

    activation: BlockOrPlainOperand = Field(
        integer("int8"), description="Format of A: integers, floating point, or a block format."
    )
    weight: BlockOrPlainOperand = Field(
        integer("int8"), description="Format of W, as of A; blocks of both are equally long."
    )
    accumulator: BlockOrIntegerAccumulator = Field(
        "exact",
        description="Accumulator: of integers `exact`, which fits any reduction up to `max_k`, or"
        " a format; otherwise of the sums of blocks: `exact`, a long integer, `fp32`, or"
        " `aligned(n)` or `aligned(n, m)`, as tensor cores add, n bits behind the point and m of"
        " a step's sum. Their results are fp32. A tensor core's name is its accumulator of all"
        " formats that it has.",
    )

    if TYPE_CHECKING:
        # Fields of the families.

        @property
        def array(self) -> PEArray:
            """Parameters of the array, with those of its PEs."""

        @property
        def pipeline(self) -> PEPipeline:
            """Registers of the PEs."""

    @property
    @abstractmethod
    def digit_operands(self) -> tuple[IntegerFormat, IntegerFormat, int]:
        """Format of digits, format of the factors that they multiply, and products at a time."""

    @cached_property
    def digits(self) -> DigitAccumulation | None:
        """Accumulation by digits, None of PEs that multiply otherwise."""
        pe = self.processing_element
        if self.block_product is not None or pe.digits not in ("together", "apart"):
            return None
        recoded, factor, terms = self.digit_operands
        if not factor.signed:
            factor = IntegerFormat(factor.width + 1, True)
        spacing, apart = self.array.carry_spacing, pe.digits == "apart"
        width = self.result.width
        return DigitAccumulation(recoded, factor, terms, self.max_k, width, spacing, apart)

    @cached_property
    def final_addition(self) -> FinalAddition | None:
        """Addition that completes results, None if accumulators hold them."""
        return FinalAddition(self.digits, self.pipeline.final_adder) if self.digits else None

    @property
    def accumulator_bits(self) -> int:
        """Bits of the registers of a PE's accumulator."""
        if self.block_product is not None:
            return self.block_product.accumulator_bits
        return self.digits.register_bits if self.digits else self.result.width

    @property
    def ignores_no_weights(self) -> bool:
        """Whether codes that are no ternary weights are taken as 0."""
        return False

    def residue_errors(self) -> list[str]:
        """Return why results have no residue codes, each ``dotted.field: text``."""
        return residue_errors(self)

    @property
    def scale_cycles(self) -> int:
        """Cycles in which a PE multiplies a sum by its scale, bit by bit; 0 with a multiplier."""
        return 0

    @property
    def dataflow(self) -> str:
        """Dataflow, empty of a family with one."""
        return ""

    @property
    def lane_count(self) -> int:
        """Multipliers of a PE."""
        return 1

    @property
    @abstractmethod
    def block_depth(self) -> int:
        """Products that are summed exactly at a time; without blocks, those of a term."""

    @property
    def depth_field(self) -> str:
        """The parameter that says how many they are, empty if none does."""
        return ""

    @property
    def processing_element(self) -> ProcessingElement:
        """The processing element, with its requirements."""
        return self.processing_elements[self.array.pe]

    @property
    def block_operands(self) -> BlockOperands:
        """The operands, as products of blocks take them."""
        return BlockOperands(
            self.activation,
            self.weight,
            self.accumulator,
            self.block_depth,
            self.depth_field,
            self.lane_count,
        )

    @cached_property
    def block_product(self) -> BlockProduct | None:
        """The arithmetic of products of blocks, None of integers alone."""
        if is_plain(self.activation, self.weight):
            return None
        multiplies = self.processing_element.multiplies
        return block_product(self.block_operands, self.max_k, multiplies)

    @cached_property
    def scalable(self) -> ScalableProduct | None:
        """The arithmetic of a datapath of several formats, None of one of the operands' alone."""
        return None

    @cached_property
    def formats(self) -> tuple[Any, ...]:
        """The same hardware with operands of each format that it takes, by number."""
        return (self,)

    @cached_property
    def lanes(self) -> tuple[BlockLanes, BlockLanes]:
        """Lanes of rows of A and of columns of W in beats, of products of blocks."""
        product = self.block_product
        assert product is not None
        sizes = product.length, self.block_depth
        serial = product.serial
        return BlockLanes(product.a, *sizes), BlockLanes(product.w, *sizes, serial=serial)

    @property
    def sums(self) -> Any:
        """Format of integer accumulators, or "exact"; a tensor core has int32."""
        return integer("int32") if isinstance(self.accumulator, TensorCore) else self.accumulator

    @cached_property
    def result(self) -> Any:
        """Format of the accumulators and of the elements of C."""
        return self.block_product.result if self.block_product else super().result

    @property
    def saturates(self) -> bool:
        """Whether the accumulator can overflow and then clamps."""
        return self.block_product is None and super().saturates

    def resolved(self) -> dict[str, Any]:
        """Return every parameter that the formats have, as plain JSON values."""
        values = super().resolved()
        if self.block_product is not None:
            values.pop("overflow", None)
        return values

    def _accumulator_errors(self) -> list[str]:
        """Return why an accumulator of blocks cannot be one of integers."""
        if isinstance(self.accumulator, TensorCore):
            return tensor_core_errors(self.accumulator, self.block_operands, self.array.pe)
        if not isinstance(self.accumulator, BlockAccumulator):
            return []
        text = (
            f"accumulator: must be exact or an integer with {self.activation} x {self.weight},"
            f" not {self.accumulator}; sums of integers are exact"
        )
        return [text]

    def _pe_errors(self) -> list[str]:
        """Return the requirements of the PEs that a configuration of integers breaks."""
        pe, array = self.processing_element, self.array
        if not pe.integers:
            operands = f"{self.activation} x {self.weight}"
            return [
                f"array.pe: must not be {pe.name} with {operands}: neither is {pe.needs}; use mac"
            ]
        registers = self.pipeline.final_adder
        errors = [
            f"array.{name}: "
            + (
                "only serial PEs have a queue"
                if name == "queue"
                else f"a {pe.name} does not multiply by digits"
            )
            + "; remove it, or change array.pe"
            for name in missing_parameters(pe)
            if name in array.model_fields_set
        ]
        if registers and pe.no_final_adder:
            errors.append(
                f"pipeline.final_adder: must be 0 with array.pe {pe.name}, not {registers}:"
                f" {pe.no_final_adder}; remove it, or use carry_save"
            )
        elif registers >= self.result.width:
            errors.append(
                f"pipeline.final_adder: must be less than the bits of accumulators {self.result},"
                f" not {registers}: each step adds one bit at least"
            )
        if not pe.clamps and self.saturates:
            errors.append(
                f"overflow: must be wrap with array.pe {pe.name}, not saturate: it clamps after"
                " each addition, but the sum is known only when a result leaves; use array.pe mac,"
                " or a wider accumulator"
            )
        if pe.dataflows and self.dataflow not in pe.dataflows:
            errors.append(
                f"array.pe: {pe.name} needs dataflow {' or '.join(pe.dataflows)}, not"
                f" {self.dataflow}, where sums move from PE to PE and would be two vectors"
            )
        return errors + [error for rule in pe.rules for error in rule(self)]

    def _block_errors(self) -> list[str]:
        """Return the rules of products of blocks that are broken."""
        pe, operands = self.processing_element, self.block_operands
        if isinstance(self.accumulator, TensorCore) and (
            errors := tensor_core_errors(self.accumulator, operands, pe.name)
        ):
            return errors
        pe_errors = [error for rule in pe.block_rules for error in rule(operands)]
        if not pe.blocks:
            pe_errors.append(
                f"array.pe: must be mac with {operands}, not {pe.name}: the elements of"
                " blocks are multiplied whole"
            )
        pe_errors += [
            f"array.{name}: a mac does not multiply by digits; remove it"
            for name in PARAMETERS
            if not pe.digits and name in self.array.model_fields_set
        ]
        if pe.formats and pe_errors:
            return pe_errors
        errors = operand_errors(operands, sums=pe.multiplies != "fused") + pe_errors
        registers = self.pipeline.final_adder
        if registers:
            errors.append(f"pipeline.final_adder: must be 0 with {operands}, not {registers}")
        if self.overflow != "wrap":
            errors.append(
                f"overflow: must be wrap with {operands}, not {self.overflow}; a result that is"
                " too large for fp32 becomes infinite"
            )
        return errors or self._broken_by_post()

    def _nest_of_blocks(self, nest: LoopNest) -> LoopNest | str:
        """Return a loop nest with tiles of whole blocks, or why a memory engine has none.

        Parameters
        ----------
        nest : LoopNest
            Its loops go over the ``k_beats`` of rows of A and the ``weight_rows`` of columns of W.
        """
        terms = []
        for field, fmt, lanes in zip(
            ("activation", "weight"), (self.activation, self.weight), self.lanes, strict=True
        ):
            beats = group_beats(fmt, lanes)
            if beats & (beats - 1):
                return (
                    f"{self.depth_field or field}: blocks of {fmt} take {beats} beats together with"
                    f" {lanes.depth} elements in each, but a memory engine keeps powers of two;"
                    f" change {'it' if self.depth_field else 'the format'}"
                )
            terms += [lanes.length, beats * lanes.depth]
        tile = lcm(*terms)
        a, w = self.lanes
        return replace(
            nest,
            k_lanes=tile,
            k_beats=tile // a.depth,
            weight_rows=tile // w.depth,
            weight_columns=True,
        )
