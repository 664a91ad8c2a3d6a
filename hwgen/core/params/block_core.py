# SPDX-License-Identifier: Apache-2.0
"""What the configurations of cores share that multiply integers, or blocks of other numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import lcm
from typing import Any

from pydantic import Field

from hwgen.core.loop_nest import LoopNest
from hwgen.core.params.block_operands import (
    BlockOrIntegerAccumulator,
    BlockOrPlainOperand,
    block_product,
    broken_by_fused,
    broken_by_hybrid,
    broken_by_operands,
    broken_by_scalable,
    broken_by_terms,
    is_plain,
)
from hwgen.core.params.memory_rows import group_beats
from hwgen.core.params.processing_elements import MULTIPLYING, PARAMETERS
from hwgen.core.params.product import IntegerProductConfig
from hwgen.formats import integer
from hwgen.formats.block.lanes import BlockLanes
from hwgen.formats.block.products import BlockAccumulator, BlockProduct, ScalableProduct


class BlockProductConfig(IntegerProductConfig):
    """A core that multiplies integers, floating-point numbers, or blocks; see `block_operands`.

    A family has ``array.pe`` and ``pipeline.final_adder``.
    """

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
        " `aligned(n)`, as tensor cores add, n bits behind the point. Their results are fp32.",
    )

    @property
    def block_depth(self) -> int:
        """Products that are summed exactly at a time; without blocks, those of a term."""
        raise NotImplementedError

    @property
    def depth_field(self) -> str:
        """The parameter that says how many they are, empty if none does."""
        return ""

    @cached_property
    def block_product(self) -> BlockProduct | None:
        """The arithmetic of products of blocks, None of integers alone."""
        a, w = self.activation, self.weight
        if is_plain(a, w):
            return None
        return block_product(a, w, self.accumulator, self.block_depth, self.max_k, self._array.pe)

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
        """How beats hold rows of A and columns of W, of products of blocks."""
        product = self.block_product
        assert product is not None
        sizes = product.length, self.block_depth
        serial = product.serial
        return BlockLanes(product.a, *sizes), BlockLanes(product.w, *sizes, serial=serial)

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

    @property
    def _array(self) -> Any:
        config: Any = self
        return config.array

    def _broken_by_block_accumulator(self) -> list[str]:
        """Return why an accumulator of blocks cannot be one of integers."""
        if self.accumulator == "exact" or BlockAccumulator.of(self.accumulator) is None:
            return []
        text = (
            f"accumulator: must be exact or an integer with {self.activation} x {self.weight},"
            f" not {self.accumulator}; sums of integers are exact"
        )
        return [text]

    def _broken_by_no_float(self) -> list[str]:
        """Return why integers alone have no PE of floating-point numbers."""
        pe = self._array.pe
        if pe not in ("hybrid", "bit_serial", "scalable", "fused"):
            return []
        text = (
            f"array.pe: must not be {pe} with {self.activation} x {self.weight}: neither is"
            f" {'in blocks' if pe == 'scalable' else 'floating point'}"
            f"{' or in blocks' if pe == 'bit_serial' else ''}; use mac"
        )
        return [text]

    def _broken_by_blocks(self) -> list[str]:
        """Return the rules of products of blocks that are broken."""
        array, operands = self._array, f"{self.activation} x {self.weight}"
        if array.pe == "scalable" and (broken := self._broken_by_scalable()):
            return broken
        broken = broken_by_operands(
            self.activation, self.weight, self.accumulator, self.block_depth, self.depth_field,
            sums=array.pe != "fused",
        )  # fmt: skip
        if array.pe == "hybrid":
            broken += broken_by_hybrid(self.activation, self.weight)
        elif array.pe == "bit_serial":
            broken += broken_by_terms(self.activation, self.weight)
        elif array.pe == "fused":
            broken += broken_by_fused(
                self.activation, self.weight, self.accumulator, self.block_depth, self.depth_field
            )
        elif array.pe not in ("mac", "scalable"):
            broken.append(
                f"array.pe: must be mac with {operands}, not {array.pe}: the elements of"
                " blocks are multiplied whole"
            )
        if getattr(array, "packing", "none") != "none":
            broken.append(
                f"array.packing: must be none with {operands}, not {array.packing}: integers"
                " alone are packed"
            )
        broken += [
            f"array.{name}: a mac does not multiply by digits; remove it"
            for name in PARAMETERS
            if array.pe in MULTIPLYING and name in array.model_fields_set
        ]
        config: Any = self
        registers = config.pipeline.final_adder
        if registers:
            broken.append(f"pipeline.final_adder: must be 0 with {operands}, not {registers}")
        if self.overflow != "wrap":
            broken.append(
                f"overflow: must be wrap with {operands}, not {self.overflow}; a result that is"
                " too large for fp32 becomes infinite"
            )
        return broken or self._broken_by_post()

    def _broken_by_scalable(self) -> list[str]:
        return broken_by_scalable(
            self.activation, self.weight, self.accumulator, getattr(self._array, "depth", 1)
        )

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
